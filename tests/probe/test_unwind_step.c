#include <string.h>

#include "lib/test.h"
#include "probe/unwind_walk.h"

/*
 * The step from frame to caller, as the kernel's programs have it, compiled natively and replayed
 * on stacks and tables that are made up here.
 */

#define TEXT      UINT64_C(0x555555550000) /* where the code is mapped */
#define VA        UINT64_C(0x40000)        /* its virtual address in the file */
#define STACK     UINT64_C(0x7ffc00000000)
#define STACK_LEN 65536
#define JIT       UINT64_C(0x7f0000000000)

struct world {
    struct unwind_mapping mappings[4];
    uint32_t n_mappings;
    struct unwind_file files[4];
    uint32_t n_files;
    struct unwind_page pages[4];
    uint32_t n_pages;
    struct unwind_row_pair row_pairs[64];
    uint32_t n_rows;
    struct unwind_rule rules[32];
    uint32_t n_rules;
    uint8_t stack[STACK_LEN];
    uint64_t stack_at;
    uint64_t stack_len;        /* readable */
    uint32_t version_at;       /* lookup of a rule during which the table is replaced; 0: none */
    struct unwind_memo *memos; /* NULL: none */
    struct unwind_walk walk;
    __u64 addresses[UNWIND_ADDRESSES_MAX];
};

static int world_read(const struct world *w, void *to, uint64_t n, uint64_t at)
{
    if (at < w->stack_at || at - w->stack_at > w->stack_len ||
        n > w->stack_len - (at - w->stack_at))
        return -14;
    memcpy(to, w->stack + (at - w->stack_at), n);
    return 0;
}

static const struct unwind_rule *world_rule(struct world *w, uint32_t i)
{
    if (w->version_at && --w->version_at == 0)
        w->files[1].version++;
    return i < w->n_rules ? &w->rules[i] : NULL;
}

#define UNWIND_INLINE               static inline
#define UNWIND_ENV                  struct world *
#define UNWIND_READ(env, to, n, at) world_read(env, to, n, at)
#define UNWIND_MAPPING(env, i)      ((i) < (env)->n_mappings ? &(env)->mappings[i] : NULL)
#define UNWIND_FILE(env, i)         ((i) < (env)->n_files ? &(env)->files[i] : NULL)
#define UNWIND_PAGE(env, i)         ((i) < (env)->n_pages ? &(env)->pages[i] : NULL)
#define UNWIND_ROW_PAIR(env, i)     ((i) < (env)->n_rows / 2 ? &(env)->row_pairs[i] : NULL)
#define UNWIND_RULE(env, i)         world_rule(env, i)
#define UNWIND_MEMO(env, i)         ((env)->memos ? &(env)->memos[i] : NULL)

#define UNWIND_NAME(x)  x86_##x
#define UNWIND_IS_ARM64 0
#include "probe/unwind_step.h"
#undef UNWIND_NAME
#undef UNWIND_IS_ARM64
#define UNWIND_NAME(x)  arm_##x
#define UNWIND_IS_ARM64 1
#include "probe/unwind_step.h"

/* Functions of 16 bytes, one after the other: function i has rule i from its first byte on. */
static void add_rule(struct world *w, struct unwind_rule rule)
{
    uint32_t i = w->n_rules++;
    w->rules[i] = rule;
    w->row_pairs[i / 2].row[i % 2] = (struct unwind_row){(uint16_t)(16 * i), (uint16_t)i};
    w->n_rows = (i + 2) / 2 * 2;
    w->pages[0] = (struct unwind_page){0, i + 1};
    w->files[1].n_rules = i + 1;
}

static struct world *new_world(void)
{
    struct world *w = calloc(1, sizeof(*w));
    w->mappings[0] =
        (struct unwind_mapping){TEXT, TEXT + 0x10000, TEXT - VA, 1, UNWIND_MAPPING_FILE};
    w->mappings[1] = (struct unwind_mapping){JIT, JIT + 0x10000, 0, 0, UNWIND_MAPPING_JIT};
    w->n_mappings = 2;
    w->n_files = 3;
    w->n_pages = 1;
    w->files[1] = (struct unwind_file){
        .n_pages = 1, .first_text_page = VA >> UNWIND_PAGE_BITS, .state = UNWIND_FILE_READY};
    w->stack_at = STACK;
    w->stack_len = STACK_LEN;
    w->walk = (struct unwind_walk){.n_mappings = 2,
                                   .now_s = 77,
                                   .first = 3,
                                   .sp = STACK,
                                   .has_fp = 1,
                                   .end = UNWIND_END_TOO_DEEP};
    return w;
}

/* An address inside function i, not its first. */
static uint64_t in(uint32_t i)
{
    return TEXT + 16 * i + 8;
}

static void put(struct world *w, uint64_t at, uint64_t value)
{
    memcpy(w->stack + (at - STACK), &value, sizeof(value));
}

static void walk_x86(struct world *w)
{
    for (int i = 0; i <= UNWIND_USER_FRAMES_MAX && !x86_step(w, &w->walk, w->addresses); i++)
        ;
}

static void walk_arm(struct world *w)
{
    w->walk.has_lr = 1;
    for (int i = 0; i <= UNWIND_USER_FRAMES_MAX && !arm_step(w, &w->walk, w->addresses); i++)
        ;
}

#define RULE(...) ((struct unwind_rule){__VA_ARGS__})

static void follows_stack_pointers(struct test *t)
{
    struct world *w = new_world();
    add_rule(w, RULE(UNWIND_CFA_SP, UNWIND_SAVED_NONE, 0, 8));
    add_rule(w, RULE(UNWIND_CFA_SP, UNWIND_SAVED_FP, -16, 48));
    add_rule(w, RULE(UNWIND_CFA_END, 0, 0, 0));
    w->walk.pc = in(0);
    w->walk.fp = 5;
    put(w, STACK, in(1));
    put(w, STACK + 8 + 48 - 8, in(2));
    put(w, STACK + 8 + 48 - 16, 0xabc);
    walk_x86(w);
    CHECK_INT(t, w->walk.end, UNWIND_END_OUTERMOST);
    CHECK_INT(t, w->walk.n, 3);
    CHECK_INT(t, w->addresses[3], in(0));
    CHECK_INT(t, w->addresses[4], in(1));
    CHECK_INT(t, w->addresses[5], in(2));
    CHECK_INT(t, w->walk.exact, 1);
    CHECK_INT(t, w->walk.fp, 0xabc);
    CHECK_INT(t, w->files[1].last_used, 77);
    free(w);
}

/* The return address of a call that ends its function belongs to the caller, not to what follows.
 */
static void looks_for_calls_before_return_addresses(struct test *t)
{
    struct world *w = new_world();
    add_rule(w, RULE(UNWIND_CFA_SP, UNWIND_SAVED_NONE, 0, 8));
    add_rule(w, RULE(UNWIND_CFA_SP, UNWIND_SAVED_NONE, 0, 8));
    add_rule(w, RULE(UNWIND_CFA_END, 0, 0, 0));
    add_rule(w, RULE(UNWIND_CFA_UNSUPPORTED, 0, 0, 0));
    w->walk.pc = TEXT + 16; /* the first byte of function 1: exact */
    put(w, STACK, TEXT + 48);
    walk_x86(w);
    CHECK_INT(t, w->walk.end, UNWIND_END_OUTERMOST);
    CHECK_INT(t, w->walk.n, 2);
    /* In a system call, the innermost address is one as well. */
    w->walk = (struct unwind_walk){.n_mappings = 2, .pc = TEXT + 48, .is_return = 1, .sp = STACK};
    walk_x86(w);
    CHECK_INT(t, w->walk.end, UNWIND_END_OUTERMOST);
    CHECK_INT(t, w->walk.n, 1);
    CHECK_INT(t, w->walk.exact, 0);
    free(w);
}

static void follows_frame_pointers_and_saved_places(struct test *t)
{
    struct world *w = new_world();
    add_rule(w, RULE(UNWIND_CFA_FP, UNWIND_SAVED_FP, -16, 16));
    add_rule(w, RULE(UNWIND_CFA_FP_DEREF, UNWIND_SAVED_AT_FP, 0, -8 * 256 + 8));
    add_rule(w, RULE(UNWIND_CFA_SP_DEREF, UNWIND_SAVED_LOST, 0, 32 * 256));
    add_rule(w, RULE(UNWIND_CFA_FP, UNWIND_SAVED_NONE, 0, 16));
    w->walk.pc = in(0);
    w->walk.fp = STACK + 64;
    put(w, STACK + 64, STACK + 256); /* its caller's fp */
    put(w, STACK + 72, in(1));
    put(w, STACK + 256 - 8, STACK + 400); /* the stack before it was aligned */
    put(w, STACK + 256, 0x1234567);       /* fp of the caller */
    put(w, STACK + 408 - 8, in(2));
    put(w, STACK + 408 + 32, STACK + 600);
    put(w, STACK + 600 - 8, in(3));
    walk_x86(w);
    CHECK_INT(t, w->walk.n, 4);
    CHECK_INT(t, w->addresses[5], in(2));
    CHECK_INT(t, w->addresses[6], in(3));
    /* By then, nobody knows the frame pointer. */
    CHECK_INT(t, w->walk.end, UNWIND_END_UNSUPPORTED);
    free(w);
}

static void leaves_plt_stubs_before_and_after_the_push(struct test *t)
{
    for (int i = 0; i < 2; i++) {
        struct world *w = new_world();
        add_rule(w, RULE(UNWIND_CFA_PLT, UNWIND_SAVED_NONE, 0, 11));
        add_rule(w, RULE(UNWIND_CFA_END, 0, 0, 0));
        w->walk.pc = TEXT + (i ? 11 : 6);
        put(w, STACK + (i ? 8 : 0), in(1));
        walk_x86(w);
        CHECK_INT(t, w->walk.n, 2);
        CHECK_INT(t, w->walk.end, UNWIND_END_OUTERMOST);
        free(w);
    }
}

static void goes_through_signal_frames(struct test *t)
{
    struct world *w = new_world();
    add_rule(w, RULE(UNWIND_CFA_SP, UNWIND_SAVED_NONE, 0, 8));
    add_rule(w, RULE(UNWIND_CFA_SIGNAL, 0, 0, 0));
    add_rule(w, RULE(UNWIND_CFA_FP, UNWIND_SAVED_NONE, 0, 16));
    add_rule(w, RULE(UNWIND_CFA_END, 0, 0, 0));
    /* The handler runs on a stack of its own, above. */
    uint64_t top = STACK + 0x8000;
    w->walk.pc = in(0);
    w->walk.sp = top;
    put(w, top, in(1));
    put(w, top + 8 + 120, STACK + 0x100);
    put(w, top + 8 + 160, STACK + 0x80);
    put(w, top + 8 + 168, TEXT + 32); /* the first byte of function 2 was to run next */
    put(w, STACK + 0x108, in(3));
    walk_x86(w);
    CHECK_INT(t, w->walk.end, UNWIND_END_OUTERMOST);
    CHECK_INT(t, w->walk.n, 4);
    CHECK_INT(t, w->addresses[5], TEXT + 32);
    CHECK_INT(t, w->walk.exact, 5); /* the innermost, and what was interrupted */
    free(w);
}

static void steps_by_frame_pointer_where_there_is_no_table(struct test *t)
{
    static const uint32_t states[] = {UNWIND_FILE_WANTED, UNWIND_FILE_FRAME_POINTERS,
                                      UNWIND_FILE_READY};
    for (size_t i = 0; i < 3; i++) {
        struct world *w = new_world();
        add_rule(w, RULE(UNWIND_CFA_GAP, 0, 0, 0));
        w->files[1].state = states[i];
        w->walk.pc = in(0);
        w->walk.fp = STACK + 32;
        put(w, STACK + 32, STACK + 96);
        put(w, STACK + 40, in(1));
        put(w, STACK + 96, 0);
        put(w, STACK + 104, 0); /* no caller */
        walk_x86(w);
        CHECK_INT(t, w->walk.n, 2);
        CHECK_INT(t, w->walk.end, UNWIND_END_OUTERMOST);
        CHECK_INT(t, w->files[1].last_used, 77);
        free(w);
    }
}

static void goes_from_made_code_into_files(struct test *t)
{
    struct world *w = new_world();
    add_rule(w, RULE(UNWIND_CFA_END, 0, 0, 0));
    w->walk.pc = JIT + 100;
    w->walk.fp = STACK + 32;
    put(w, STACK + 32, STACK + 96);
    put(w, STACK + 40, in(0));
    walk_x86(w);
    CHECK_INT(t, w->walk.n, 2);
    CHECK_INT(t, w->walk.end, UNWIND_END_OUTERMOST);
    free(w);
}

/* A walk of one frame from pc with fp. */
static uint8_t end_of(struct world *w, uint64_t pc, uint64_t fp)
{
    w->walk.pc = pc;
    w->walk.fp = fp;
    walk_x86(w);
    uint8_t end = w->walk.end;
    free(w);
    return end;
}

static void says_why_it_ended(struct test *t)
{
    struct world *w = new_world();
    add_rule(w, RULE(UNWIND_CFA_UNSUPPORTED, 0, 0, 0));
    CHECK_INT(t, end_of(w, in(0), 0), UNWIND_END_UNSUPPORTED);

    w = new_world();
    add_rule(w, RULE(200, 0, 0, 0)); /* a kind that there is not */
    CHECK_INT(t, end_of(w, in(0), 0), UNWIND_END_UNSUPPORTED);

    w = new_world();
    CHECK_INT(t, end_of(w, 0x1000, STACK + 32), UNWIND_END_NO_MAPPING);

    w = new_world();
    w->files[1].state = UNWIND_FILE_WANTED;
    CHECK_INT(t, end_of(w, in(0), 0x1234567), UNWIND_END_NO_TABLE);

    w = new_world();
    CHECK_INT(t, end_of(w, JIT + 8, 0x1234567), UNWIND_END_NO_FRAME);

    w = new_world(); /* nothing vouches for 0 while there is no table */
    w->files[1].state = UNWIND_FILE_WANTED;
    CHECK_INT(t, end_of(w, in(0), 0), UNWIND_END_NO_TABLE);

    w = new_world(); /* hand-written code at the start of a thread */
    CHECK_INT(t, end_of(w, in(0), 0), UNWIND_END_OUTERMOST);

    w = new_world();
    add_rule(w, RULE(UNWIND_CFA_SP, UNWIND_SAVED_NONE, 0, STACK_LEN + 16));
    CHECK_INT(t, end_of(w, in(0), 0), UNWIND_END_READ);

    w = new_world();
    add_rule(w, RULE(UNWIND_CFA_SP, UNWIND_SAVED_NONE, 0, -64));
    CHECK_INT(t, end_of(w, in(0), 0), UNWIND_END_NOT_UPWARD);
}

static void drops_guesses_that_are_not_code(struct test *t)
{
    struct world *w = new_world();
    w->files[1].state = UNWIND_FILE_WANTED;
    w->walk.pc = in(0);
    w->walk.fp = STACK + 32;
    put(w, STACK + 32, 17);
    put(w, STACK + 40, 0xdeadbeef);
    walk_x86(w);
    CHECK_INT(t, w->walk.n, 1);
    CHECK_INT(t, w->walk.end, UNWIND_END_NO_TABLE);
    free(w);
}

static void ends_where_memory_ends(struct test *t)
{
    for (uint64_t len = 0; len <= 24; len++) {
        struct world *w = new_world();
        add_rule(w, RULE(UNWIND_CFA_SP, UNWIND_SAVED_FP, -16, 16));
        add_rule(w, RULE(UNWIND_CFA_SP, UNWIND_SAVED_NONE, 0, 8));
        add_rule(w, RULE(UNWIND_CFA_END, 0, 0, 0));
        w->walk.pc = in(0);
        w->stack_len = len;
        put(w, STACK + 8, in(1));
        put(w, STACK + 16, in(2));
        walk_x86(w);
        CHECK_INT(t, w->walk.n, len < 16 ? 1 : len < 24 ? 2 : 3);
        CHECK_INT(t, w->walk.end, len < 24 ? UNWIND_END_READ : UNWIND_END_OUTERMOST);
        free(w);
    }
}

static void ends_when_too_deep(struct test *t)
{
    struct world *w = new_world();
    add_rule(w, RULE(UNWIND_CFA_SP, UNWIND_SAVED_NONE, 0, 8));
    for (uint64_t at = STACK; at < STACK + STACK_LEN; at += 8)
        put(w, at, in(0));
    w->walk.pc = in(0);
    walk_x86(w);
    CHECK_INT(t, w->walk.n, UNWIND_USER_FRAMES_MAX);
    CHECK_INT(t, w->walk.end, UNWIND_END_TOO_DEEP);
    /* Behind a kernel part of any length, nothing is written past the end. */
    w->walk = (struct unwind_walk){.n_mappings = 2, .pc = in(0), .sp = STACK, .first = 4000};
    walk_x86(w);
    CHECK_INT(t, w->walk.n, 0);
    CHECK_INT(t, w->walk.end, UNWIND_END_TOO_DEEP);
    free(w);
}

static void gives_up_on_circles(struct test *t)
{
    /* Frame pointers that point at each other, in code that promises them. */
    struct world *w = new_world();
    w->files[1].state = UNWIND_FILE_FRAME_POINTERS;
    w->walk.pc = in(0);
    w->walk.fp = STACK + 128;
    put(w, STACK + 128, STACK + 32);
    put(w, STACK + 136, in(1));
    put(w, STACK + 32, STACK + 128);
    put(w, STACK + 40, in(2));
    walk_x86(w);
    CHECK_INT(t, w->walk.end, UNWIND_END_NOT_UPWARD);
    CHECK(t, w->walk.n <= 2 * UNWIND_SWITCHES_MAX + 2);
    free(w);

    /* A signal frame that returns into itself. */
    w = new_world();
    add_rule(w, RULE(UNWIND_CFA_SIGNAL, 0, 0, 0));
    w->walk.pc = in(0);
    put(w, STACK + 160, STACK);
    put(w, STACK + 168, in(0));
    walk_x86(w);
    CHECK_INT(t, w->walk.n, UNWIND_USER_FRAMES_MAX);
    CHECK_INT(t, w->walk.end, UNWIND_END_TOO_DEEP);
    free(w);
}

static void follows_code_that_changes_stacks(struct test *t)
{
    struct world *w = new_world();
    w->files[1].state = UNWIND_FILE_FRAME_POINTERS;
    w->walk.pc = in(0);
    w->walk.sp = STACK + 0x8000;
    w->walk.fp = STACK + 32; /* below: the stack it came from */
    put(w, STACK + 32, 0);
    put(w, STACK + 40, in(1));
    walk_x86(w);
    CHECK_INT(t, w->walk.n, 2);
    CHECK_INT(t, w->walk.end, UNWIND_END_OUTERMOST);
    free(w);
}

static void believes_no_table(struct test *t)
{
    struct world *w = new_world();
    add_rule(w, RULE(UNWIND_CFA_END, 0, 0, 0));
    w->pages[0] = (struct unwind_page){1000, 60000};
    CHECK_INT(t, end_of(w, in(0), 1), UNWIND_END_NO_TABLE);

    w = new_world();
    add_rule(w, RULE(UNWIND_CFA_END, 0, 0, 0));
    w->pages[0] = (struct unwind_page){UINT32_MAX, UINT32_MAX};
    CHECK_INT(t, end_of(w, in(0), 1), UNWIND_END_NO_TABLE);

    w = new_world();
    add_rule(w, RULE(UNWIND_CFA_END, 0, 0, 0));
    w->row_pairs[0].row[0].rule = 9; /* of another file */
    CHECK_INT(t, end_of(w, in(0), 1), UNWIND_END_NO_TABLE);

    w = new_world();
    add_rule(w, RULE(UNWIND_CFA_END, 0, 0, 0));
    w->files[1].first_page = UINT32_MAX;
    CHECK_INT(t, end_of(w, in(0), 1), UNWIND_END_NO_TABLE);

    w = new_world();
    add_rule(w, RULE(UNWIND_CFA_END, 0, 0, 0));
    w->files[1].first_rule = UINT32_MAX - 2;
    CHECK_INT(t, end_of(w, in(0), 1), UNWIND_END_NO_TABLE);

    w = new_world();
    w->mappings[0].file = 1000;
    CHECK_INT(t, end_of(w, in(0), 1), UNWIND_END_NO_TABLE);

    w = new_world();
    w->walk.first_mapping = UINT32_MAX - 1;
    w->walk.n_mappings = 5;
    CHECK_INT(t, end_of(w, in(0), 1), UNWIND_END_NO_MAPPING);
}

static void takes_a_table_that_was_replaced_meanwhile_as_none(struct test *t)
{
    struct world *w = new_world();
    add_rule(w, RULE(UNWIND_CFA_END, 0, 0, 0));
    w->version_at = 1;
    CHECK_INT(t, end_of(w, in(0), 1), UNWIND_END_NO_TABLE);
}

static void finds_the_row_of_every_address(struct test *t)
{
    struct world *w = new_world();
    for (uint32_t i = 0; i < 31; i++)
        add_rule(w, RULE(UNWIND_CFA_SP, 0, 0, (int32_t)i));
    for (uint32_t at = 0; at < 31 * 16; at++) {
        const struct unwind_rule *r = x86_find_rule(w, &w->files[1], VA + at);
        CHECK(t, r && r->cfa_off == (int32_t)(at / 16));
    }
    CHECK(t, !x86_find_rule(w, &w->files[1], VA - 1));
    CHECK(t, !x86_find_rule(w, &w->files[1], VA + 0x10000));
    free(w);
}

/* Two frames; what the second walk finds it remembers from the first. */
static struct world *new_remembering_world(void)
{
    struct world *w = new_world();
    w->memos = calloc((UNWIND_MEMO_BLOCKS * UNWIND_BLOCK_MEMOS), sizeof(*w->memos));
    add_rule(w, RULE(UNWIND_CFA_SP, UNWIND_SAVED_FP, -24, 48));
    add_rule(w, RULE(UNWIND_CFA_END, 0, 0, 0));
    put(w, STACK + 40, in(1));
    return w;
}

static uint8_t walk_again(struct world *w, uint32_t first_mapping)
{
    w->walk = (struct unwind_walk){.first_mapping = first_mapping,
                                   .mappings_id = first_mapping,
                                   .n_mappings = 2,
                                   .now_s = 78,
                                   .pc = in(0),
                                   .sp = STACK,
                                   .fp = 1,
                                   .has_fp = 1};
    walk_x86(w);
    return w->walk.end;
}

static void done_remembering(struct world *w)
{
    free(w->memos);
    free(w);
}

static void remembers_rules(struct test *t)
{
    struct world *w = new_remembering_world();
    CHECK_INT(t, walk_again(w, 0), UNWIND_END_OUTERMOST);
    w->n_pages = 0; /* it does not look there again */
    CHECK_INT(t, walk_again(w, 0), UNWIND_END_OUTERMOST);
    CHECK_INT(t, w->walk.n, 2);
    CHECK_INT(t, w->addresses[1], in(1));
    CHECK_INT(t, w->files[1].last_used, 78);
    done_remembering(w);
}

static void remembers_nothing_of_other_tables_or_processes(struct test *t)
{
    struct world *w = new_remembering_world();
    CHECK_INT(t, walk_again(w, 0), UNWIND_END_OUTERMOST);
    w->files[1].version++;
    w->files[1].state = UNWIND_FILE_WANTED;
    CHECK_INT(t, walk_again(w, 0), UNWIND_END_NO_TABLE);
    done_remembering(w);

    w = new_remembering_world();
    CHECK_INT(t, walk_again(w, 0), UNWIND_END_OUTERMOST);
    w->mappings[2] = w->mappings[1];
    w->mappings[1].begin = TEXT + 0x8000; /* another process has something else there */
    w->n_mappings = 3;
    CHECK_INT(t, walk_again(w, 1), UNWIND_END_NO_MAPPING);
    done_remembering(w);
}

static void does_not_believe_a_memory_written_by_two(struct test *t)
{
    struct world *w = new_remembering_world();
    CHECK_INT(t, walk_again(w, 0), UNWIND_END_OUTERMOST);
    for (size_t i = 0; i < (UNWIND_MEMO_BLOCKS * UNWIND_BLOCK_MEMOS); i++)
        if (w->memos[i].pc == in(0))
            w->memos[i].rule = UNWIND_CFA_UNSUPPORTED;
    CHECK_INT(t, walk_again(w, 0), UNWIND_END_OUTERMOST);
    CHECK_INT(t, w->walk.n, 2);
    done_remembering(w);
}

static void leaves_arm64_leaves_by_the_link_register(struct test *t)
{
    struct world *w = new_world();
    add_rule(w, RULE(UNWIND_CFA_SP, UNWIND_SAVED_NONE, 0, 0));
    add_rule(w, RULE(UNWIND_CFA_SP, UNWIND_SAVED_PAIR, -32, 32));
    add_rule(w, RULE(UNWIND_CFA_FP, UNWIND_SAVED_RA, 8, 16));
    add_rule(w, RULE(UNWIND_CFA_END, 0, 0, 0));
    w->walk.pc = in(0);
    w->walk.lr = in(1) | UINT64_C(0xaa) << 56; /* signed */
    put(w, STACK, STACK + 100);
    put(w, STACK + 8, in(2) | UINT64_C(0x7f) << 48);
    put(w, STACK + 124, in(3));
    walk_arm(w);
    CHECK_INT(t, w->walk.n, 4);
    CHECK_INT(t, w->addresses[4], in(1));
    CHECK_INT(t, w->addresses[5], in(2));
    CHECK_INT(t, w->walk.end, UNWIND_END_OUTERMOST);
    free(w);
}

static void takes_the_arm64_link_register_once(struct test *t)
{
    struct world *w = new_world();
    add_rule(w, RULE(UNWIND_CFA_SP, UNWIND_SAVED_NONE, 0, 0));
    w->walk.pc = in(0);
    w->walk.lr = in(0);
    walk_arm(w);
    CHECK_INT(t, w->walk.n, 2);
    CHECK_INT(t, w->walk.end, UNWIND_END_NOT_UPWARD);
    free(w);

    w = new_world();
    add_rule(w, RULE(UNWIND_CFA_SP, UNWIND_SAVED_FP, -16, 16));
    w->walk.pc = in(0);
    w->walk.lr = in(0);
    walk_arm(w);
    CHECK_INT(t, w->walk.n, 2);
    CHECK_INT(t, w->walk.end, UNWIND_END_UNSUPPORTED);
    free(w);
}

static void goes_through_arm64_signal_frames(struct test *t)
{
    struct world *w = new_world();
    add_rule(w, RULE(UNWIND_CFA_SP, UNWIND_SAVED_NONE, 0, 0));
    add_rule(w, RULE(UNWIND_CFA_SIGNAL, 0, 0, 0));
    add_rule(w, RULE(UNWIND_CFA_END, 0, 0, 0));
    w->walk.pc = in(0);
    w->walk.lr = in(1);
    put(w, STACK + 544, STACK + 9000);
    put(w, STACK + 552, in(2)); /* the interrupted leaf's link register */
    put(w, STACK + 560, STACK + 8192);
    put(w, STACK + 568, in(0));
    walk_arm(w);
    CHECK_INT(t, w->walk.n, 4);
    CHECK_INT(t, w->walk.exact, 5);
    CHECK_INT(t, w->walk.end, UNWIND_END_OUTERMOST);
    free(w);
}

static void has_no_plt_rule_on_arm64(struct test *t)
{
    struct world *w = new_world();
    add_rule(w, RULE(UNWIND_CFA_PLT, UNWIND_SAVED_NONE, 0, 11));
    w->walk.pc = in(0);
    walk_arm(w);
    CHECK_INT(t, w->walk.end, UNWIND_END_UNSUPPORTED);
    free(w);
}

/* Any rules on any stack: walks end, and stay inside their arrays (ASan sees to that). */
static void survives_rubbish(struct test *t)
{
    uint64_t x = 88172645463325252ull;
    for (int round = 0; round < 3000; round++) {
        struct world *w = new_world();
        w->memos = calloc((UNWIND_MEMO_BLOCKS * UNWIND_BLOCK_MEMOS), sizeof(*w->memos));
        for (int i = 0; i < 31; i++) {
            x ^= x << 13, x ^= x >> 7, x ^= x << 17;
            add_rule(w, RULE((uint8_t)(x % 10), (uint8_t)(x >> 8) % 7, (int16_t)(x >> 16) % 64 * 8,
                             (int32_t)(x >> 32) % (round % 2 ? 32 : 4096) * 8));
        }
        for (uint64_t at = STACK; at < STACK + STACK_LEN; at += 8) {
            x ^= x << 13, x ^= x >> 7, x ^= x << 17;
            put(w, at, x & 1 ? in((uint32_t)(x >> 8) % 31) : STACK + (x >> 8) % STACK_LEN);
        }
        w->walk.pc = in((uint32_t)x % 31);
        w->walk.fp = STACK + x % STACK_LEN / 8 * 8;
        if (round % 3)
            walk_x86(w);
        else
            walk_arm(w);
        CHECK(t, w->walk.end < UNWIND_END_COUNT);
        CHECK(t, w->walk.n >= 1 && w->walk.n <= UNWIND_USER_FRAMES_MAX);
        done_remembering(w);
    }
}

static const struct test_case cases[] = {
    TEST(follows_stack_pointers),
    TEST(looks_for_calls_before_return_addresses),
    TEST(follows_frame_pointers_and_saved_places),
    TEST(leaves_plt_stubs_before_and_after_the_push),
    TEST(goes_through_signal_frames),
    TEST(steps_by_frame_pointer_where_there_is_no_table),
    TEST(goes_from_made_code_into_files),
    TEST(says_why_it_ended),
    TEST(drops_guesses_that_are_not_code),
    TEST(ends_where_memory_ends),
    TEST(ends_when_too_deep),
    TEST(gives_up_on_circles),
    TEST(follows_code_that_changes_stacks),
    TEST(believes_no_table),
    TEST(takes_a_table_that_was_replaced_meanwhile_as_none),
    TEST(finds_the_row_of_every_address),
    TEST(remembers_rules),
    TEST(remembers_nothing_of_other_tables_or_processes),
    TEST(does_not_believe_a_memory_written_by_two),
    TEST(leaves_arm64_leaves_by_the_link_register),
    TEST(takes_the_arm64_link_register_once),
    TEST(goes_through_arm64_signal_frames),
    TEST(has_no_plt_rule_on_arm64),
    TEST(survives_rubbish),
};
TEST_MAIN(cases)

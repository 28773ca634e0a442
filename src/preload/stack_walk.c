#include <errno.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/code_modules.h"
#include "preload/frame_rules.h"
#include "preload/inside.h"
#include "preload/stack_memory.h"

/* Where a walk is. */
struct walk {
    struct frame_registers regs;
    struct stack_memory memory;
    bool is_exact; /* rip is not a return address: a signal came there */
};

enum step { STEP_ON, STEP_END, STEP_LOST };

#define KNOWS(w, reg) ((w)->regs.known >> (reg)&1)

/*
 * ---- What is remembered about an address ----
 *
 * A place in the cache is two words, written without a lock: they belong together when one fits the
 * other.
 */
#define CACHE_SIZE 4096

static struct {
    uint64_t check, rule;
} cache[CACHE_SIZE];
static uint32_t cache_epoch;

static uint64_t check_of(uint64_t pc, uint64_t rule)
{
    return pc ^ (rule + 1) * 0x9e3779b97f4a7c15ull;
}

static size_t place_of(uint64_t pc)
{
    return (size_t)(pc * 0x9e3779b97f4a7c15ull >> 52) % CACHE_SIZE;
}

/* 0: not known. */
static inline uint64_t cache_get(uint64_t pc)
{
    size_t i = place_of(pc);
    uint64_t rule = __atomic_load_n(&cache[i].rule, __ATOMIC_RELAXED);

    return __atomic_load_n(&cache[i].check, __ATOMIC_RELAXED) == check_of(pc, rule) ? rule : 0;
}

static void cache_put(uint64_t pc, uint64_t rule)
{
    size_t i = place_of(pc);

    __atomic_store_n(&cache[i].rule, rule, __ATOMIC_RELAXED);
    __atomic_store_n(&cache[i].check, check_of(pc, rule), __ATOMIC_RELAXED);
}

static void cache_clear_if_old(void)
{
    uint32_t now = modules_epoch();

    if (__atomic_load_n(&cache_epoch, __ATOMIC_RELAXED) == now ||
        __atomic_exchange_n(&cache_epoch, now, __ATOMIC_RELAXED) == now)
        return;
    for (size_t i = 0; i < CACHE_SIZE; i++)
        __atomic_store_n(&cache[i].rule, 0, __ATOMIC_RELAXED);
}

#if defined(__x86_64__)

/*
 * ---- Rules ----
 *
 * Most frames: the cfa is a register plus an offset, the return address lies below it, and the
 * registers that a function must preserve lie below that or are as they were. A rule is one word:
 *
 *     bits 0-3 register of the cfa │ 4-19 offset/8 │ 20-55 slot of rbx rbp r12 r13 r14 r15, 6 bits
 *     each, 0: not saved │ 56-61 the largest slot │ 62 outermost │ 63 by frame pointer
 *
 * Slot k is at cfa - 8k.
 */
#define RULE_END     (1ull << 62)
#define RULE_POINTER (1ull << 63)
#define N_SAVED      6
static const uint8_t saved_registers[N_SAVED] = {FRAME_RBX, FRAME_RBP, 12, 13, 14, 15};

/* 0 when it does not fit. */
static uint64_t pack_rule(const struct frame_row *row)
{
    int32_t off = row->cfa_offset / 8;
    uint64_t rule, most = 1;

    if (row->place[FRAME_RIP] == FRAME_UNDEFINED)
        return RULE_END;
    if (row->is_signal || row->cfa_is_expression || row->cfa_offset % 8 || off != (int16_t)off ||
        row->place[FRAME_RIP] != FRAME_AT_CFA || row->offset[FRAME_RIP] != -8)
        return 0;
    rule = row->cfa_register | (uint64_t)(uint16_t)off << 4;
    for (unsigned i = 0, k = 0; i < FRAME_RIP; i++) {
        bool is_saved = k < N_SAVED && i == saved_registers[k];
        int32_t slot = -(row->offset[i] / 8);

        if (is_saved && row->place[i] == FRAME_AT_CFA && row->offset[i] % 8 == 0 && slot > 1 &&
            slot < 64) {
            rule |= (uint64_t)slot << (20 + 6 * k);
            most = (uint64_t)slot > most ? (uint64_t)slot : most;
        } else if (row->place[i] != FRAME_SAME && (is_saved || row->place[i] != FRAME_UNDEFINED)) {
            return 0;
        }
        k += is_saved;
    }
    return rule | most << 56;
}

/* True when it could be done: else the long way says why not. */
static inline bool apply_rule(struct walk *w, uint64_t rule)
{
    unsigned reg = rule & 15;
    uint64_t *v = w->regs.value;
    uint64_t cfa = v[reg] + (uint64_t)((int64_t)(int16_t)(rule >> 4) * 8);
    uint64_t low = cfa - (rule >> 56 & 63) * 8;

    if (!KNOWS(w, reg) || (cfa & 7) || low > cfa || low < w->memory.start || cfa > w->memory.end)
        return false;
#pragma GCC unroll 6
    for (unsigned k = 0; k < N_SAVED; k++) {
        unsigned slot = rule >> (20 + 6 * k) & 63;
        if (slot) {
            v[saved_registers[k]] = stack_word(cfa - 8ull * slot);
            w->regs.known |= 1u << saved_registers[k];
        }
    }
    v[FRAME_RIP] = stack_word(cfa - 8);
    v[FRAME_RSP] = cfa;
    return true;
}

/* ---- The long way ---- */

/* The stack pointer is near the outermost frame, where libc's own code may have no tables. */
static bool is_near_root(const struct walk *w)
{
    enum { ROOM = 512 };
    uintptr_t sp = w->regs.value[FRAME_RSP], root = preload_thread.stack_root;

    return root != 0 && sp < preload_thread.stack_end && sp + ROOM >= root;
}

/*
 * Code without tables: mostly it has a frame pointer. What that leads to must lie further out on
 * the same stack, and must be code.
 */
static enum step step_by_pointer(struct walk *w)
{
    enum { FRAME_MAX = 1 << 20 };
    uint64_t rbp = w->regs.value[FRAME_RBP], next[2];
    struct code_module m;

    if (KNOWS(w, FRAME_RBP) && rbp == 0) /* as the first function is called with */
        return is_near_root(w) || preload_thread.stack_root == 0 ? STEP_END : STEP_LOST;
    if (!KNOWS(w, FRAME_RBP) || rbp < w->regs.value[FRAME_RSP] ||
        rbp - w->regs.value[FRAME_RSP] > FRAME_MAX ||
        !stack_memory_read(&w->memory, rbp, &next[0]) ||
        !stack_memory_read(&w->memory, rbp + 8, &next[1]))
        return STEP_LOST;
    if (next[1] == 0)
        return STEP_END;
    if (!modules_find(next[1] - 1, &m))
        return STEP_LOST;
    w->regs.value[FRAME_RBP] = next[0];
    w->regs.value[FRAME_RSP] = rbp + 16;
    w->regs.value[FRAME_RIP] = next[1];
    w->regs.known = 1u << FRAME_RBP | 1u << FRAME_RSP | 1u << FRAME_RIP;
    w->is_exact = false;
    return STEP_ON;
}

/* Code that returns from a signal, where it has no tables, as musl's: mov $15, %rax; syscall. */
static bool is_sigreturn(const struct code_module *m, uint64_t pc)
{
    static const uint8_t code[] = {0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05};

    return pc >= m->start && m->end - pc >= sizeof(code) && memory_probe_range(pc, sizeof(code)) &&
           memcmp((const void *)pc, code, sizeof(code)) == 0;
}

/* The kernel's struct ucontext is at the stack pointer; this is where its registers are. */
static enum step step_by_context(struct walk *w)
{
    static const uint8_t order[] = {8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7, 16};
    enum { REGISTERS_AT = 40 };
    uint64_t sp = w->regs.value[FRAME_RSP];
    struct frame_registers next = {.known = (1u << FRAME_REGISTERS) - 1};

    for (size_t i = 0; i < sizeof(order); i++)
        if (!stack_memory_read(&w->memory, sp + REGISTERS_AT + 8 * i, &next.value[order[i]]))
            return STEP_LOST;
    w->regs = next;
    w->is_exact = true;
    return STEP_ON;
}

static enum step step_without_tables(struct walk *w, const struct code_module *m, uint64_t pc)
{
    enum step s;

    if (is_sigreturn(m, w->regs.value[FRAME_RIP]))
        return step_by_context(w);
    s = step_by_pointer(w);
    if (s == STEP_ON)
        cache_put(pc, RULE_POINTER);
    return s == STEP_LOST && is_near_root(w) ? STEP_END : s;
}

static __attribute__((noinline)) enum step step_slowly(struct walk *w, uint64_t pc)
{
    struct code_module m;
    struct frame_row row;
    struct frame_registers next;
    struct frame_world world = {&m.tables, &w->regs, stack_memory_read, &w->memory};
    uint64_t rule;

    if (!modules_find(pc, &m))
        return STEP_LOST;
    if (!m.tables.header || !frame_row_find(&m.tables, pc, &row))
        return step_without_tables(w, &m, pc);
    rule = pack_rule(&row);
    if (rule)
        cache_put(pc, rule);
    if (rule == RULE_END)
        return STEP_END;
    if (!frame_row_apply(&world, &row, &next))
        return STEP_LOST;
    if (next.value[FRAME_RSP] == w->regs.value[FRAME_RSP] &&
        next.value[FRAME_RIP] == w->regs.value[FRAME_RIP])
        return STEP_LOST; /* round and round */
    w->regs = next;
    w->is_exact = row.is_signal;
    return STEP_ON;
}

static enum step walk_step(struct walk *w)
{
    uint64_t pc = w->regs.value[FRAME_RIP] - !w->is_exact;
    uint64_t rule = cache_get(pc);
    enum step s;

    if (rule == RULE_END)
        return STEP_END;
    if (rule & RULE_POINTER)
        s = step_by_pointer(w);
    else if (rule && apply_rule(w, rule))
        s = STEP_ON, w->is_exact = false;
    else
        s = STEP_LOST;
    if (s == STEP_LOST)
        s = step_slowly(w, pc);
    return s == STEP_ON && w->regs.value[FRAME_RIP] == 0 ? STEP_END : s;
}

/* What is not listed was lost by the call. */
#define WALK_CAPTURE(w)                                                                            \
    do {                                                                                           \
        (w)->regs.known = 1u << FRAME_RBX | 1u << FRAME_RBP | 1u << FRAME_RSP |                    \
                          0xfu << FRAME_R12 | 1u << FRAME_RIP;                                     \
        __asm__ volatile("leaq 1f(%%rip), %%rax\n"                                                 \
                         "1: movq %%rax, 128(%0)\n"                                                \
                         "movq %%rbx, 24(%0)\n"                                                    \
                         "movq %%rbp, 48(%0)\n"                                                    \
                         "movq %%rsp, 56(%0)\n"                                                    \
                         "movq %%r12, 96(%0)\n"                                                    \
                         "movq %%r13, 104(%0)\n"                                                   \
                         "movq %%r14, 112(%0)\n"                                                   \
                         "movq %%r15, 120(%0)\n"                                                   \
                         :                                                                         \
                         : "r"((w)->regs.value)                                                    \
                         : "rax", "memory");                                                       \
    } while (0)

#else /* other machines: frame pointers */

/* Its module is known, also to readers, or is now. */
static bool is_code(uint64_t pc)
{
    enum { CODE = 1 };
    struct code_module m;

    if (cache_get(pc) == CODE)
        return true;
    if (!modules_find(pc, &m))
        return false;
    cache_put(pc, CODE);
    return true;
}

/* Frames are linked: the caller's frame pointer, then the return address. Addresses may be signed
 * in their upper bits. */
static enum step walk_step(struct walk *w)
{
    uint64_t fp = w->regs.value[FRAME_RBP], next[2];

    if (fp == 0)
        return STEP_END;
    if (fp < w->regs.value[FRAME_RSP] || !stack_memory_read(&w->memory, fp, &next[0]) ||
        !stack_memory_read(&w->memory, fp + 8, &next[1]))
        return STEP_LOST;
    next[1] &= 0xffffffffffffull;
    if (next[1] == 0)
        return STEP_END;
    if (!is_code(next[1] - 1))
        return STEP_LOST;
    w->regs.value[FRAME_RBP] = next[0];
    w->regs.value[FRAME_RSP] = fp + 16;
    w->regs.value[FRAME_RIP] = next[1];
    w->is_exact = false;
    return STEP_ON;
}

#define WALK_CAPTURE(w)                                                                            \
    do {                                                                                           \
        (w)->regs.value[FRAME_RBP] = (uintptr_t)__builtin_frame_address(0);                        \
        (w)->regs.value[FRAME_RSP] = (w)->regs.value[FRAME_RBP];                                   \
    } while (0)

#endif

/* ---- What others call ---- */

__attribute__((noinline)) size_t walk_addresses(uint64_t *to, size_t max, uint16_t *ret_flags)
{
    /* Frames of our own are not counted, and are few. */
    enum { OWN_MAX = 32 };
    struct walk w;
    size_t n = 0, steps = 0;
    int was = errno;

    WALK_CAPTURE(&w);
    w.is_exact = true;
    stack_memory_begin(&w.memory, w.regs.value[FRAME_RSP]);
    cache_clear_if_old();
    *ret_flags = 0;
    for (;;) {
        enum step s = walk_step(&w);
        uint64_t pc = w.regs.value[FRAME_RIP];

        if (s == STEP_LOST)
            *ret_flags |= PRELOAD_STACK_LOST;
        if (s != STEP_ON)
            break;
        if (n == max || ++steps > max + OWN_MAX) {
            *ret_flags |= PRELOAD_STACK_CUT;
            break;
        }
        /* The frame that leads here is the code to which the handler returns. It was never called:
         * the address is that of its start. */
        if (w.is_exact && n > 0)
            to[n - 1] |= PRELOAD_EXACT;
        if (!modules_is_own(pc))
            to[n++] = pc | (w.is_exact ? PRELOAD_EXACT : 0);
    }
    errno = was;
    return n;
}

static __attribute__((noinline)) uint32_t walk_with_room(void)
{
    uint64_t stack[PRELOAD_FRAMES_MAX];
    uint16_t flags;
    size_t n = walk_addresses(stack, PRELOAD_FRAMES_MAX, &flags);

    return segment_text(PRELOAD_TEXT_STACK, stack, n * sizeof(stack[0]), flags);
}

/* What a walk takes of the stack that it walks, at most. */
#define WALK_ROOM 4096

uint32_t walk_here(void)
{
    if (stack_memory_has_room((uintptr_t)__builtin_frame_address(0), WALK_ROOM))
        return walk_with_room();
    return segment_text(PRELOAD_TEXT_STACK, "", 0, PRELOAD_STACK_LOST);
}

static void know_stack(uintptr_t inside, uintptr_t root)
{
    preload_thread.stack_low = inside & ~(uintptr_t)(STACK_PAGE - 1);
    preload_thread.stack_end = preload_thread.stack_low + STACK_PAGE;
    preload_thread.stack_root = root;
}

/*
 * The first stack begins with argc, argv, 0, environ, 0... : where argc is, or 0 when the
 * environment is not there any more.
 */
FOREIGN_READ static uintptr_t find_argc(uintptr_t end)
{
    enum { ARGS_MAX = 1 << 16, ENVIRON_MAX = 1 << 23 };
    const uintptr_t *env = (const uintptr_t *)environ;

    if ((uintptr_t)env > end || end - (uintptr_t)env > ENVIRON_MAX || env[-1] != 0)
        return 0;
    for (uintptr_t n = 0; n < ARGS_MAX; n++)
        if (env[-2 - (intptr_t)n] == n)
            return (uintptr_t)&env[-2 - (intptr_t)n];
    return 0;
}

void walk_start(void)
{
    /* The kernel puts 16 random bytes at the outer end of the first stack. */
    uintptr_t end = getauxval(AT_RANDOM);

    modules_forget();
    if (preload_thread.stack_end == 0 && end && syscall(SYS_gettid) == getpid()) {
        know_stack(end, find_argc(end));
        preload_thread.is_first = 1;
    }
}

void walk_thread_starts(void *frame)
{
    know_stack((uintptr_t)frame, (uintptr_t)frame);
}

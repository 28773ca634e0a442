#include "unwind/code_rows.h"

#include <elf.h>
#include <errno.h>

#include "base/le.h"
#include "unwind/code_walk.h"
#include "unwind/section_window.h"

#define CODE_MAX     ((uint64_t)4 << 20) /* of a file, that is looked at */
#define GAP_MIN      16
#define ENTRY_BYTES  64 /* of the code a program starts with, where it is not followed */
#define GOOD_PERCENT 60 /* of a piece's code must add up */
#define BAD_MAX      2  /* pieces in a row: then it is data, or code with ways of its own */

/* mov x8,#139; svc #0. */
static const uint8_t sigreturn_aarch64[] = {0x68, 0x11, 0x80, 0xd2, 0x01, 0, 0, 0xd4};

/* A reading of the code of a file's gaps. */
struct code_reader {
    struct elf_file *file;
    struct row_builder *rows;
    struct code_walk walk;
    uint64_t entry; /* where the program starts */
    uint64_t left;  /* bytes that may still be looked at */
    int n_bad;      /* pieces in a row that did not add up */
};

static void add_whole(struct code_reader *c, uint64_t start, uint64_t end, enum unwind_cfa kind)
{
    if (row_builder_begin(c->rows, start, end))
        row_builder_add(c->rows, start, (struct unwind_rule){.cfa = (__u8)kind});
}

/* Where the program starts there is no caller, whatever its code does. */
static uint32_t add_entry(struct code_reader *c, uint32_t at)
{
    const struct code_walk *w = &c->walk;
    uint32_t end = at + 1;

    while (end < w->code.len && end - at < ENTRY_BYTES && !w->places[end].is_start)
        end++;
    add_whole(c, w->va + at, w->va + end, UNWIND_CFA_END);
    return end;
}

/* Adds the run of good code that starts at `at`; returns its end. */
static uint32_t add_run(struct code_reader *c, uint32_t at)
{
    const struct code_walk *w = &c->walk;
    uint32_t end = at;

    while (end < w->code.len && w->places[end].is_good && w->va + end != c->entry &&
           !code_is_sigreturn(bytes_from(w->code, end)))
        end += w->places[end].len;
    if (!row_builder_begin(c->rows, w->va + at, w->va + end))
        return end;
    for (uint32_t i = at; i < end; i += w->places[i].len)
        row_builder_add(c->rows, w->va + i, stack_frame_rule(&w->places[i].state));
    return end;
}

static void add_walked(struct code_reader *c, uint32_t end)
{
    const struct code_walk *w = &c->walk;
    bool is_good = w->n_good * 100 >= (w->n_good + w->n_bad) * GOOD_PERCENT;

    c->n_bad = is_good ? 0 : c->n_bad + 1;
    for (uint32_t at = 0; at < end;) {
        if (w->va + at == c->entry) {
            at = add_entry(c, at);
        } else if (code_is_sigreturn(bytes_from(w->code, at))) {
            add_whole(c, w->va + at, w->va + at + CODE_SIGRETURN_BYTES, UNWIND_CFA_SIGNAL);
            at += CODE_SIGRETURN_BYTES;
        } else if (is_good && w->places[at].is_good) {
            at = add_run(c, at);
        } else {
            at++;
        }
    }
}

struct gaps {
    VEC(struct text_range) ranges;
    struct budget *budget;
};

static void keep_gap(void *arg, uint64_t start, uint64_t end)
{
    struct gaps *g = arg;
    vec_push(g->budget, &g->ranges, (struct text_range){start, end});
}

/* aarch64: only what bytes and the entry tell. */
static void read_aarch64(struct code_reader *c, uint64_t va, struct bytes code)
{
    uint64_t entry = c->entry;
    const uint8_t *p =
        bytes_find(code, (struct bytes){sigreturn_aarch64, sizeof(sigreturn_aarch64)});

    if (p) {
        uint64_t at = va + (uint64_t)(p - code.data);
        add_whole(c, at, at + sizeof(sigreturn_aarch64), UNWIND_CFA_SIGNAL);
    }
    if (entry >= va && entry - va < code.len)
        add_whole(c, entry, entry + ENTRY_BYTES, UNWIND_CFA_END);
}

/* x86-64: returns how much of the code is done with. */
static uint32_t read_x86_64(struct code_reader *c, uint64_t va, struct bytes code, bool is_end)
{
    struct code_walk *w = &c->walk;

    code_walk_run(w, code, va, c->entry);
    /* The last function may go on behind the piece. */
    uint32_t end = is_end || w->last_start == 0 ? (uint32_t)w->code.len : w->last_start;
    add_walked(c, end);
    return end;
}

static int read_gap(struct code_reader *c, struct section_window *w, const struct elf_segment *s,
                    struct text_range gap, struct error *err)
{
    c->n_bad = 0;
    for (uint64_t at = gap.start; at < gap.end && c->left > 0 && c->n_bad < BAD_MAX;) {
        uint64_t want = gap.end - at < CODE_WALK_BYTES_MAX ? gap.end - at : CODE_WALK_BYTES_MAX;
        want = want < c->left ? want : c->left;
        struct bytes code;
        int r = section_window_get(w, at - s->vaddr, (size_t)want, &code, err);
        if (r < 0)
            return r;
        if (code.len == 0)
            return 0;
        uint32_t done = (uint32_t)code.len;
        if (c->file->machine == EM_AARCH64)
            read_aarch64(c, at, code);
        else
            done = read_x86_64(c, at, code, at + code.len >= gap.end);
        c->left -= done;
        at += done;
    }
    return 0;
}

static int read_segment(struct code_reader *c, const struct elf_segment *s, const struct gaps *gaps,
                        struct error *err)
{
    struct section_window w = {0};
    int r = section_window_open(&w, c->file, s->offset, s->file_size, err);

    for (size_t i = 0; r == 0 && i < gaps->ranges.len; i++) {
        struct text_range g = gaps->ranges.data[i];
        if (g.start >= s->vaddr && g.start - s->vaddr < s->file_size)
            r = read_gap(c, &w, s, g, err);
    }
    section_window_close(&w);
    return r == -EBADMSG ? 0 : r;
}

static uint64_t entry_of(struct elf_file *f)
{
    struct bytes b;
    return elf_read(f, offsetof(Elf64_Ehdr, e_entry), 8, &b, NULL) < 0 ? 0 : le64_get(b.data);
}

/* Stubs that jump to functions of other files. Some linkers write no table for them; one that is
 * there was added before and holds. */
static void add_stubs(const struct elf_file *f, struct row_builder *rows)
{
    static const char *const names[] = {".plt", ".plt.got", ".plt.sec", ".iplt"};
    struct unwind_rule rule = {.cfa = UNWIND_CFA_SP, .cfa_off = f->machine == EM_AARCH64 ? 0 : 8};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const struct elf_section *s = elf_find_section(f, names[i]);
        if (s && s->flags & SHF_EXECINSTR && row_builder_begin(rows, s->addr, s->addr + s->size))
            row_builder_add(rows, s->addr, rule);
    }
}

int code_rows_read(struct elf_file *f, struct row_builder *rows, struct error *err)
{
    struct budget *budget = rows->budget;
    struct gaps gaps = {.budget = budget};
    struct code_reader c = {.file = f, .rows = rows, .left = CODE_MAX};
    int r = 0;

    add_stubs(f, rows);
    row_builder_sort(rows);
    row_builder_each_gap(rows, GAP_MIN, keep_gap, &gaps);
    if (!code_walk_init(&c.walk, budget))
        r = budget_error(budget, err);
    c.entry = entry_of(f);
    for (size_t i = 0; r == 0 && i < f->n_segments; i++) {
        const struct elf_segment *s = &f->segments[i];
        if (s->type == PT_LOAD && s->flags & PF_X && s->file_size > 0)
            r = read_segment(&c, s, &gaps, err);
    }
    vec_done(budget, &gaps.ranges);
    code_walk_done(&c.walk);
    return r;
}

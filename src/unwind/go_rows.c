#include "unwind/go_rows.h"

#include <elf.h>
#include <errno.h>
#include <limits.h>

#include "symbols/go_module.h"

/* Rows of one function: a function of a megabyte has some ten thousand. */
#define STACK_STEPS_MAX (1 << 18)

/* A frame of n bytes below the return address, where fp is kept as Go does. */
static struct unwind_rule rule_x86_64(int32_t n)
{
    struct unwind_rule r = {.cfa = UNWIND_CFA_SP, .cfa_off = n + 8};

    if (n > 0) {
        r.saved = UNWIND_SAVED_FP;
        r.saved_off = -16;
    }
    return r;
}

/* The return address is saved at sp, and fp below sp. */
static struct unwind_rule rule_aarch64(int32_t n)
{
    struct unwind_rule r = {.cfa = UNWIND_CFA_SP, .cfa_off = n};

    if (n == 0)
        return r;
    if (n + 8 > -INT16_MIN)
        return (struct unwind_rule){.cfa = UNWIND_CFA_UNSUPPORTED};
    r.saved = UNWIND_SAVED_PAIR;
    r.saved_off = (int16_t) - (n + 8);
    return r;
}

struct go_rows {
    struct row_builder *rows;
    const struct pclntab *table;
    bool is_aarch64;
};

static struct unwind_rule rule_of(const struct go_rows *g, int32_t n)
{
    if (n < 0 || n > INT32_MAX - 16)
        return (struct unwind_rule){.cfa = UNWIND_CFA_UNSUPPORTED};
    return g->is_aarch64 ? rule_aarch64(n) : rule_x86_64(n);
}

static bool is_named(const struct pclntab_frame *f, const char *name)
{
    return f->name && strcmp(f->name, name) == 0;
}

/* The one rule that holds in all of a special function; false when it is an ordinary one. */
static bool special_rule(const struct go_rows *g, const struct pclntab_frame *f,
                         struct unwind_rule *ret)
{
    if (is_named(f, "runtime.sigreturn__sigaction") || is_named(f, "runtime.sigreturn")) {
        *ret = (struct unwind_rule){.cfa = UNWIND_CFA_SIGNAL};
        return true;
    }
    /* What the kernel calls on a signal has no caller in Go's eyes; its frame is a plain one. */
    if (is_named(f, "runtime.sigtramp") || is_named(f, "runtime.cgoSigtramp"))
        return false;
    /* mcall leaves its goroutine for good: what runs then belongs to the scheduler. */
    if (f->flags & PCLNTAB_TOP_FRAME || is_named(f, "runtime.mcall")) {
        *ret = (struct unwind_rule){.cfa = UNWIND_CFA_END};
        return true;
    }
    if (f->flags & PCLNTAB_WRITES_STACK) {
        *ret = (struct unwind_rule){
            .cfa = UNWIND_CFA_FP,
            .cfa_off = 16,
            .saved = g->is_aarch64 ? UNWIND_SAVED_PAIR : UNWIND_SAVED_FP,
            .saved_off = -16,
        };
        return true;
    }
    return false;
}

static void add_function(struct go_rows *g, const struct pclntab_frame *f)
{
    struct unwind_rule special;
    struct pclntab_stack s;

    if (!row_builder_begin(g->rows, f->start, f->end))
        return;
    if (special_rule(g, f, &special)) {
        row_builder_add(g->rows, f->start, special);
        return;
    }
    pclntab_stack_begin(g->table, f, &s);
    for (int i = 0; i < STACK_STEPS_MAX && pclntab_stack_next(g->table, &s); i++) {
        if (s.start >= f->end)
            return;
        row_builder_add(g->rows, s.start, rule_of(g, s.bytes));
    }
}

/* Whether the table has flags at all: some function without a caller there must be. */
static bool has_flags(const struct pclntab *t)
{
    struct pclntab_frame f;

    for (uint64_t i = 0; i < t->n_functions; i++) {
        if (t->lazy)
            lazy_bytes_trim(t->lazy);
        if (pclntab_frame(t, i, &f) && f.flags & PCLNTAB_TOP_FRAME &&
            is_named(&f, "runtime.goexit"))
            return true;
    }
    return false;
}

static int add_functions(struct go_rows *g, struct lazy_bytes *lazy, struct error *err)
{
    const struct pclntab *t = g->table;

    if (t->word != 8 || t->is_big_endian || !has_flags(t))
        return error_set(err, -EOPNOTSUPP, "a Go program older than Go 1.17");
    for (uint64_t i = 0; i < t->n_functions && !budget_failed(g->rows->budget); i++) {
        struct pclntab_frame one;
        lazy_bytes_trim(lazy);
        if (pclntab_frame(t, i, &one))
            add_function(g, &one);
    }
    return 0;
}

int go_rows_read(struct elf_file *f, struct row_builder *rows, struct error *err)
{
    struct lazy_bytes lazy = {0};
    struct pclntab t;
    struct go_rows g = {.rows = rows, .table = &t, .is_aarch64 = f->machine == EM_AARCH64};

    int r = go_module_pclntab_lazy(f, &lazy, &t, err);
    if (r >= 0)
        r = add_functions(&g, &lazy, err);
    lazy_bytes_close(&lazy);
    return r;
}

#include "unwind/row_builder.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>

#define PAGE_BYTES   ((uint32_t)1 << UNWIND_PAGE_BITS)
#define RULE_BITS    14
#define OFFSET_MAX   ((uint64_t)1 << (32 - RULE_BITS))
#define HASH_SIZE    ((size_t)UNWIND_FILE_RULES_MAX * 2)
#define ADDRESS_MAX  ((uint64_t)1 << 47)
/* Less than this between two functions is padding: nobody is in there. */
#define SMALL_GAP    16
/* Rows before those that say nothing new are left out. */
#define RAW_ROWS_MAX ((size_t)UNWIND_FILE_ROWS_MAX * 2)

_Static_assert(UNWIND_FILE_RULES_MAX <= 1 << RULE_BITS, "a rule fits its bits");

static uint64_t rule_key(struct unwind_rule r)
{
    uint64_t v;
    _Static_assert(sizeof(r) == sizeof(v), "a rule is one number");
    memcpy(&v, &r, sizeof(v));
    return v;
}

/* The rule's index; that of "unsupported" when the file has too many. */
static uint16_t rule_index(struct row_builder *b, struct unwind_rule r)
{
    uint64_t key = rule_key(r);

    if (key == rule_key(b->last_rule))
        return b->last_index;
    size_t at = (size_t)((key * 0x9e3779b97f4a7c15u) >> 40) % HASH_SIZE;
    while (b->by_hash[at] != 0 && rule_key(b->rules.data[b->by_hash[at] - 1]) != key)
        at = (at + 1) % HASH_SIZE;
    if (b->by_hash[at] == 0) {
        if (b->rules.len >= UNWIND_FILE_RULES_MAX || !vec_push(b->budget, &b->rules, r))
            return ROW_RULE_UNSUPPORTED;
        b->by_hash[at] = (uint16_t)b->rules.len;
    }
    b->last_rule = r;
    b->last_index = (uint16_t)(b->by_hash[at] - 1);
    return b->last_index;
}

/* Of segments that overlap or repeat, hostile files only have those, the first counts. */
static int collect_texts(struct row_builder *b, const struct elf_file *f, struct error *err)
{
    uint64_t first = UINT64_MAX, last = 0;

    for (size_t i = 0; i < f->n_segments && b->n_texts < ROW_BUILDER_TEXTS_MAX; i++) {
        const struct elf_segment *s = &f->segments[i];
        if (s->type != PT_LOAD || !(s->flags & PF_X) || s->file_size == 0)
            continue;
        if (s->vaddr >= ADDRESS_MAX || s->file_size > ADDRESS_MAX - s->vaddr)
            return error_set(err, -EOPNOTSUPP, "code at 0x%jx, the limit is 0x%jx",
                             (uintmax_t)s->vaddr, (uintmax_t)ADDRESS_MAX);
        struct text_range t = {s->vaddr, s->vaddr + s->file_size};
        first = t.start < first ? t.start : first;
        last = t.end > last ? t.end : last;
        b->texts[b->n_texts++] = t;
    }
    if (b->n_texts == 0)
        return error_set(err, -ENODATA, "the file has no code");
    b->base = first & ~(uint64_t)(PAGE_BYTES - 1);
    if (last - b->base >= UINT32_MAX)
        return error_set(err, -EOPNOTSUPP, "code from 0x%jx to 0x%jx, the limit is 4 GiB",
                         (uintmax_t)first, (uintmax_t)last);
    return 0;
}

int row_builder_init(struct row_builder *b, const struct elf_file *f, struct budget *budget,
                     struct error *err)
{
    *b = (struct row_builder){.budget = budget};
    int r = collect_texts(b, f, err);
    if (r < 0)
        return r;
    void *hash = NULL;
    if (!budget_resize(budget, &hash, 0, HASH_SIZE * sizeof(*b->by_hash)))
        return budget_error(budget, err);
    b->by_hash = hash;
    memset(hash, 0, HASH_SIZE * sizeof(*b->by_hash));
    b->last_rule = (struct unwind_rule){.cfa = UINT8_MAX};
    rule_index(b, (struct unwind_rule){.cfa = UNWIND_CFA_GAP});
    rule_index(b, (struct unwind_rule){.cfa = UNWIND_CFA_UNSUPPORTED});
    return budget_failed(budget) ? budget_error(budget, err) : 0;
}

void row_builder_done(struct row_builder *b)
{
    if (!b->budget)
        return;
    vec_done(b->budget, &b->spans);
    vec_done(b->budget, &b->rows);
    vec_done(b->budget, &b->rules);
    if (b->by_hash)
        budget_free(b->budget, b->by_hash, HASH_SIZE * sizeof(*b->by_hash));
    *b = (struct row_builder){0};
}

static const struct text_range *text_of(struct row_builder *b, uint64_t pc)
{
    for (size_t i = 0; i < b->n_texts; i++) {
        const struct text_range *t = &b->texts[(b->last_text + i) % b->n_texts];
        if (pc >= t->start && pc < t->end) {
            b->last_text = (b->last_text + i) % b->n_texts;
            return t;
        }
    }
    return NULL;
}

static bool push_span(struct row_builder *b, uint32_t start, uint32_t end)
{
    if (b->rows.len >= RAW_ROWS_MAX)
        b->too_many = true;
    return !b->too_many &&
           vec_push(
               b->budget, &b->spans,
               (struct row_span){.start = start, .end = end, .first_row = (uint32_t)b->rows.len});
}

bool row_builder_begin(struct row_builder *b, uint64_t start, uint64_t end)
{
    const struct text_range *t = text_of(b, start);

    if (!t || end <= start)
        return false;
    end = end < t->end ? end : t->end;
    return push_span(b, (uint32_t)(start - b->base), (uint32_t)(end - b->base));
}

void row_builder_add(struct row_builder *b, uint64_t pc, struct unwind_rule rule)
{
    struct row_span *s = &vec_last(&b->spans);
    uint32_t at = (uint32_t)(pc - b->base);

    if (b->rows.len >= RAW_ROWS_MAX)
        b->too_many = true;
    if (pc < b->base || pc - b->base >= s->end || b->too_many)
        return;
    if (at - s->start >= OFFSET_MAX) {
        uint32_t end = s->end;
        s->end = at;
        if (!push_span(b, at, end))
            return;
        s = &vec_last(&b->spans);
    }
    uint32_t row = (at - s->start) << RULE_BITS | rule_index(b, rule);
    if (s->n_rows > 0 && ((vec_last(&b->rows) ^ row) & (UNWIND_FILE_RULES_MAX - 1)) == 0)
        return;
    if (vec_push(b->budget, &b->rows, row))
        s->n_rows++;
}

struct row_mark row_builder_mark(const struct row_builder *b)
{
    return (struct row_mark){b->spans.len, b->rows.len};
}

void row_builder_undo(struct row_builder *b, struct row_mark m)
{
    b->spans.len = m.n_spans;
    b->rows.len = m.n_rows;
}

static int compare_spans(const void *a, const void *b)
{
    const struct row_span *x = a, *y = b;

    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->first_row < y->first_row ? -1 : x->first_row > y->first_row;
}

void row_builder_sort(struct row_builder *b)
{
    for (size_t i = 1; i < b->spans.len; i++) {
        if (compare_spans(&b->spans.data[i - 1], &b->spans.data[i]) > 0) {
            qsort(b->spans.data, b->spans.len, sizeof(*b->spans.data), compare_spans);
            return;
        }
    }
}

void row_builder_each_gap(const struct row_builder *b, uint64_t min,
                          void (*f)(void *arg, uint64_t start, uint64_t end), void *arg)
{
    for (size_t t = 0; t < b->n_texts; t++) {
        uint64_t covered = b->texts[t].start;
        for (size_t i = 0; i < b->spans.len; i++) {
            uint64_t start = b->base + b->spans.data[i].start;
            uint64_t end = b->base + b->spans.data[i].end;
            if (start >= b->texts[t].end)
                break;
            if (start > covered && start - covered >= min)
                f(arg, covered, start);
            covered = end > covered ? end : covered;
        }
        if (covered < b->texts[t].end && b->texts[t].end - covered >= min)
            f(arg, covered, b->texts[t].end);
    }
}

/* Writes the rows of a table, leaving out what changes nothing. */
struct row_writer {
    struct row_builder *b;
    struct unwind_table *t;
    uint32_t first_page;
    uint16_t rule; /* that holds now */
};

/* Opens pages up to that of `at`. One that begins inside a function begins with its rule. */
static void open_pages(struct row_writer *w, uint32_t at)
{
    struct unwind_table *t = w->t;

    while (w->first_page + t->pages.len <= at >> UNWIND_PAGE_BITS) {
        if (!vec_push(t->budget, &t->pages, (uint32_t)t->rows.len))
            return;
        if (w->rule != ROW_RULE_GAP)
            vec_push(t->budget, &t->rows, (struct unwind_row){0, w->rule});
    }
}

/* Drops the last row of the page when the new one starts where it does. */
static void put_row(struct row_writer *w, uint32_t at, uint16_t rule)
{
    struct unwind_table *t = w->t;

    if (rule == w->rule)
        return;
    open_pages(w, at);
    uint16_t low = (uint16_t)at;
    size_t in_page = t->pages.len > 0 ? t->rows.len - vec_last(&t->pages) : 0;
    w->rule = rule;
    if (in_page > 0 && vec_last(&t->rows).pc_low == low) {
        vec_last(&t->rows).rule = rule;
        return;
    }
    vec_push(t->budget, &t->rows, (struct unwind_row){low, rule});
}

/* The rows of a span from `from` on, which is its start or where another ended. */
static void put_span(struct row_writer *w, const struct row_span *s, uint32_t from)
{
    const uint32_t *rows = w->b->rows.data + s->first_row;

    for (uint32_t i = 0; i < s->n_rows; i++) {
        uint32_t at = s->start + (rows[i] >> RULE_BITS);
        uint32_t next = i + 1 < s->n_rows ? s->start + (rows[i + 1] >> RULE_BITS) : s->end;
        uint16_t rule = rows[i] & (UNWIND_FILE_RULES_MAX - 1);
        if (next <= from)
            continue;
        at = at > from ? at : from;
        /* What returns into a signal frame was not called from it: it is looked up one byte
         * before its first. */
        if (w->b->rules.data[rule].cfa == UNWIND_CFA_SIGNAL && at == s->start &&
            at > w->first_page << UNWIND_PAGE_BITS)
            at--;
        put_row(w, at, rule);
    }
}

static void put_spans(struct row_writer *w)
{
    struct row_builder *b = w->b;
    uint32_t covered = b->spans.data[0].start;

    for (size_t i = 0; i < b->spans.len && w->t->rows.len <= UNWIND_FILE_ROWS_MAX; i++) {
        const struct row_span *s = &b->spans.data[i];
        if (s->end <= covered || s->n_rows == 0)
            continue;
        if (s->start > covered && s->start - covered >= SMALL_GAP)
            put_row(w, covered, ROW_RULE_GAP);
        put_span(w, s, s->start > covered ? s->start : covered);
        covered = s->end;
    }
    put_row(w, covered, ROW_RULE_GAP);
}

int row_builder_finish(struct row_builder *b, struct unwind_table *ret, struct error *err)
{
    struct unwind_table t = {.budget = b->budget};
    struct row_writer w = {.b = b, .t = &t, .rule = ROW_RULE_GAP};

    row_builder_sort(b);
    if (b->spans.len > 0) {
        w.first_page = b->spans.data[0].start >> UNWIND_PAGE_BITS;
        put_spans(&w);
    }
    vec_push(t.budget, &t.pages, (uint32_t)t.rows.len);
    t.first_text_page = (uint32_t)(b->base >> UNWIND_PAGE_BITS) + w.first_page;
    vec_append(t.budget, &t.rules, b->rules.data, b->rules.len);
    int r = budget_failed(t.budget) ? budget_error(t.budget, err) : 0;
    if (r == 0 && (b->too_many || t.rows.len > UNWIND_FILE_ROWS_MAX))
        r = error_set(err, -E2BIG, "the file has more unwind rows than the limit of %u",
                      UNWIND_FILE_ROWS_MAX);
    if (r < 0) {
        unwind_table_done(&t);
        return r;
    }
    *ret = t;
    return 0;
}

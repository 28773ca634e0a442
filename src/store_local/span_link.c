#include <errno.h>
#include <stdlib.h>

#include "base/bisect.h"
#include "store_local/span_codec.h"
#include "store_local/span_file.h"
#include "store_local/spans.h"

/* Of unpacked spans while a batch is linked: more than any batch that was checked when it came. */
#define LINK_BYTES_MAX ((size_t)1 << 30)

/* Which spans of a batch are stored already. */
struct known {
    struct local *l;
    uint32_t tenant;
    const struct span_rows *rows;
    bool *is_known;   /* per row */
    bool *is_suspect; /* per block of the file being searched */
};

static void look_in_memory(struct known *k)
{
    const struct local *l = k->l;

    for (size_t i = 0; i < k->rows->n; i++) {
        const struct store_span *s = &k->rows->spans[i];
        k->is_known[i] = (i > 0 && span_compare(s, s - 1) == 0) ||
                         memtable_has_span(l->head, k->tenant, s) ||
                         (l->frozen && memtable_has_span(l->frozen, k->tenant, s));
    }
}

static bool is_among(const struct span_rows *rows, const struct store_span *s)
{
    size_t at = BISECT(rows->n, i, span_compare(&rows->spans[i], s) < 0);

    return at < rows->n && span_compare(&rows->spans[at], s) == 0;
}

/* What cannot be read cannot be told: the span is taken as new. */
static void look_in_block(struct known *k, const struct span_file *f, const struct span_block *b)
{
    const struct store_span *spans = k->rows->spans;
    CLEANUP(block_unrefp) struct block *bytes = NULL;
    struct span_rows rows = {0};
    struct budget budget; /* of its own: a bad block must not spend that of the batch */
    struct arena arena;

    if (b->max_ns < spans[0].start_ns || b->min_ns > spans[k->rows->n - 1].start_ns ||
        block_file_read(f->file, b->ref, k->l->cache, &bytes, NULL) < 0)
        return;
    budget_init(&budget, LINK_BYTES_MAX);
    arena_init(&arena, &budget);
    if (span_decode(block_bytes(bytes), &arena, &rows, NULL) == 0) {
        for (size_t i = 0; i < k->rows->n; i++)
            k->is_known[i] = k->is_known[i] || is_among(&rows, &spans[i]);
    }
    arena_done(&arena);
}

static int suspect(void *arg, uint32_t block)
{
    struct known *k = arg;

    k->is_suspect[block] = true;
    return 0;
}

static void look_in_file(struct known *k, const struct span_file *f, const struct span_head *head)
{
    k->is_suspect = calloc((size_t)f->n_blocks + 1, sizeof(*k->is_suspect));
    if (!k->is_suspect)
        return;
    for (uint32_t t = 0; t < head->n_traces; t++)
        (void)span_file_trace(k->l, f, head->traces + (size_t)t * 16, suspect, k, NULL);
    for (uint32_t i = 0; i < f->n_blocks; i++) {
        if (k->is_suspect[i])
            look_in_block(k, f, &f->blocks[i]);
    }
    free(k->is_suspect);
    k->is_suspect = NULL;
}

static void look_in_segments(struct known *k, const struct span_head *head)
{
    const struct version *v = k->l->version;

    for (size_t i = 0; i < v->segments.len; i++) {
        struct segment *s = v->segments.data[i];
        struct span_file *f;
        if (s->kind == SEGMENT_SPANS && s->tenant == k->tenant && s->min_ns <= head->max_ns &&
            s->max_ns >= head->min_ns && !s->is_bad && span_file_get(k->l, s, &f, NULL) == 0)
            look_in_file(k, f, head);
    }
}

/* Moves the new ones to the front; the others are only pointed to. */
static void keep_new(struct span_rows *rows, const bool *is_known)
{
    size_t n = 0;

    for (size_t i = 0; i < rows->n; i++) {
        if (!is_known[i])
            rows->spans[n++] = rows->spans[i];
    }
    rows->n = n;
}

static int link_rows(struct local *l, uint64_t seq, const struct record_spans *rec,
                     struct arena *arena, struct error *err)
{
    CLEANUP(buf_done) struct buf again = {0};
    struct record_spans out = *rec;
    struct span_rows rows;
    struct span_head head;

    int r = span_decode(rec->payload, arena, &rows, err);
    if (r < 0)
        return r;
    (void)span_head(rec->payload, &head);
    size_t n = rows.n;
    struct known k = {.l = l, .tenant = rec->tenant, .rows = &rows};
    k.is_known = arena_new(arena, bool, n);
    if (!k.is_known)
        return budget_error(arena->budget, err);
    look_in_memory(&k);
    look_in_segments(&k, &head);
    keep_new(&rows, k.is_known);
    if (rows.n == 0)
        return 1;
    if (rows.n < n) {
        r = span_encode(rows.spans, rows.n, arena->budget, &again, err);
        if (r < 0)
            return r;
        out.payload = buf_bytes(&again);
    }
    return memtable_add_spans(l->head, seq, &out, &rows)
               ? 0
               : error_set(err, -ENOMEM, "no memory for spans");
}

int spans_link(struct local *l, uint64_t seq, const struct record_spans *rec, struct error *err)
{
    struct budget budget;
    struct arena arena;

    budget_init(&budget, LINK_BYTES_MAX);
    arena_init(&arena, &budget);
    int r = link_rows(l, seq, rec, &arena, err);
    arena_done(&arena);
    return r == -ENOBUFS ? -ENOMEM : r;
}

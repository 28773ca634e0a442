#include "store_local/span_merge.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/bisect.h"

struct span_open {
    struct arena arena;
    struct span_rows rows;
    size_t at;
};

static void open_free(struct span_open *o)
{
    if (!o)
        return;
    arena_done(&o->arena);
    free(o);
}
DEFINE_CLEANUP(struct span_open *, open_free)

void span_merge_init(struct span_merge *m, struct local *l, struct budget *budget, int64_t from_ns,
                     int64_t to_ns)
{
    *m = (struct span_merge){.l = l, .budget = budget, .from_ns = from_ns, .to_ns = to_ns};
    budget_init(&m->own, SIZE_MAX / 2);
}

void span_merge_done(struct span_merge *m)
{
    for (size_t i = 0; i < m->heap.len; i++)
        open_free(m->heap.data[i]);
    vec_done(&m->own, &m->heap);
    vec_done(&m->own, &m->sources);
}

static bool add_source(struct span_merge *m, struct span_source s)
{
    if (s.max_ns < m->from_ns || s.min_ns >= m->to_ns)
        return true;
    return vec_push(&m->own, &m->sources, s);
}

bool span_merge_add_bytes(struct span_merge *m, struct bytes payload)
{
    struct span_head head;

    /* It was checked when it was linked. */
    if (span_head(payload, &head) < 0 || (m->trace_id && !span_head_has_trace(&head, m->trace_id)))
        return true;
    return add_source(
        m, (struct span_source){.min_ns = head.min_ns, .max_ns = head.max_ns, .payload = payload});
}

bool span_merge_add_block(struct span_merge *m, struct segment *s, struct span_file *f,
                          const struct span_block *b)
{
    return add_source(
        m, (struct span_source){
               .min_ns = b->min_ns, .max_ns = b->max_ns, .file = f, .segment = s, .ref = b->ref});
}

/* ---- The heap: the earliest span is on top */

static const struct store_span *current(const struct span_open *o)
{
    return &o->rows.spans[o->at];
}

static bool is_before(const struct span_merge *m, size_t a, size_t b)
{
    return span_compare(current(m->heap.data[a]), current(m->heap.data[b])) < 0;
}

static void swap(struct span_merge *m, size_t a, size_t b)
{
    struct span_open *o = m->heap.data[a];

    m->heap.data[a] = m->heap.data[b];
    m->heap.data[b] = o;
}

static void sift_up(struct span_merge *m, size_t i)
{
    for (; i > 0 && is_before(m, i, (i - 1) / 2); i = (i - 1) / 2)
        swap(m, i, (i - 1) / 2);
}

static void sift_down(struct span_merge *m, size_t i)
{
    for (size_t child; (child = 2 * i + 1) < m->heap.len; i = child) {
        if (child + 1 < m->heap.len && is_before(m, child + 1, child))
            child++;
        if (!is_before(m, child, i))
            return;
        swap(m, i, child);
    }
}

/* ---- Opening batches */

static int by_start(const void *p, const void *q)
{
    const struct span_source *a = p, *b = q;

    return a->min_ns < b->min_ns ? -1 : a->min_ns > b->min_ns;
}

static int unpack(struct span_merge *m, const struct span_source *s, struct span_open *o,
                  struct error *err)
{
    CLEANUP(block_unrefp) struct block *block = NULL;
    struct bytes payload = s->payload;
    struct span_head head;

    if (s->file) {
        int r = block_file_read(s->file->file, s->ref, m->l->cache, &block, err);
        if (r < 0)
            return r;
        payload = block_bytes(block);
    }
    if (m->trace_id && span_head(payload, &head) == 0 && !span_head_has_trace(&head, m->trace_id))
        return 0; /* only its fingerprint was there */
    int r = span_decode(payload, &o->arena, &o->rows, err);
    if (r < 0 && s->segment)
        error_prefix(err, r, "segment %" PRIu64, s->segment->id);
    return r;
}

/* A bad block costs its own spans and no others. */
static int on_damage(struct span_merge *m, const struct span_source *s, int r, struct error *err)
{
    if (r == -EBADMSG)
        m->damaged = s->segment;
    if (m->stops_at_damage || (r != -EBADMSG && r != -EIO))
        return r;
    local_log(m->l, "%s; its spans are left out", err->text);
    m->is_incomplete = true;
    m->trouble = *err;
    return 0;
}

static int open_source(struct span_merge *m, const struct span_source *s, struct error *err)
{
    CLEANUP(open_freep) struct span_open *o = calloc(1, sizeof(*o));
    struct error why = {0};

    if (!o || !vec_reserve(&m->own, &m->heap, 1))
        return error_set(err, -ENOMEM, "no memory for a batch of spans");
    arena_init(&o->arena, m->budget);
    int r = unpack(m, s, o, &why);
    if (r < 0) {
        r = on_damage(m, s, r, &why);
        if (r < 0 && err)
            *err = why;
        return r;
    }
    o->at = BISECT(o->rows.n, i, o->rows.spans[i].start_ns < m->from_ns);
    if (o->at == o->rows.n)
        return 0;
    m->heap.data[m->heap.len++] = TAKE_PTR(o);
    sift_up(m, m->heap.len - 1);
    return 0;
}

/* All that may begin before what is on top. */
static int open_due(struct span_merge *m, struct error *err)
{
    int r = 0;

    if (!m->is_sorted && m->sources.len > 0)
        qsort(m->sources.data, m->sources.len, sizeof(struct span_source), by_start);
    m->is_sorted = true;
    while (r == 0 && m->next_source < m->sources.len) {
        const struct span_source *s = &m->sources.data[m->next_source];
        if (m->heap.len > 0 && s->min_ns > current(m->heap.data[0])->start_ns)
            break;
        m->next_source++;
        r = open_source(m, s, err);
    }
    return r;
}

static void step(struct span_merge *m)
{
    struct span_open *top = m->heap.data[0];

    if (++top->at == top->rows.n) {
        swap(m, 0, m->heap.len - 1);
        m->heap.len--;
        open_free(top);
    }
    if (m->heap.len > 0)
        sift_down(m, 0);
}

int span_merge_next(struct span_merge *m, const struct store_span **ret, struct error *err)
{
    if (m->is_yielded) /* only now: the caller used it */
        step(m);
    m->is_yielded = false;
    for (;; step(m)) {
        int r = open_due(m, err);
        if (r < 0)
            return r;
        const struct store_span *s = m->heap.len > 0 ? current(m->heap.data[0]) : NULL;
        if (!s || s->start_ns >= m->to_ns)
            return 0;
        if (m->has_last && span_compare(s, &m->last) == 0)
            continue;
        m->last = *s;
        m->has_last = m->is_yielded = true;
        *ret = s;
        return 1;
    }
}

#include <errno.h>
#include <stdlib.h>

#include "server/pyroscope_points.h"
#include "wire/protobuf.h"

/*
 * How many profiles (or spans) weigh how much, over time: slots of one step, each cut into rows
 * between the smallest and the largest value of all. A slot stands at its right edge; edges are at
 * start, start + step and so on.
 */
#define ROWS 20

struct heat {
    const struct pyroscope_request *request;
    int64_t step_ms;
    int64_t min, max;
    bool with_exemplars;
};

struct slot {
    int64_t time_ms;
    uint64_t counts[ROWS];
    const struct pyroscope_point *best[ROWS];
};

/* The least value of a row, without leaving what 64 bits hold. */
static int64_t row_min(const struct heat *h, unsigned row)
{
    uint64_t range = (uint64_t)h->max - (uint64_t)h->min;
    return (int64_t)((uint64_t)h->min + range / ROWS * row + range % ROWS * row / ROWS);
}

static unsigned row_of(const struct heat *h, int64_t value)
{
    unsigned row = ROWS - 1;
    while (row > 0 && value < row_min(h, row))
        row--;
    return row;
}

/* The right edge of the slot that a moment is in. */
static int64_t slot_of(const struct heat *h, int64_t time_ms)
{
    int64_t start_ms = h->request->start_ms, since, edge;
    if (time_ms <= start_ms)
        return start_ms;
    if (__builtin_sub_overflow(time_ms, start_ms, &since) ||
        __builtin_mul_overflow(since / h->step_ms + (since % h->step_ms != 0), h->step_ms, &edge) ||
        __builtin_add_overflow(edge, start_ms, &edge))
        return h->request->end_ms;
    return edge;
}

static void put_slot(const struct heat *h, const struct slot *s, struct buf *out)
{
    size_t slot = pb_begin(out, 2);
    pb_put_u64_opt(out, 1, (uint64_t)s->time_ms);
    size_t at = pb_begin(out, 2);
    for (unsigned i = 0; i < ROWS; i++) {
        double y = (double)row_min(h, i);
        buf_add(out, &y, sizeof(y));
    }
    pb_end(out, at);
    at = pb_begin(out, 3);
    for (unsigned i = 0; i < ROWS; i++)
        pb_put_varint(out, s->counts[i] < INT32_MAX ? s->counts[i] : INT32_MAX);
    pb_end(out, at);
    for (unsigned i = 0; h->with_exemplars && i < ROWS; i++)
        if (s->best[i])
            pyroscope_put_exemplar(s->best[i], out);
    pb_end(out, slot);
}

/* The points of one group, which are in order of time. */
static void put_slots(const struct heat *h, const struct pyroscope_point *points, size_t n,
                      struct buf *out)
{
    struct slot slot = {0};
    for (size_t i = 0; i < n; i++) {
        int64_t edge = slot_of(h, points[i].time_ms);
        if (i > 0 && edge != slot.time_ms) {
            put_slot(h, &slot, out);
            slot = (struct slot){0};
        }
        unsigned row = row_of(h, points[i].value);
        slot.time_ms = edge;
        slot.counts[row]++;
        if (!slot.best[row] || points[i].value > slot.best[row]->value)
            slot.best[row] = &points[i];
    }
    if (n > 0)
        put_slot(h, &slot, out);
}

struct group {
    size_t first, n;
};

static int largest_first(const void *a, const void *b)
{
    const struct group *x = a, *y = b;
    if (x->n != y->n)
        return x->n < y->n ? 1 : -1;
    return (x->first > y->first) - (x->first < y->first);
}

static int put_groups(const struct heat *h, struct pyroscope_points *p, struct buf *out,
                      struct error *err)
{
    VEC(struct group) groups = {0};
    for (size_t i = 0; i < p->all.len; i++) {
        bool is_new = i == 0 || p->all.data[i].group != p->all.data[i - 1].group;
        if (is_new && !vec_push(&p->budget, &groups, (struct group){.first = i}))
            break;
        vec_last(&groups).n++;
    }
    if (h->request->limit > 0 && groups.len > 1) {
        qsort(groups.data, groups.len, sizeof(*groups.data), largest_first);
        if (groups.len > (uint64_t)h->request->limit)
            groups.len = (size_t)h->request->limit;
    }
    for (size_t i = 0; i < groups.len && !buf_full(out); i++) {
        const struct pyroscope_point *first = &p->all.data[groups.data[i].first];
        size_t at = pb_begin(out, 1);
        buf_add_bytes(out, p->groups.data[first->group]);
        put_slots(h, first, groups.data[i].n, out);
        pb_end(out, at);
    }
    vec_done(&p->budget, &groups);
    return budget_failed(&p->budget) ? budget_error(&p->budget, err) : 0;
}

static void find_range(struct heat *h, const struct pyroscope_points *p)
{
    h->min = INT64_MAX;
    h->max = INT64_MIN;
    for (size_t i = 0; i < p->all.len; i++) {
        int64_t v = p->all.data[i].value;
        h->min = v < h->min ? v : h->min;
        h->max = v > h->max ? v : h->max;
    }
    if (h->min == h->max && h->max < INT64_MAX)
        h->max++;
}

int pyroscope_select_heatmap(struct call *c, struct error *err)
{
    CLEANUP(buf_done) struct buf out = {.budget = &c->budget};
    CLEANUP(pyroscope_request_done) struct pyroscope_request q;
    int64_t step_ns = 0;
    int r = pyroscope_request_read(c, pyroscope_heatmap_request, &q, err);
    if (r == 0)
        r = pyroscope_step(&q, &step_ns, err);
    if (r == 0 && q.limit < 0)
        r = error_set(err, -EINVAL, "limit is %lld: it cannot be negative", (long long)q.limit);
    if (r < 0)
        return r;
    struct heat h = {.request = &q,
                     .step_ms = step_ns >= 1000000 ? step_ns / 1000000 : 1,
                     .with_exemplars = q.exemplars >= PYROSCOPE_EXEMPLARS_INDIVIDUAL};
    CLEANUP(pyroscope_points_done) struct pyroscope_points points;
    r = pyroscope_points_read(c, &q, h.with_exemplars, &points, err);
    if (r == 0) {
        find_range(&h, &points);
        r = put_groups(&h, &points, &out, err);
    }
    return r < 0 ? r : pyroscope_reply(c, pyroscope_heatmap_reply, &out, err);
}

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "store_local/part.h"
#include "store_local/series_table.h"
#include "store_local/tombstone.h"
#include "store_local/verify.h"
#include "store_local/version.h"

/*
 * Whether any profile is stored twice. Segments of a tenant whose times overlap are read side by
 * side, series by series: in memory are their indexes and a block of rows of each.
 */
struct shelf {
    struct segment *segment;
    struct part part;
};

struct cursor {
    const struct shelf *shelf;
    const struct strip *strip;
    uint32_t block, row;
    struct row_block rows;
    bool is_at_end;
};

struct comparing {
    struct verify *v;
    struct budget budget;
    VEC(struct segment *) segments; /* of one tenant, overlapping */
    VEC(struct shelf) shelves;
    VEC(uint32_t) series;
    VEC(struct cursor) cursors;
    struct hidden *hidden;
    verify_twice_fn on_pair;
    void *arg;
};

static void cursor_open(struct cursor *at)
{
    const struct part *p = &at->shelf->part;
    const struct strip_block *blocks = p->blocks + at->strip->first_block;

    row_block_done(&at->rows);
    /* A block that cannot be read was told of already. */
    for (; at->block < at->strip->n_blocks; at->block++) {
        at->row = 0;
        if (row_block_read(p, at->strip, &blocks[at->block], ROWS_IDS, &at->rows, NULL) == 0)
            return;
    }
    at->is_at_end = true;
}

static void cursor_next(struct cursor *at)
{
    if (++at->row < at->rows.n)
        return;
    at->block++;
    cursor_open(at);
}

static int64_t cursor_start(const struct cursor *at)
{
    return at->rows.start_ns[at->row];
}

struct seen {
    struct segment *segment;
    bool has_id;
    uint8_t id[16];
    uint64_t content_hash;
};

static bool is_same(const struct seen *a, const struct seen *b)
{
    if (a->has_id != b->has_id)
        return false;
    return a->has_id ? memcmp(a->id, b->id, 16) == 0 : a->content_hash == b->content_hash;
}

static void tell_twice(struct comparing *c, const struct verify_twice *twice)
{
    if (c->on_pair) {
        c->on_pair(c->arg, twice);
        return;
    }
    verify_bad(c->v,
               "a profile of series %" PRIu32 " at %" PRId64
               " is stored twice, in segments %" PRIu64 " and %" PRIu64,
               twice->series, twice->start_ns, twice->a->id, twice->b->id);
}

struct seen_list {
    VEC(struct seen) rows;
};

/* Holds a row against those of the same start, and adds it to them. */
static int compare_row(struct comparing *c, struct seen_list *list, uint32_t series,
                       const struct cursor *at)
{
    struct segment *s = at->shelf->segment;
    struct seen one = {.segment = s,
                       .has_id = at->rows.has_id[at->row],
                       .content_hash = at->rows.content_hash[at->row]};

    memcpy(one.id, at->rows.id[at->row], sizeof(one.id));
    for (size_t i = 0; i < list->rows.len; i++) {
        struct segment *o = list->rows.data[i].segment;
        bool is_first = o->id <= s->id;
        if (is_same(&list->rows.data[i], &one))
            tell_twice(c, &(struct verify_twice){is_first ? o : s, is_first ? s : o, series,
                                                 cursor_start(at)});
    }
    return vec_push(&c->budget, &list->rows, one) ? 0 : -ENOMEM;
}

/* All rows that start at the same time; those that tombstones hide do not count. */
static int compare_start(struct comparing *c, uint32_t series, int64_t start_ns,
                         const struct series *what)
{
    struct seen_list list = {0};
    int r = 0;

    for (size_t i = 0; i < c->cursors.len; i++) {
        struct cursor *at = &c->cursors.data[i];
        uint64_t seq = at->shelf->segment->tombstone_seq;
        bool is_hidden = what && hidden_has(c->hidden, what, seq, start_ns);
        for (; r == 0 && !at->is_at_end && cursor_start(at) == start_ns; cursor_next(at)) {
            if (!is_hidden)
                r = compare_row(c, &list, series, at);
        }
    }
    vec_done(&c->budget, &list.rows);
    return r;
}

static bool first_start(const struct comparing *c, int64_t *ret)
{
    bool found = false;

    for (size_t i = 0; i < c->cursors.len; i++) {
        const struct cursor *at = &c->cursors.data[i];
        if (at->is_at_end || (found && cursor_start(at) >= *ret))
            continue;
        *ret = cursor_start(at);
        found = true;
    }
    return found;
}

static int compare_series(struct comparing *c, uint32_t series)
{
    struct tenant *t = local_tenant(c->v->l, c->segments.data[0]->tenant);
    const struct series *what = t ? series_table_get(t->series, series) : NULL;
    int64_t start = 0;
    int r = 0;

    for (size_t i = 0; i < c->shelves.len && r == 0; i++) {
        const struct strip *s = part_strip(&c->shelves.data[i].part, series, LEVEL_RAW);
        if (!s)
            continue;
        if (!vec_push(&c->budget, &c->cursors,
                      (struct cursor){.shelf = &c->shelves.data[i], .strip = s}))
            r = -ENOMEM;
        else
            cursor_open(&vec_last(&c->cursors));
    }
    while (r == 0 && first_start(c, &start))
        r = compare_start(c, series, start, what);
    for (size_t i = 0; i < c->cursors.len; i++)
        row_block_done(&c->cursors.data[i].rows);
    vec_clear(&c->cursors);
    return r;
}

static int by_u32(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return x < y ? -1 : x > y;
}

static int open_shelves(struct comparing *c)
{
    for (size_t i = 0; i < c->segments.len; i++) {
        struct segment *s = c->segments.data[i];
        struct segment_file *f;
        if (segment_file_get(c->v->l, s, &f, NULL) < 0)
            continue;
        for (uint32_t k = 0; k < f->n_parts; k++) {
            struct part p;
            if (part_open(c->v->l, f, k, &p, NULL) < 0)
                continue;
            if (!vec_push(&c->budget, &c->shelves, (struct shelf){s, p})) {
                part_done(&p);
                return -ENOMEM;
            }
            for (uint32_t n = 0; n < p.n_strips; n++) {
                if (p.strips[n].level == LEVEL_RAW &&
                    !vec_push(&c->budget, &c->series, p.strips[n].series))
                    return -ENOMEM;
            }
        }
    }
    return 0;
}

static int compare_segments(struct comparing *c)
{
    int r = open_shelves(c);

    if (c->series.len > 0)
        qsort(c->series.data, c->series.len, sizeof(uint32_t), by_u32);
    for (size_t i = 0; i < c->series.len && r == 0; i++) {
        if (i == 0 || c->series.data[i] != c->series.data[i - 1])
            r = compare_series(c, c->series.data[i]);
    }
    for (size_t i = 0; i < c->shelves.len; i++)
        part_done(&c->shelves.data[i].part);
    vec_clear(&c->shelves);
    vec_clear(&c->series);
    vec_clear(&c->segments);
    return r;
}

static int by_tenant_and_time(const void *a, const void *b)
{
    const struct segment *x = *(struct segment *const *)a, *y = *(struct segment *const *)b;

    if (x->tenant != y->tenant)
        return x->tenant < y->tenant ? -1 : 1;
    return x->min_ns < y->min_ns ? -1 : x->min_ns > y->min_ns;
}

static int compare_tenant(struct comparing *c, struct segment *const *segments, size_t n)
{
    int64_t end = INT64_MIN;
    struct error err;

    int r = hidden_new(c->v->l->version, segments[0]->tenant, &c->hidden, &err);
    for (size_t i = 0; i < n && r == 0; i++) {
        if (segments[i]->min_ns > end && c->segments.len > 0)
            r = compare_segments(c);
        if (r == 0 && !vec_push(&c->budget, &c->segments, segments[i]))
            r = -ENOMEM;
        end = segments[i]->max_ns > end ? segments[i]->max_ns : end;
    }
    if (r == 0 && c->segments.len > 0)
        r = compare_segments(c);
    hidden_free(c->hidden);
    c->hidden = NULL;
    return r;
}

int verify_rows_once(struct verify *v, verify_twice_fn on_pair, void *arg, struct error *err)
{
    const struct version *version = v->l->version;
    struct comparing c = {.v = v, .on_pair = on_pair, .arg = arg};
    VEC(struct segment *) all = {0};
    int r = 0;

    verify_begin_file(v, NULL);
    budget_init(&c.budget, SIZE_MAX / 2);
    for (size_t i = 0; i < version->segments.len && r == 0; i++) {
        if (version->segments.data[i]->kind == SEGMENT_PROFILES &&
            !vec_push(&c.budget, &all, version->segments.data[i]))
            r = -ENOMEM;
    }
    if (all.len > 0)
        qsort(all.data, all.len, sizeof(struct segment *), by_tenant_and_time);
    for (size_t i = 0, end; i < all.len && r == 0; i = end) {
        for (end = i; end < all.len && all.data[end]->tenant == all.data[i]->tenant;)
            end++;
        r = compare_tenant(&c, all.data + i, end - i);
    }
    vec_done(&c.budget, &all);
    vec_done(&c.budget, &c.segments);
    vec_done(&c.budget, &c.shelves);
    vec_done(&c.budget, &c.series);
    vec_done(&c.budget, &c.cursors);
    return r < 0 ? error_set(err, r, "could not compare segments: no memory") : 0;
}

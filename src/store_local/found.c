#include "store_local/found.h"

#include <errno.h>
#include <string.h>

#include "store_local/rebuild.h"
#include "store_local/walk.h"

#define FIND_MEMORY    ((size_t)64 << 20)
#define REBUILD_MEMORY ((size_t)128 << 20)

struct find {
    const struct store_find *what;
    store_found_fn sink;
    void *ctx;
    struct snapshot *snap;
    struct budget budget;
    struct rebuild rebuild;
    struct side_vecs side;
    size_t n_found;
    int stopped; /* by the sink, or by the limit (1) */
    bool is_at_limit;
};

static struct store_series public_series(const struct series *s)
{
    return (struct store_series){.id = s->id,
                                 .labels = s->labels,
                                 .n_labels = s->n_labels,
                                 .types = s->types,
                                 .n_types = s->n_types,
                                 .period_type = s->period_type,
                                 .is_instant = s->is_instant};
}

/* Whether some side row is of the trace and span that is looked for. */
static bool has_link(struct find *f, struct bytes side, int64_t start_ns, const struct series *s)
{
    const struct store_find *what = f->what;
    struct side_rows rows;

    if (!what->has_trace && !what->has_span)
        return true;
    if (side.len == 0 || (what->has_trace && !side_has_trace(side, what->trace_id)))
        return false;
    if (!what->has_span)
        return true;
    if (side_decode(side, start_ns, s->n_types, &f->budget, &f->side, &rows) < 0)
        return false;
    for (size_t i = 0; i < rows.n; i++) {
        const struct link *link = &rows.rows[i].link;
        if (memcmp(link->span_id, what->span_id, 8) == 0 &&
            (!what->has_trace || memcmp(link->trace_id, what->trace_id, 16) == 0))
            return true;
    }
    return false;
}

static bool has_id(const struct store_find *what, bool row_has_id, const uint8_t id[16])
{
    return !what->has_id || (row_has_id && memcmp(id, what->id, 16) == 0);
}

/* Hands one row to the sink, with its samples when they are wanted. 1: enough. */
static int hand_over(struct find *f, const struct rebuild_row *row, const int64_t *totals,
                     struct error *err)
{
    struct store_series series = public_series(row->series);
    struct store_found found = {.series = &series,
                                .start_ns = row->start_ns,
                                .duration_ns = row->duration_ns,
                                .period = row->period,
                                .has_id = row->id != NULL,
                                .totals = totals};

    if (row->id)
        memcpy(found.id, row->id, sizeof(found.id));
    if (f->what->with_samples) {
        int r = rebuild_profile(&f->rebuild, row, &found.profile, err);
        if (r < 0)
            return r;
    }
    f->stopped = f->sink(f->ctx, &found);
    if (f->stopped != 0)
        return 1;
    f->n_found++;
    f->is_at_limit = f->what->limit > 0 && f->n_found >= f->what->limit;
    return f->is_at_limit;
}

static int view_of(struct find *f, uint64_t epoch, const struct dict **ret, struct error *err)
{
    uint32_t at;
    int r = snapshot_epoch(f->snap, epoch, &at, err);

    if (r < 0)
        return r;
    *ret = &f->snap->epochs.data[at]->view;
    return 0;
}

/* ---- Memory */

static bool is_in_range(const struct find *f, int64_t start_ns)
{
    return start_ns >= f->what->from_ns && start_ns < f->what->to_ns &&
           start_ns >= f->snap->cutoff_ns;
}

static int find_in_list(struct find *f, const struct series *series, const struct row *row,
                        struct error *err)
{
    int r = 0;

    for (; row && r == 0; row = row->older) {
        struct rebuild_row out = {.series = series,
                                  .start_ns = row->start_ns,
                                  .duration_ns = row->duration_ns,
                                  .period = row->period,
                                  .id = row->has_id ? row->id : NULL,
                                  .payload = row->payload,
                                  .side = row->side};
        if (!is_in_range(f, row->start_ns) || !has_id(f->what, row->has_id, row->id) ||
            !has_link(f, row->side, row->start_ns, series))
            continue;
        if (f->what->with_samples)
            r = view_of(f, row->epoch->id, &out.view, err);
        if (r == 0)
            r = hand_over(f, &out, row->totals, err);
    }
    return r;
}

static int find_in_memory(struct find *f, struct error *err)
{
    int r = 0;

    for (size_t i = 0; i < f->snap->series.len && r == 0; i++) {
        const struct snapshot_series *s = &f->snap->series.data[i];
        for (unsigned m = 0; m < SNAPSHOT_MEMTABLES && r == 0; m++)
            r = find_in_list(f, s->series, s->newest[m], err);
    }
    return r;
}

/* ---- Segments */

/* A block while its rows are looked at. */
struct find_block {
    struct find *f;
    const struct series *series;
    const struct part *part;
    const struct strip_block *block;
    struct row_block rows;
    struct block *payloads, *sides; /* NULL: not read */
};

static void find_block_done(struct find_block *b)
{
    row_block_done(&b->rows);
    block_unref(b->payloads);
    block_unref(b->sides);
}

static int find_row(struct find_block *b, uint32_t i, struct error *err)
{
    struct find *f = b->f;
    struct row_block *rows = &b->rows;
    int64_t totals[PROFILE_TYPES_MAX] = {0};
    int r = 0;
    struct rebuild_row out = {.series = b->series,
                              .start_ns = rows->start_ns[i],
                              .duration_ns = rows->duration_ns[i],
                              .period = rows->period[i],
                              .id = rows->has_id[i] ? rows->id[i] : NULL};

    if (!has_id(f->what, rows->has_id[i], rows->id[i]))
        return 0;
    if (b->sides)
        out.side = strip_row_side(rows, b->sides, i);
    if (!has_link(f, out.side, out.start_ns, b->series))
        return 0;
    if (f->what->with_samples && !b->payloads)
        r = strip_payloads(f->snap->local, b->part, b->block, rows, &b->payloads, err);
    if (r == 0 && f->what->with_samples)
        r = view_of(f, b->part->entry->epoch, &out.view, err);
    if (r < 0)
        return r;
    if (b->payloads)
        out.payload = strip_row_payload(rows, b->payloads, i);
    for (uint32_t t = 0; t < rows->n_types && t < PROFILE_TYPES_MAX; t++)
        totals[t] = rows->totals[(size_t)t * rows->n + i];
    return hand_over(f, &out, totals, err);
}

static int find_in_block(struct find_block *b, const struct strip *strip,
                         const struct cover_range *ranges, size_t n_ranges, struct error *err)
{
    struct find *f = b->f;
    struct local *l = f->snap->local;
    bool wants_side = f->what->has_trace || f->what->has_span || f->what->with_samples;
    int r = row_block_read(b->part, strip, b->block, ROWS_ALL, &b->rows, err);

    if (r == 0 && wants_side && b->rows.side_at)
        r = strip_sides(l, b->part, b->block, &b->rows, &b->sides, err);
    for (uint32_t i = 0; r == 0 && i < b->rows.n; i++) {
        int64_t start = b->rows.start_ns[i];
        for (size_t k = 0; k < n_ranges && r == 0; k++) {
            if (start >= ranges[k].from_ns && start < ranges[k].to_ns)
                r = find_row(b, i, err);
        }
    }
    return r;
}

/* A bad block is remembered by the walk; the others are still looked at. */
static int find_in_strip(struct walk *w, const struct part *part, const struct strip *strip,
                         const struct series *series, struct error *err)
{
    struct find *f = w->ctx;
    struct cover_range all = {w->from_ns, w->to_ns};
    size_t n = snapshot_visible(w->snap, series, w->segment, all, w->ranges);
    int bad = 0;

    for (uint32_t i = 0; n > 0 && i < strip->n_blocks; i++) {
        CLEANUP(find_block_done)
        struct find_block b = {
            .f = f, .series = series, .part = part, .block = &part->blocks[strip->first_block + i]};
        if (b.block->max_ns < w->from_ns || b.block->min_ns >= w->to_ns)
            continue;
        struct error why = {{0}};
        int r = find_in_block(&b, strip, w->ranges, n, &why);
        if (r != 0 && (bad == 0 || r > 0) && err)
            *err = why;
        if (r > 0 || r == -ENOBUFS || r == -ENOMEM || r == -ECANCELED)
            return r;
        bad = bad == 0 ? r : bad;
    }
    return bad;
}

static int find_in_part(struct walk *w, const struct segment *segment, const struct part *part,
                        struct error *err)
{
    int bad = 0;

    (void)segment;
    for (uint32_t i = 0; i < part->n_strips; i++) {
        uint32_t at = walk_wanted(w, &part->strips[i]);
        if (at == UINT32_MAX)
            continue;
        struct error why = {{0}};
        int r = find_in_strip(w, part, &part->strips[i], w->snap->series.data[at].series, &why);
        if (r != 0 && (bad == 0 || r > 0) && err)
            *err = why;
        if (r > 0 || r == -ENOBUFS || r == -ENOMEM || r == -ECANCELED)
            return r;
        bad = bad == 0 ? r : bad;
    }
    return bad;
}

static int find_all(struct find *f, struct error *err)
{
    struct walk w = {.snap = f->snap,
                     .from_ns = f->what->from_ns,
                     .to_ns = f->what->to_ns,
                     .cancelled = f->what->cancelled,
                     .trace_id = f->what->has_trace ? f->what->trace_id : NULL,
                     .ctx = f,
                     .each = find_in_part};
    int r = find_in_memory(f, err);

    if (r == 0)
        r = walk_parts(&w, err);
    if (r > 0)
        return f->stopped;
    if (r == 0 && w.is_incomplete)
        return error_set(err, -EBADMSG, "%s", w.trouble.text);
    return r;
}

int local_profiles(struct store *s, const struct store_find *find, store_found_fn sink, void *ctx,
                   struct error *err)
{
    struct snapshot snap = {0};
    struct find f = {.what = find, .sink = sink, .ctx = ctx, .snap = &snap};

    budget_init(&f.budget, FIND_MEMORY);
    int r = snapshot_take(local_of(s), find->tenant, find->selector, &f.budget, &snap, err);
    if (r < 0)
        return r;
    rebuild_init(&f.rebuild, REBUILD_MEMORY);
    r = find_all(&f, err);
    rebuild_done(&f.rebuild);
    side_vecs_done(&f.budget, &f.side);
    snapshot_done(&snap);
    return r;
}

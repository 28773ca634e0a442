#include "store_local/survey.h"

#include <errno.h>

#include "base/bisect.h"
#include "store_local/walk.h"

#define SURVEY_MEMORY ((size_t)64 << 20)

/* What is counted of each series. */
struct survey {
    const struct store_plan *plan; /* NULL: only whether there is something */
    struct store_estimate sum;
    VEC(bool) has; /* by place in the snapshot */
    size_t n_has;
};

static void meet(struct survey *v, uint32_t at)
{
    v->n_has += !v->has.data[at];
    v->has.data[at] = true;
}

static void survey_memory(struct survey *v, const struct snapshot *snap, struct cover_range range)
{
    for (uint32_t i = 0; i < snap->series.len; i++) {
        for (unsigned m = 0; m < SNAPSHOT_MEMTABLES; m++) {
            for (const struct row *row = snap->series.data[i].newest[m]; row; row = row->older) {
                if (row->start_ns < range.from_ns || row->start_ns >= range.to_ns ||
                    row->start_ns < snap->cutoff_ns)
                    continue;
                meet(v, i);
                if (!v->plan)
                    break;
                v->sum.rows++;
                v->sum.samples += row->n_samples;
                v->sum.bytes += row->payload.len;
            }
        }
    }
}

static uint32_t levels_of(const struct part *p, uint32_t series)
{
    uint32_t levels = 0;

    for (uint32_t i = part_series_at(p, series); i < p->n_strips && p->strips[i].series == series;
         i++)
        levels |= 1u << p->strips[i].level;
    return levels & (1u << COVER_MINUTE | 1u << COVER_HOUR | 1u << COVER_DAY);
}

/* Whether a row of a block starts in the range: the ends of a block are starts of rows, so that
 * only a block which goes beyond the range on both sides has to be read. 1, 0, or why it cannot be.
 */
static int block_has(struct walk *w, const struct part *p, const struct strip *s,
                     const struct strip_block *b, struct error *err)
{
    for (size_t i = 0; i < w->n_ranges; i++) {
        struct cover_range r = w->ranges[i];
        if ((b->min_ns >= r.from_ns && b->min_ns < r.to_ns) ||
            (b->max_ns >= r.from_ns && b->max_ns < r.to_ns))
            return 1;
    }
    CLEANUP(row_block_done) struct row_block rows = {0};
    int r = row_block_read(p, s, b, 0, &rows, err);
    for (size_t i = 0; r == 0 && i < w->n_ranges; i++) {
        size_t at = BISECT(rows.n, k, rows.start_ns[k] < w->ranges[i].from_ns);
        if (at < rows.n && rows.start_ns[at] < w->ranges[i].to_ns)
            return 1;
    }
    return r;
}

/* Whether a strip has rows that may be seen in the range. */
static int strip_has(struct walk *w, const struct part *p, const struct strip *s, uint32_t at,
                     struct error *err)
{
    int r = 0;

    w->n_ranges = snapshot_visible(w->snap, w->snap->series.data[at].series, w->segment,
                                   (struct cover_range){w->from_ns, w->to_ns}, w->ranges);
    for (uint32_t i = 0; i < s->n_blocks && r == 0 && w->n_ranges > 0; i++) {
        const struct strip_block *b = &p->blocks[s->first_block + i];
        if (b->max_ns >= w->ranges[0].from_ns && b->min_ns < w->ranges[w->n_ranges - 1].to_ns)
            r = block_has(w, p, s, b, err);
    }
    return r;
}

/* Counts the blocks of a strip that reach into a piece. */
static void count_blocks(struct survey *v, const struct part *p, uint32_t series, uint32_t at,
                         const struct cover_piece *piece)
{
    const struct strip *s = part_strip(p, series, (enum level)piece->level);

    for (uint32_t i = 0; s && i < s->n_blocks; i++) {
        const struct strip_block *b = &p->blocks[s->first_block + i];
        if (b->max_ns < piece->from_ns || b->min_ns >= piece->to_ns)
            continue;
        meet(v, at);
        v->sum.rows += b->n_rows;
        v->sum.samples += b->n_samples;
        v->sum.bytes += b->rows.len + b->payload.len;
    }
}

static void survey_strip(struct walk *w, const struct part *p, const struct strip *raw, uint32_t at)
{
    struct survey *v = w->ctx;
    const struct series *series = w->snap->series.data[at].series;
    bool may_roll_up = !v->plan->raw_only && v->plan->n_attributes == 0;
    struct cover_range all = {w->from_ns, w->to_ns};
    size_t n = snapshot_visible(w->snap, series, w->segment, all, w->ranges);

    for (size_t i = 0; i < n; i++) {
        struct cover_piece pieces[COVER_PIECES_MAX];
        struct cover_ask ask = {.levels = may_roll_up ? levels_of(p, series->id) : 0,
                                .from_ns = w->ranges[i].from_ns,
                                .to_ns = w->ranges[i].to_ns,
                                .step_ns = v->plan->step_ns,
                                .min_ns = raw->min_ns,
                                .max_ns = raw->max_ns};
        size_t n_pieces = cover(&ask, pieces);
        for (size_t k = 0; k < n_pieces; k++)
            count_blocks(v, p, series->id, at, &pieces[k]);
    }
}

static int survey_part(struct walk *w, const struct segment *segment, const struct part *part,
                       struct error *err)
{
    struct survey *v = w->ctx;
    int bad = 0;

    (void)segment;
    for (uint32_t i = 0; i < part->n_strips; i++) {
        const struct strip *s = &part->strips[i];
        uint32_t at = walk_wanted(w, s);
        if (at == UINT32_MAX || (!v->plan && v->has.data[at]))
            continue;
        if (v->plan) {
            survey_strip(w, part, s, at);
            continue;
        }
        int r = strip_has(w, part, s, at, err);
        if (r > 0)
            meet(v, at);
        else if (r < 0)
            bad = r;
    }
    if (bad < 0)
        return bad;
    return !v->plan && v->n_has == w->snap->series.len; /* all are there: enough */
}

/* Fills in `v`; trouble with files is left in *ret_trouble, which is empty when there was none. */
static int survey_all(struct survey *v, struct snapshot *snap, struct cover_range range,
                      struct error *ret_trouble, struct error *err)
{
    struct walk w = {.snap = snap,
                     .from_ns = range.from_ns,
                     .to_ns = range.to_ns,
                     .cancelled = v->plan ? v->plan->cancelled : NULL,
                     .ctx = v,
                     .each = survey_part};

    if (!vec_resize(snap->budget, &v->has, snap->series.len))
        return budget_error(snap->budget, err);
    survey_memory(v, snap, range);
    int r = walk_parts(&w, err);
    *ret_trouble = w.trouble;
    return r < 0 ? r : 0;
}

static int name_series(const struct survey *v, const struct snapshot *snap, store_series_fn sink,
                       void *ctx)
{
    int r = 0;

    for (size_t i = 0; i < snap->series.len && r == 0; i++) {
        const struct series *s = snap->series.data[i].series;
        struct store_series series = {.id = s->id,
                                      .labels = s->labels,
                                      .n_labels = s->n_labels,
                                      .types = s->types,
                                      .n_types = s->n_types,
                                      .period_type = s->period_type,
                                      .is_instant = s->is_instant};
        if (v->has.data[i])
            r = sink(ctx, &series);
    }
    return r;
}

int local_series(struct store *s, const struct store_scope *scope, store_series_fn sink, void *ctx,
                 struct error *err)
{
    struct budget budget;
    struct snapshot snap = {0};
    struct survey v = {0};
    struct error trouble = {{0}};

    budget_init(&budget, SURVEY_MEMORY);
    int r = snapshot_take(local_of(s), scope->tenant, scope->selector, &budget, &snap, err);
    if (r < 0)
        return r;
    r = survey_all(&v, &snap, (struct cover_range){scope->from_ns, scope->to_ns}, &trouble, err);
    if (r == 0)
        r = name_series(&v, &snap, sink, ctx);
    vec_done(&budget, &v.has);
    snapshot_done(&snap);
    if (r == 0 && trouble.text[0])
        r = error_set(err, -EBADMSG, "%s", trouble.text);
    return r;
}

int local_estimate(struct store *s, const struct store_plan *plan, struct store_estimate *ret,
                   struct error *err)
{
    struct budget budget;
    struct snapshot snap = {0};
    struct survey v = {.plan = plan};
    struct error trouble = {{0}};

    budget_init(&budget, SURVEY_MEMORY);
    int r = snapshot_take(local_of(s), plan->tenant, plan->selector, &budget, &snap, err);
    if (r < 0)
        return r;
    r = survey_all(&v, &snap, (struct cover_range){plan->from_ns, plan->to_ns}, &trouble, err);
    v.sum.series = v.n_has;
    vec_done(&budget, &v.has);
    snapshot_done(&snap);
    if (r == 0 && trouble.text[0])
        return error_set(err, -EBADMSG, "%s", trouble.text);
    if (r == 0)
        *ret = v.sum;
    return r;
}

#include "store_local/gather.h"

#include <errno.h>

#include "base/bisect.h"
#include "base/le.h"
#include "base/must.h"
#include "store_local/epoch.h"
#include "store_local/epoch_names.h"
#include "store_local/sums.h"

_Static_assert((int)COVER_FUNCTIONS_DAY == (int)LEVEL_FUNCTIONS_DAY &&
                   (int)COVER_LEVELS == (int)LEVEL_COUNT,
               "covers speak of the levels of parts");

/* By their own times, samples of rows that began this long before the range are still found. */
#define LOOK_BACK_NS (10 * MINUTE_NS)

#define LEVELS_STACKS (1u << LEVEL_RAW | 1u << LEVEL_MINUTE | 1u << LEVEL_HOUR | 1u << LEVEL_DAY)

/* Whether an epoch may know the function that is asked for. */
struct knows {
    uint64_t epoch;
    bool may;
};

struct gather {
    struct ask *a;
    VEC(struct knows) known;
    struct store_answer *answer;
    struct segment *segment;
    struct part *part;       /* NULL until something of it is picked, then a->parts owns it */
    bool is_kept, has_picks; /* samples of it matter */
    uint32_t epoch;
    struct cover_range *ranges;
};

void answer_trouble(struct store_answer *answer, const struct error *why)
{
    if (!answer->is_incomplete)
        answer->trouble = *why;
    answer->is_incomplete = true;
}

static bool is_cancelled(const struct ask *a)
{
    return a->plan->cancelled && atomic_load_explicit(a->plan->cancelled, memory_order_relaxed);
}

static int64_t look_back(int64_t from_ns)
{
    return from_ns < INT64_MIN + LOOK_BACK_NS ? INT64_MIN : from_ns - LOOK_BACK_NS;
}

/* Trouble with one file is told in the answer; what ends the question is returned. */
static int trouble(struct gather *g, int r, const struct error *err)
{
    if (r == -ENOBUFS || r == -ECANCELED || r == -ENOMEM)
        return r;
    answer_trouble(g->answer, err);
    return 0;
}

/*
 * Whether samples of an epoch have to be read. Where it does not know the function that is asked
 * for they come to nothing, and its dictionary stays unread; rows still count. With a filter,
 * samples also say whether there is an answer.
 */
static bool needs_samples(struct gather *g, uint64_t epoch)
{
    struct ask *a = g->a;
    struct local *l = a->snap->local;

    if (!a->wants_picks || a->plan->what != PLAN_FUNCTION || a->has_filter)
        return a->wants_picks;
    for (size_t i = g->known.len; i > 0; i--) {
        if (g->known.data[i - 1].epoch == epoch)
            return g->known.data[i - 1].may;
    }
    pthread_mutex_lock(&l->lock);
    const struct epoch *e = local_epoch(l, epoch);
    bool may = !e || epoch_may_know(l, e, a->plan->function);
    pthread_mutex_unlock(&l->lock);
    (void)vec_push(a->budget, &g->known, (struct knows){epoch, may});
    return may;
}

/* What is asked of one row, wherever it stands. */
struct found_row {
    uint32_t series; /* place in the snapshot */
    int64_t start_ns, duration_ns, period;
    int64_t total, peak; /* of the answer's first type; of its own first one */
    uint64_t n_profiles;
    struct moment_key key; /* where moments are chosen */
    struct pick pick;
    bool has_pick;
};

static struct moment_key moment_key(bool has_id, const uint8_t *id, uint64_t content_hash)
{
    if (!has_id)
        return (struct moment_key){0, content_hash};
    return (struct moment_key){le64_get(id), le64_get(id + 8)};
}

static bool is_higher(struct moment_key a, struct moment_key b)
{
    return a.high != b.high ? a.high > b.high : a.low > b.low;
}

static void count_row(struct ask_cell *c, const struct found_row *row)
{
    c->start_ns = c->n_profiles == 0 || row->start_ns < c->start_ns ? row->start_ns : c->start_ns;
    c->n_profiles += row->n_profiles;
    c->duration_ns = (int64_t)((uint64_t)c->duration_ns + (uint64_t)row->duration_ns);
    c->period = row->period > c->period ? row->period : c->period;
}

/* Adds a pick, or makes the last one longer when it goes on where that one ends. */
static void add_pick(struct ask *a, const struct pick *p)
{
    struct pick *last = a->picks.len > 0 ? &vec_last(&a->picks) : NULL;

    if (p->len == 0)
        return;
    if (last && p->part && last->part == p->part && last->block == p->block &&
        last->kind == p->kind && last->bin == p->bin && last->series == p->series &&
        p->kind <= PICK_FUNCTIONS && last->offset + last->len == p->offset) {
        last->len += p->len;
        last->n_samples += p->n_samples;
        return;
    }
    (void)vec_push(a->budget, &a->picks, *p);
}

static void add_value(int64_t *to, int64_t value)
{
    *to = (int64_t)((uint64_t)*to + (uint64_t)value);
}

/* Whether rows themselves know what they add to a number. */
static bool counts_totals(const struct ask *a)
{
    return a->plan->what == PLAN_TOTALS && !a->has_filter;
}

static bool chooses_moments(const struct ask *a, const struct series *series)
{
    return series->is_instant &&
           (a->plan->instant == INSTANT_LAST || a->plan->instant == INSTANT_PEAK);
}

static bool is_better(const struct ask *a, const struct ask_moment *m, const struct found_row *row)
{
    bool later = row->start_ns > m->start_ns, higher = row->peak > m->peak;

    if (row->start_ns == m->start_ns && row->peak == m->peak)
        return is_higher(row->key, m->key);
    return a->plan->instant == INSTANT_LAST ? later || (row->start_ns == m->start_ns && higher)
                                            : higher || (row->peak == m->peak && later);
}

/* The last moment, or the highest, of an instant series in a step. Which one of equals must not
 * depend on where they are stored. */
static void choose_moment(struct ask *a, struct ask_moment *m, const struct found_row *row)
{
    if (m->has && !is_better(a, m, row))
        return;
    m->has = true;
    m->start_ns = row->start_ns;
    m->total = row->total;
    m->peak = row->peak;
    m->duration_ns = row->duration_ns;
    m->period = row->period;
    m->key = row->key;
    m->pick = row->pick;
    m->pick.bin = m->cell;
    if (!row->has_pick)
        m->pick.len = 0;
}

static void add_instant(struct ask *a, struct found_row *row, uint32_t step)
{
    uint32_t at = ask_moment(a, row->series, step);

    if (at == ASK_NONE)
        return;
    struct ask_moment *m = &a->moments.data[at];
    if (a->plan->instant != INSTANT_AVERAGE) {
        choose_moment(a, m, row);
        return;
    }
    m->has = true;
    m->n += row->n_profiles;
    if (counts_totals(a))
        add_value(&m->value, row->total);
    count_row(&a->cells.data[m->cell], row);
    if (row->has_pick) {
        row->pick.bin = ASK_AVERAGED | at;
        add_pick(a, &row->pick);
    }
}

static void add_row(struct ask *a, struct found_row *row)
{
    bool is_instant = a->snap->series.data[row->series].series->is_instant;
    uint32_t step = ask_step(a, row->start_ns);

    if (is_instant && a->plan->instant != INSTANT_SUM) {
        /* A moment is one: its samples have no times of their own. */
        if (a->reads_times)
            row->has_pick = false;
        if (row->pick.kind != PICK_SIDE_LATE)
            add_instant(a, row, step);
        return;
    }
    uint32_t cell = ask_cell(a, a->series.data[row->series].group, step);
    if (cell == ASK_NONE)
        return;
    if (row->pick.kind != PICK_SIDE_LATE) {
        count_row(&a->cells.data[cell], row);
        if (counts_totals(a))
            add_value(&a->cells.data[cell].value, row->total);
    }
    if (row->has_pick) {
        row->pick.bin = cell;
        add_pick(a, &row->pick);
    }
}

/* ---- Memory */

/* What a row in memory says; false when there is nothing in it to count. */
static bool memory_row(const struct ask *a, uint32_t series, const struct row *row,
                       struct found_row *ret)
{
    const struct ask_series *s = &a->series.data[series];
    bool sides = a->reads_sides || a->reads_times, is_late = row->start_ns < a->from_ns;
    struct bytes data = sides ? row->side : row->payload;

    *ret = (struct found_row){
        .series = series,
        .start_ns = row->start_ns,
        .duration_ns = row->duration_ns,
        .period = row->period,
        .total = s->first == SUMS_SKIP ? 0 : row->totals[s->first],
        .peak = s->own == SUMS_SKIP ? 0 : row->totals[s->own],
        .n_profiles = 1,
        .key = moment_key(row->has_id, row->id, row->content_hash),
        .has_pick = a->wants_picks && data.len > 0 && data.len <= UINT32_MAX,
        .pick = {.series = series,
                 .n_samples = row->n_samples,
                 .len = (uint32_t)data.len,
                 .start_ns = row->start_ns,
                 .data = data.data,
                 .kind = PICK_STACKS},
    };
    if (sides)
        ret->pick.kind = is_late ? PICK_SIDE_LATE : PICK_SIDE;
    return ret->has_pick || !(is_late || a->reads_sides);
}

static int gather_list(struct gather *g, uint32_t series, const struct row *row, struct error *err)
{
    struct ask *a = g->a;
    int64_t from = a->reads_times ? look_back(a->from_ns) : a->from_ns;
    int r = 0;

    if (from < a->snap->cutoff_ns)
        from = a->snap->cutoff_ns;
    for (; row && r == 0; row = row->older) {
        struct found_row f;

        if (row->start_ns < from || row->start_ns >= a->to_ns || !memory_row(a, series, row, &f))
            continue;
        f.has_pick = f.has_pick && needs_samples(g, row->epoch->id);
        if (f.has_pick)
            r = snapshot_epoch(a->snap, row->epoch->id, &f.pick.epoch, err);
        if (r < 0)
            return r;
        g->answer->rows_read++;
        add_row(a, &f);
        if (budget_failed(a->budget))
            r = budget_error(a->budget, err);
    }
    return r;
}

static int gather_memory(struct gather *g, struct error *err)
{
    const struct snapshot *snap = g->a->snap;

    for (uint32_t i = 0; i < snap->series.len; i++) {
        for (unsigned m = 0; m < SNAPSHOT_MEMTABLES; m++) {
            int r = gather_list(g, i, snap->series.data[i].newest[m], err);
            if (r < 0)
                r = trouble(g, r, err);
            if (r < 0)
                return r;
        }
    }
    return 0;
}

/* ---- Segments */

/* The rows of a strip that are wanted, and for which series they count. */
struct strip_ask {
    const struct strip *strip;
    uint32_t series; /* place in the snapshot; of a group: of any of its members */
    int64_t from_ns, to_ns;
};

/* Picks point into the part: it now lives as long as they do. */
static bool keep_part(struct gather *g)
{
    if (!g->is_kept && vec_push(g->a->budget, &g->a->parts, g->part))
        g->is_kept = true;
    return g->is_kept;
}

static int64_t row_total(const struct row_block *rows, uint8_t type, uint32_t i)
{
    return type < rows->n_types ? rows->totals[(size_t)type * rows->n + i] : 0;
}

static void read_row(struct gather *g, const struct strip_ask *s, const struct strip_block *b,
                     const struct row_block *rows, uint32_t i)
{
    struct ask *a = g->a;
    bool sides = a->reads_sides || a->reads_times;
    bool is_late = a->reads_times && rows->start_ns[i] < a->from_ns;
    const uint32_t *at = sides ? rows->side_at : rows->payload_at;
    const struct ask_series *series = &a->series.data[s->series];
    enum pick_kind kind = level_is_functions(s->strip->level) ? PICK_FUNCTIONS : PICK_STACKS;

    if (sides)
        kind = is_late ? PICK_SIDE_LATE : PICK_SIDE;
    struct found_row f = {
        .series = s->series,
        .start_ns = rows->start_ns[i],
        .duration_ns = rows->duration_ns[i],
        .period = rows->period[i],
        .total = row_total(rows, series->first, i),
        .peak = row_total(rows, series->own, i),
        .n_profiles = rows->n_profiles[i],
        .has_pick = g->has_picks && at && at[i + 1] > at[i],
        .pick = {.epoch = g->epoch,
                 .series = s->series,
                 .n_samples = rows->n_samples[i],
                 .start_ns = rows->start_ns[i],
                 .part = g->part,
                 .block = b,
                 .kind = kind},
    };
    if ((is_late || a->reads_sides) && !f.has_pick)
        return;
    if (rows->has_id)
        f.key = moment_key(rows->has_id[i], rows->id[i], rows->content_hash[i]);
    if (f.has_pick) {
        f.pick.offset = at[i];
        f.pick.len = at[i + 1] - at[i];
    }
    /* Buckets may begin before the range where nothing else is in them. */
    if (!is_late && f.start_ns < a->from_ns)
        f.start_ns = a->from_ns;
    if (s->strip->level == LEVEL_RAW)
        g->answer->rows_read++;
    else
        g->answer->rollup_rows_read++;
    add_row(a, &f);
}

static int gather_block(struct gather *g, const struct strip_ask *s, const struct strip_block *b,
                        struct error *err)
{
    struct ask *a = g->a;
    CLEANUP(row_block_done) struct row_block rows = {0};
    unsigned columns = ROWS_TOTALS | ROWS_WINDOW;

    if (chooses_moments(a, a->snap->series.data[s->series].series))
        columns |= ROWS_IDS;
    int r = row_block_read(g->part, s->strip, b, columns, &rows, err);
    if (r < 0)
        return r;
    g->answer->blocks_read++;
    size_t from = BISECT(rows.n, i, rows.start_ns[i] < s->from_ns);
    size_t to = BISECT(rows.n, i, rows.start_ns[i] < s->to_ns);
    for (size_t i = from; i < to; i++)
        read_row(g, s, b, &rows, (uint32_t)i);
    return budget_failed(a->budget) ? budget_error(a->budget, err) : 0;
}

static int gather_strip(struct gather *g, const struct strip_ask *s, struct error *err)
{
    const struct strip_block *blocks = g->part->blocks + s->strip->first_block;

    if (g->has_picks && !keep_part(g))
        return budget_error(g->a->budget, err);
    for (uint32_t i = 0; i < s->strip->n_blocks; i++) {
        const struct strip_block *b = &blocks[i];
        if (b->max_ns < s->from_ns || b->min_ns >= s->to_ns)
            continue;
        if (is_cancelled(g->a))
            return error_set(err, -ECANCELED, "the query was cancelled");
        int r = gather_block(g, s, b, err);
        if (r < 0)
            r = trouble(g, r, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static uint32_t levels_of(const struct part *p, uint32_t series)
{
    uint32_t levels = 0;

    for (uint32_t i = part_series_at(p, series); i < p->n_strips && p->strips[i].series == series;
         i++)
        levels |= 1u << p->strips[i].level;
    return levels;
}

/* The levels that can stand for the rows of this series: none where moments are chosen. */
static uint32_t levels_for(const struct ask *a, const struct series *series)
{
    return chooses_moments(a, series) ? 0 : a->levels;
}

/* One series in one range, by its own levels. */
static int gather_range(struct gather *g, const struct strip *raw, uint32_t at,
                        struct cover_range range, struct error *err)
{
    const struct series *series = g->a->snap->series.data[at].series;
    struct cover_piece pieces[COVER_PIECES_MAX];
    struct cover_ask ask = {
        .levels = levels_for(g->a, series) & levels_of(g->part, series->id),
        .from_ns = range.from_ns,
        .to_ns = range.to_ns,
        .step_ns = g->a->plan->step_ns,
        .min_ns = raw->min_ns,
        .max_ns = raw->max_ns,
    };
    size_t n = cover(&ask, pieces);
    int r = 0;

    for (size_t i = 0; i < n && r == 0; i++) {
        struct strip_ask s = {
            .strip = part_strip(g->part, series->id, (enum level)pieces[i].level),
            .series = at,
            .from_ns = pieces[i].from_ns,
            .to_ns = pieces[i].to_ns,
        };
        if (s.strip)
            r = gather_strip(g, &s, err);
    }
    return r;
}

static int gather_series(struct gather *g, const struct strip *raw, uint32_t at, struct error *err)
{
    struct ask *a = g->a;
    struct cover_range range = {a->from_ns, a->to_ns};

    if (a->reads_times)
        range.from_ns = look_back(a->from_ns);
    size_t n =
        snapshot_visible(a->snap, a->snap->series.data[at].series, g->segment, range, g->ranges);
    int r = 0;
    for (size_t i = 0; i < n && r == 0; i++)
        r = gather_range(g, raw, at, g->ranges[i], err);
    return r;
}

/* ---- Groups: one strip in place of many, where the question does not tell them apart */

struct group_use {
    uint32_t group, present, matched; /* series of it in the part, and those that are asked for */
    uint32_t member;                  /* place in the snapshot of one of them */
    int64_t min_ns, max_ns;
    bool is_split; /* asked for in several groups of the answer, or partly hidden */
};

#define GROUPS_MAX 32 /* per part; the series of further ones are read singly */

struct group_uses {
    struct group_use uses[GROUPS_MAX];
    size_t n;
};

static struct group_use *group_use_of(struct group_uses *u, uint32_t group)
{
    for (size_t i = 0; i < u->n; i++) {
        if (u->uses[i].group == group)
            return &u->uses[i];
    }
    if (u->n == GROUPS_MAX)
        return NULL;
    u->uses[u->n] = (struct group_use){.group = group, .min_ns = INT64_MAX, .max_ns = INT64_MIN};
    return &u->uses[u->n++];
}

/* The place of a strip's series in the snapshot + 1, or 0. */
static uint32_t wanted_at(const struct snapshot *snap, uint32_t series)
{
    return series < snap->index.len ? snap->index.data[series] : 0;
}

static void count_member(struct gather *g, const struct strip *raw, struct group_uses *u)
{
    struct ask *a = g->a;
    const struct snapshot *snap = a->snap;

    if (raw->series == 0 || raw->series > snap->n_all)
        return;
    const struct series *series = snap->all[raw->series - 1];
    struct group_use *use = series->group ? group_use_of(u, series->group) : NULL;
    uint32_t at = wanted_at(snap, raw->series);
    if (!use)
        return;
    use->present++;
    if (at == 0)
        return;
    if (use->matched > 0 && a->series.data[use->member].group != a->series.data[at - 1].group)
        use->is_split = true;
    if (snapshot_has_holes(snap, series, g->segment))
        use->is_split = true;
    use->matched++;
    use->member = at - 1;
    use->min_ns = raw->min_ns < use->min_ns ? raw->min_ns : use->min_ns;
    use->max_ns = raw->max_ns > use->max_ns ? raw->max_ns : use->max_ns;
}

/* Finds which groups can be read as one. */
static void find_groups(struct gather *g, struct group_uses *u)
{
    const struct part *p = g->part;

    u->n = 0;
    if (g->a->levels == 0)
        return;
    for (uint32_t i = 0; i < p->n_strips; i++) {
        if (p->strips[i].level == LEVEL_RAW)
            count_member(g, &p->strips[i], u);
    }
    size_t kept = 0;
    for (size_t i = 0; i < u->n; i++) {
        const struct group_use *use = &u->uses[i];
        bool pays = use->matched > 1 || (g->a->levels & levels_of(p, use->group) & ~LEVELS_STACKS);
        if (use->matched == use->present && !use->is_split && pays &&
            (levels_of(p, use->group) & g->a->levels) != 0)
            u->uses[kept++] = *use;
    }
    u->n = kept;
}

static bool is_grouped(const struct gather *g, const struct group_uses *u, uint32_t series)
{
    uint32_t group = g->a->snap->all[series - 1]->group;

    for (size_t i = 0; i < u->n; i++) {
        if (u->uses[i].group == group)
            return true;
    }
    return false;
}

/* The rows of all members in a piece that the group's own strips do not cover. */
static int gather_members(struct gather *g, uint32_t group, struct cover_range range,
                          struct error *err)
{
    const struct part *p = g->part;
    int r = 0;

    for (uint32_t i = 0; i < p->n_strips && r == 0; i++) {
        const struct strip *raw = &p->strips[i];
        uint32_t at = wanted_at(g->a->snap, raw->series);
        if (raw->level == LEVEL_RAW && at != 0 &&
            g->a->snap->series.data[at - 1].series->group == group)
            r = gather_range(g, raw, at - 1, range, err);
    }
    return r;
}

static int gather_group(struct gather *g, const struct group_use *use, struct error *err)
{
    struct ask *a = g->a;
    struct cover_piece pieces[COVER_PIECES_MAX];
    struct cover_ask ask = {
        .levels = a->levels & levels_of(g->part, use->group),
        .from_ns = a->from_ns,
        .to_ns = a->to_ns,
        .step_ns = a->plan->step_ns,
        .min_ns = use->min_ns,
        .max_ns = use->max_ns,
    };
    size_t n = cover(&ask, pieces);
    int r = 0;

    for (size_t i = 0; i < n && r == 0; i++) {
        const struct cover_piece *p = &pieces[i];
        struct strip_ask s = {
            .strip = part_strip(g->part, use->group, (enum level)p->level),
            .series = use->member,
            .from_ns = p->from_ns,
            .to_ns = p->to_ns,
        };
        r = p->level == COVER_RAW || !s.strip
                ? gather_members(g, use->group, (struct cover_range){p->from_ns, p->to_ns}, err)
                : gather_strip(g, &s, err);
    }
    return r;
}

static bool wants_part(const struct gather *g)
{
    const struct part *p = g->part;

    for (uint32_t i = 0; i < p->n_strips; i++) {
        if (p->strips[i].level == LEVEL_RAW && wanted_at(g->a->snap, p->strips[i].series) != 0)
            return true;
    }
    return false;
}

static int gather_part(struct gather *g, struct error *err)
{
    const struct part *p = g->part;
    struct group_uses groups;
    int r = 0;

    if (!wants_part(g))
        return 0;
    g->has_picks = needs_samples(g, p->entry->epoch);
    if (g->has_picks)
        r = snapshot_epoch(g->a->snap, p->entry->epoch, &g->epoch, err);
    if (r < 0)
        return r;
    find_groups(g, &groups);
    for (size_t i = 0; i < groups.n && r == 0; i++)
        r = gather_group(g, &groups.uses[i], err);
    for (uint32_t i = 0; i < p->n_strips && r == 0; i++) {
        const struct strip *raw = &p->strips[i];
        uint32_t at = wanted_at(g->a->snap, raw->series);
        if (raw->level == LEVEL_RAW && at != 0 && !is_grouped(g, &groups, raw->series))
            r = gather_series(g, raw, at - 1, err);
    }
    return r;
}

static int open_part(struct gather *g, struct segment_file *f, uint32_t i, struct error *err)
{
    g->part = must_calloc(1, sizeof(*g->part));
    g->is_kept = false;
    int r = part_open(g->a->snap->local, f, i, g->part, err);
    if (r == 0)
        r = gather_part(g, err);
    if (!g->is_kept) {
        part_done(g->part);
        free(g->part);
    }
    g->part = NULL;
    return r;
}

static int gather_segment(struct gather *g, struct error *err)
{
    struct ask *a = g->a;
    struct local *l = a->snap->local;
    int64_t from = a->reads_times ? look_back(a->from_ns) : a->from_ns;
    struct segment_file *f = NULL;
    int r = segment_file_get(l, g->segment, &f, err);

    if (r == 0 && a->plan->has_trace) {
        r = segment_has_trace(l, f, a->plan->trace_id, err);
        if (r == 0)
            return 0;
    }
    if (r < 0)
        return r;
    for (uint32_t i = 0; i < f->n_parts; i++) {
        if (f->parts[i].max_ns < from || f->parts[i].min_ns >= a->to_ns ||
            !snapshot_wants_epoch(a->snap, f->parts[i].epoch))
            continue;
        r = open_part(g, f, i, err);
        if (r < 0)
            r = trouble(g, r, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int gather_segments(struct gather *g, struct error *err)
{
    struct ask *a = g->a;
    const struct version *v = a->snap->version;
    int64_t from = a->reads_times ? look_back(a->from_ns) : a->from_ns;
    int r = 0;

    for (size_t i = 0; i < v->segments.len && r >= 0; i++) {
        g->segment = v->segments.data[i];
        if (g->segment->max_ns < from || g->segment->min_ns >= a->to_ns ||
            !snapshot_wants_segment(a->snap, g->segment))
            continue;
        r = gather_segment(g, err);
        if (r < 0)
            r = trouble(g, r, err);
    }
    return r;
}

/* The moments that were chosen become rows like others. */
static void settle_moments(struct ask *a)
{
    if (a->plan->instant != INSTANT_LAST && a->plan->instant != INSTANT_PEAK)
        return;
    for (size_t i = 0; i < a->moments.len; i++) {
        const struct ask_moment *m = &a->moments.data[i];
        if (!m->has)
            continue;
        struct found_row row = {.start_ns = m->start_ns,
                                .duration_ns = m->duration_ns,
                                .period = m->period,
                                .n_profiles = 1};
        struct ask_cell *c = &a->cells.data[m->cell];
        count_row(c, &row);
        if (counts_totals(a))
            add_value(&c->value, m->total);
        add_pick(a, &m->pick);
    }
}

int gather(struct ask *a, struct store_answer *answer, struct error *err)
{
    struct gather g = {.a = a, .answer = answer};

    if (a->snap->tenant == 0 || a->from_ns >= a->to_ns || a->series.len == 0)
        return 0;
    g.ranges = arena_new(&a->arena, struct cover_range, snapshot_ranges_max(a->snap));
    int r = g.ranges ? gather_memory(&g, err) : budget_error(a->budget, err);
    if (r == 0)
        r = gather_segments(&g, err);
    vec_done(a->budget, &g.known);
    if (r < 0)
        return r;
    settle_moments(a);
    return budget_failed(a->budget) ? budget_error(a->budget, err) : 0;
}

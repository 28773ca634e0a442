#include "store_local/scan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "base/pool.h"
#include "segment/varint.h"
#include "store_local/fold.h"
#include "store_local/gather.h"
#include "store_local/side.h"

/* A thread is worth waking for this many samples. */
#define SAMPLES_PER_THREAD 200000

/* What is known of an epoch before threads start. */
struct scan_epoch {
    const struct dict *view;
    uint8_t *attrs_pass;    /* per attribute set; NULL: all do */
    uint64_t *flat, *cum;   /* per node: is the function asked for its leaf, is it in it */
    uint64_t *name;         /* per string: is it the function's name */
    bool has_flat, has_cum; /* any such node */
};

/* ---- Filters, per epoch */

static struct bytes attribute_value(const struct dict *d, const struct attribute *at, char text[32])
{
    switch (at->kind) {
    case ATTRIBUTE_INT:
        return (struct bytes){(uint8_t *)text,
                              (size_t)snprintf(text, 32, "%lld", (long long)at->number)};
    case ATTRIBUTE_BOOL:
        return bytes_of(at->number ? "true" : "false");
    default:
        return dict_text(d, at->text);
    }
}

static bool set_passes(const struct dict *d, struct attrs set, const struct matcher *m)
{
    struct bytes value = {0};
    char text[32];

    for (uint32_t i = 0; i < set.n; i++) {
        const struct attribute *at = &d->attributes.data[d->attr_ids.data[set.first + i]];
        if (bytes_equal(dict_text(d, at->key), m->name)) {
            value = attribute_value(d, at, text);
            break;
        }
    }
    struct label label = {m->name, value};
    struct matcher copy = *m;
    struct selector one = {.matchers = &copy, .n_matchers = 1};
    return selector_matches(&one, &label, value.len > 0 ? 1 : 0);
}

static bool pass_attributes(struct ask *a, struct scan_epoch *e)
{
    const struct dict *d = e->view;

    e->attrs_pass = arena_new(&a->arena, uint8_t, d->attr_sets.len);
    if (!e->attrs_pass)
        return false;
    for (size_t i = 0; i < d->attr_sets.len; i++) {
        bool passes = true;
        for (size_t m = 0; m < a->plan->n_attributes && passes; m++)
            passes = set_passes(d, d->attr_sets.data[i], &a->plan->attributes[m]);
        e->attrs_pass[i] = passes;
    }
    return true;
}

/* A view has no index of its strings. */
static uint32_t find_string(const struct dict *d, struct bytes text)
{
    for (uint32_t i = 1; i < d->strings.len; i++) {
        if (d->strings.data[i].len == text.len && bytes_equal(dict_text(d, i), text))
            return i;
    }
    return 0;
}

static bool find_function(struct ask *a, struct scan_epoch *e)
{
    const struct dict *d = e->view;
    size_t n_nodes = dict_n_nodes(d) / 64 + 1, n_strings = d->strings.len / 64 + 1;
    uint32_t name = find_string(d, a->plan->function);

    e->flat = arena_new(&a->arena, uint64_t, n_nodes);
    e->cum = arena_new(&a->arena, uint64_t, n_nodes);
    e->name = arena_new(&a->arena, uint64_t, n_strings);
    if (!e->flat || !e->cum || !e->name)
        return false;
    if (name == 0 && a->plan->function.len > 0)
        return true;
    fold_find(d, name, e->flat, e->cum);
    for (size_t i = 0; i < n_nodes; i++) {
        e->has_flat |= e->flat[i] != 0;
        e->has_cum |= e->cum[i] != 0;
    }
    e->name[name / 64] |= (uint64_t)1 << (name % 64);
    return true;
}

static int prepare_epochs(struct scan *s, struct error *err)
{
    struct ask *a = s->a;

    s->epochs = arena_new(&a->arena, struct scan_epoch, a->snap->epochs.len);
    if (!s->epochs)
        return budget_error(a->budget, err);
    for (size_t i = 0; i < a->snap->epochs.len; i++) {
        struct scan_epoch *e = &s->epochs[i];
        e->view = &a->snap->epochs.data[i]->view;
        if ((a->plan->n_attributes > 0 && !pass_attributes(a, e)) ||
            (a->plan->what == PLAN_FUNCTION && !find_function(a, e)))
            return budget_error(a->budget, err);
    }
    return 0;
}

/* ---- One thread */

struct worker {
    struct scan *s;
    struct scan_share *share;
    uint32_t epoch; /* that the sums are of, or ASK_NONE */
    struct sums stacks, functions;
    struct fold fold;
    bool has_sums;
    const struct strip_block *at; /* of `block` */
    bool at_side;
    struct block *block;
    struct side_vecs side;
    struct run run;
};

static void worker_trouble(struct worker *w, const struct error *err)
{
    if (!w->share->is_incomplete)
        w->share->trouble = *err;
    w->share->is_incomplete = true;
}

/* The bytes of a pick; blocks stay at hand, since neighbours stand in one. */
static int pick_bytes(struct worker *w, const struct pick *p, struct bytes *ret, struct error *err)
{
    if (!p->part) {
        *ret = (struct bytes){p->data, p->len};
        return 0;
    }
    bool is_side = p->kind == PICK_SIDE || p->kind == PICK_SIDE_LATE;
    if (w->at != p->block || w->at_side != is_side) {
        struct block *block = NULL;
        int r = block_file_read(p->part->file->file, is_side ? p->block->side : p->block->payload,
                                w->s->a->snap->local->cache, &block, err);
        if (r < 0)
            return r;
        block_unref(w->block);
        w->block = block;
        w->at = p->block;
        w->at_side = is_side;
        w->share->blocks_read++;
    }
    if ((uint64_t)p->offset + p->len > w->block->len)
        return error_set(err, -EBADMSG, "rows point past the end of their samples in segment %llu",
                         (unsigned long long)block_file_id(p->part->file->file));
    *ret = (struct bytes){w->block->data + p->offset, p->len};
    return 0;
}

static struct scan_number *number_of(struct worker *w, uint32_t bin)
{
    return bin & ASK_AVERAGED ? &w->share->moments[bin & ~ASK_AVERAGED] : &w->share->cells[bin];
}

static void add_number(int64_t *to, int64_t value)
{
    *to = (int64_t)((uint64_t)*to + (uint64_t)value);
}

/* Where columns of a run go when flat and cumulative values of functions are made. */
static void function_columns(const struct run *run, uint8_t first, uint8_t to[RUN_COLS_MAX])
{
    memset(to, SUMS_SKIP, RUN_COLS_MAX);
    if (first < run->n_cols / 2) {
        to[first] = 0;
        to[run->n_cols / 2 + first] = 1;
    }
}

static bool run_to_number(struct worker *w, const struct pick *p, uint8_t first)
{
    const struct scan_epoch *e = &w->s->epochs[p->epoch];
    struct scan_number *n = number_of(w, p->bin);
    const struct run *run = &w->run;
    int64_t flat = 0, cum = 0;
    bool ok = true;

    n->has_samples = true;
    if (first >= run->n_cols)
        return true;
    if (w->s->a->plan->what == PLAN_TOTALS) {
        add_number(&n->value, run_sum(run, first));
        return true;
    }
    if (p->kind == PICK_FUNCTIONS) {
        unsigned half = run->n_cols / 2;
        ok = first < half && run_sum_masked(run, first, e->name, e->view->strings.len, &flat) &&
             run_sum_masked(run, half + first, e->name, e->view->strings.len, &cum);
    } else {
        size_t n_nodes = dict_n_nodes(e->view);
        ok = (!e->has_flat || run_sum_masked(run, first, e->flat, n_nodes, &flat)) &&
             (!e->has_cum || run_sum_masked(run, first, e->cum, n_nodes, &cum));
    }
    add_number(&n->flat, flat);
    add_number(&n->value, cum);
    return ok;
}

static bool run_to_sums(struct worker *w, const struct pick *p, const struct ask_series *series)
{
    uint8_t to[RUN_COLS_MAX];

    if (w->s->a->plan->what == PLAN_STACKS)
        return sums_add_run(&w->stacks, &w->run, series->to, sizeof(series->to));
    if (p->kind == PICK_FUNCTIONS) {
        function_columns(&w->run, series->first, to);
        return sums_add_run(&w->functions, &w->run, to, sizeof(to));
    }
    memset(to, SUMS_SKIP, sizeof(to));
    if (series->first < PROFILE_TYPES_MAX)
        to[series->first] = 0;
    return sums_add_run(&w->stacks, &w->run, to, sizeof(to));
}

static bool attrs_pass(const struct scan_epoch *e, uint64_t attrs)
{
    return !e->attrs_pass || (attrs < e->view->attr_sets.len && e->attrs_pass[attrs]);
}

static bool scan_runs(struct worker *w, const struct pick *p, struct bytes in)
{
    const struct ask_series *series = &w->s->a->series.data[p->series];
    const struct scan_epoch *e = &w->s->epochs[p->epoch];
    bool to_sums = w->has_sums;

    while (in.len > 0) {
        uint64_t attrs;
        if (!take_varint(&in, &attrs) || run_open(&in, &w->run) < 0)
            return false;
        if (!attrs_pass(e, attrs))
            continue;
        w->share->samples_read += w->run.n;
        if (!(to_sums ? run_to_sums(w, p, series) : run_to_number(w, p, series->first)))
            return false;
    }
    return true;
}

/* ---- Side rows */

static bool side_passes(const struct worker *w, const struct scan_epoch *e,
                        const struct side_row *row)
{
    const struct store_plan *plan = w->s->a->plan;

    return (!plan->has_trace || memcmp(row->link.trace_id, plan->trace_id, 16) == 0) &&
           (!plan->has_span || memcmp(row->link.span_id, plan->span_id, 8) == 0) &&
           attrs_pass(e, row->attrs);
}

static bool has_bit(const uint64_t *bits, uint32_t i)
{
    return bits[i / 64] >> (i % 64) & 1;
}

static bool side_to_number(struct worker *w, const struct pick *p, const struct side_row *row,
                           int64_t value)
{
    const struct scan_epoch *e = &w->s->epochs[p->epoch];
    struct scan_number *n = number_of(w, p->bin);

    n->has_samples = true;
    if (w->s->a->plan->what == PLAN_TOTALS) {
        add_number(&n->value, value);
        return true;
    }
    if (row->node >= dict_n_nodes(e->view))
        return false;
    if (has_bit(e->flat, row->node))
        add_number(&n->flat, value);
    if (has_bit(e->cum, row->node))
        add_number(&n->value, value);
    return true;
}

static bool side_to_sums(struct worker *w, const struct pick *p, const struct side_rows *rows,
                         size_t i)
{
    const struct ask_series *series = &w->s->a->series.data[p->series];
    bool of_functions = w->s->a->plan->what == PLAN_FUNCTIONS;
    bool ok = true;

    for (unsigned t = 0; t < rows->n_values && t < PROFILE_TYPES_MAX && ok; t++) {
        uint8_t to = of_functions ? (t == series->first ? 0 : SUMS_SKIP) : series->to[t];
        if (to != SUMS_SKIP)
            ok = sums_add(&w->stacks, rows->rows[i].node, to, rows->values[t * rows->n + i]);
    }
    return ok;
}

/* Moves a value from its row's step to the step of its own time. */
static void move_in_time(struct worker *w, const struct pick *p, uint64_t time_ns, int64_t value)
{
    const struct ask *a = w->s->a;

    if (time_ns == 0 || time_ns > INT64_MAX)
        return;
    int64_t t = (int64_t)time_ns;
    if (p->kind == PICK_SIDE)
        add_number(&number_of(w, p->bin)->value, (int64_t)(0 - (uint64_t)value));
    if (t < a->from_ns || t >= a->to_ns)
        return;
    struct scan_number *to =
        number_of(w, a->groups.data[a->series.data[p->series].group].cells + ask_step(a, t));
    add_number(&to->value, value);
    to->has_samples = true;
}

static bool scan_side(struct worker *w, const struct pick *p, struct bytes in, struct error *err)
{
    const struct ask *a = w->s->a;
    const struct series *series = a->snap->series.data[p->series].series;
    uint8_t first = a->series.data[p->series].first;
    struct side_rows rows;
    bool ok = true;

    if (side_decode(in, p->start_ns, series->n_types, &w->share->budget, &w->side, &rows) < 0) {
        error_set(err, -EBADMSG, "links and times of a profile are damaged");
        return false;
    }
    for (size_t i = 0; i < rows.n && ok; i++) {
        int64_t value = first < rows.n_values ? rows.values[(size_t)first * rows.n + i] : 0;
        if (a->reads_times) {
            move_in_time(w, p, rows.rows[i].time_ns, value);
            continue;
        }
        if (!side_passes(w, &w->s->epochs[p->epoch], &rows.rows[i]))
            continue;
        w->share->samples_read++;
        ok =
            w->has_sums ? side_to_sums(w, p, &rows, i) : side_to_number(w, p, &rows.rows[i], value);
    }
    if (!ok)
        error_set(err, -EBADMSG, "links and times of a profile name unknown stacks");
    return ok;
}

/* ---- From picks to partials */

static bool take_partial(struct worker *w, uint32_t bin)
{
    struct scan_share *share = w->share;
    struct partial p = {.bin = bin, .epoch = w->epoch};

    if (!sums_take(&w->stacks, &p.taken))
        return false;
    if (w->s->a->plan->what == PLAN_FUNCTIONS) {
        fold_stacks(&w->fold, &p.taken, 0, &w->functions);
        sums_taken_done(&share->budget, &p.taken);
        if (!sums_take(&w->functions, &p.taken))
            return false;
    }
    if (p.taken.n > 0 && vec_push(&share->budget, &share->partials, p))
        return true;
    sums_taken_done(&share->budget, &p.taken);
    return !budget_failed(&share->budget);
}

static void drop_sums(struct worker *w)
{
    sums_done(&w->stacks);
    sums_done(&w->functions);
    fold_done(&w->fold);
    w->epoch = ASK_NONE;
}

static bool make_sums(struct worker *w, uint32_t epoch)
{
    const struct ask *a = w->s->a;
    const struct dict *view = w->s->epochs[epoch].view;
    struct budget *b = &w->share->budget;
    bool of_functions = a->plan->what == PLAN_FUNCTIONS;

    drop_sums(w);
    w->epoch = epoch;
    if (!sums_init(&w->stacks, b, dict_n_nodes(view), of_functions ? 1 : (unsigned)a->columns.len))
        return false;
    return !of_functions ||
           (sums_init(&w->functions, b, view->strings.len, 2) && fold_init(&w->fold, b, view));
}

/* Picks [i, end) of one epoch and bin; returns where the next ones begin. */
static size_t same_bin(const struct scan *s, size_t i, size_t end, uint64_t *ret_samples)
{
    const struct pick *p = s->a->picks.data;
    size_t from = i;

    *ret_samples = 0;
    for (; i < end && p[i].epoch == p[from].epoch && p[i].bin == p[from].bin; i++)
        *ret_samples += p[i].n_samples;
    return i;
}

static void scan_pick(struct worker *w, const struct pick *p)
{
    struct bytes in = {0};
    struct error err = {{0}};

    if (pick_bytes(w, p, &in, &err) < 0) {
        worker_trouble(w, &err);
        return;
    }
    bool ok = true;
    if (p->kind == PICK_SIDE || p->kind == PICK_SIDE_LATE) {
        ok = scan_side(w, p, in, &err);
    } else {
        ok = scan_runs(w, p, in);
        if (!ok)
            error_set(&err, -EBADMSG, "samples of a profile are damaged");
    }
    if (!ok)
        worker_trouble(w, &err);
}

static int scan_bin(struct worker *w, size_t i, size_t end, uint64_t n_samples, struct error *err)
{
    const struct ask *a = w->s->a;
    const struct pick *picks = a->picks.data;

    if (w->has_sums && w->epoch != picks[i].epoch && !make_sums(w, picks[i].epoch))
        return budget_error(&w->share->budget, err);
    if (w->has_sums) {
        sums_expect(&w->stacks, n_samples);
        if (a->plan->what == PLAN_FUNCTIONS)
            w->functions.is_marked = true;
    }
    uint32_t bin = picks[i].bin;
    for (; i < end; i++) {
        if (a->plan->cancelled && atomic_load_explicit(a->plan->cancelled, memory_order_relaxed))
            return error_set(err, -ECANCELED, "the query was cancelled");
        if (i + 1 < end && !picks[i + 1].part)
            __builtin_prefetch(picks[i + 1].data);
        scan_pick(w, &picks[i]);
    }
    if (budget_failed(&w->share->budget) || (w->has_sums && !take_partial(w, bin)))
        return budget_error(&w->share->budget, err);
    return 0;
}

static void scan_share(void *arg, size_t i)
{
    struct scan *s = arg;
    struct scan_share *share = &s->shares[i];
    struct worker *w = must_calloc(1, sizeof(*w));
    enum plan_what what = s->a->plan->what;
    w->s = s;
    w->share = share;
    w->epoch = ASK_NONE;
    w->has_sums = what == PLAN_STACKS || what == PLAN_FUNCTIONS;
    for (size_t at = share->first; at < share->end && share->result == 0;) {
        uint64_t n_samples;
        size_t next = same_bin(s, at, share->end, &n_samples);
        share->result = scan_bin(w, at, next, n_samples, &share->err);
        at = next;
    }
    drop_sums(w);
    block_unref(w->block);
    side_vecs_done(&share->budget, &w->side);
    free(w);
}

/* ---- All threads */

static int by_epoch_and_bin(const void *x, const void *y)
{
    const struct pick *a = x, *b = y;

    if (a->epoch != b->epoch)
        return a->epoch < b->epoch ? -1 : 1;
    if (a->bin != b->bin)
        return a->bin < b->bin ? -1 : 1;
    if (a->part != b->part)
        return (uintptr_t)a->part < (uintptr_t)b->part ? -1 : 1;
    if (a->part && a->block != b->block)
        return (uintptr_t)a->block < (uintptr_t)b->block ? -1 : 1;
    return a->offset < b->offset ? -1 : a->offset > b->offset;
}

static void sort_picks(struct ask *a)
{
    bool is_sorted = true;

    for (size_t i = 1; i < a->picks.len && is_sorted; i++)
        is_sorted = a->picks.data[i - 1].epoch == a->picks.data[i].epoch &&
                    a->picks.data[i - 1].bin == a->picks.data[i].bin;
    if (!is_sorted)
        qsort(a->picks.data, a->picks.len, sizeof(struct pick), by_epoch_and_bin);
}

static size_t count_threads(const struct ask *a, uint64_t n_samples)
{
    size_t most = pool_threads(a->snap->local->pool);
    uint64_t useful = n_samples / SAMPLES_PER_THREAD;

    if (most > a->picks.len)
        most = a->picks.len;
    if (a->plan->threads > 0) /* who names a number gets it */
        return a->plan->threads < most ? a->plan->threads : most;
    return useful < 1 ? 1 : useful < most ? (size_t)useful : most;
}

/* Cuts the picks into shares of about as many samples. */
static void cut_shares(struct scan *s, uint64_t n_samples)
{
    const struct ask *a = s->a;
    uint64_t so_far = 0;
    size_t share = 0;

    for (size_t i = 0; i < a->picks.len; i++) {
        so_far += a->picks.data[i].n_samples;
        if (share + 1 < s->n_shares && so_far >= n_samples / s->n_shares * (share + 1)) {
            s->shares[share].end = i + 1;
            s->shares[++share].first = i + 1;
        }
    }
    for (; share < s->n_shares; share++)
        s->shares[share].end = a->picks.len;
    for (size_t i = 1; i < s->n_shares; i++)
        s->shares[i].first = s->shares[i - 1].end;
}

static int make_shares(struct scan *s, struct error *err)
{
    struct ask *a = s->a;
    uint64_t n_samples = 0;
    bool numbers = a->plan->what == PLAN_TOTALS || a->plan->what == PLAN_FUNCTION;

    for (size_t i = 0; i < a->picks.len; i++)
        n_samples += a->picks.data[i].n_samples;
    size_t n = count_threads(a, n_samples);
    s->shares = must_calloc(n + 1, sizeof(*s->shares));
    s->n_shares = n;
    for (size_t i = 0; numbers && i < n; i++) {
        s->shares[i].cells = arena_new(&a->arena, struct scan_number, a->cells.len);
        s->shares[i].moments = arena_new(&a->arena, struct scan_number, a->moments.len);
    }
    if (budget_failed(a->budget))
        return budget_error(a->budget, err);
    for (size_t i = 0; i < n; i++)
        budget_init(&s->shares[i].budget, (a->budget->limit - a->budget->used) / n);
    cut_shares(s, n_samples);
    return 0;
}

static void add_numbers(struct ask *a, const struct scan_share *share)
{
    for (size_t i = 0; share->cells && i < a->cells.len; i++) {
        add_number(&a->cells.data[i].value, share->cells[i].value);
        add_number(&a->cells.data[i].flat, share->cells[i].flat);
        a->cells.data[i].has_samples |= share->cells[i].has_samples;
    }
    for (size_t i = 0; share->moments && i < a->moments.len; i++) {
        struct ask_moment *m = &a->moments.data[i];
        add_number(&m->value, share->moments[i].value);
        add_number(&m->flat, share->moments[i].flat);
        if (share->moments[i].has_samples)
            a->cells.data[m->cell].has_samples = true;
    }
}

static int add_shares(struct scan *s, struct store_answer *answer, struct error *err)
{
    for (size_t i = 0; i < s->n_shares; i++) {
        struct scan_share *share = &s->shares[i];
        if (share->result < 0) {
            if (err)
                *err = share->err;
            return share->result;
        }
        if (share->is_incomplete)
            answer_trouble(answer, &share->trouble);
        answer->samples_read += share->samples_read;
        answer->blocks_read += share->blocks_read;
        add_numbers(s->a, share);
    }
    return 0;
}

int scan_run(struct scan *s, struct ask *a, struct store_answer *answer, struct error *err)
{
    *s = (struct scan){.a = a};
    if (a->picks.len == 0)
        return 0;
    sort_picks(a);
    int r = prepare_epochs(s, err);
    if (r == 0)
        r = make_shares(s, err);
    if (r < 0)
        return r;
    pool_run(s->n_shares > 1 ? a->snap->local->pool : NULL, scan_share, s, s->n_shares);
    return add_shares(s, answer, err);
}

void scan_done(struct scan *s)
{
    for (size_t i = 0; i < s->n_shares; i++) {
        struct scan_share *share = &s->shares[i];
        for (size_t j = 0; j < share->partials.len; j++)
            sums_taken_done(&share->budget, &share->partials.data[j].taken);
        vec_done(&share->budget, &share->partials);
    }
    free(s->shares);
    *s = (struct scan){0};
}

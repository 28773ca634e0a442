#include <errno.h>
#include <stdlib.h>

#include "query/query.h"
#include "query/time_range.h"

#define POINTS_WANTED 120

static int by_total(const void *a, const void *b)
{
    const struct timeline_series *x = a, *y = b;
    if (x->total != y->total)
        return x->total < y->total ? 1 : -1;
    return (x->first > y->first) - (x->first < y->first);
}

/* Cells come sorted by group, then time. */
static bool collect(struct timeline *t)
{
    struct store_answer *a = t->answer;
    for (size_t i = 0; i < a->cells.len; i++) {
        const struct store_cell *c = &a->cells.data[i];
        if (i == 0 || c->group != a->cells.data[i - 1].group) {
            struct timeline_series s = {.labels = a->groups.data[c->group], .first = i};
            if (!vec_push(&a->budget, &t->series, s))
                return false;
        }
        struct timeline_point point = {c->start_ns, c->value, c->flat, c->n_profiles};
        if (!vec_push(&a->budget, &t->points, point))
            return false;
        vec_last(&t->series).n++;
        vec_last(&t->series).total += c->value;
    }
    if (t->series.len > 1)
        qsort(t->series.data, t->series.len, sizeof(*t->series.data), by_total);
    return true;
}

static int ask(const struct query *q, struct store_plan *plan, struct timeline *t,
               struct error *err)
{
    plan->tenant = q->tenant.len > 0 ? q->tenant : BYTES(STORE_DEFAULT_TENANT);
    plan->selector = q->selector;
    plan->from_ns = q->from_ns;
    plan->to_ns = q->to_ns;
    plan->instant = q->instant;
    plan->threads = q->threads;
    plan->memory_limit = q->memory_limit;
    plan->cancelled = q->cancelled;
    if (plan->step_ns == 0)
        plan->step_ns = time_step_for(q->from_ns, q->to_ns, POINTS_WANTED);

    *t = (struct timeline){
        .answer = store_answer_new(q->memory_limit > 0 ? q->memory_limit : QUERY_MEMORY),
        .step_ns = plan->step_ns,
        .n_group_by = plan->n_group_by,
    };
    int r = store_aggregate(q->store, plan, t->answer, err);
    if (r == 0 && t->answer->is_incomplete && q->trouble)
        *q->trouble = t->answer->trouble;
    if (r == 0 && !collect(t))
        r = budget_error(&t->answer->budget, err);
    return r;
}

int query_timeline(const struct query *q, const struct timeline_options *o, struct timeline *ret,
                   struct error *err)
{
    struct store_plan plan = {.what = o->function ? PLAN_FUNCTION : PLAN_TOTALS,
                              .function = bytes_of(o->function ? o->function : ""),
                              .step_ns = o->step_ns,
                              .group_by = o->group_by,
                              .n_group_by = o->n_group_by};
    return ask(q, &plan, ret, err);
}

void timeline_done(struct timeline *t)
{
    if (!t->answer)
        return;
    vec_done(&t->answer->budget, &t->series);
    vec_done(&t->answer->budget, &t->points);
    store_answer_free(t->answer);
}

/* ---- Heat maps */

#define HEAT_CELLS_MAX 1000000

static int heat_shape(const struct query *q, int64_t column_ns, size_t n_rows, struct heat_map *h,
                      struct error *err)
{
    if (column_ns <= 0 || n_rows == 0 || (uint64_t)n_rows > (uint64_t)column_ns)
        return error_set(err, -EINVAL, "a heat map needs columns of at least one ns a row");
    if (q->from_ns >= q->to_ns)
        return error_set(err, -EINVAL, "the range is empty: it ends before it starts");
    int64_t start = q->from_ns - (q->from_ns % column_ns + column_ns) % column_ns;
    uint64_t columns = ((uint64_t)q->to_ns - (uint64_t)start - 1) / (uint64_t)column_ns + 1;
    if (columns > HEAT_CELLS_MAX / n_rows)
        return error_set(err, -EINVAL, "a heat map of %llu by %zu cells: at most %d are allowed",
                         (unsigned long long)columns, n_rows, HEAT_CELLS_MAX);
    h->start_ns = start;
    h->column_ns = column_ns;
    h->n_columns = (size_t)columns;
    h->n_rows = n_rows;
    return 0;
}

void heat_add(struct heat_map *h, int64_t at_ns, int64_t value)
{
    int64_t cell_ns = h->column_ns / (int64_t)h->n_rows;
    uint64_t at = at_ns < h->start_ns ? 0 : (uint64_t)at_ns - (uint64_t)h->start_ns;
    uint64_t column = at / (uint64_t)h->column_ns;
    uint64_t row = at % (uint64_t)h->column_ns / (uint64_t)cell_ns;

    if (column >= h->n_columns)
        return;
    if (row >= h->n_rows)
        row = h->n_rows - 1;
    int64_t *cell = &h->cells[column * h->n_rows + row];
    *cell = (int64_t)((uint64_t)*cell + (uint64_t)value);
    if (*cell > h->max)
        h->max = *cell;
}

int heat_begin(const struct query *q, int64_t column_ns, size_t n_rows, struct heat_map *ret,
               struct error *err)
{
    *ret = (struct heat_map){0};
    budget_init(&ret->budget, q->memory_limit > 0 ? q->memory_limit : QUERY_MEMORY);
    int r = heat_shape(q, column_ns, n_rows, ret, err);
    if (r < 0)
        return r;
    size_t bytes = ret->n_columns * n_rows * sizeof(*ret->cells);
    if (!budget_resize(&ret->budget, (void **)&ret->cells, 0, bytes))
        return budget_error(&ret->budget, err);
    ret->bytes = bytes;
    memset(ret->cells, 0, bytes);
    return 0;
}

int query_heat(const struct query *q, int64_t column_ns, size_t n_rows, struct heat_map *ret,
               struct error *err)
{
    int r = heat_begin(q, column_ns, n_rows, ret, err);
    if (r < 0)
        return r;

    struct timeline t = {0};
    struct store_plan plan = {
        .what = PLAN_TOTALS, .step_ns = column_ns / (int64_t)n_rows, .by_sample_time = true};
    r = ask(q, &plan, &t, err);
    for (size_t i = 0; r == 0 && i < t.answer->cells.len; i++)
        heat_add(ret, t.answer->cells.data[i].start_ns, t.answer->cells.data[i].value);
    timeline_done(&t);
    return r;
}

void heat_done(struct heat_map *h)
{
    if (h->cells)
        budget_free(&h->budget, h->cells, h->bytes);
    h->cells = NULL;
}

#include "store_local/ask.h"

#include <errno.h>

#include "base/hash.h"
#include "store_local/rollup.h"
#include "store_local/sums.h"

#define STACK_LEVELS    (1u << COVER_MINUTE | 1u << COVER_HOUR | 1u << COVER_DAY)
#define FUNCTION_LEVELS (1u << COVER_FUNCTIONS_HOUR | 1u << COVER_FUNCTIONS_DAY)

static bool same_type(struct store_type a, struct store_type b)
{
    return bytes_equal(a.name, b.name) && bytes_equal(a.unit, b.unit);
}

/* The column of a type, made when it is new. */
static uint8_t column_of(struct ask *a, struct store_type type)
{
    for (size_t c = 0; c < a->columns.len; c++) {
        if (same_type(a->columns.data[c], type))
            return (uint8_t)c;
    }
    if (!vec_push(a->budget, &a->columns, type))
        return SUMS_SKIP;
    return (uint8_t)(a->columns.len - 1);
}

static int add_columns(struct ask *a, const struct series *series, struct ask_series *ret,
                       struct error *err)
{
    const struct selector *selector = a->plan->selector;

    memset(ret->to, SUMS_SKIP, sizeof(ret->to));
    ret->first = ret->own = SUMS_SKIP;
    for (uint32_t t = 0; t < series->n_types && t < PROFILE_TYPES_MAX; t++) {
        struct store_type type = series->types[t];
        if (selector && !selector_takes(selector, type.name, type.unit))
            continue;
        ret->to[t] = column_of(a, type);
        if (ret->own == SUMS_SKIP)
            ret->own = (uint8_t)t;
        if (ret->to[t] == 0)
            ret->first = (uint8_t)t;
    }
    if (a->columns.len > PROFILE_TYPES_MAX)
        return error_set(err, -EINVAL,
                         "the selected series have more than %d types: name one of them",
                         PROFILE_TYPES_MAX);
    if (!a->period_type.name.len)
        a->period_type = series->period_type;
    return 0;
}

static uint64_t hash_values(const struct bytes *values, size_t n)
{
    uint64_t h = n;

    for (size_t i = 0; i < n; i++)
        h = hash_mix(h, hash_bytes(values[i].data, values[i].len));
    return h;
}

static bool same_values(const struct bytes *a, const struct bytes *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!bytes_equal(a[i], b[i]))
            return false;
    }
    return true;
}

/* The group of a series, made when it is new; ASK_NONE when the budget is spent. */
static uint32_t group_of(struct ask *a, const struct series *series)
{
    size_t n = a->plan->n_group_by;

    if (n == 0 && a->groups.len > 0)
        return 0;
    struct bytes *values = arena_new(&a->arena, struct bytes, n);
    if (!values)
        return ASK_NONE;
    for (size_t i = 0; i < n; i++)
        values[i] = label_value(series->labels, series->n_labels, a->plan->group_by[i]);
    uint64_t h = hash_values(values, n);
    uint32_t found =
        IDSET_FIND(&a->group_index, h, id, same_values(a->groups.data[id].values, values, n));
    if (found != IDSET_NONE)
        return found;
    if (!vec_push(a->budget, &a->groups, (struct ask_group){values, ASK_NONE}))
        return ASK_NONE;
    found = (uint32_t)(a->groups.len - 1);
    return idset_add(a->budget, &a->group_index, h, found) ? found : ASK_NONE;
}

static int add_series(struct ask *a, struct error *err)
{
    if (!vec_resize(a->budget, &a->series, a->snap->series.len))
        return budget_error(a->budget, err);
    for (size_t i = 0; i < a->series.len; i++) {
        const struct series *series = a->snap->series.data[i].series;
        struct ask_series *s = &a->series.data[i];
        int r = add_columns(a, series, s, err);
        if (r < 0)
            return r;
        s->moments = ASK_NONE;
        s->group = group_of(a, series);
    }
    return budget_failed(a->budget) ? budget_error(a->budget, err) : 0;
}

/* Nothing is outside the data, so a range without end has a sensible number of steps. */
static void set_range(struct ask *a)
{
    const struct store_plan *plan = a->plan;
    const struct snapshot *snap = a->snap;

    a->from_ns = plan->from_ns > snap->min_ns ? plan->from_ns : snap->min_ns;
    a->to_ns = plan->to_ns;
    if (snap->max_ns < INT64_MAX && a->to_ns > snap->max_ns + 1 && !a->reads_times)
        a->to_ns = snap->max_ns + 1;
    if (a->reads_times)
        a->from_ns = plan->from_ns;
    if (a->from_ns < snap->cutoff_ns)
        a->from_ns = snap->cutoff_ns;
    a->first_step_ns = plan->from_ns;
    a->n_steps = 1;
    if (plan->step_ns > 0 && a->from_ns < a->to_ns) {
        a->first_step_ns = cover_floor(a->from_ns, plan->step_ns);
        uint64_t span = (uint64_t)(a->to_ns - 1) - (uint64_t)a->first_step_ns;
        a->n_steps = (uint32_t)(span / (uint64_t)plan->step_ns + 1);
    }
}

/* Whether rollups keep apart what the filters tell apart. */
static bool rollups_have_attributes(const struct store_plan *plan)
{
    for (size_t i = 0; i < plan->n_attributes; i++) {
        if (!rollup_keeps(plan->attributes[i].name))
            return false;
    }
    return true;
}

static void set_needs(struct ask *a)
{
    const struct store_plan *plan = a->plan;
    bool of_functions = plan->what == PLAN_FUNCTIONS || plan->what == PLAN_FUNCTION;

    a->reads_sides = plan->has_trace || plan->has_span;
    a->has_filter = a->reads_sides || plan->n_attributes > 0;
    a->reads_times = plan->what == PLAN_TOTALS && plan->by_sample_time && !a->has_filter;
    a->wants_picks = plan->what != PLAN_TOTALS || a->has_filter || a->reads_times;
    if (plan->raw_only || a->reads_sides || a->reads_times || !rollups_have_attributes(plan))
        a->levels = 0;
    else
        a->levels = STACK_LEVELS | (of_functions && !a->has_filter ? FUNCTION_LEVELS : 0);
}

int ask_init(struct ask *a, const struct store_plan *plan, struct snapshot *snap,
             struct budget *budget, struct error *err)
{
    *a = (struct ask){.plan = plan, .snap = snap, .budget = budget};
    arena_init(&a->arena, budget);
    set_needs(a);
    set_range(a);
    return add_series(a, err);
}

void ask_done(struct ask *a)
{
    if (!a->budget)
        return;
    for (size_t i = 0; i < a->parts.len; i++) {
        part_done(a->parts.data[i]);
        free(a->parts.data[i]);
    }
    vec_done(a->budget, &a->parts);
    vec_done(a->budget, &a->picks);
    vec_done(a->budget, &a->moments);
    vec_done(a->budget, &a->cells);
    vec_done(a->budget, &a->groups);
    vec_done(a->budget, &a->series);
    vec_done(a->budget, &a->columns);
    idset_done(a->budget, &a->group_index);
    arena_done(&a->arena);
    *a = (struct ask){0};
}

uint32_t ask_step(const struct ask *a, int64_t t)
{
    if (a->plan->step_ns == 0 || t < a->first_step_ns)
        return 0;
    uint64_t step = ((uint64_t)t - (uint64_t)a->first_step_ns) / (uint64_t)a->plan->step_ns;
    return step < a->n_steps ? (uint32_t)step : a->n_steps - 1;
}

int64_t ask_step_start(const struct ask *a, uint32_t step)
{
    if (a->plan->step_ns == 0)
        return a->plan->from_ns;
    return (int64_t)((uint64_t)a->first_step_ns + step * (uint64_t)a->plan->step_ns);
}

uint32_t ask_cell(struct ask *a, uint32_t group, uint32_t step)
{
    struct ask_group *g = &a->groups.data[group];

    if (g->cells == ASK_NONE) {
        size_t first = a->cells.len;
        if (first + a->n_steps >= ASK_AVERAGED) {
            budget_fail(a->budget, SIZE_MAX);
            return ASK_NONE;
        }
        if (!vec_resize(a->budget, &a->cells, first + a->n_steps))
            return ASK_NONE;
        g->cells = (uint32_t)first;
    }
    return g->cells + step;
}

uint32_t ask_moment(struct ask *a, uint32_t series, uint32_t step)
{
    struct ask_series *s = &a->series.data[series];
    uint32_t cell = ask_cell(a, s->group, step);

    if (cell == ASK_NONE)
        return ASK_NONE;
    if (s->moments == ASK_NONE) {
        size_t first = a->moments.len;
        if (first + a->n_steps >= ASK_AVERAGED) {
            budget_fail(a->budget, SIZE_MAX);
            return ASK_NONE;
        }
        if (!vec_resize(a->budget, &a->moments, first + a->n_steps))
            return ASK_NONE;
        s->moments = (uint32_t)first;
    }
    a->moments.data[s->moments + step].cell = cell;
    return s->moments + step;
}

int64_t ask_average(int64_t sum, uint64_t n)
{
    if (n <= 1 || n > INT64_MAX)
        return sum;
    int64_t whole = sum / (int64_t)n, rest = sum % (int64_t)n;
    uint64_t size = (uint64_t)(rest < 0 ? -rest : rest);

    if (size < n - size)
        return whole;
    return sum < 0 ? whole - 1 : whole + 1;
}

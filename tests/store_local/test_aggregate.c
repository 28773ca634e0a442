#include <errno.h>
#include <pthread.h>

#include "store_local/aggregate.h"
#include "store_local/cover.h"
#include "store_local/world.h"

/* ---- What an answer must be, the slow way */

struct ask {
    struct store_plan plan;
    const char *selector;
    const char *type; /* NULL: any */
    const char *pod, *service, *not_env;
    const char *group_names[2];
    struct bytes group_by[2];
    int thread, odd; /* attribute filters; 0: none */
    int trace;
    int function;
};

struct want_cell {
    bool has;
    uint64_t n_profiles;
    int64_t duration_ns;
    int64_t values[WORLD_STACKS][4]; /* by column: samples, cpu, inuse_objects, inuse_space */
    bool has_samples, has_first;     /* some passed; some of the first column */
    int64_t value, flat;
};

static const char *const column_names[4] = {"samples", "cpu", "inuse_objects", "inuse_space"};

static bool series_match(const struct ask *q, const struct world_series *s)
{
    if (s->order < 0 || (q->pod && strcmp(q->pod, s->pod) != 0) ||
        (q->service && strcmp(q->service, s->service) != 0) ||
        (q->not_env && strcmp(q->not_env, s->env) == 0))
        return false;
    const char *types[2][2];
    world_types(s->is_instant, types);
    return !q->type || strcmp(q->type, types[0][0]) == 0 || strcmp(q->type, types[1][0]) == 0;
}

static bool sample_passes(const struct ask *q, const struct world_sample *s)
{
    return (!q->thread || s->thread == q->thread) && (!q->odd || s->odd != q->odd) &&
           (!q->trace || s->trace == q->trace);
}

static bool has_filter(const struct ask *q)
{
    return q->thread || q->odd || q->trace;
}

/* The column that numbers are about: of the series that came first. */
static int first_column(const struct world *w, const struct ask *q)
{
    int best = -1;

    for (int i = 0; i < WORLD_SERIES; i++) {
        if (series_match(q, &w->series[i]) &&
            (best < 0 || w->series[i].order < w->series[best].order))
            best = i;
    }
    if (best < 0)
        return 0;
    int base = w->series[best].is_instant ? 2 : 0;
    return q->type && strcmp(q->type, column_names[base + 1]) == 0 ? base + 1 : base;
}

static int64_t step_of(const struct ask *q, int64_t start)
{
    return q->plan.step_ns ? cover_floor(start, q->plan.step_ns) : q->plan.from_ns;
}

static bool same_group(const struct ask *q, const struct world_series *s,
                       const struct label *labels)
{
    for (size_t i = 0; i < q->plan.n_group_by; i++) {
        const char *value = strcmp(q->group_names[i], "pod") == 0 ? s->pod : s->service;
        if (!bytes_are(labels[i].value, value))
            return false;
    }
    return true;
}

static int64_t row_total(const struct world_profile *p, int column, bool is_instant)
{
    int64_t sum = 0;

    if ((column >= 2) != is_instant)
        return 0;
    for (int i = 0; i < p->n_samples; i++)
        sum += p->samples[i].values[column % 2];
    return sum;
}

static bool is_asked(const struct ask *q, const struct world_profile *p)
{
    return !p->is_erased && p->start_ns >= q->plan.from_ns && p->start_ns < q->plan.to_ns;
}

/* Whether a moment counts: every one, or only the last or highest of its series and step. */
static bool is_chosen(const struct world *w, const struct ask *q, const struct world_profile *p)
{
    int column = q->type && strcmp(q->type, "inuse_space") == 0 ? 3 : 2;

    if (!w->series[p->series].is_instant ||
        (q->plan.instant != INSTANT_LAST && q->plan.instant != INSTANT_PEAK))
        return true;
    int64_t total = row_total(p, column, true);
    for (int i = 0; i < w->n_profiles; i++) {
        const struct world_profile *o = &w->profiles[i];
        if (o == p || o->series != p->series || !is_asked(q, o) ||
            step_of(q, o->start_ns) != step_of(q, p->start_ns))
            continue;
        /* Where side rows alone count, rows without them are not seen. */
        int64_t other = row_total(o, column, true);
        bool later = o->start_ns > p->start_ns, higher = other > total;
        if (q->plan.instant == INSTANT_LAST ? later || (o->start_ns == p->start_ns && higher)
                                            : higher || (other == total && later))
            return false;
    }
    return true;
}

static void add_profile(const struct ask *q, const struct world_profile *p, int base,
                        int64_t sums[WORLD_STACKS][4], bool *has_samples)
{
    for (int i = 0; i < p->n_samples; i++) {
        const struct world_sample *s = &p->samples[i];
        if (!sample_passes(q, s))
            continue;
        *has_samples = true;
        for (int c = 0; c < 2; c++) {
            if (!q->type || strcmp(q->type, column_names[base + c]) == 0)
                sums[s->stack][base + c] += s->values[c];
        }
    }
}

static int64_t average(int64_t sum, int64_t n)
{
    return n ? (2 * sum + n) / (2 * n) : 0; /* nothing here is negative */
}

static bool stack_has(const struct world *w, int stack, int name)
{
    for (int d = 0; d < w->depth[stack]; d++) {
        if (w->stacks[stack][d] == name)
            return true;
    }
    return false;
}

/* Adds what one series says of a cell. */
static void want_series(const struct world *w, const struct ask *q, int series, int64_t step,
                        struct want_cell *ret)
{
    int64_t sums[WORLD_STACKS][4] = {{0}}, n = 0, total = 0, value = 0, flat = 0;
    int base = w->series[series].is_instant ? 2 : 0, column = first_column(w, q);
    bool is_average = base == 2 && q->plan.instant == INSTANT_AVERAGE;

    for (int i = 0; i < w->n_profiles; i++) {
        const struct world_profile *p = &w->profiles[i];
        if (p->series != series || !is_asked(q, p) || step_of(q, p->start_ns) != step ||
            !is_chosen(w, q, p))
            continue;
        n++;
        ret->n_profiles++;
        ret->duration_ns += p->duration_ns;
        total += row_total(p, column, base == 2);
        add_profile(q, p, base, sums, &ret->has_samples);
    }
    for (int s = 0; s < WORLD_STACKS; s++) {
        value +=
            q->plan.what != PLAN_FUNCTION || stack_has(w, s, q->function) ? sums[s][column] : 0;
        flat += w->stacks[s][w->depth[s] - 1] == q->function ? sums[s][column] : 0;
        ret->has_first |= sums[s][column] != 0;
        for (int c = 0; c < 4; c++)
            ret->values[s][c] += is_average ? average(sums[s][c], n) : sums[s][c];
    }
    if (q->plan.what == PLAN_TOTALS && !has_filter(q))
        value = total;
    ret->value += is_average ? average(value, n) : value;
    ret->flat += is_average ? average(flat, n) : flat;
}

static void want(const struct world *w, const struct ask *q, const struct label *group,
                 int64_t step, struct want_cell *ret)
{
    memset(ret, 0, sizeof(*ret));
    for (int i = 0; i < WORLD_SERIES; i++) {
        if (series_match(q, &w->series[i]) && (!group || same_group(q, &w->series[i], group)))
            want_series(w, q, i, step, ret);
    }
    if (q->plan.what == PLAN_FUNCTIONS)
        ret->has_samples = ret->has_first;
    ret->has = ret->n_profiles > 0 && (!has_filter(q) || ret->has_samples);
}

/* ---- Comparing */

static int stack_number(const struct world *w, const struct dict *d, uint32_t node)
{
    int names[64], n = 0;

    for (; node && n < 64; node = d->node_parent.data[node]) {
        struct location l = d->locations.data[d->node_location.data[node]];
        uint32_t f = l.n_lines ? d->lines.data[l.first_line].function : 0;
        names[n++] = world_number(dict_cstr(d, d->functions.data[f].name));
    }
    for (int s = 0; s < WORLD_STACKS; s++) {
        bool same = w->depth[s] == n;
        for (int i = 0; i < n && same; i++)
            same = w->stacks[s][i] == names[n - 1 - i];
        if (same)
            return s;
    }
    return -1;
}

static int column_number(const struct dict *d, struct value_type type)
{
    for (int c = 0; c < 4; c++) {
        if (strcmp(dict_cstr(d, type.type), column_names[c]) == 0)
            return c;
    }
    return -1;
}

static void check_stacks(struct test *t, const struct world *w, const struct store_cell *cell,
                         struct want_cell *want)
{
    const struct profile *p = cell->profile;

    for (uint32_t c = 0; c < p->n_types; c++) {
        int column = column_number(p->dict, p->types[c]);
        CHECK(t, column >= 0);
        for (size_t i = 0; column >= 0 && i < p->n_samples; i++) {
            int s = stack_number(w, p->dict, p->node[i]);
            CHECK(t, s >= 0);
            if (s >= 0)
                want->values[s][column] -= p->values[c][i];
        }
    }
    for (int s = 0; s < WORLD_STACKS; s++) {
        for (int c = 0; c < 4; c++)
            CHECK_INT(t, want->values[s][c], 0);
    }
    CHECK_INT(t, p->duration_ns, want->duration_ns);
}

static void check_functions(struct test *t, const struct world *w, const struct ask *q,
                            const struct store_cell *cell, const struct want_cell *want)
{
    const struct profile *p = cell->profile;
    int column = first_column(w, q);
    int64_t flat[WORLD_NAMES] = {0}, cum[WORLD_NAMES] = {0};

    for (int s = 0; s < WORLD_STACKS; s++) {
        flat[w->stacks[s][w->depth[s] - 1]] += want->values[s][column];
        for (int f = 0; f < WORLD_NAMES; f++)
            cum[f] += stack_has(w, s, f) ? want->values[s][column] : 0;
    }
    CHECK_INT(t, p->n_types, 2);
    for (size_t i = 0; i < p->n_samples; i++) {
        struct location l = p->dict->locations.data[p->dict->node_location.data[p->node[i]]];
        uint32_t f = p->dict->lines.data[l.first_line].function;
        int name = world_number(dict_cstr(p->dict, p->dict->functions.data[f].name));
        flat[name] -= p->values[0][i];
        cum[name] -= p->values[1][i];
    }
    for (int f = 0; f < WORLD_NAMES; f++) {
        CHECK_INT(t, flat[f], 0);
        CHECK_INT(t, cum[f], 0);
    }
}

static void check_cell(struct test *t, const struct world *w, const struct ask *q,
                       const struct store_answer *a, const struct store_cell *cell)
{
    struct want_cell *wanted = malloc(sizeof(*wanted));

    if (!wanted)
        abort();
    want(w, q, a->groups.data[cell->group], cell->start_ns, wanted);
    CHECK(t, wanted->has);
    if (!q->trace)
        CHECK_INT(t, cell->n_profiles, wanted->n_profiles);
    switch (q->plan.what) {
    case PLAN_STACKS:
        if (q->trace)
            wanted->duration_ns = cell->profile->duration_ns;
        check_stacks(t, w, cell, wanted);
        break;
    case PLAN_FUNCTIONS:
        if (q->plan.instant != INSTANT_AVERAGE) /* averages are rounded once per function there */
            check_functions(t, w, q, cell, wanted);
        break;
    case PLAN_FUNCTION:
        CHECK_INT(t, cell->flat, wanted->flat);
        CHECK_INT(t, cell->value, wanted->value);
        break;
    case PLAN_TOTALS:
        CHECK_INT(t, cell->value, wanted->value);
        break;
    }
    free(wanted);
}

/* How many cells there should be: one per group and step that has something. */
static size_t count_cells(const struct world *w, const struct ask *q)
{
    struct want_cell *cell = malloc(sizeof(*cell));
    struct {
        struct label group[2];
        int64_t step;
    } *seen = malloc(WORLD_PROFILES * sizeof(*seen));
    size_t n = 0, n_has = 0;

    if (!cell || !seen)
        abort();
    for (int i = 0; i < w->n_profiles; i++) {
        const struct world_profile *p = &w->profiles[i];
        const struct world_series *s = &w->series[p->series];
        int64_t step = step_of(q, p->start_ns);
        size_t j = 0;

        if (!is_asked(q, p) || !series_match(q, s))
            continue;
        while (j < n && (seen[j].step != step || !same_group(q, s, seen[j].group)))
            j++;
        if (j < n)
            continue;
        for (size_t g = 0; g < q->plan.n_group_by; g++)
            seen[n].group[g].value =
                bytes_of(strcmp(q->group_names[g], "pod") == 0 ? s->pod : s->service);
        seen[n].step = step;
        want(w, q, seen[n].group, step, cell);
        n_has += cell->has;
        n++;
    }
    free(cell);
    free(seen);
    return n_has;
}

static void tell(const struct ask *q)
{
    printf(
        "# %s what %d from %lld to %lld step %lld instant %d groups %zu thread %d odd %d trace %d "
        "raw %d threads %u\n",
        q->selector, q->plan.what, (long long)q->plan.from_ns, (long long)q->plan.to_ns,
        (long long)q->plan.step_ns, q->plan.instant, q->plan.n_group_by, q->thread, q->odd,
        q->trace, q->plan.raw_only, q->plan.threads);
}

static void check_ask(struct test *t, struct world *w, struct ask asked)
{
    struct ask *q = &asked;
    struct store_answer *a = store_answer_new((size_t)64 << 20);
    struct selector *selector = NULL;
    struct matcher matchers[2];
    struct error err = {{0}};
    char thread[8], odd[8], function[8];
    int before = t->failures;

    CHECK_INT(t, selector_parse(bytes_of(q->selector), &selector, &err), 0);
    q->plan.selector = selector;
    q->plan.group_by = q->group_by;
    q->plan.attributes = matchers;
    q->plan.n_attributes = 0;
    snprintf(thread, sizeof(thread), "t%d", q->thread);
    snprintf(odd, sizeof(odd), "o%d", q->odd);
    snprintf(function, sizeof(function), "f%d", q->function);
    if (q->thread)
        matchers[q->plan.n_attributes++] =
            (struct matcher){BYTES("thread.name"), MATCH_EQUAL, bytes_of(thread), NULL};
    if (q->odd)
        matchers[q->plan.n_attributes++] =
            (struct matcher){BYTES("odd"), MATCH_NOT_EQUAL, bytes_of(odd), NULL};
    q->plan.function = bytes_of(function);
    struct link link = world_link(q->trace);
    q->plan.has_trace = q->trace > 0 && q->trace < 3;
    q->plan.has_span = q->trace > 1;
    memcpy(q->plan.trace_id, link.trace_id, 16);
    memcpy(q->plan.span_id, link.span_id, 8);

    int r = store_aggregate(w->store, &q->plan, a, &err);
    CHECK_INT(t, r, 0);
    if (r < 0)
        printf("# %s\n", err.text);
    CHECK(t, !a->is_incomplete);
    for (size_t i = 0; i < a->cells.len; i++)
        check_cell(t, w, q, a, &a->cells.data[i]);
    CHECK_INT(t, a->cells.len, count_cells(w, q));
    if (t->failures > before)
        tell(q);
    store_answer_free(a);
    selector_free(selector);
}

static int64_t any_time(struct world *w)
{
    static const int64_t units[] = {1, SECOND, MINUTE, HOUR, DAY};
    int64_t unit = units[world_random(w, 5)];
    return WORLD_START - HOUR + (int64_t)world_random(w, (uint64_t)(2 * DAY / unit)) * unit;
}

static struct ask random_ask(struct world *w)
{
    static const struct {
        const char *text, *type, *pod, *service, *not_env;
    } selectors[] = {
        {"cpu", "cpu", NULL, NULL, NULL},
        {"{}", NULL, NULL, NULL, NULL},
        {"cpu{service.name=\"svc-0\"}", "cpu", NULL, "svc-0", NULL},
        {"{pod=\"pod-1\"}", NULL, "pod-1", NULL, NULL},
        {"samples:count{deployment.environment.name!=\"prod\"}", "samples", NULL, NULL, "prod"},
        {"inuse_space", "inuse_space", NULL, NULL, NULL},
        {"nothing{}", "nothing", NULL, NULL, NULL},
    };
    static const int64_t steps[] = {0, 0, 0, MINUTE, 7 * MINUTE, HOUR, 90 * SECOND, 6 * HOUR, DAY};
    size_t k = world_random(w, ARRAY_SIZE(selectors));
    struct ask q = {.selector = selectors[k].text,
                    .type = selectors[k].type,
                    .pod = selectors[k].pod,
                    .service = selectors[k].service,
                    .not_env = selectors[k].not_env};
    int64_t a = any_time(w), b = any_time(w);

    q.plan.tenant = BYTES("default");
    q.plan.from_ns = a < b ? a : b;
    q.plan.to_ns = a < b ? b : a + 1;
    if (world_random(w, 4) == 0)
        q.plan.from_ns = WORLD_START - DAY, q.plan.to_ns = WORLD_START + 3 * DAY;
    q.plan.step_ns = steps[world_random(w, ARRAY_SIZE(steps))];
    q.plan.what = (enum plan_what)world_random(w, 4);
    q.plan.instant = (enum plan_instant)world_random(w, 4);
    q.plan.raw_only = world_random(w, 6) == 0;
    q.plan.threads = 1 + (unsigned)world_random(w, 2);
    q.plan.n_group_by = world_random(w, 3);
    q.group_names[0] = "pod", q.group_names[1] = "service.name";
    q.group_by[0] = BYTES("pod"), q.group_by[1] = BYTES("service.name");
    q.function = (int)world_random(w, WORLD_NAMES + 1);
    if (world_random(w, 4) == 0)
        q.thread = 1 + (int)world_random(w, 2);
    if (world_random(w, 6) == 0)
        q.odd = 1 + (int)world_random(w, 2);
    if (world_random(w, 6) == 0 && q.plan.instant != INSTANT_LAST &&
        q.plan.instant != INSTANT_PEAK && q.plan.instant != INSTANT_AVERAGE)
        q.trace = 1 + (int)world_random(w, WORLD_TRACES);
    return q;
}

static void check_random(struct test *t, struct world *w, int n)
{
    for (int i = 0; i < n && t->failures < 5; i++) {
        check_ask(t, w, random_ask(w));
    }
}

/* ---- Tests */

#define ASKS 60

static void answers_from_memory(struct test *t)
{
    struct world *w = world_new(t, 1);

    check_random(t, w, 5);
    world_append_random(t, w, 300, WORLD_START, WORLD_START + DAY + 5 * HOUR);
    check_random(t, w, ASKS);
    world_free(w);
}

static void answers_from_fresh_segments(struct test *t)
{
    struct world *w = world_new(t, 2);

    world_append_random(t, w, 300, WORLD_START, WORLD_START + DAY + 5 * HOUR);
    world_upkeep(t, w, UPKEEP_FLUSH);
    check_random(t, w, ASKS);
    world_free(w);
}

static void answers_from_rollups(struct test *t)
{
    struct world *w = world_new(t, 3);
    struct ask q = {.selector = "cpu", .type = "cpu"};

    world_append_random(t, w, 1500, WORLD_START, WORLD_START + 3 * HOUR);
    world_upkeep(t, w, UPKEEP_SETTLE);
    check_random(t, w, ASKS);

    struct store_answer *a = store_answer_new((size_t)64 << 20);
    CHECK_INT(t, selector_parse(bytes_of("cpu"), (struct selector **)&q.plan.selector, NULL), 0);
    q.plan.tenant = BYTES("default");
    q.plan.from_ns = WORLD_START, q.plan.to_ns = WORLD_START + DAY;
    CHECK_INT(t, store_aggregate(w->store, &q.plan, a, NULL), 0);
    CHECK(t, a->rollup_rows_read > 0);
    CHECK(t, a->rows_read < (uint64_t)w->n_profiles / 4);
    store_answer_free(a);
    selector_free((struct selector *)q.plan.selector);
    world_free(w);
}

static void answers_from_all_at_once_with_late_data(struct test *t)
{
    for (uint64_t seed = 4; seed < 8; seed++) {
        struct world *w = world_new(t, seed);

        world_append_random(t, w, 500, WORLD_START, WORLD_START + DAY);
        world_upkeep(t, w, UPKEEP_SETTLE);
        world_append_random(t, w, 100, WORLD_START, WORLD_START + DAY + 3 * HOUR);
        world_upkeep(t, w, UPKEEP_FLUSH);
        check_random(t, w, ASKS / 2);
        world_append_random(t, w, 100, WORLD_START, WORLD_START + DAY + 5 * HOUR);
        check_random(t, w, ASKS / 2);
        world_upkeep(t, w, UPKEEP_SETTLE);
        check_random(t, w, ASKS / 2);
        world_free(w);
    }
}

static void erase(struct test *t, struct world *w, const char *text, const char *pod, int64_t from,
                  int64_t to)
{
    struct selector *selector = NULL;
    struct error err = {{0}};

    CHECK_INT(t, selector_parse(bytes_of(text), &selector, &err), 0);
    CHECK_INT(
        t, store_erase(w->store, &(struct store_scope){BYTES("default"), selector, from, to}, &err),
        0);
    selector_free(selector);
    for (int i = 0; i < w->n_profiles; i++) {
        struct world_profile *p = &w->profiles[i];
        if ((!pod || strcmp(pod, w->series[p->series].pod) == 0) && p->start_ns >= from &&
            p->start_ns < to)
            p->is_erased = true;
    }
}

static void hides_what_was_erased_and_not_what_came_after(struct test *t)
{
    struct world *w = world_new(t, 9);

    world_append_random(t, w, 600, WORLD_START, WORLD_START + 6 * HOUR);
    world_upkeep(t, w, UPKEEP_SETTLE);
    world_append_random(t, w, 100, WORLD_START, WORLD_START + 6 * HOUR);
    erase(t, w, "{pod=\"pod-1\"}", "pod-1", WORLD_START + HOUR, WORLD_START + 2 * HOUR + 77);
    erase(t, w, "{pod=\"pod-3\"}", "pod-3", 0, INT64_MAX);
    erase(t, w, "{}", NULL, WORLD_START + 4 * HOUR, WORLD_START + 4 * HOUR + 30 * SECOND);
    check_random(t, w, ASKS);
    world_append_random(t, w, 100, WORLD_START, WORLD_START + 6 * HOUR);
    check_random(t, w, ASKS);
    world_upkeep(t, w, UPKEEP_SETTLE);
    check_random(t, w, ASKS);
    world_free(w);
}

static void shows_nothing_that_has_expired(struct test *t)
{
    struct world *w = world_new(t, 10);
    int64_t cutoff = WORLD_START + 10 * HOUR + 5 * SECOND;

    world_append_random(t, w, 300, WORLD_START, WORLD_START + DAY);
    world_upkeep(t, w, UPKEEP_FLUSH);
    world_append_random(t, w, 100, WORLD_START, WORLD_START + DAY);
    set_clock_advance(&w->clock, cutoff + 30 * DAY - w->clock.wall_ns);
    for (int i = 0; i < w->n_profiles; i++)
        w->profiles[i].is_erased = w->profiles[i].start_ns < cutoff;
    check_random(t, w, ASKS);
    world_free(w);
}

static void places_samples_by_their_own_times(struct test *t)
{
    struct world *w = world_new(t, 11);
    struct store_answer *a = store_answer_new((size_t)64 << 20);
    struct selector *selector = NULL;
    int64_t step = SECOND, sum = 0;

    world_append_random(t, w, 100, WORLD_START, WORLD_START + HOUR);
    world_upkeep(t, w, UPKEEP_FLUSH);
    world_append_random(t, w, 100, WORLD_START, WORLD_START + HOUR);
    CHECK_INT(t, selector_parse(bytes_of("cpu"), &selector, NULL), 0);
    struct store_plan plan = {.tenant = BYTES("default"),
                              .selector = selector,
                              .from_ns = WORLD_START + 10 * MINUTE,
                              .to_ns = WORLD_START + 40 * MINUTE,
                              .step_ns = step,
                              .what = PLAN_TOTALS,
                              .by_sample_time = true};
    CHECK_INT(t, store_aggregate(w->store, &plan, a, NULL), 0);
    for (int i = 0; i < w->n_profiles; i++) {
        const struct world_profile *p = &w->profiles[i];
        for (int j = 0; j < p->n_samples && !w->series[p->series].is_instant; j++) {
            const struct world_sample *s = &p->samples[j];
            int64_t at = s->time_ns ? s->time_ns : p->start_ns;
            if (at < plan.from_ns || at >= plan.to_ns)
                continue;
            sum += s->values[1];
            size_t k = 0;
            while (k < a->cells.len && a->cells.data[k].start_ns != cover_floor(at, step))
                k++;
            CHECK(t, k < a->cells.len);
            if (k < a->cells.len)
                a->cells.data[k].value -= s->values[1];
        }
    }
    CHECK(t, sum > 0);
    for (size_t k = 0; k < a->cells.len; k++)
        CHECK_INT(t, a->cells.data[k].value, 0);
    store_answer_free(a);
    selector_free(selector);
    world_free(w);
}

static void leaves_moments_where_they_are_in_time(struct test *t)
{
    struct world *w = world_new(t, 18);
    struct selector *selector = NULL;

    world_append_random(t, w, 200, WORLD_START, WORLD_START + HOUR);
    world_upkeep(t, w, UPKEEP_FLUSH);
    CHECK_INT(t, selector_parse(bytes_of("inuse_space"), &selector, NULL), 0);
    for (int instant = 0; instant < 3; instant++) {
        struct store_answer *a = store_answer_new((size_t)64 << 20);
        struct store_answer *b = store_answer_new((size_t)64 << 20);
        struct store_plan plan = {.tenant = BYTES("default"),
                                  .selector = selector,
                                  .from_ns = WORLD_START + 10 * MINUTE,
                                  .to_ns = WORLD_START + 40 * MINUTE,
                                  .step_ns = 5 * SECOND,
                                  .instant = (enum plan_instant)instant,
                                  .what = PLAN_TOTALS};
        CHECK_INT(t, store_aggregate(w->store, &plan, a, NULL), 0);
        plan.by_sample_time = true;
        CHECK_INT(t, store_aggregate(w->store, &plan, b, NULL), 0);
        CHECK(t, a->cells.len > 0);
        CHECK_INT(t, a->cells.len, b->cells.len);
        for (size_t i = 0; i < a->cells.len && i < b->cells.len; i++)
            CHECK_INT(t, b->cells.data[i].value, a->cells.data[i].value);
        store_answer_free(a);
        store_answer_free(b);
    }
    selector_free(selector);
    world_free(w);
}

static int ask_simply(struct world *w, struct store_plan *plan, struct store_answer *a,
                      struct error *err)
{
    plan->tenant = BYTES("default");
    plan->from_ns = WORLD_START;
    plan->to_ns = WORLD_START + 2 * DAY;
    return store_aggregate(w->store, plan, a, err);
}

static void ends_when_it_is_cancelled(struct test *t)
{
    struct world *w = world_new(t, 12);
    struct store_answer *a = store_answer_new((size_t)64 << 20);
    atomic_bool cancelled = true;
    struct store_plan plan = {.cancelled = &cancelled};
    struct error err = {{0}};

    world_append_random(t, w, 20, WORLD_START, WORLD_START + HOUR);
    CHECK_INT(t, ask_simply(w, &plan, a, &err), -ECANCELED);
    CHECK_STR(t, err.text, "the query was cancelled");
    world_upkeep(t, w, UPKEEP_FLUSH);
    CHECK_INT(t, ask_simply(w, &plan, a, &err), -ECANCELED);
    store_answer_free(a);
    world_free(w);
}

static void names_the_memory_limit_that_it_would_pass(struct test *t)
{
    struct world *w = world_new(t, 13);
    bool ok = false;

    world_append_random(t, w, 100, WORLD_START, WORLD_START + HOUR);
    world_upkeep(t, w, UPKEEP_FLUSH);
    world_append_random(t, w, 100, WORLD_START, WORLD_START + HOUR);
    struct bytes pod = BYTES("pod");
    struct matcher threads = {BYTES("thread.name"), MATCH_EQUAL, BYTES("t1"), NULL};
    for (size_t limit = 1; !ok && limit < (size_t)64 << 20; limit += 509) {
        ok = true;
        for (int what = 0; what < 12; what++) {
            struct store_answer *a = store_answer_new((size_t)64 << 20);
            struct store_plan plan = {.memory_limit = limit,
                                      .what = (enum plan_what)(what % 4),
                                      .function = BYTES("f1"),
                                      .group_by = &pod,
                                      .n_group_by = what >= 4,
                                      .attributes = &threads,
                                      .n_attributes = what >= 8,
                                      .threads = 1 + (unsigned)what % 2,
                                      .instant = what < 4 ? INSTANT_AVERAGE : INSTANT_SUM,
                                      .step_ns = HOUR};
            struct error err = {{0}};
            int r = ask_simply(w, &plan, a, &err);
            CHECK(t, r == 0 || r == -ENOBUFS);
            if (r < 0)
                CHECK(t, strstr(err.text, "limit") != NULL);
            ok = ok && r == 0;
            store_answer_free(a);
        }
    }
    CHECK(t, ok);
    ok = false;
    for (size_t limit = 1; !ok && limit < (size_t)4 << 20; limit += 509) {
        ok = true;
        for (int what = 0; what < 4; what++) {
            struct store_answer *a = store_answer_new(limit);
            struct store_plan plan = {
                .what = (enum plan_what)what, .group_by = &pod, .n_group_by = 1, .step_ns = HOUR};
            struct error err = {{0}};
            int r = ask_simply(w, &plan, a, &err);
            CHECK(t, r == 0 || (r == -ENOBUFS && strstr(err.text, "limit") != NULL));
            ok = ok && r == 0;
            store_answer_free(a);
        }
    }
    CHECK(t, ok);
    world_free(w);
}

/* A profile whose samples have attributes that are not text. */
static void append_numbers(struct test *t, struct world *w)
{
    struct dict *d = w->source->set->dict;
    struct profile *p = profile_set_add(w->source->set);
    struct label service = {BYTES("service.name"), BYTES("svc")};
    struct store_incoming in = {.profile = p, .labels = &service, .n_labels = 1};
    struct store_outcome outcome = {0};
    struct attribute kinds[] = {
        {.key = dict_cstring(d, "size"), .kind = ATTRIBUTE_INT, .number = 42},
        {.key = dict_cstring(d, "is_hot"), .kind = ATTRIBUTE_BOOL, .number = 1},
        {.key = dict_cstring(d, "is_hot"), .kind = ATTRIBUTE_BOOL, .number = 0}};

    profile_add_ctype(p, "cpu", "nanoseconds");
    p->time_unix_ns = WORLD_START;
    for (int i = 0; i < 3; i++) {
        uint32_t id = dict_attribute(d, kinds[i]);
        int64_t value = (int64_t)1 << i;
        struct sample s = {
            .node = world_stack_node(w, 1), .attrs = dict_attrs(d, &id, 1), .values = &value};
        profile_add(p, &s);
    }
    CHECK_INT(t, store_append(w->source, BYTES("default"), &in, 1, &outcome, NULL), 0);
    CHECK_INT(t, outcome.verdict, STORE_STORED);
}

static void filters_by_numbers_and_truth_too(struct test *t)
{
    static const struct {
        const char *name, *value;
        enum match_op op;
        int64_t want;
    } cases[] = {{"size", "42", MATCH_EQUAL, 1},     {"size", "43", MATCH_EQUAL, -1},
                 {"is_hot", "true", MATCH_EQUAL, 2}, {"is_hot", "false", MATCH_EQUAL, 4},
                 {"is_hot", "", MATCH_EQUAL, 1},     {"is_hot", "true", MATCH_NOT_EQUAL, 5}};
    struct world *w = world_new(t, 17);

    append_numbers(t, w);
    for (size_t i = 0; i < ARRAY_SIZE(cases) * 2; i++) {
        size_t k = i % ARRAY_SIZE(cases);
        struct store_answer *a = store_answer_new((size_t)64 << 20);
        struct matcher m = {bytes_of(cases[k].name), cases[k].op, bytes_of(cases[k].value), NULL};
        struct store_plan plan = {.what = PLAN_TOTALS, .attributes = &m, .n_attributes = 1};
        if (i == ARRAY_SIZE(cases))
            world_upkeep(t, w, UPKEEP_SETTLE);
        CHECK_INT(t, ask_simply(w, &plan, a, NULL), 0);
        CHECK_INT(t, a->cells.len > 0 ? a->cells.data[0].value : -1, cases[k].want);
        store_answer_free(a);
    }
    world_free(w);
}

static void knows_nothing_of_other_tenants(struct test *t)
{
    struct world *w = world_new(t, 14);
    struct store_answer *a = store_answer_new((size_t)64 << 20);
    struct store_plan plan = {
        .tenant = BYTES("stranger"), .from_ns = WORLD_START, .to_ns = WORLD_START + DAY};

    world_append_random(t, w, 20, WORLD_START, WORLD_START + HOUR);
    CHECK_INT(t, store_aggregate(w->store, &plan, a, NULL), 0);
    CHECK_INT(t, a->cells.len, 0);
    store_answer_free(a);
    world_free(w);
}

/* ---- Damage */

static int64_t full_total(const struct world *w)
{
    int64_t full = 0;

    for (int i = 0; i < w->n_profiles; i++)
        full += row_total(&w->profiles[i], 1, w->series[w->profiles[i].series].is_instant);
    return full;
}

/* What is left of all values, and whether the answer admits that something is missing. */
static void check_damaged(struct test *t, struct world *w, const char *path, void *arg)
{
    int64_t full = full_total(w);
    int *ret_incomplete = arg;

    for (int what = 0; what < 2; what++) {
        struct store_answer *a = store_answer_new((size_t)64 << 20);
        struct selector *selector = NULL;
        struct error err = {{0}};
        int64_t total = 0;

        CHECK_INT(t, selector_parse(bytes_of("cpu"), &selector, NULL), 0);
        struct store_plan plan = {.selector = selector, .what = what ? PLAN_TOTALS : PLAN_STACKS};
        CHECK_INT(t, ask_simply(w, &plan, a, &err), 0);
        for (size_t i = 0; i < a->cells.len; i++)
            total += what ? a->cells.data[i].value : profile_total(a->cells.data[i].profile, 0);
        if (a->is_incomplete ? total > full || a->trouble.text[0] == 0 : total != full) {
            printf("# %s: %lld of %lld, \"%s\"\n", path, (long long)total, (long long)full,
                   a->trouble.text);
            t->failures++;
        }
        *ret_incomplete += a->is_incomplete;
        store_answer_free(a);
        selector_free(selector);
    }
}

static void answers_with_what_is_left_when_files_rot(struct test *t)
{
    struct world *w = world_new(t, 16);
    int incomplete = 0;

    world_append_random(t, w, 150, WORLD_START, WORLD_START + 3 * HOUR);
    world_upkeep(t, w, UPKEEP_FLUSH);
    world_damage(t, w, 12, check_damaged, &incomplete);
    CHECK(t, incomplete > 20);
    incomplete = 0;
    check_damaged(t, w, "all are well again", &incomplete);
    CHECK_INT(t, incomplete, 0);
    world_free(w);
}

/* ---- Threads */

#define RACE_PROFILES 300

struct race {
    struct world *w;
    struct test *t;
    atomic_int begun, acknowledged;
    atomic_bool is_over;
};

static void *write_on(void *arg)
{
    struct race *r = arg;

    for (int i = 0; i < RACE_PROFILES; i++) {
        struct world_profile p = {.series = i % 4 == 3 ? 0 : i % 4,
                                  .start_ns = WORLD_START + (int64_t)i * 20 * SECOND,
                                  .duration_ns = SECOND,
                                  .n_samples = 1,
                                  .samples = {{.stack = i % WORLD_STACKS, .values = {1, 1}}}};
        atomic_fetch_add(&r->begun, 1);
        if (world_append(r->t, r->w, &p) == STORE_STORED)
            atomic_fetch_add(&r->acknowledged, 1);
    }
    atomic_store(&r->is_over, true);
    return NULL;
}

static void *keep_up(void *arg)
{
    struct race *r = arg;
    struct error err;

    while (!atomic_load(&r->is_over)) {
        (void)store_upkeep(r->w->store, UPKEEP_FLUSH, &err);
        (void)store_upkeep(r->w->store, UPKEEP_SETTLE, &err);
    }
    return NULL;
}

static void sees_what_was_acknowledged_and_counts_it_once(struct test *t)
{
    struct world *w = world_new(t, 15);
    struct race race = {.w = w, .t = t};
    pthread_t writer, keeper;
    int n = 0;

    pthread_create(&writer, NULL, write_on, &race);
    pthread_create(&keeper, NULL, keep_up, &race);
    while (!atomic_load(&race.is_over) || n == 0) {
        struct store_answer *a = store_answer_new((size_t)64 << 20);
        struct selector *selector = NULL;
        struct error err = {{0}};
        int64_t total = 0;
        CHECK_INT(t, selector_parse(bytes_of("samples"), &selector, NULL), 0);
        struct store_plan plan = {
            .selector = selector, .what = n % 2 ? PLAN_STACKS : PLAN_TOTALS, .threads = 1};
        int before = atomic_load(&race.acknowledged);
        CHECK_INT(t, ask_simply(w, &plan, a, &err), 0);
        int after = atomic_load(&race.begun);
        for (size_t i = 0; i < a->cells.len; i++)
            total += a->cells.data[i].profile ? profile_total(a->cells.data[i].profile, 0)
                                              : a->cells.data[i].value;
        if (total < before || total > after || a->is_incomplete)
            printf("# %lld not in %d..%d: %s %s\n", (long long)total, before, after, err.text,
                   a->trouble.text);
        CHECK(t, total >= before && total <= after && !a->is_incomplete);
        store_answer_free(a);
        selector_free(selector);
        n++;
    }
    pthread_join(writer, NULL);
    pthread_join(keeper, NULL);
    CHECK_INT(t, race.acknowledged, RACE_PROFILES);
    world_free(w);
}

static const struct test_case cases[] = {
    TEST(answers_from_memory),
    TEST(answers_from_fresh_segments),
    TEST(answers_from_rollups),
    TEST(answers_from_all_at_once_with_late_data),
    TEST(hides_what_was_erased_and_not_what_came_after),
    TEST(shows_nothing_that_has_expired),
    TEST(places_samples_by_their_own_times),
    TEST(leaves_moments_where_they_are_in_time),
    TEST(ends_when_it_is_cancelled),
    TEST(names_the_memory_limit_that_it_would_pass),
    TEST(filters_by_numbers_and_truth_too),
    TEST(knows_nothing_of_other_tenants),
    TEST(answers_with_what_is_left_when_files_rot),
    TEST(sees_what_was_acknowledged_and_counts_it_once),
};
TEST_MAIN(cases)

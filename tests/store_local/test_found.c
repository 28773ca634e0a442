#include <errno.h>

#include "store_local/found.h"
#include "store_local/survey.h"
#include "store_local/world.h"

/* ---- What the sink is given is looked up in the world */

struct seen {
    struct test *t;
    struct world *w;
    const struct store_find *find;
    int counts[WORLD_PROFILES];
    int n;
    int stop_after, stop_with;
};

static bool is_of_series(const struct world_series *s, const struct store_series *found)
{
    return bytes_are(label_value(found->labels, found->n_labels, BYTES("pod")), s->pod) &&
           bytes_are(label_value(found->labels, found->n_labels, BYTES("service.name")),
                     s->service) &&
           found->is_instant == s->is_instant;
}

static int find_profile(const struct world *w, const struct store_found *f)
{
    for (int i = 0; i < w->n_profiles; i++) {
        const struct world_profile *p = &w->profiles[i];
        int64_t total = 0;
        for (int j = 0; j < p->n_samples; j++)
            total += p->samples[j].values[1];
        if (p->start_ns == f->start_ns && is_of_series(&w->series[p->series], f->series) &&
            p->has_id == f->has_id && (!p->has_id || memcmp(p->id, f->id, 16) == 0) &&
            f->totals[1] == total)
            return i;
    }
    return -1;
}

static bool same_frames(const struct world *w, const struct dict *d, uint32_t node, int stack)
{
    for (int i = w->depth[stack] - 1; i >= 0; i--, node = d->node_parent.data[node]) {
        if (node == 0)
            return false;
        struct location l = d->locations.data[d->node_location.data[node]];
        uint32_t f = d->lines.data[l.first_line].function;
        if (world_number(dict_cstr(d, d->functions.data[f].name)) != w->stacks[stack][i])
            return false;
    }
    return node == 0;
}

static int text_number(const struct dict *d, uint32_t attrs, const char *key)
{
    uint32_t a = dict_attrs_get(d, attrs, dict_find_string(d, bytes_of(key)));
    return a ? world_number(dict_cstr(d, d->attributes.data[a].text)) : 0;
}

/* Samples with a link or time come back singly; the others are added up by stack and attributes. */
static bool is_like(const struct world *w, const struct profile *p, size_t i,
                    const struct world_sample *s)
{
    const struct dict *d = p->dict;
    struct link want = world_link(s->trace), got = d->links.data[profile_link(p, i)];

    return same_frames(w, d, p->node[i], s->stack) &&
           text_number(d, profile_attrs(p, i), "thread.name") == s->thread &&
           text_number(d, profile_attrs(p, i), "odd") == s->odd &&
           memcmp(&want, &got, sizeof(want)) == 0 && profile_time_ns(p, i) == (uint64_t)s->time_ns;
}

static void check_samples(struct test *t, const struct world *w, const struct profile *p,
                          const struct world_profile *want)
{
    int64_t left[64] = {0};

    CHECK(t, p->n_samples <= 64);
    for (size_t i = 0; i < p->n_samples; i++)
        left[i] = p->values[1][i];
    for (int j = 0; j < want->n_samples; j++) {
        size_t i = 0;
        while (i < p->n_samples && (!is_like(w, p, i, &want->samples[j]) || left[i] == 0))
            i++;
        CHECK(t, i < p->n_samples);
        if (i < p->n_samples)
            left[i] -= want->samples[j].values[1];
    }
    for (size_t i = 0; i < p->n_samples; i++)
        CHECK_INT(t, left[i], 0);
    CHECK_INT(t, p->duration_ns, want->duration_ns);
    CHECK_INT(t, p->period, 10000000);
    CHECK_STR(t, dict_cstr(p->dict, p->period_type.type), "cpu");
}

static int see(void *ctx, const struct store_found *f)
{
    struct seen *s = ctx;
    int i = find_profile(s->w, f);

    CHECK(s->t, i >= 0);
    if (i >= 0) {
        s->counts[i]++;
        CHECK_INT(s->t, f->duration_ns, s->w->profiles[i].duration_ns);
        CHECK_INT(s->t, f->profile != NULL, s->find->with_samples);
        if (f->profile)
            check_samples(s->t, s->w, f->profile, &s->w->profiles[i]);
    }
    s->n++;
    return s->stop_after > 0 && s->n >= s->stop_after ? s->stop_with : 0;
}

static bool has_trace(const struct world_profile *p, int trace)
{
    for (int i = 0; i < p->n_samples; i++) {
        if (p->samples[i].trace == trace)
            return true;
    }
    return false;
}

static struct seen *new_seen(struct test *t, struct world *w, const struct store_find *find)
{
    struct seen *s = calloc(1, sizeof(*s));
    if (!s)
        abort();
    s->t = t, s->w = w, s->find = find;
    return s;
}

static void check_find(struct test *t, struct world *w, const struct store_find *find, int trace,
                       int id_of)
{
    struct seen *s = new_seen(t, w, find);
    struct error err = {{0}};

    CHECK_INT(t, store_profiles(w->store, find, see, s, &err), 0);
    for (int i = 0; i < w->n_profiles; i++) {
        const struct world_profile *p = &w->profiles[i];
        bool want = p->start_ns >= find->from_ns && p->start_ns < find->to_ns && !p->is_erased &&
                    (!trace || has_trace(p, trace)) && (id_of < 0 || i == id_of);
        CHECK_INT(t, s->counts[i], want);
    }
    free(s);
}

static void check_finds(struct test *t, struct world *w)
{
    struct store_find all = {
        .tenant = BYTES("default"), .from_ns = WORLD_START + HOUR, .to_ns = WORLD_START + 3 * HOUR};
    struct link link = world_link(2);

    check_find(t, w, &all, 0, -1);
    all.with_samples = true;
    check_find(t, w, &all, 0, -1);
    struct store_find traced = all;
    traced.has_trace = true;
    memcpy(traced.trace_id, link.trace_id, 16);
    check_find(t, w, &traced, 2, -1);
    traced.has_span = true;
    memcpy(traced.span_id, link.span_id, 8);
    check_find(t, w, &traced, 2, -1);
    traced.has_trace = false;
    check_find(t, w, &traced, 2, -1);
    for (int i = 0; i < w->n_profiles; i += 17) {
        struct store_find by_id = {
            .tenant = BYTES("default"), .from_ns = INT64_MIN, .to_ns = INT64_MAX, .has_id = true};
        memcpy(by_id.id, w->profiles[i].id, 16);
        if (w->profiles[i].has_id)
            check_find(t, w, &by_id, 0, i);
    }
}

static void finds_profiles_as_they_came(struct test *t)
{
    struct world *w = world_new(t, 21);

    check_finds(t, w);
    world_append_random(t, w, 150, WORLD_START, WORLD_START + 4 * HOUR);
    check_finds(t, w);
    world_upkeep(t, w, UPKEEP_FLUSH);
    check_finds(t, w);
    world_append_random(t, w, 50, WORLD_START, WORLD_START + 4 * HOUR);
    check_finds(t, w);
    world_upkeep(t, w, UPKEEP_SETTLE);
    check_finds(t, w);
    world_free(w);
}

static void stops_when_the_sink_or_the_limit_says_so(struct test *t)
{
    struct world *w = world_new(t, 22);
    struct store_find find = {
        .tenant = BYTES("default"), .from_ns = WORLD_START, .to_ns = WORLD_START + DAY};

    world_append_random(t, w, 20, WORLD_START, WORLD_START + HOUR);
    world_upkeep(t, w, UPKEEP_FLUSH);
    world_append_random(t, w, 20, WORLD_START, WORLD_START + HOUR);
    for (int n = 1; n <= 40; n += 13) {
        struct seen *s = new_seen(t, w, &find);
        s->stop_after = n;
        s->stop_with = -EPIPE;
        CHECK_INT(t, store_profiles(w->store, &find, see, s, NULL), -EPIPE);
        CHECK_INT(t, s->n, n);
        s->n = 0, s->stop_with = 7;
        CHECK_INT(t, store_profiles(w->store, &find, see, s, NULL), 7);
        s->n = 0, s->stop_after = 0;
        find.limit = (size_t)n;
        CHECK_INT(t, store_profiles(w->store, &find, see, s, NULL), 0);
        CHECK_INT(t, s->n, n);
        find.limit = 0;
        free(s);
    }
    atomic_bool cancelled = true;
    find.cancelled = &cancelled;
    struct seen *s = new_seen(t, w, &find);
    struct error err = {{0}};
    CHECK_INT(t, store_profiles(w->store, &find, see, s, &err), -ECANCELED);
    CHECK_STR(t, err.text, "the query was cancelled");
    free(s);
    world_free(w);
}

/* ---- Series */

struct named {
    struct world *w;
    int counts[WORLD_SERIES];
    int n;
};

static int name(void *ctx, const struct store_series *series)
{
    struct named *n = ctx;

    for (int i = 0; i < WORLD_SERIES; i++)
        n->counts[i] += is_of_series(&n->w->series[i], series) && series->n_types == 2;
    return n->n > 0 && --n->n == 0 ? 5 : 0;
}

static void check_series(struct test *t, struct world *w, int64_t from, int64_t to)
{
    struct named n = {.w = w};

    CHECK_INT(t,
              store_series(w->store, &(struct store_scope){BYTES("default"), NULL, from, to}, name,
                           &n, NULL),
              0);
    for (int i = 0; i < WORLD_SERIES; i++) {
        bool has = false;
        for (int j = 0; j < w->n_profiles; j++) {
            const struct world_profile *p = &w->profiles[j];
            has |= p->series == i && p->start_ns >= from && p->start_ns < to;
        }
        CHECK_INT(t, n.counts[i], has);
    }
}

static void names_the_series_that_have_data(struct test *t)
{
    struct world *w = world_new(t, 23);

    for (int round = 0; round < 3; round++) {
        world_append_random(t, w, 10, WORLD_START, WORLD_START + HOUR);
        world_append_random(t, w, 40, WORLD_START + 3 * HOUR, WORLD_START + 4 * HOUR);
        check_series(t, w, WORLD_START, WORLD_START + HOUR);
        check_series(t, w, WORLD_START + HOUR, WORLD_START + 3 * HOUR);
        check_series(t, w, WORLD_START, WORLD_START + DAY);
        world_upkeep(t, w, round == 1 ? UPKEEP_SETTLE : UPKEEP_FLUSH);
        check_series(t, w, WORLD_START, WORLD_START + HOUR);
        check_series(t, w, WORLD_START, WORLD_START + DAY);
    }
    struct named n = {.w = w, .n = 3};
    CHECK_INT(t,
              store_series(w->store, &(struct store_scope){BYTES("default"), NULL, 0, INT64_MAX},
                           name, &n, NULL),
              5);
    CHECK_INT(t,
              store_series(w->store, &(struct store_scope){BYTES("nobody"), NULL, 0, INT64_MAX},
                           name, &n, NULL),
              0);
    world_free(w);
}

static void estimates_from_indexes(struct test *t)
{
    struct world *w = world_new(t, 24);
    struct store_plan plan = {.tenant = BYTES("default"),
                              .from_ns = WORLD_START,
                              .to_ns = WORLD_START + DAY,
                              .raw_only = true};
    struct store_estimate in_memory, in_files, rolled_up;

    world_append_random(t, w, 600, WORLD_START, WORLD_START + HOUR);
    CHECK_INT(t, store_estimate(w->store, &plan, &in_memory, NULL), 0);
    CHECK_INT(t, in_memory.rows, w->n_profiles);
    CHECK_INT(t, in_memory.series, WORLD_SERIES);
    CHECK(t, in_memory.samples > 600 && in_memory.bytes > in_memory.samples);
    world_upkeep(t, w, UPKEEP_SETTLE);
    CHECK_INT(t, store_estimate(w->store, &plan, &in_files, NULL), 0);
    CHECK_INT(t, in_files.rows, in_memory.rows);
    CHECK_INT(t, in_files.samples, in_memory.samples);
    CHECK_INT(t, in_files.series, WORLD_SERIES);
    plan.raw_only = false;
    CHECK_INT(t, store_estimate(w->store, &plan, &rolled_up, NULL), 0);
    CHECK(t, rolled_up.rows <= in_files.rows && rolled_up.series == WORLD_SERIES);
    plan.from_ns = WORLD_START + 5 * HOUR;
    CHECK_INT(t, store_estimate(w->store, &plan, &rolled_up, NULL), 0);
    CHECK_INT(t, rolled_up.rows + rolled_up.series, 0);
    world_free(w);
}

/* ---- Damage */

static int count_found(void *ctx, const struct store_found *f)
{
    int *n = ctx;
    *n += f->profile != NULL;
    return 0;
}

static int count_series(void *ctx, const struct store_series *s)
{
    int *n = ctx;
    *n += s->n_types == 2;
    return 0;
}

/* Everything is found, or it is said what is not. */
static void check_damaged(struct test *t, struct world *w, const char *path, void *arg)
{
    struct store_find find = {.tenant = BYTES("default"),
                              .from_ns = WORLD_START,
                              .to_ns = WORLD_START + DAY,
                              .with_samples = true};
    struct link link = world_link(1);
    int n_found = 0, n_series = 0, n_traced = 0, *n_bad = arg;
    struct error err = {{0}};
    int r = store_profiles(w->store, &find, count_found, &n_found, &err);

    if (r == 0 ? n_found != w->n_profiles
               : r != -EBADMSG || n_found >= w->n_profiles || !err.text[0]) {
        printf("# %s: %d, %d of %d profiles, \"%s\"\n", path, r, n_found, w->n_profiles, err.text);
        t->failures++;
    }
    *n_bad += r < 0;
    find.has_trace = true;
    memcpy(find.trace_id, link.trace_id, 16);
    r = store_profiles(w->store, &find, count_found, &n_traced, &err);
    CHECK(t, r == 0 || r == -EBADMSG);
    struct store_scope scope = {BYTES("default"), NULL, WORLD_START, WORLD_START + DAY};
    r = store_series(w->store, &scope, count_series, &n_series, &err);
    CHECK(t, r == 0 ? n_series == WORLD_SERIES : r == -EBADMSG && n_series <= WORLD_SERIES);
    struct store_plan plan = {
        .tenant = BYTES("default"), .from_ns = WORLD_START, .to_ns = WORLD_START + DAY};
    struct store_estimate estimate;
    r = store_estimate(w->store, &plan, &estimate, &err);
    CHECK(t, r == 0 || r == -EBADMSG);
}

static void finds_what_is_left_when_files_rot(struct test *t)
{
    struct world *w = world_new(t, 25);
    int n_bad = 0;

    world_append_random(t, w, 150, WORLD_START, WORLD_START + 3 * HOUR);
    world_upkeep(t, w, UPKEEP_FLUSH);
    world_damage(t, w, 12, check_damaged, &n_bad);
    CHECK(t, n_bad > 10);
    n_bad = 0;
    check_damaged(t, w, "all are well again", &n_bad);
    CHECK_INT(t, n_bad, 0);
    world_free(w);
}

static const struct test_case cases[] = {
    TEST(finds_profiles_as_they_came),       TEST(stops_when_the_sink_or_the_limit_says_so),
    TEST(names_the_series_that_have_data),   TEST(estimates_from_indexes),
    TEST(finds_what_is_left_when_files_rot),
};
TEST_MAIN(cases)

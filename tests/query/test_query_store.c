#include <errno.h>

#include "lib/set_clock.h"
#include "lib/sim_fs.h"
#include "lib/test.h"
#include "query/query.h"
#include "query/tables.h"
#include "store_local/local.h"

/* Questions to a real store over a simulated disk. */
#define S     ((int64_t)1000000000)
#define START (20000 * 86400 * S)

struct world {
    struct sim_fs *sim;
    struct set_clock clock;
    struct store *store;
    struct store_source *source;
    struct selector *selector;
};

static void must(int r, const struct error *err)
{
    if (r < 0) {
        printf("Bail out! %s\n", err->text);
        exit(1);
    }
}

static uint32_t call(struct dict *d, uint32_t parent, const char *name)
{
    return dict_frame(d, parent, (struct function){.name = dict_cstring(d, name)}, 1, 0, 0);
}

/* A profile in which main calls `leaf`, of `value` ns, at START + second. */
static void append(struct world *w, const char *pod, int second, const char *leaf, int64_t value)
{
    struct error err = {""};
    struct store_outcome outcome;
    store_source_reset(w->source);
    struct dict *d = w->source->set->dict;
    struct profile *p = profile_set_add(w->source->set);
    profile_add_ctype(p, "cpu", "nanoseconds");
    uint32_t top = call(d, 0, "main");
    int64_t values[] = {value};
    profile_add(p, &(struct sample){.node = call(d, top, leaf),
                                    .values = values,
                                    .time_ns = (uint64_t)(START + second * S + S / 2)});
    p->time_unix_ns = START + second * S;
    p->duration_ns = S;
    struct label labels[] = {{BYTES("pod"), bytes_of(pod)},
                             {BYTES("service.name"), BYTES("checkout")}};
    struct store_incoming in = {.profile = p, .labels = labels, .n_labels = 2};
    must(store_append(w->source, BYTES("default"), &in, 1, &outcome, &err), &err);
    if (outcome.verdict != STORE_STORED)
        must(-EINVAL, &outcome.why);
}

static struct query start(struct world *w, const char *selector)
{
    struct error err = {""};
    w->sim = sim_fs_new(1);
    set_clock_init(&w->clock, START + 3600 * S);
    struct local_options o = {.fs = sim_fs_fs(w->sim), .clock = &w->clock.clock, .seed = 1};
    must(local_open(&o, &w->store, &err), &err);
    must(store_source_new(w->store, 0, &w->source, &err), &err);
    must(selector_parse(bytes_of(selector), &w->selector, &err), &err);
    append(w, "a", 0, "parse", 5);
    append(w, "a", 60, "parse", 7);
    append(w, "b", 60, "sort", 11);
    append(w, "b", 120, "parse", 13);
    return (struct query){
        .store = w->store, .selector = w->selector, .from_ns = START, .to_ns = START + 3600 * S};
}

static void finish(struct world *w)
{
    selector_free(w->selector);
    store_source_free(w->source);
    store_close(w->store);
    sim_fs_free(w->sim);
}

static void a_selection_merges_and_filters(struct test *t)
{
    struct world w;
    struct merged m;
    struct error err = {""};
    struct query q = start(&w, "cpu{service.name=\"checkout\"}");
    CHECK_INT(t, query_merge(&q, &m, &err), 0);
    CHECK_INT(t, profile_total(m.profile, 0), 36);
    merged_done(&m);

    q.filters.focus = "sort";
    CHECK_INT(t, query_merge(&q, &m, &err), 0);
    CHECK_INT(t, profile_total(m.profile, 0), 11);
    merged_done(&m);
    q.filters.focus = "nowhere";
    CHECK_INT(t, query_merge(&q, &m, &err), 0);
    CHECK_STR(t, buf_cstr(&m.warnings), "Focus expression matched no samples\n");
    merged_done(&m);
    q.filters.focus = "(";
    CHECK_INT(t, query_merge(&q, &m, &err), -EINVAL);
    merged_done(&m);
    q.filters.focus = NULL;
    q.from_ns = START + 1000 * S;
    CHECK_INT(t, query_merge(&q, &m, &err), -ENODATA);
    static const char nothing[] =
        "nothing is stored for \"cpu{service.name=\"checkout\"}\" from 20";
    CHECK_INT(t, strncmp(err.text, nothing, sizeof(nothing) - 1), 0);
    merged_done(&m);
    finish(&w);
}

static void periods_compare(struct test *t)
{
    struct world w;
    struct merged_pair pair;
    struct difference d;
    struct error err = {""};
    struct query before = start(&w, "cpu"), after = before;
    before.to_ns = after.from_ns = START + 60 * S;
    CHECK_INT(t, query_pair(&before, &after, &pair, &err), 0);
    CHECK_INT(t, query_difference(&pair, &(struct difference_options){.type = "cpu"}, &d, &err), 0);
    CHECK_INT(t, d.total[0], 5);
    CHECK_INT(t, d.total[1], 31);
    CHECK_STR(t, dict_cstr(d.dict, d.rows.data[0].name), "parse");
    CHECK_INT(t, d.rows.data[0].flat[0], 5);
    CHECK_INT(t, d.rows.data[0].flat[1], 20);
    difference_done(&d);
    merged_pair_done(&pair);

    /* A side without data is empty, two are an error. */
    before.from_ns = START - 100 * S;
    before.to_ns = START;
    CHECK_INT(t, query_pair(&before, &after, &pair, &err), 0);
    CHECK_INT(t, profile_total(pair.before, 0), 0);
    merged_pair_done(&pair);
    CHECK_INT(t, query_pair(&after, &before, &pair, &err), 0);
    CHECK_INT(t, profile_total(pair.after, 0), 0);
    merged_pair_done(&pair);
    CHECK_INT(t, query_pair(&before, &before, &pair, &err), -ENODATA);
    merged_pair_done(&pair);
    finish(&w);
}

static void values_over_time_add_up(struct test *t)
{
    struct world w;
    struct timeline line;
    struct error err = {""};
    struct query q = start(&w, "cpu");
    struct timeline_options by_pod = {
        .step_ns = 60 * S, .group_by = (struct bytes[]){BYTES("pod")}, .n_group_by = 1};
    CHECK_INT(t, query_timeline(&q, &by_pod, &line, &err), 0);
    CHECK_INT(t, line.series.len, 2);
    CHECK(t, bytes_are(line.series.data[0].labels[0].value, "b"));
    CHECK_INT(t, line.series.data[0].total, 24);
    CHECK_INT(t, line.series.data[1].total, 12);
    const struct timeline_point *p = &line.points.data[line.series.data[0].first];
    CHECK_INT(t, p[0].start_ns, START + 60 * S);
    CHECK_INT(t, p[0].value, 11);
    CHECK_INT(t, p[1].value, 13);
    CHECK_INT(t, p[1].n_profiles, 1);
    timeline_done(&line);

    CHECK_INT(t, query_timeline(&q, &(struct timeline_options){0}, &line, &err), 0);
    CHECK_INT(t, line.step_ns, 30 * S);
    CHECK_INT(t, line.series.data[0].total, 36);
    timeline_done(&line);

    CHECK_INT(t,
              query_timeline(&q, &(struct timeline_options){.step_ns = 60 * S, .function = "parse"},
                             &line, &err),
              0);
    CHECK_INT(t, line.series.data[0].total, 25);
    timeline_done(&line);
    CHECK_INT(t,
              query_timeline(&q,
                             &(struct timeline_options){.step_ns = 3600 * S, .function = "main"},
                             &line, &err),
              0);
    CHECK_INT(t, line.points.data[0].value, 36);
    CHECK_INT(t, line.points.data[0].flat, 0);
    timeline_done(&line);
    CHECK_INT(t, query_timeline(&q, &(struct timeline_options){.step_ns = 1}, &line, &err),
              -EINVAL);
    CHECK(t, strstr(err.text, "at most 100000 are allowed") != NULL);
    timeline_done(&line);
    finish(&w);
}

static void a_heat_map_places_samples_by_their_own_times(struct test *t)
{
    struct world w;
    struct heat_map h;
    struct error err = {""};
    struct query q = start(&w, "cpu");
    q.to_ns = START + 180 * S;
    CHECK_INT(t, query_heat(&q, S, 10, &h, &err), 0);
    CHECK_INT(t, h.n_columns, 180);
    CHECK_INT(t, h.max, 18);
    CHECK_INT(t, h.cells[0 * 10 + 5], 5);
    CHECK_INT(t, h.cells[60 * 10 + 5], 18);
    CHECK_INT(t, h.cells[120 * 10 + 5], 13);
    heat_done(&h);
    CHECK_INT(t, query_heat(&q, 0, 10, &h, &err), -EINVAL);
    heat_done(&h);
    CHECK_INT(t, query_heat(&q, 1000, 100, &h, &err), -EINVAL);
    CHECK(t, strstr(err.text, "at most 1000000 are allowed") != NULL);
    heat_done(&h);
    q.to_ns = q.from_ns;
    CHECK_INT(t, query_heat(&q, S, 10, &h, &err), -EINVAL);
    heat_done(&h);
    finish(&w);
}

static void what_there_is_can_be_listed(struct test *t)
{
    struct world w;
    struct name_list l;
    struct query q = start(&w, "{pod=~\"a|b\"}");
    CHECK_INT(t, query_types(&q, &l, NULL), 0);
    CHECK(t, l.names.len == 1 && bytes_are(l.names.data[0], "cpu:nanoseconds"));
    name_list_done(&l);
    CHECK_INT(t, query_label_names(&q, &l, NULL), 0);
    CHECK(t, l.names.len == 2 && bytes_are(l.names.data[1], "service.name"));
    name_list_done(&l);
    CHECK_INT(t, query_label_values(&q, BYTES("pod"), &l, NULL), 0);
    CHECK(t, l.names.len == 2 && bytes_are(l.names.data[0], "a"));
    name_list_done(&l);
    q.from_ns = START + 100 * S;
    CHECK_INT(t, query_label_values(&q, BYTES("pod"), &l, NULL), 0);
    CHECK(t, l.names.len == 1 && bytes_are(l.names.data[0], "b"));
    name_list_done(&l);
    finish(&w);
}

static void samples_of_labels_traces_and_ids_merge(struct test *t)
{
    struct world w;
    struct merged m;
    struct error err = {""};
    struct query q = start(&w, "cpu{}");
    struct dict *d = w.source->set->dict;
    struct store_outcome outcome;

    store_source_reset(w.source);
    d = w.source->set->dict;
    struct profile *p = profile_set_add(w.source->set);
    profile_add_ctype(p, "samples", "count");
    profile_add_ctype(p, "cpu", "nanoseconds");
    uint32_t main_thread =
        dict_string_attribute(d, dict_cstring(d, "thread"), dict_cstring(d, "main"));
    uint32_t top = call(d, 0, "main");
    profile_add(p, &(struct sample){.node = call(d, top, "parse"),
                                    .attrs = dict_attrs(d, &main_thread, 1),
                                    .values = (int64_t[]){1, 100}});
    profile_add(p, &(struct sample){.node = call(d, top, "sort"),
                                    .link = dict_link(d, (struct link){{7}, {8}}),
                                    .values = (int64_t[]){1, 200}});
    p->time_unix_ns = START + 200 * S;
    struct label labels[] = {{BYTES("service.name"), BYTES("checkout")}};
    struct store_incoming in = {
        .profile = p, .labels = labels, .n_labels = 1, .has_id = true, .id = {9}};
    must(store_append(w.source, BYTES("default"), &in, 1, &outcome, &err), &err);

    q.filters.tagfocus[0] = "thread=main";
    must(query_merge(&q, &m, &err), &err);
    CHECK_INT(t, m.profile->n_types, 1);
    CHECK_INT(t, profile_total(m.profile, 0), 100);
    merged_done(&m);
    q.filters.tagfocus[0] = NULL;

    q.has_trace = true;
    q.trace_id[0] = 7;
    must(query_merge(&q, &m, &err), &err);
    CHECK_INT(t, profile_total(m.profile, 0), 200);
    merged_done(&m);
    q.has_span = true;
    q.span_id[0] = 9;
    CHECK_INT(t, query_merge(&q, &m, &err), -ENODATA);
    merged_done(&m);
    q.has_trace = q.has_span = false;

    q.has_id = true;
    q.id[0] = 9;
    must(query_merge(&q, &m, &err), &err);
    CHECK_INT(t, profile_total(m.profile, 0), 300);
    CHECK_INT(t, m.profile->time_unix_ns - START, 200 * S);
    merged_done(&m);
    q.id[0] = 1;
    CHECK_INT(t, query_merge(&q, &m, &err), -ENODATA);
    merged_done(&m);
    finish(&w);
}

/* A moment of the live heap of a pod: `kept` and `new` bytes, labelled. */
static void append_moment(struct world *w, const char *pod, int second, int64_t kept, int64_t new)
{
    struct error err = {""};
    struct store_outcome outcome;
    store_source_reset(w->source);
    struct dict *d = w->source->set->dict;
    struct profile *p = profile_set_add(w->source->set);
    profile_add_ctype(p, "inuse_space", "bytes");
    uint32_t kind = dict_cstring(d, "memory.kind");
    uint32_t labels_of[] = {dict_string_attribute(d, kind, dict_cstring(d, "malloc")),
                            dict_string_attribute(d, kind, dict_cstring(d, "new"))};
    uint32_t top = call(d, 0, "main");
    profile_add(p, &(struct sample){
                       .node = top, .attrs = dict_attrs(d, &labels_of[0], 1), .values = &kept});
    profile_add(
        p, &(struct sample){.node = top, .attrs = dict_attrs(d, &labels_of[1], 1), .values = &new});
    p->time_unix_ns = START + second * S;
    struct label labels[] = {{BYTES("pod"), bytes_of(pod)},
                             {BYTES("service.name"), BYTES("checkout")}};
    struct store_incoming in = {.profile = p, .labels = labels, .n_labels = 2, .is_instant = true};
    must(store_append(w->source, BYTES("default"), &in, 1, &outcome, &err), &err);
    if (outcome.verdict != STORE_STORED)
        must(-EINVAL, &outcome.why);
}

static int settle(struct world *w, struct error *err)
{
    int r;
    while ((r = store_upkeep(w->store, UPKEEP_SETTLE, err)) == 1)
        ;
    return r;
}

/* Series by series, as the store itself makes sums of moments. */
static void moments_keep_their_labels(struct test *t)
{
    static const struct {
        enum plan_instant instant;
        int64_t kept, new;
    } cases[] = {
        {INSTANT_AVERAGE, 20 + 1, 53 + 2}, /* 52.5 */
        {INSTANT_LAST, 39 + 1, 5 + 2},
        {INSTANT_PEAK, 1 + 1, 100 + 2},
        {INSTANT_SUM, 400 + 1, 1050 + 2},
    };
    struct world w;
    struct error err = {""};
    struct query q = start(&w, "inuse_space{}");

    for (int i = 0; i < 20; i++) /* 1 3 ... 39, and 100 95 ... 5 */
        append_moment(&w, "a", i, 1 + 2 * i, 100 - 5 * i);
    append_moment(&w, "b", 5, 1, 2);
    for (size_t i = 0; i < 2 * ARRAY_SIZE(cases); i++) {
        const int64_t want_kept = cases[i % ARRAY_SIZE(cases)].kept;
        const int64_t want_new = cases[i % ARRAY_SIZE(cases)].new;
        struct merged whole, kept, new;
        if (i == ARRAY_SIZE(cases)) /* once more, in segments with rollups */
            must(settle(&w, &err), &err);
        q.instant = cases[i % ARRAY_SIZE(cases)].instant;
        q.filters.tagfocus[0] = NULL;
        must(query_merge(&q, &whole, &err), &err);
        q.filters.tagfocus[0] = "memory.kind=malloc";
        must(query_merge(&q, &kept, &err), &err);
        q.filters.tagfocus[0] = "memory.kind=new";
        must(query_merge(&q, &new, &err), &err);
        CHECK_INT(t, profile_total(kept.profile, 0), want_kept);
        CHECK_INT(t, profile_total(new.profile, 0), want_new);
        CHECK_INT(t, profile_total(whole.profile, 0), want_kept + want_new);
        merged_done(&whole);
        merged_done(&kept);
        merged_done(&new);
    }
    finish(&w);
}

/* All filters by labels must hold. */
static void several_filters_by_labels_hold(struct test *t)
{
    struct world w;
    struct merged m;
    struct error err = {""};
    struct query q = start(&w, "inuse_space{}");

    append_moment(&w, "a", 0, 3, 4);
    q.filters.tagfocus[0] = "memory.kind=.*";
    q.filters.tagfocus[1] = "memory.kind=^new$";
    must(query_merge(&q, &m, &err), &err);
    CHECK_INT(t, profile_total(m.profile, 0), 4);
    merged_done(&m);
    q.filters.tagignore[0] = "nothing";
    q.filters.tagignore[1] = "memory.kind=new";
    must(query_merge(&q, &m, &err), &err);
    CHECK_INT(t, profile_total(m.profile, 0), 0);
    CHECK_STR(t, buf_cstr(&m.warnings), "TagIgnore expression matched no samples\n");
    merged_done(&m);
    finish(&w);
}

static void changes_are_told_by_the_hour(struct test *t)
{
    struct world w;
    struct query q = start(&w, "{}");
    struct store_scope scope = {BYTES("default"), q.selector, START, START + 600 * S};
    struct store_scope before = {BYTES("default"), q.selector, START - 7200 * S, START - 3601 * S};

    uint64_t is = store_changes(w.store, &scope), was = store_changes(w.store, &before);
    CHECK(t, store_changes(w.store, &scope) == is);
    append(&w, "a", 300, "parse", 1);
    CHECK(t, store_changes(w.store, &scope) != is);
    CHECK(t, store_changes(w.store, &before) == was);
    append(&w, "a", -7000, "parse", 1);
    CHECK(t, store_changes(w.store, &before) != was);
    is = store_changes(w.store, &scope);
    struct error err = {""};
    must(store_erase(w.store, &scope, &err), &err);
    CHECK(t, store_changes(w.store, &scope) != is);
    finish(&w);
}

static const struct test_case cases[] = {TEST(samples_of_labels_traces_and_ids_merge),
                                         TEST(moments_keep_their_labels),
                                         TEST(several_filters_by_labels_hold),
                                         TEST(changes_are_told_by_the_hour),
                                         TEST(a_selection_merges_and_filters),
                                         TEST(periods_compare),
                                         TEST(values_over_time_add_up),
                                         TEST(a_heat_map_places_samples_by_their_own_times),
                                         TEST(what_there_is_can_be_listed)};
TEST_MAIN(cases)

#include "server/pyroscope_query.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/idset.h"
#include "server/server_internal.h"
#include "wire/protobuf.h"

/*
 * What Grafana's data source for Pyroscope and the Profiles Drilldown app ask. Here: lists, figures
 * and the routes. An answer without data is an empty message, never an error.
 */

/* ---- Sets of texts */

#define LIST_MEMORY ((size_t)64 << 20)

struct text_set {
    struct budget budget;
    struct arena text;
    struct idset index;
    VEC(struct bytes) all;
};

static void text_set_init(struct text_set *s)
{
    *s = (struct text_set){0};
    budget_init(&s->budget, LIST_MEMORY);
    arena_init(&s->text, &s->budget);
}

static void text_set_done(struct text_set *s)
{
    vec_done(&s->budget, &s->all);
    idset_done(&s->budget, &s->index);
    arena_done(&s->text);
}

static int text_set_add(struct text_set *s, struct bytes text)
{
    uint64_t hash = hash_bytes(text.data, text.len);
    if (IDSET_FIND(&s->index, hash, i, bytes_equal(s->all.data[i], text)) != IDSET_NONE)
        return 0;
    const char *copy = arena_strdup(&s->text, text);
    if (!copy || !vec_push(&s->budget, &s->all, (struct bytes){(const uint8_t *)copy, text.len}) ||
        !idset_add(&s->budget, &s->index, hash, (uint32_t)s->all.len - 1))
        return -ENOBUFS;
    return 0;
}

/* ---- Walking series */

struct lister {
    const struct pyroscope_scope *scope;
    struct text_set set;
    struct buf scratch;
    struct bytes label; /* LabelValues: as it is kept */
    const struct pyroscope_request *request;
    const struct bytes *kept; /* Series: label_names as they are kept */
    int (*each)(struct lister *l, const struct store_series *s, size_t type);
    bool is_of_types; /* `each` speaks of the type and not only of the series */
};

static int on_series(void *ctx, const struct store_series *s)
{
    struct lister *l = ctx;
    int r = 0;
    for (size_t i = 0; i < s->n_types && r == 0; i++) {
        if (!pyroscope_selection_takes(&l->scope->selection, s, i))
            continue;
        r = l->each(l, s, i);
        if (!l->is_of_types)
            break;
    }
    return r;
}

/* Fills the set and sorts it. lister_done() is due either way. */
static int lister_run(struct lister *l, const struct pyroscope_scope *scope, struct error *err)
{
    const struct query *q = &scope->query;
    struct store_scope what = {
        .tenant = q->tenant, .selector = q->selector, .from_ns = q->from_ns, .to_ns = q->to_ns};

    text_set_init(&l->set);
    l->scope = scope;
    if (scope->is_empty)
        return 0;
    int r = store_series(q->store, &what, on_series, l, err);
    if (budget_failed(&l->set.budget))
        return budget_error(&l->set.budget, err);
    if (l->set.all.len > 1)
        qsort(l->set.all.data, l->set.all.len, sizeof(*l->set.all.data), bytes_compare_items);
    return r;
}

static void lister_done(struct lister *l)
{
    text_set_done(&l->set);
    buf_done(&l->scratch);
}

/* ---- ProfileTypes */

static int each_id(struct lister *l, const struct store_series *s, size_t type)
{
    buf_clear(&l->scratch);
    pyroscope_series_id(s, type, &l->scratch);
    return text_set_add(&l->set, buf_bytes(&l->scratch));
}

static void put_type(struct bytes id, struct buf *out)
{
    struct pyroscope_type t;
    if (pyroscope_type_parse(id, &t, NULL) < 0)
        return;
    size_t at = pb_begin(out, 1);
    proto_put_text(out, 1, id);
    proto_put_text(out, 2, t.name);
    proto_put_text(out, 4, t.type);
    proto_put_text(out, 5, t.unit);
    proto_put_text(out, 6, t.period_type);
    proto_put_text(out, 7, t.period_unit);
    pb_end(out, at);
}

static int profile_types(struct call *c, struct error *err)
{
    CLEANUP(buf_done) struct buf out = {.budget = &c->budget};
    CLEANUP(pyroscope_request_done) struct pyroscope_request q;
    int r = pyroscope_request_read(c, pyroscope_profile_types_request, &q, err);
    if (r < 0)
        return r;
    CLEANUP(pyroscope_scope_done) struct pyroscope_scope scope;
    CLEANUP(lister_done) struct lister l = {.each = each_id, .is_of_types = true};
    r = pyroscope_scope_list(c, &q, NULL, 0, &scope, err);
    if (r == 0)
        r = lister_run(&l, &scope, err);
    for (size_t i = 0; r == 0 && i < l.set.all.len; i++)
        put_type(l.set.all.data[i], &out);
    return r < 0 ? r : pyroscope_reply(c, pyroscope_profile_types_reply, &out, err);
}

/* ---- LabelNames, LabelValues */

static const char *const type_labels[] = {"__name__",         "__period_type__", "__period_unit__",
                                          "__profile_type__", "__type__",        "__unit__"};

static int add_clean(struct lister *l, struct bytes name)
{
    buf_clear(&l->scratch);
    pyroscope_name_clean(name, &l->scratch);
    return text_set_add(&l->set, buf_bytes(&l->scratch));
}

static int each_name(struct lister *l, const struct store_series *s, size_t type)
{
    (void)type;
    int r = 0;
    for (size_t i = 0; i < ARRAY_SIZE(type_labels) && r == 0; i++)
        r = text_set_add(&l->set, bytes_of(type_labels[i]));
    for (size_t i = 0; i < s->n_labels && r == 0; i++)
        if (pyroscope_label_is_shown(s->labels[i].name))
            r = add_clean(l, s->labels[i].name);
    return r;
}

static bool is_type_label(struct bytes name)
{
    return bytes_start_with(name, BYTES("__"));
}

/* The value of a label, of the type or of the series, into l->scratch. */
static void find_value(struct lister *l, const struct store_series *s, size_t type,
                       struct bytes label)
{
    CLEANUP(buf_done) struct buf name = {0};
    buf_clear(&l->scratch);
    if (!is_type_label(label)) {
        buf_add_bytes(&l->scratch, label_value(s->labels, s->n_labels, label));
        return;
    }
    pyroscope_series_name(s, type, &name);
    struct pyroscope_type t = {.name = buf_bytes(&name),
                               .type = s->types[type].name,
                               .unit = s->types[type].unit,
                               .period_type = s->period_type.name,
                               .period_unit = s->period_type.unit};
    pyroscope_type_label(&t, label, &l->scratch);
}

static int each_value(struct lister *l, const struct store_series *s, size_t type)
{
    find_value(l, s, type, l->label);
    return l->scratch.len > 0 ? text_set_add(&l->set, buf_bytes(&l->scratch)) : 0;
}

static void put_name(void *ctx, struct bytes name)
{
    proto_put_text(ctx, 1, name);
}

static int label_names(struct call *c, struct error *err)
{
    CLEANUP(buf_done) struct buf out = {.budget = &c->budget};
    CLEANUP(pyroscope_request_done) struct pyroscope_request q;
    int r = pyroscope_request_read(c, pyroscope_label_names_request, &q, err);
    if (r < 0)
        return r;
    CLEANUP(pyroscope_scope_done) struct pyroscope_scope scope;
    CLEANUP(lister_done) struct lister l = {.each = each_name};
    r = pyroscope_scope_list(c, &q, q.matchers.data, q.matchers.len, &scope, err);
    if (r == 0)
        r = lister_run(&l, &scope, err);
    for (size_t i = 0; r == 0 && i < l.set.all.len; i++)
        put_name(&out, l.set.all.data[i]);
    return r < 0 ? r : pyroscope_reply(c, pyroscope_names_reply, &out, err);
}

int pyroscope_label_values_of(struct call *c, const struct pyroscope_request *q,
                              pyroscope_name_fn sink, void *ctx, struct error *err)
{
    CLEANUP(pyroscope_scope_done) struct pyroscope_scope scope = {0};
    CLEANUP(lister_done) struct lister l = {.each = each_value};
    if (q->name.len == 0)
        return error_set(err, -EINVAL, "the name of a label is missing");
    int r = pyroscope_scope_list(c, q, q->matchers.data, q->matchers.len, &scope, err);
    l.label = q->name;
    l.is_of_types = is_type_label(q->name);
    if (r == 0 && !l.is_of_types)
        r = pyroscope_names_find(&scope.names, q->name, &l.label, err);
    if (r == 0)
        r = lister_run(&l, &scope, err);
    for (size_t i = 0; r == 0 && i < l.set.all.len; i++)
        sink(ctx, l.set.all.data[i]);
    return r;
}

static int label_values(struct call *c, struct error *err)
{
    CLEANUP(buf_done) struct buf out = {.budget = &c->budget};
    CLEANUP(pyroscope_request_done) struct pyroscope_request q;
    int r = pyroscope_request_read(c, pyroscope_label_values_request, &q, err);
    if (r == 0)
        r = pyroscope_label_values_of(c, &q, put_name, &out, err);
    return r < 0 ? r : pyroscope_reply(c, pyroscope_names_reply, &out, err);
}

/* ---- Series */

static void put_shown(struct buf *out, struct bytes kept, struct bytes value)
{
    CLEANUP(buf_done) struct buf name = {0};
    pyroscope_name_clean(kept, &name);
    pyroscope_put_label(out, 1, buf_bytes(&name), value);
}

/* Every label, those of the type first. */
static void put_all_labels(struct lister *l, const struct store_series *s, size_t type,
                           struct buf *out)
{
    for (size_t i = 0; i < ARRAY_SIZE(type_labels); i++) {
        find_value(l, s, type, bytes_of(type_labels[i]));
        if (l->scratch.len > 0)
            pyroscope_put_label(out, 1, bytes_of(type_labels[i]), buf_bytes(&l->scratch));
    }
    for (size_t i = 0; i < s->n_labels; i++)
        if (pyroscope_label_is_shown(s->labels[i].name))
            put_shown(out, s->labels[i].name, s->labels[i].value);
}

/* A label set is kept as the message it becomes: equal sets are equal bytes. */
static int each_label_set(struct lister *l, const struct store_series *s, size_t type)
{
    CLEANUP(buf_done) struct buf set = {0};
    const text_list *names = &l->request->label_names;

    if (names->len == 0)
        put_all_labels(l, s, type, &set);
    for (size_t i = 0; i < names->len; i++) {
        find_value(l, s, type, l->kept[i]);
        if (l->scratch.len > 0)
            pyroscope_put_label(&set, 1, names->data[i], buf_bytes(&l->scratch));
    }
    return set.len > 0 ? text_set_add(&l->set, buf_bytes(&set)) : 0;
}

/* The kept names of those asked for, in the call's memory; also whether one speaks of the type. */
static int find_names(struct call *c, struct pyroscope_scope *scope, struct lister *l,
                      struct error *err)
{
    const text_list *names = &l->request->label_names;
    struct bytes *kept = arena_new(call_arena(c), struct bytes, names->len);
    int r = kept ? 0 : budget_error(&c->budget, err);

    l->is_of_types = names->len == 0;
    for (size_t i = 0; i < names->len && r == 0; i++) {
        kept[i] = names->data[i];
        if (is_type_label(kept[i]))
            l->is_of_types = true;
        else
            r = pyroscope_names_find(&scope->names, names->data[i], &kept[i], err);
    }
    l->kept = kept;
    return r;
}

static int list_series(struct call *c, struct error *err)
{
    CLEANUP(buf_done) struct buf out = {.budget = &c->budget};
    CLEANUP(pyroscope_request_done) struct pyroscope_request q;
    int r = pyroscope_request_read(c, pyroscope_series_request, &q, err);
    if (r < 0)
        return r;
    CLEANUP(pyroscope_scope_done) struct pyroscope_scope scope;
    CLEANUP(lister_done) struct lister l = {.each = each_label_set, .request = &q};
    r = pyroscope_scope_list(c, &q, q.matchers.data, q.matchers.len, &scope, err);
    if (r == 0)
        r = find_names(c, &scope, &l, err);
    if (r == 0)
        r = lister_run(&l, &scope, err);
    for (size_t i = 0; r == 0 && i < l.set.all.len; i++)
        pb_put_bytes(&out, 2, l.set.all.data[i]);
    return r < 0 ? r : pyroscope_reply(c, pyroscope_series_reply, &out, err);
}

/* ---- Figures */

static int rows_between(struct call *c, int64_t from_ns, int64_t to_ns, uint64_t *ret,
                        struct error *err)
{
    struct store_plan plan = {.tenant = c->tenant, .from_ns = from_ns, .to_ns = to_ns};
    struct store_estimate e = {0};
    int r = store_estimate(c->server->store, &plan, &e, err);
    *ret = e.rows;
    return r;
}

/* Halves [first, last] until it is known to a minute where the tenant's data begins or ends. */
static int find_edge(struct call *c, bool is_start, struct store_stat *range, struct error *err)
{
    int64_t from = range->first_ns, to = range->last_ns + 1;
    const int64_t minute = (int64_t)60 * 1000000000;

    while (to - from > minute) {
        int64_t middle = from + (to - from) / 2;
        uint64_t rows = 0;
        int r = is_start ? rows_between(c, from, middle, &rows, err)
                         : rows_between(c, middle, to, &rows, err);
        if (r < 0)
            return r;
        if ((rows > 0) == is_start)
            to = middle;
        else
            from = middle;
    }
    if (is_start)
        range->first_ns = from;
    else
        range->last_ns = to;
    return 0;
}

static int profile_stats(struct call *c, struct error *err)
{
    CLEANUP(buf_done) struct buf out = {.budget = &c->budget};
    struct store_stat stat = {0};
    uint64_t rows = 0;

    store_stat(c->server->store, &stat);
    int r = 0;
    if (stat.profiles > 0)
        r = rows_between(c, stat.first_ns, stat.last_ns + 1, &rows, err);
    if (r == 0 && rows > 0)
        r = find_edge(c, true, &stat, err);
    if (r == 0 && rows > 0)
        r = find_edge(c, false, &stat, err);
    if (r < 0)
        return r;
    if (rows > 0) {
        pb_put_u64(&out, 1, 1);
        pb_put_u64(&out, 2, (uint64_t)(stat.first_ns / 1000000));
        pb_put_u64(&out, 3, (uint64_t)(stat.last_ns / 1000000));
    }
    return pyroscope_reply(c, pyroscope_stats_reply, &out, err);
}

static int analyze_query(struct call *c, struct error *err)
{
    CLEANUP(buf_done) struct buf out = {.budget = &c->budget};
    CLEANUP(pyroscope_request_done) struct pyroscope_request q;
    struct store_estimate e = {0};
    int r = pyroscope_request_read(c, pyroscope_analyze_request, &q, err);
    if (r < 0)
        return r;
    CLEANUP(pyroscope_scope_done) struct pyroscope_scope scope;
    r = pyroscope_scope_list(c, &q, &q.query, q.query.len > 0, &scope, err);
    if (r == 0 && !scope.is_empty) {
        struct store_plan plan = {.tenant = c->tenant,
                                  .selector = scope.query.selector,
                                  .from_ns = scope.query.from_ns,
                                  .to_ns = scope.query.to_ns};
        r = store_estimate(c->server->store, &plan, &e, err);
    }
    if (r < 0)
        return r;
    size_t at = pb_begin(&out, 1);
    pb_put_bytes(&out, 1, BYTES("Store"));
    pb_put_u64(&out, 2, 1);
    pb_put_u64_opt(&out, 4, e.series);
    pb_put_u64_opt(&out, 5, e.rows);
    pb_put_u64_opt(&out, 6, e.samples);
    pb_put_u64_opt(&out, 8, e.bytes);
    pb_end(&out, at);
    at = pb_begin(&out, 2);
    pb_put_u64_opt(&out, 2, e.bytes);
    pb_put_u64_opt(&out, 3, e.series);
    pb_end(&out, at);
    return pyroscope_reply(c, pyroscope_analyze_reply, &out, err);
}

/* ---- Other services */

static int version(struct call *c, struct error *err)
{
    CLEANUP(buf_done) struct buf out = {.budget = &c->budget};
    pb_put_u64(&out, 1, 1);
    return pyroscope_reply(c, pyroscope_version_reply, &out, err);
}

/* No flags: every feature is as clients expect it without. */
static int feature_flags(struct call *c, struct error *err)
{
    CLEANUP(buf_done) struct buf out = {.budget = &c->budget};
    return pyroscope_reply(c, pyroscope_empty_message, &out, err);
}

static int unimplemented(struct call *c, struct error *err)
{
    return error_set(err, -EOPNOTSUPP, "%.*s is not served here",
                     (int)(c->request->path.len < 200 ? c->request->path.len : 200),
                     (const char *)c->request->path.data);
}

#define QUERIER "/querier.v1.QuerierService/"
#define RPC(route_path, handler)                                                                   \
    {                                                                                              \
        .method = "POST", .path = route_path, .role = ROLE_READ, .lane = LANE_QUERY,               \
        .dialect = DIALECT_RPC, .handle = handler                                                  \
    }

/* Reading is enough to look at settings, not to change them for everyone. */
#define RPC_ADMIN(route_path, handler)                                                             \
    {                                                                                              \
        .method = "POST", .path = route_path, .role = ROLE_ADMIN, .lane = LANE_QUERY,              \
        .dialect = DIALECT_RPC, .handle = handler                                                  \
    }
#define GET(route_path, handler, what, parameters)                                                 \
    {                                                                                              \
        .method = "GET|POST", .path = route_path, .role = ROLE_READ, .lane = LANE_QUERY,           \
        .dialect = DIALECT_PLAIN, .handle = handler, .summary = what, .params = parameters         \
    }

const struct route pyroscope_query_routes[] = {
    RPC(QUERIER "ProfileTypes", profile_types),
    RPC(QUERIER "LabelNames", label_names),
    RPC(QUERIER "LabelValues", label_values),
    RPC(QUERIER "Series", list_series),
    RPC(QUERIER "SelectMergeStacktraces", pyroscope_select_stacktraces),
    RPC(QUERIER "SelectMergeSpanProfile", pyroscope_select_span_profile),
    RPC(QUERIER "SelectMergeProfile", pyroscope_select_profile),
    RPC(QUERIER "SelectSeries", pyroscope_select_series),
    RPC(QUERIER "SelectHeatmap", pyroscope_select_heatmap),
    RPC(QUERIER "Diff", pyroscope_diff),
    RPC(QUERIER "GetProfileStats", profile_stats),
    RPC(QUERIER "AnalyzeQuery", analyze_query),
    RPC(QUERIER "*", unimplemented),
    RPC("/version.v1.Version/Version", version),
    RPC("/capabilities.v1.FeatureFlagsService/GetFeatureFlags", feature_flags),
    RPC("/capabilities.v1.FeatureFlagsService/*", unimplemented),
    RPC("/settings.v1.SettingsService/Get", pyroscope_settings_get),
    RPC_ADMIN("/settings.v1.SettingsService/Set", pyroscope_settings_set),
    RPC_ADMIN("/settings.v1.SettingsService/Delete", pyroscope_settings_delete),
    RPC("/settings.v1.SettingsService/*", unimplemented),
    RPC("/settings.v1.RecordingRulesService/*", unimplemented),
    RPC("/adhocprofiles.v1.AdHocProfileService/*", unimplemented),
    RPC("/vcs.v1.VCSService/*", unimplemented),
    GET("/pyroscope/render", pyroscope_render,
        "a flame graph and a timeline, as Pyroscope has them",
        "query!: profile type and selector; from: time; until: time; max-nodes: nodes of the flame "
        "graph; groupBy: label; aggregation: sum or avg; format: json or dot"),
    GET("/pyroscope/render-diff", pyroscope_render_diff, "two flame graphs in one",
        "leftQuery!: profile type and selector; leftFrom: time; leftUntil: time; rightQuery!: "
        "profile type and selector; rightFrom: time; rightUntil: time; max-nodes: nodes"),
    GET("/pyroscope/label-values", pyroscope_label_values, "values of a label", "label!: its name"),
    {0},
};

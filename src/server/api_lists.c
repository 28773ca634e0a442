#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "query/json_answers.h"
#include "server/api_answer.h"
#include "server/server_internal.h"

/* What there is: types, labels, series, services; and facts about the server itself. */

static int reply_json(struct api_query *q, struct buf *out, struct error *err)
{
    buf_add_byte(out, '\n');
    if (buf_full(out))
        return buf_error(out, err);
    api_reply(q, "application/json", out);
    return 0;
}

/* "cpu:nanoseconds" as its two parts; the first may have colons. */
static void write_type_name(struct json_writer *w, struct bytes name)
{
    const uint8_t *colon = bytes_find_last_byte(name, ':');
    size_t len = colon ? (size_t)(colon - name.data) : name.len;
    json_type(w, bytes_head(name, len), bytes_from(name, len + 1));
}

/* ---- Names */

static int run_names(struct api_query *q, const char *key,
                     int (*list)(const struct query *q, struct name_list *ret, struct error *err),
                     struct error *err)
{
    CLEANUP(name_list_done) struct name_list l = {0};
    CLEANUP(buf_done) struct buf out = {.budget = &q->call->budget};
    struct json_writer w = {.out = &out};
    const char *label = api_text(q, "label");

    int r = list ? list(&q->query, &l, err)
                 : query_label_values(&q->query, bytes_of(label ? label : ""), &l, err);
    if (r < 0)
        return r;
    json_begin_object(&w);
    json_key(&w, key);
    json_begin_array(&w);
    for (size_t i = 0; i < l.names.len; i++) {
        if (list == query_types)
            write_type_name(&w, l.names.data[i]);
        else
            json_string(&w, l.names.data[i]);
    }
    json_end_array(&w);
    json_end_object(&w);
    return reply_json(q, &out, err);
}

static int run_types(struct api_query *q, struct error *err)
{
    return run_names(q, "types", query_types, err);
}

static int run_labels(struct api_query *q, struct error *err)
{
    return run_names(q, "labels", query_label_names, err);
}

static int run_values(struct api_query *q, struct error *err)
{
    return run_names(q, "values", NULL, err);
}

/* ---- Series */

#define SERIES     1000
#define SERIES_MAX 1000000

struct series_list {
    struct api_list list;
    const struct selector *selector;
    struct error *err;
};

static int on_series(void *ctx, const struct store_series *s)
{
    struct series_list *l = ctx;

    if (!api_list_wants(&l->list))
        return 1;
    api_item_begin(&l->list);
    json_series(&l->list.w, s);
    return api_item_end(&l->list, l->err);
}

static int run_series(struct api_query *q, struct error *err)
{
    struct series_list l = {.err = err};
    const struct query *query = &q->query;
    struct store_scope scope = {query->tenant, query->selector, query->from_ns, query->to_ns};
    uint64_t limit;

    int r = api_number(q, "limit", SERIES_MAX, q->format == API_NDJSON ? 0 : SERIES, &limit, err);
    if (r < 0)
        return r;
    api_list_begin(&l.list, q, "series", (size_t)limit);
    r = store_series(query->store, &scope, on_series, &l, err);
    r = api_list_end(&l.list, r > 0 ? 0 : r, err);
    api_list_done(&l.list);
    return r;
}

/* ---- Services */

struct services {
    struct name_list names, types;
    bool *has_type; /* [service * n_types + type] */
    uint32_t *n_series;
    int64_t *last_ns;
    uint64_t *n_profiles;
};

static void services_done(struct services *s)
{
    name_list_done(&s->names);
    name_list_done(&s->types);
}

/* The place of a name in a sorted list, or SIZE_MAX. */
static size_t place_of(const struct name_list *l, struct bytes name)
{
    const struct bytes *found = l->names.len == 0
                                    ? NULL
                                    : bsearch(&name, l->names.data, l->names.len,
                                              sizeof(*l->names.data), bytes_compare_items);
    return found ? (size_t)(found - l->names.data) : SIZE_MAX;
}

static int on_service_series(void *ctx, const struct store_series *series)
{
    struct services *s = ctx;
    size_t at =
        place_of(&s->names, label_value(series->labels, series->n_labels, BYTES(LABEL_SERVICE)));
    if (at == SIZE_MAX)
        return 0;
    s->n_series[at]++;
    for (size_t i = 0; i < series->n_types; i++) {
        CLEANUP(buf_done) struct buf name = {0};
        buf_add_bytes(&name, series->types[i].name);
        buf_add_byte(&name, ':');
        buf_add_bytes(&name, series->types[i].unit);
        size_t type = place_of(&s->types, buf_bytes(&name));
        if (type != SIZE_MAX)
            s->has_type[at * s->types.names.len + type] = true;
    }
    return 0;
}

#define SEEN_STEP_NS ((int64_t)60 * 1000000000)
#define SEEN_STEPS   1440

/* When each service was seen last, to the minute or a 1440th of the range. */
static int find_last_seen(struct api_query *q, struct services *s, struct error *err)
{
    CLEANUP(timeline_done) struct timeline t = {0};
    struct bytes by = BYTES(LABEL_SERVICE);
    int64_t step = (q->query.to_ns - q->query.from_ns) / SEEN_STEPS;
    struct timeline_options o = {
        .step_ns = step > SEEN_STEP_NS ? step : SEEN_STEP_NS, .group_by = &by, .n_group_by = 1};

    int r = query_timeline(&q->query, &o, &t, err);
    for (size_t i = 0; r == 0 && i < t.series.len; i++) {
        const struct timeline_series *series = &t.series.data[i];
        size_t at = place_of(&s->names, series->labels[0].value);
        for (size_t k = series->first; at != SIZE_MAX && k < series->first + series->n; k++) {
            if (t.points.data[k].start_ns > s->last_ns[at])
                s->last_ns[at] = t.points.data[k].start_ns;
            s->n_profiles[at] += t.points.data[k].n_profiles;
        }
    }
    return r;
}

static int find_services(struct api_query *q, struct services *s, struct error *err)
{
    const struct query *query = &q->query;
    struct store_scope scope = {query->tenant, query->selector, query->from_ns, query->to_ns};
    struct arena *arena = call_arena(q->call);

    int r = query_label_values(query, BYTES(LABEL_SERVICE), &s->names, err);
    if (r == 0)
        r = query_types(query, &s->types, err);
    if (r < 0)
        return r;
    size_t n = s->names.names.len;
    s->has_type = arena_new(arena, bool, n * s->types.names.len);
    s->n_series = arena_new(arena, uint32_t, n);
    s->last_ns = arena_new(arena, int64_t, n);
    s->n_profiles = arena_new(arena, uint64_t, n);
    if (budget_failed(arena->budget))
        return budget_error(arena->budget, err);
    r = store_series(query->store, &scope, on_service_series, s, err);
    return r < 0 ? r : find_last_seen(q, s, err);
}

static void write_service(const struct services *s, size_t i, struct json_writer *w)
{
    json_begin_object(w);
    json_key(w, "service");
    json_string(w, s->names.names.data[i]);
    json_key(w, "types");
    json_begin_array(w);
    for (size_t k = 0; k < s->types.names.len; k++)
        if (s->has_type[i * s->types.names.len + k])
            write_type_name(w, s->types.names.data[k]);
    json_end_array(w);
    json_key(w, "series");
    json_u64(w, s->n_series[i]);
    json_key(w, "profiles");
    json_u64(w, s->n_profiles[i]);
    json_key(w, "last_seen_ns");
    json_i64_string(w, s->last_ns[i]);
    json_end_object(w);
}

static int run_services(struct api_query *q, struct error *err)
{
    CLEANUP(services_done) struct services s = {0};
    CLEANUP(buf_done) struct buf out = {.budget = &q->call->budget};
    struct json_writer w = {.out = &out};

    int r = find_services(q, &s, err);
    if (r < 0)
        return r;
    json_begin_object(&w);
    api_head(q, &w);
    json_key(&w, "services");
    json_begin_array(&w);
    for (size_t i = 0; i < s.names.names.len; i++)
        write_service(&s, i, &w);
    json_end_array(&w);
    json_end_object(&w);
    return reply_json(q, &out, err);
}

/* ---- Facts */

/* What the caller may do, for pages that would otherwise offer what is refused. */
static void add_roles(struct json_writer *w, unsigned roles)
{
    static const struct {
        unsigned role;
        const char *name;
    } known[] = {{ROLE_INGEST, "ingest"},
                 {ROLE_READ, "read"},
                 {ROLE_ADMIN, "admin"},
                 {ROLE_OPERATOR, "operator"}};

    json_key(w, "roles");
    json_begin_array(w);
    for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
        if (roles & known[i].role)
            json_cstring(w, known[i].name);
    }
    json_end_array(w);
}

/* How long the tenant's data is kept, and how much may be sent at once. */
static void add_limits(struct json_writer *w, const struct server *s, struct bytes tenant)
{
    struct store_policy policy;

    store_get_policy(s->store, tenant, &policy);
    json_key(w, "retention");
    json_begin_object(w);
    json_key(w, "profiles_ns");
    json_i64_string(w, policy.max_age_ns ? policy.max_age_ns : s->config->retention_ns);
    json_key(w, "spans_ns");
    json_i64_string(w,
                    policy.max_span_age_ns ? policy.max_span_age_ns : s->config->span_retention_ns);
    json_key(w, "max_bytes");
    json_u64(w, policy.max_bytes);
    json_end_object(w);
    json_key(w, "limits");
    json_begin_object(w);
    json_key(w, "body_bytes");
    json_u64(w, s->config->body_limit);
    json_key(w, "upload_bytes");
    json_u64(w, s->config->upload_limit);
    json_end_object(w);
}

static int run_stat(struct api_query *q, struct error *err)
{
    struct server *server = q->call->server;
    CLEANUP(buf_done) struct buf out = {.budget = &q->call->budget};
    struct json_writer w = {.out = &out};
    struct store_stat stat;

    json_begin_object(&w);
    json_key(&w, "version");
    json_cstring(&w, VESTA_VERSION);
    json_key(&w, "tenant");
    json_string(&w, q->query.tenant);
    json_key(&w, "now_ns");
    json_i64_string(&w, q->now_ns);
    json_key(&w, "start_ns");
    json_i64_string(&w, server->start_ns);
    json_key(&w, "is_draining");
    json_bool(&w, atomic_load(&server->is_draining));
    add_roles(&w, q->call->roles);
    add_limits(&w, server, q->query.tenant);
    /* They are of all tenants. */
    if (q->call->roles & ROLE_ADMIN) {
        json_key(&w, "store");
        store_stat(server->store, &stat);
        json_store_stat(&w, &stat);
    }
    json_end_object(&w);
    return reply_json(q, &out, err);
}

/* ---- Routes */

static const api_run runs[] = {run_types, run_labels, run_values, run_series, run_services};

static int handle(struct call *c, struct error *err)
{
    return api_answer(c, runs[c->route->argument], err);
}

static int handle_stat(struct call *c, struct error *err)
{
    return api_answer_untagged(c, run_stat, err);
}

const struct route api_list_routes[] = {
    API_ROUTE("types", 0, "Sample types of the selection", API_P_SELECT),
    API_ROUTE("labels", 1, "Label names of the selection", API_P_SELECT),
    API_ROUTE("label_values", 2, "Values of a label",
              "label!: name of the label, as service.name; " API_P_SELECT),
    API_ROUTE("series", 3, "Label sets with their sample types",
              API_P_SELECT "limit: items, default 1000, of ndjson all; "
                           "format: json or ndjson; "),
    API_ROUTE("services", 4, "Services with their sample types and when they were seen last",
              API_P_SELECT),
    {.method = "GET",
     .path = "/api/v1/stat",
     .role = ROLE_READ,
     .lane = LANE_QUERY,
     .handle = handle_stat,
     .summary = "Facts about the server and, for administrators, its store"},
    {0},
};

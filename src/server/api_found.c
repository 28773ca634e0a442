#include <errno.h>
#include <string.h>

#include "query/json_answers.h"
#include "query/newest.h"
#include "server/api_answer.h"
#include "server/server_internal.h"

/* Single things: profiles, spans, and samples that say which span they were taken in. */

/* ---- Profiles */

#define PROFILES     100
#define PROFILES_MAX 10000

static void write_totals(struct json_writer *w, const struct store_series *s, const int64_t *totals)
{
    json_key(w, "totals");
    json_begin_array(w);
    for (size_t i = 0; i < s->n_types; i++) {
        json_begin_object(w);
        json_key(w, "type");
        json_string(w, s->types[i].name);
        json_key(w, "unit");
        json_string(w, s->types[i].unit);
        json_key(w, "total");
        json_i64(w, totals[i]);
        json_end_object(w);
    }
    json_end_array(w);
}

static void write_entry(struct json_writer *w, const struct profile_entry *e)
{
    if (e->has_id)
        json_id(w, "id", e->id, sizeof(e->id));
    json_key(w, "start_ns");
    json_i64_string(w, e->start_ns);
    json_key(w, "duration_ns");
    json_i64_string(w, e->duration_ns);
    json_key(w, "period");
    json_i64(w, e->period);
    json_key(w, "instant");
    json_bool(w, e->series->is_instant);
    json_labels(w, "labels", e->series->labels, e->series->n_labels);
    write_totals(w, e->series, e->totals);
}

static int reply_newest(struct api_query *q, size_t limit, struct error *err)
{
    CLEANUP(newest_done) struct newest n = {0};
    CLEANUP(api_list_done) struct api_list list;

    int r = query_newest_profiles(&q->query, limit, &n, err);
    api_list_begin(&list, q, "profiles", 0);
    for (size_t i = 0; r == 0 && i < n.profiles.len; i++) {
        api_item_begin(&list);
        json_begin_object(&list.w);
        write_entry(&list.w, &n.profiles.data[i]);
        json_end_object(&list.w);
        r = api_item_end(&list, err);
    }
    list.is_cut = n.is_cut;
    return api_list_end(&list, r, err);
}

/* A line for each profile as it is found, with its samples when they are wanted. */
struct streaming {
    struct api_list list;
    struct error *err;
};

/* Stacks of the profile's own functions, the innermost frame first. */
static void write_stack(struct json_writer *w, const struct dict *d, uint32_t node)
{
    json_begin_array(w);
    for (; node != 0; node = d->node_parent.data[node]) {
        const struct location *l = &d->locations.data[d->node_location.data[node]];
        for (uint32_t i = 0; i < l->n_lines; i++) {
            const struct line *line = &d->lines.data[l->first_line + i];
            json_string(w, dict_text(d, d->functions.data[line->function].name));
        }
        if (l->n_lines == 0) {
            char address[24];
            snprintf(address, sizeof(address), "0x%llx", (unsigned long long)l->address);
            json_cstring(w, address);
        }
    }
    json_end_array(w);
}

static void write_sample(struct json_writer *w, const struct profile *p, size_t row)
{
    uint32_t link = profile_link(p, row);

    json_begin_object(w);
    json_key(w, "values");
    json_begin_array(w);
    for (uint32_t i = 0; i < p->n_types; i++)
        json_i64(w, p->values[i][row]);
    json_end_array(w);
    if (profile_time_ns(p, row) != 0) {
        json_key(w, "time_ns");
        json_u64_string(w, profile_time_ns(p, row));
    }
    if (link != 0) {
        json_id(w, "trace", p->dict->links.data[link].trace_id, 16);
        json_id(w, "span", p->dict->links.data[link].span_id, 8);
    }
    json_key(w, "stack");
    write_stack(w, p->dict, p->node[row]);
    json_end_object(w);
}

static int on_profile(void *ctx, const struct store_found *f)
{
    struct streaming *s = ctx;
    struct json_writer *w = &s->list.w;
    struct profile_entry e = {f->series, f->start_ns, f->duration_ns, f->period,
                              f->has_id, {0},         f->totals};

    if (!api_list_wants(&s->list))
        return 1;
    memcpy(e.id, f->id, sizeof(e.id));
    api_item_begin(&s->list);
    json_begin_object(w);
    write_entry(w, &e);
    if (f->profile) {
        json_key(w, "samples");
        json_begin_array(w);
        for (size_t i = 0; i < f->profile->n_samples && !buf_full(w->out); i++)
            write_sample(w, f->profile, i);
        json_end_array(w);
    }
    json_end_object(w);
    return api_item_end(&s->list, s->err);
}

static int stream_profiles(struct api_query *q, bool with_samples, struct error *err)
{
    struct streaming s = {.err = err};
    const struct query *query = &q->query;
    uint64_t limit;
    struct store_find find = query_find(query);

    find.with_samples = with_samples;
    int r = api_number(q, "limit", UINT32_MAX, 0, &limit, err);
    if (r < 0)
        return r;
    api_list_begin(&s.list, q, "profiles", (size_t)limit);
    r = store_profiles(query->store, &find, on_profile, &s, err);
    r = api_list_end(&s.list, r > 0 ? 0 : r, err);
    api_list_done(&s.list);
    return r;
}

static int run_profiles(struct api_query *q, struct error *err)
{
    bool with_samples;
    uint64_t limit;

    int r = api_flag(q, "samples", &with_samples, err);
    if (r < 0)
        return r;
    if (q->format == API_NDJSON)
        return stream_profiles(q, with_samples, err);
    if (with_samples)
        return error_set(err, -EINVAL, "samples needs format=ndjson");
    r = api_number(q, "limit", PROFILES_MAX, PROFILES, &limit, err);
    return r < 0 ? r : reply_newest(q, (size_t)limit, err);
}

static int run_profile(struct api_query *q, struct error *err)
{
    CLEANUP(newest_done) struct newest n = {0};
    CLEANUP(buf_done) struct buf out = {.budget = &q->call->budget};
    struct json_writer w = {.out = &out};

    int r = query_newest_profiles(&q->query, 1, &n, err);
    if (r < 0)
        return r;
    if (n.profiles.len == 0)
        return error_set(err, -ENODATA, "there is no profile of the id %s in that range",
                         api_text(q, "id"));
    json_begin_object(&w);
    write_entry(&w, &n.profiles.data[0]);
    json_end_object(&w);
    buf_add_byte(&out, '\n');
    api_reply(q, "application/json", &out);
    return 0;
}

/* ---- Exemplars */

static int run_exemplars(struct api_query *q, struct error *err)
{
    CLEANUP(newest_done) struct newest n = {0};
    CLEANUP(api_list_done) struct api_list list = {0};
    uint64_t limit;

    int r = api_number(q, "limit", PROFILES_MAX, PROFILES, &limit, err);
    if (r == 0)
        r = api_need_type(q, err);
    if (r == 0)
        r = query_exemplars(&q->query, (size_t)limit, &n, err);
    if (r < 0)
        return r;
    api_list_begin(&list, q, "exemplars", 0);
    struct json_writer *w = &list.w;
    for (size_t i = 0; r == 0 && i < n.exemplars.len; i++) {
        const struct exemplar *e = &n.exemplars.data[i];
        api_item_begin(&list);
        json_begin_object(w);
        json_id(w, "trace", e->link.trace_id, sizeof(e->link.trace_id));
        json_id(w, "span", e->link.span_id, sizeof(e->link.span_id));
        json_key(w, "value");
        json_i64(w, e->value);
        json_key(w, "start_ns");
        json_i64_string(w, e->start_ns);
        if (e->has_id)
            json_id(w, "id", e->id, sizeof(e->id));
        json_labels(w, "labels", e->series->labels, e->series->n_labels);
        json_end_object(w);
        r = api_item_end(&list, err);
    }
    list.is_cut = n.is_cut;
    return api_list_end(&list, r, err);
}

/* ---- Spans */

#define SPANS     100
#define SPANS_MAX 1000000

static int on_span(void *ctx, const struct store_span *s)
{
    static const uint8_t none[8];
    struct streaming *l = ctx;
    struct json_writer *w = &l->list.w;

    if (!api_list_wants(&l->list))
        return 1;
    api_item_begin(&l->list);
    json_begin_object(w);
    json_id(w, "trace", s->trace_id, sizeof(s->trace_id));
    json_id(w, "span", s->span_id, sizeof(s->span_id));
    if (memcmp(s->parent_id, none, sizeof(none)) != 0)
        json_id(w, "parent", s->parent_id, sizeof(s->parent_id));
    json_key(w, "service");
    json_string(w, s->service);
    json_key(w, "name");
    json_string(w, s->name);
    json_key(w, "start_ns");
    json_i64_string(w, s->start_ns);
    json_key(w, "duration_ns");
    json_i64_string(w, s->duration_ns);
    json_key(w, "kind");
    json_u64(w, s->kind);
    json_key(w, "status");
    json_u64(w, s->status);
    json_labels(w, "attributes", s->attributes, s->n_attributes);
    json_end_object(w);
    return api_item_end(&l->list, l->err);
}

static int run_spans(struct api_query *q, struct error *err)
{
    struct streaming l = {.err = err};
    const struct query *query = &q->query;
    const char *service = api_text(q, "service"), *name = api_text(q, "name");
    struct store_span_find find = {.tenant = query->tenant,
                                   .service = bytes_of(service ? service : ""),
                                   .name = bytes_of(name ? name : ""),
                                   .from_ns = query->from_ns,
                                   .to_ns = query->to_ns,
                                   .has_trace = query->has_trace,
                                   .has_span = query->has_span,
                                   .cancelled = query->cancelled};
    uint64_t limit = 0;

    memcpy(find.trace_id, query->trace_id, sizeof(find.trace_id));
    memcpy(find.span_id, query->span_id, sizeof(find.span_id));
    int r = api_duration(q, "min_duration", &find.min_duration_ns, err);
    if (r == 0)
        r = api_number(q, "limit", SPANS_MAX, q->format == API_NDJSON ? 0 : SPANS, &limit, err);
    if (r < 0)
        return r;
    api_list_begin(&l.list, q, "spans", (size_t)limit);
    r = store_spans(query->store, &find, on_span, &l, err);
    r = api_list_end(&l.list, r > 0 ? 0 : r, err);
    api_list_done(&l.list);
    return r;
}

/* ---- Routes */

static const api_run runs[] = {run_profiles, run_profile, run_exemplars};

static int handle(struct call *c, struct error *err)
{
    return api_answer(c, runs[c->route->argument], err);
}

static int handle_spans(struct call *c, struct error *err)
{
    return api_answer_untagged(c, run_spans, err);
}

#define P_RANGE "from: start of the range, default now-1h; until: end of the range, default now; "

const struct route api_found_routes[] = {
    {.method = "GET",
     .path = "/api/v1/profiles",
     .role = ROLE_READ,
     .lane = LANE_QUERY,
     .handle = handle,
     .argument = 0,
     .summary = "Single profiles, the newest first; as ndjson all of them, as they are found",
     .params = API_P_SELECT API_P_ONE "limit: items, default 100, of ndjson all; "
                                      "samples: 1 adds samples, with format=ndjson; "
                                      "format: json or ndjson; "},
    API_ROUTE("profile", 1, "One profile's time, labels and totals",
              "id!: 32 hex digits; query: selector, default everything; " P_RANGE),
    API_ROUTE("exemplars", 2, "Spans that samples were taken in, the heaviest first",
              API_P_SELECT "type: sample type, as cpu or cpu:nanoseconds; "
                           "trace: only of this trace, 32 hex digits; "
                           "span: only of this span, 16 hex digits; "
                           "limit: items, default 100; "
                           "format: json or ndjson; "),
    {.method = "GET|POST",
     .path = "/api/v1/spans",
     .role = ROLE_READ,
     .lane = LANE_QUERY,
     .handle = handle_spans,
     .summary = "Spans kept for correlation",
     .params = P_RANGE "service: name of a service; name: name of a span; "
                       "trace: 32 hex digits; span: 16 hex digits; "
                       "min_duration: as 100ms; "
                       "limit: items, default 100, of ndjson all; "
                       "format: json or ndjson; "},
    {0},
};

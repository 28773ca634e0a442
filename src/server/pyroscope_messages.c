#include "server/pyroscope_messages.h"

#include <errno.h>
#include <stddef.h>

#include "wire/protobuf.h"

#define IN(member) .offset = offsetof(struct pyroscope_request, member)
#define REPEATED   .is_repeated = true

/* ---- Questions */

static const char *const aggregations[] = {"TIME_SERIES_AGGREGATION_TYPE_SUM",
                                           "TIME_SERIES_AGGREGATION_TYPE_AVERAGE", NULL};
static const char *const formats[] = {"PROFILE_FORMAT_UNSPECIFIED", "PROFILE_FORMAT_FLAMEGRAPH",
                                      "PROFILE_FORMAT_TREE",        "PROFILE_FORMAT_DOT",
                                      "PROFILE_FORMAT_PPROF",       NULL};
static const char *const exemplar_types[] = {"EXEMPLAR_TYPE_UNSPECIFIED", "EXEMPLAR_TYPE_NONE",
                                             "EXEMPLAR_TYPE_INDIVIDUAL", "EXEMPLAR_TYPE_SPAN",
                                             NULL};
static const char *const heat_types[] = {"HEATMAP_QUERY_TYPE_UNSPECIFIED",
                                         "HEATMAP_QUERY_TYPE_INDIVIDUAL", "HEATMAP_QUERY_TYPE_SPAN",
                                         NULL};

/* The names of a call site are gathered into one list. */
static const struct proto_field call_site_location[] = {
    {1, "name", PROTO_STRING, IN(call_site)},
    {0},
};
static const struct proto_field go_pgo[] = {
    {1, "keepLocations", PROTO_INT32, IN(pgo_keep)},
    {2, "aggregateCallees", PROTO_BOOL, IN(pgo_callees)},
    {0},
};
static const struct proto_field stack_trace_selector[] = {
    {1, "callSite", PROTO_MESSAGE, REPEATED, .message = call_site_location},
    {2, "goPgo", PROTO_MESSAGE, .message = go_pgo, IN(has_pgo)},
    {0},
};

const struct proto_field pyroscope_profile_types_request[] = {
    {1, "start", PROTO_INT64, IN(start_ms)},
    {2, "end", PROTO_INT64, IN(end_ms)},
    {0},
};
const struct proto_field pyroscope_label_names_request[] = {
    {1, "matchers", PROTO_STRING, REPEATED, IN(matchers)},
    {2, "start", PROTO_INT64, IN(start_ms)},
    {3, "end", PROTO_INT64, IN(end_ms)},
    {0},
};
const struct proto_field pyroscope_label_values_request[] = {
    {1, "name", PROTO_STRING, IN(name)},
    {2, "matchers", PROTO_STRING, REPEATED, IN(matchers)},
    {3, "start", PROTO_INT64, IN(start_ms)},
    {4, "end", PROTO_INT64, IN(end_ms)},
    {0},
};
const struct proto_field pyroscope_series_request[] = {
    {1, "matchers", PROTO_STRING, REPEATED, IN(matchers)},
    {2, "labelNames", PROTO_STRING, REPEATED, IN(label_names)},
    {3, "start", PROTO_INT64, IN(start_ms)},
    {4, "end", PROTO_INT64, IN(end_ms)},
    {0},
};
const struct proto_field pyroscope_stacktraces_request[] = {
    {1, "profileTypeID", PROTO_STRING, IN(type_id)},
    {2, "labelSelector", PROTO_STRING, IN(selector)},
    {3, "start", PROTO_INT64, IN(start_ms)},
    {4, "end", PROTO_INT64, IN(end_ms)},
    {5, "maxNodes", PROTO_INT64, IN(max_nodes)},
    {6, "format", PROTO_ENUM, .values = formats, IN(format)},
    {7, "stackTraceSelector", PROTO_MESSAGE, .message = stack_trace_selector},
    {8, "profileIdSelector", PROTO_STRING, REPEATED, IN(ids)},
    {10, "traceIdSelector", PROTO_STRING, REPEATED, IN(traces)},
    {11, "spanSelector", PROTO_STRING, REPEATED, IN(spans)},
    {0},
};
const struct proto_field pyroscope_span_profile_request[] = {
    {1, "profileTypeID", PROTO_STRING, IN(type_id)},
    {2, "labelSelector", PROTO_STRING, IN(selector)},
    {3, "spanSelector", PROTO_STRING, REPEATED, IN(spans)},
    {4, "start", PROTO_INT64, IN(start_ms)},
    {5, "end", PROTO_INT64, IN(end_ms)},
    {6, "maxNodes", PROTO_INT64, IN(max_nodes)},
    {7, "format", PROTO_ENUM, .values = formats, IN(format)},
    {0},
};
const struct proto_field pyroscope_profile_request[] = {
    {1, "profileTypeID", PROTO_STRING, IN(type_id)},
    {2, "labelSelector", PROTO_STRING, IN(selector)},
    {3, "start", PROTO_INT64, IN(start_ms)},
    {4, "end", PROTO_INT64, IN(end_ms)},
    {5, "maxNodes", PROTO_INT64, IN(max_nodes)},
    {6, "stackTraceSelector", PROTO_MESSAGE, .message = stack_trace_selector},
    {7, "profileIdSelector", PROTO_STRING, REPEATED, IN(ids)},
    {8, "traceIdSelector", PROTO_STRING, REPEATED, IN(traces)},
    {0},
};
const struct proto_field pyroscope_select_series_request[] = {
    {1, "profileTypeID", PROTO_STRING, IN(type_id)},
    {2, "labelSelector", PROTO_STRING, IN(selector)},
    {3, "start", PROTO_INT64, IN(start_ms)},
    {4, "end", PROTO_INT64, IN(end_ms)},
    {5, "groupBy", PROTO_STRING, REPEATED, IN(group_by)},
    {6, "step", PROTO_DOUBLE, IN(step_s)},
    {7, "aggregation", PROTO_ENUM, .values = aggregations, IN(aggregation)},
    {8, "stackTraceSelector", PROTO_MESSAGE, .message = stack_trace_selector},
    {9, "limit", PROTO_INT64, IN(limit)},
    {10, "exemplarType", PROTO_ENUM, .values = exemplar_types, IN(exemplars)},
    {0},
};
const struct proto_field pyroscope_heatmap_request[] = {
    {1, "profileTypeID", PROTO_STRING, IN(type_id)},
    {2, "labelSelector", PROTO_STRING, IN(selector)},
    {3, "start", PROTO_INT64, IN(start_ms)},
    {4, "end", PROTO_INT64, IN(end_ms)},
    {5, "step", PROTO_DOUBLE, IN(step_s)},
    {6, "groupBy", PROTO_STRING, REPEATED, IN(group_by)},
    {7, "queryType", PROTO_ENUM, .values = heat_types, IN(heat)},
    {8, "exemplarType", PROTO_ENUM, .values = exemplar_types, IN(exemplars)},
    {9, "limit", PROTO_INT64, IN(limit)},
    {0},
};
const struct proto_field pyroscope_diff_message[] = {
    {1, "left", PROTO_MESSAGE, .message = pyroscope_stacktraces_request,
     .offset = offsetof(struct pyroscope_diff_request, left)},
    {2, "right", PROTO_MESSAGE, .message = pyroscope_stacktraces_request,
     .offset = offsetof(struct pyroscope_diff_request, right)},
    {0},
};
const struct proto_field pyroscope_analyze_request[] = {
    {2, "start", PROTO_INT64, IN(start_ms)},
    {3, "end", PROTO_INT64, IN(end_ms)},
    {4, "query", PROTO_STRING, IN(query)},
    {0},
};
static const struct proto_field setting[] = {
    {1, "name", PROTO_STRING, IN(name)},
    {2, "value", PROTO_STRING, IN(value)},
    {3, "modifiedAt", PROTO_INT64},
    {0},
};
const struct proto_field pyroscope_setting_request[] = {
    {1, "setting", PROTO_MESSAGE, .message = setting},
    {0},
};
const struct proto_field pyroscope_setting_delete_request[] = {
    {1, "name", PROTO_STRING, IN(name)},
    {0},
};
const struct proto_field pyroscope_empty_message[] = {{0}};

/* ---- Answers */

static const struct proto_field profile_type[] = {
    {1, "ID", PROTO_STRING},
    {2, "name", PROTO_STRING},
    {4, "sampleType", PROTO_STRING},
    {5, "sampleUnit", PROTO_STRING},
    {6, "periodType", PROTO_STRING},
    {7, "periodUnit", PROTO_STRING},
    {0},
};
const struct proto_field pyroscope_profile_types_reply[] = {
    {1, "profileTypes", PROTO_MESSAGE, REPEATED, .message = profile_type},
    {0},
};
const struct proto_field pyroscope_names_reply[] = {{1, "names", PROTO_STRING, REPEATED}, {0}};

static const struct proto_field label_pair[] = {
    {1, "name", PROTO_STRING},
    {2, "value", PROTO_STRING},
    {0},
};
static const struct proto_field labels[] = {
    {1, "labels", PROTO_MESSAGE, REPEATED, .message = label_pair},
    {0},
};
const struct proto_field pyroscope_series_reply[] = {
    {2, "labelsSet", PROTO_MESSAGE, REPEATED, .message = labels},
    {0},
};

static const struct proto_field value_type[] = {
    {1, "type", PROTO_INT64},
    {2, "unit", PROTO_INT64},
    {0},
};
static const struct proto_field sample_label[] = {
    {1, "key", PROTO_INT64},
    {2, "str", PROTO_INT64},
    {3, "num", PROTO_INT64},
    {4, "numUnit", PROTO_INT64},
    {0},
};
static const struct proto_field sample[] = {
    {1, "locationId", PROTO_UINT64, REPEATED},
    {2, "value", PROTO_INT64, REPEATED},
    {3, "label", PROTO_MESSAGE, REPEATED, .message = sample_label},
    {0},
};
static const struct proto_field mapping[] = {
    {1, "id", PROTO_UINT64},
    {2, "memoryStart", PROTO_UINT64},
    {3, "memoryLimit", PROTO_UINT64},
    {4, "fileOffset", PROTO_UINT64},
    {5, "filename", PROTO_INT64},
    {6, "buildId", PROTO_INT64},
    {7, "hasFunctions", PROTO_BOOL},
    {8, "hasFilenames", PROTO_BOOL},
    {9, "hasLineNumbers", PROTO_BOOL},
    {10, "hasInlineFrames", PROTO_BOOL},
    {0},
};
static const struct proto_field line[] = {
    {1, "functionId", PROTO_UINT64},
    {2, "line", PROTO_INT64},
    {0},
};
static const struct proto_field location[] = {
    {1, "id", PROTO_UINT64},      {2, "mappingId", PROTO_UINT64},
    {3, "address", PROTO_UINT64}, {4, "line", PROTO_MESSAGE, REPEATED, .message = line},
    {5, "isFolded", PROTO_BOOL},  {0},
};
static const struct proto_field function[] = {
    {1, "id", PROTO_UINT64},      {2, "name", PROTO_INT64},      {3, "systemName", PROTO_INT64},
    {4, "filename", PROTO_INT64}, {5, "startLine", PROTO_INT64}, {0},
};
const struct proto_field pyroscope_profile[] = {
    {1, "sampleType", PROTO_MESSAGE, REPEATED, .message = value_type},
    {2, "sample", PROTO_MESSAGE, REPEATED, .message = sample},
    {3, "mapping", PROTO_MESSAGE, REPEATED, .message = mapping},
    {4, "location", PROTO_MESSAGE, REPEATED, .message = location},
    {5, "function", PROTO_MESSAGE, REPEATED, .message = function},
    {6, "stringTable", PROTO_STRING, REPEATED},
    {7, "dropFrames", PROTO_INT64},
    {8, "keepFrames", PROTO_INT64},
    {9, "timeNanos", PROTO_INT64},
    {10, "durationNanos", PROTO_INT64},
    {11, "periodType", PROTO_MESSAGE, .message = value_type},
    {12, "period", PROTO_INT64},
    {13, "comment", PROTO_INT64, REPEATED},
    {14, "defaultSampleType", PROTO_INT64},
    {0},
};

static const struct proto_field level[] = {{1, "values", PROTO_INT64, REPEATED}, {0}};
static const struct proto_field flame_graph[] = {
    {1, "names", PROTO_STRING, REPEATED},
    {2, "levels", PROTO_MESSAGE, REPEATED, .message = level},
    {3, "total", PROTO_INT64},
    {4, "maxSelf", PROTO_INT64},
    {5, "leftTicks", PROTO_INT64}, /* these two of a FlameGraphDiff */
    {6, "rightTicks", PROTO_INT64},
    {0},
};
static const struct proto_field pprof_profile[] = {
    {1, "profile", PROTO_MESSAGE, .message = pyroscope_profile},
    {0},
};
const struct proto_field pyroscope_stacktraces_reply[] = {
    {1, "flamegraph", PROTO_MESSAGE, .message = flame_graph},
    {2, "tree", PROTO_BYTES},
    {3, "dot", PROTO_STRING},
    {5, "pprof", PROTO_MESSAGE, .message = pprof_profile},
    {0},
};
const struct proto_field pyroscope_diff_reply[] = {
    {1, "flamegraph", PROTO_MESSAGE, .message = flame_graph},
    {0},
};

static const struct proto_field exemplar[] = {
    {1, "timestamp", PROTO_INT64},
    {2, "profileId", PROTO_STRING},
    {3, "spanId", PROTO_STRING},
    {4, "value", PROTO_INT64},
    {5, "labels", PROTO_MESSAGE, REPEATED, .message = label_pair},
    {6, "traceId", PROTO_STRING},
    {0},
};
static const struct proto_field point[] = {
    {1, "value", PROTO_DOUBLE},
    {2, "timestamp", PROTO_INT64},
    {4, "exemplars", PROTO_MESSAGE, REPEATED, .message = exemplar},
    {0},
};
static const struct proto_field series[] = {
    {1, "labels", PROTO_MESSAGE, REPEATED, .message = label_pair},
    {2, "points", PROTO_MESSAGE, REPEATED, .message = point},
    {0},
};
const struct proto_field pyroscope_select_series_reply[] = {
    {1, "series", PROTO_MESSAGE, REPEATED, .message = series},
    {0},
};
static const struct proto_field heatmap_slot[] = {
    {1, "timestamp", PROTO_INT64},
    {2, "yMin", PROTO_DOUBLE, REPEATED},
    {3, "counts", PROTO_INT32, REPEATED},
    {4, "exemplars", PROTO_MESSAGE, REPEATED, .message = exemplar},
    {0},
};
static const struct proto_field heatmap_series[] = {
    {1, "labels", PROTO_MESSAGE, REPEATED, .message = label_pair},
    {2, "slots", PROTO_MESSAGE, REPEATED, .message = heatmap_slot},
    {0},
};
const struct proto_field pyroscope_heatmap_reply[] = {
    {1, "series", PROTO_MESSAGE, REPEATED, .message = heatmap_series},
    {0},
};
const struct proto_field pyroscope_stats_reply[] = {
    {1, "dataIngested", PROTO_BOOL},
    {2, "oldestProfileTime", PROTO_INT64},
    {3, "newestProfileTime", PROTO_INT64},
    {0},
};
static const struct proto_field query_scope[] = {
    {1, "componentType", PROTO_STRING}, {2, "componentCount", PROTO_UINT64},
    {3, "blockCount", PROTO_UINT64},    {4, "seriesCount", PROTO_UINT64},
    {5, "profileCount", PROTO_UINT64},  {6, "sampleCount", PROTO_UINT64},
    {7, "indexBytes", PROTO_UINT64},    {8, "profileBytes", PROTO_UINT64},
    {9, "symbolBytes", PROTO_UINT64},   {0},
};
static const struct proto_field query_impact[] = {
    {2, "totalBytesInTimeRange", PROTO_UINT64},
    {3, "totalQueriedSeries", PROTO_UINT64},
    {4, "deduplicationNeeded", PROTO_BOOL},
    {0},
};
const struct proto_field pyroscope_analyze_reply[] = {
    {1, "queryScopes", PROTO_MESSAGE, REPEATED, .message = query_scope},
    {2, "queryImpact", PROTO_MESSAGE, .message = query_impact},
    {0},
};
const struct proto_field pyroscope_settings_reply[] = {
    {1, "settings", PROTO_MESSAGE, REPEATED, .message = setting},
    {0},
};
const struct proto_field pyroscope_setting_reply[] = {
    {1, "setting", PROTO_MESSAGE, .message = setting},
    {0},
};
const struct proto_field pyroscope_version_reply[] = {{1, "QuerierAPI", PROTO_UINT64}, {0}};

/* ---- Reading */

static const struct proto_field *find_field(const struct proto_field *message, uint32_t number)
{
    for (const struct proto_field *f = message; f->number; f++)
        if (f->number == number)
            return f;
    return NULL;
}

static void store_number(struct pb_reader *r, const struct proto_field *f, uint8_t *to)
{
    uint64_t v = pb_u64(r);
    int64_t whole = (int64_t)v;
    bool is_set = v != 0;

    if (f->kind == PROTO_DOUBLE)
        memcpy(to, &v, sizeof(double));
    else if (f->kind == PROTO_BOOL)
        memcpy(to, &is_set, sizeof(is_set));
    else
        memcpy(to, &whole, sizeof(whole));
}

static bool is_list(const struct proto_field *f)
{
    return f->is_repeated || f == &call_site_location[0];
}

/* Every struct that is read into begins with its budget; offset 0 is nowhere. */
static void read_fields(const struct proto_field *message, struct bytes in, uint8_t *base,
                        const char **ret_why)
{
    struct budget *budget;
    memcpy(&budget, base, sizeof(budget));

    struct pb_reader r = pb_reader(in);
    while (pb_next(&r)) {
        const struct proto_field *f = find_field(message, r.field);
        if (!f)
            continue;
        uint8_t *to = base + f->offset;
        if (f->kind == PROTO_MESSAGE) {
            bool is_flat = f->message != pyroscope_stacktraces_request;
            if (f->message == go_pgo)
                memcpy(to, &(bool){true}, sizeof(bool));
            read_fields(f->message, pb_bytes(&r), is_flat ? base : to, &r.failure);
        } else if (f->offset == 0) {
            continue;
        } else if (f->kind != PROTO_STRING) {
            store_number(&r, f, to);
        } else if (is_list(f)) {
            (void)vec_push(budget, (text_list *)(void *)to, pb_bytes(&r));
        } else {
            struct bytes text = pb_bytes(&r);
            memcpy(to, &text, sizeof(text));
        }
    }
    if (r.failure && !*ret_why)
        *ret_why = r.failure;
}

static int read_body(struct call *c, const struct proto_field *message, struct buf *plain, void *to,
                     struct error *err)
{
    struct bytes body = c->body;
    const char *why = NULL;

    plain->budget = &c->budget;
    if (c->is_json) {
        int r = proto_from_json(message, c->body, &c->budget, plain, err);
        if (r < 0)
            return r;
        body = buf_bytes(plain);
    }
    read_fields(message, body, to, &why);
    if (why)
        return error_set(err, -EBADMSG, "the message is malformed: %s", why);
    return budget_failed(&c->budget) ? budget_error(&c->budget, err) : 0;
}

int pyroscope_request_read(struct call *c, const struct proto_field *message,
                           struct pyroscope_request *ret, struct error *err)
{
    *ret = (struct pyroscope_request){.budget = &c->budget};
    return read_body(c, message, &ret->plain, ret, err);
}

void pyroscope_request_done(struct pyroscope_request *q)
{
    text_list *const lists[] = {&q->matchers, &q->label_names, &q->group_by, &q->spans,
                                &q->traces,   &q->ids,         &q->call_site};
    for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
        vec_done(q->budget, lists[i]);
    buf_done(&q->plain);
}

int pyroscope_diff_read(struct call *c, struct pyroscope_diff_request *ret, struct error *err)
{
    *ret = (struct pyroscope_diff_request){
        .budget = &c->budget, .left.budget = &c->budget, .right.budget = &c->budget};
    return read_body(c, pyroscope_diff_message, &ret->plain, ret, err);
}

void pyroscope_diff_done(struct pyroscope_diff_request *q)
{
    pyroscope_request_done(&q->left);
    pyroscope_request_done(&q->right);
    buf_done(&q->plain);
}

/* ---- Writing */

int pyroscope_reply(struct call *c, const struct proto_field *message, struct buf *body,
                    struct error *err)
{
    CLEANUP(buf_done) struct buf json = {.budget = body->budget};

    if (buf_full(body))
        return buf_error(body, err);
    if (!c->is_json) {
        call_reply_message(c, body);
        return 0;
    }
    int r = proto_to_json(message, buf_bytes(body), &json, err);
    if (r == 0)
        call_reply_message(c, &json);
    return r;
}

void pyroscope_put_double(struct buf *out, uint32_t field, double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof(bits));
    if (bits)
        pb_put_fixed64(out, field, bits);
}

void pyroscope_put_label(struct buf *out, uint32_t field, struct bytes name, struct bytes value)
{
    size_t at = pb_begin(out, field);
    proto_put_text(out, 1, name);
    proto_put_text(out, 2, value);
    pb_end(out, at);
}

#include <errno.h>

#include "base/clock.h"
#include "lib/calls.h"
#include "server/server_internal.h"
#include "wire/protobuf.h"

/* What Grafana and Profiles Drilldown ask, answered by a server without a network. */
#define S ((int64_t)1000000000)

struct world {
    struct calls calls;
    struct server *server;
    struct store_source *source;
    int64_t start; /* a whole minute, an hour ago */
    struct http_reply reply;
};

static void must(int r, const struct error *err)
{
    if (r < 0) {
        printf("Bail out! %s\n", err->text);
        exit(1);
    }
}

static uint32_t frame(struct dict *d, uint32_t parent, const char *name)
{
    return dict_frame(d, parent, (struct function){.name = dict_cstring(d, name)}, 1, 0, 0);
}

struct incoming {
    const char *service, *pod, *type, *unit, *period, *kind;
    int second;
    const char *stack; /* "main;parse", outermost first */
    int64_t value;
    bool is_instant;
    uint8_t id, span; /* 0: none */
};

static void append(struct world *w, const struct incoming *in)
{
    struct error err = {""};
    struct store_outcome outcome;
    store_source_reset(w->source);
    struct dict *d = w->source->set->dict;
    struct profile *p = profile_set_add(w->source->set);
    profile_add_ctype(p, in->type, in->unit);
    p->period_type = (struct value_type){dict_cstring(d, in->period ? in->period : in->type),
                                         dict_cstring(d, "nanoseconds")};
    p->period = 10000000;
    char text[200];
    snprintf(text, sizeof(text), "%s", in->stack);
    uint32_t node = 0;
    for (char *save, *one = strtok_r(text, ";", &save); one; one = strtok_r(NULL, ";", &save))
        node = frame(d, node, one);
    struct link link = {.trace_id = {in->span, 1}, .span_id = {in->span, 2}};
    int64_t values[] = {in->value};
    profile_add(p, &(struct sample){
                       .node = node, .values = values, .link = in->span ? dict_link(d, link) : 0});
    p->time_unix_ns = w->start + in->second * S;
    p->duration_ns = S;
    struct label labels[] = {{BYTES("deployment.environment.name"), BYTES("prod")},
                             {BYTES("pod"), bytes_of(in->pod)},
                             {BYTES("profile.kind"), bytes_of(in->kind ? in->kind : "")},
                             {BYTES("service.name"), bytes_of(in->service)}};
    size_t n = labels_normalize(labels, ARRAY_SIZE(labels));
    struct store_incoming incoming = {.profile = p,
                                      .labels = labels,
                                      .n_labels = n,
                                      .is_instant = in->is_instant,
                                      .has_id = in->id != 0,
                                      .id = {in->id, in->id}};
    must(store_append(w->source, BYTES("default"), &incoming, 1, &outcome, &err), &err);
    if (outcome.verdict != STORE_STORED)
        must(-EINVAL, &outcome.why);
}

static const struct incoming usual[] = {
    {"checkout", "a", "cpu", "nanoseconds", .second = 0, .stack = "main;parse;read", .value = 5,
     .id = 1},
    {"checkout", "a", "cpu", "nanoseconds", .second = 60, .stack = "main;parse", .value = 7,
     .id = 2},
    {"checkout", "b", "cpu", "nanoseconds", .second = 60, .stack = "main;sort", .value = 11,
     .id = 3, .span = 7},
    {"cart", "c", "cpu", "nanoseconds", .second = 120, .stack = "main;add", .value = 13},
    {"cart", "c", "inuse_space", "bytes", "space", .second = 0, .stack = "main;grow", .value = 100,
     .is_instant = true},
    {"cart", "c", "inuse_space", "bytes", "space", .second = 30, .stack = "main;grow", .value = 300,
     .is_instant = true},
    {"cart", "c", "contentions", "count", "contentions", .second = 0, .stack = "main;lock",
     .value = 3},
    {"cart", "c", "contentions", "count", "contentions", "block", .second = 0, .stack = "main;recv",
     .value = 4},
};

static void world_init(struct world *w)
{
    struct error err = {""};
    *w = (struct world){0};
    calls_begin(NULL, &w->calls);
    w->server = w->calls.server;
    must(store_source_new(w->server->store, 0, &w->source, &err), &err);
    /* At a whole ten minutes, the longest step that is asked for. */
    w->start = (clock_wall_ns(clock_real()) / (600 * S) - 6) * 600 * S;
    for (size_t i = 0; i < ARRAY_SIZE(usual); i++)
        append(w, &usual[i]);
}

static void world_done(struct world *w)
{
    http_reply_done(&w->reply);
    store_source_free(w->source);
    calls_end(&w->calls);
}

static void request(struct world *w, const char *method, const char *path, const char *type,
                    struct bytes body)
{
    const char *const headers[] = {"content-type", type, NULL};
    http_reply_done(&w->reply);
    w->reply = call_send(&w->calls, method, path, headers, body);
}

/* Asks in JSON; START and END in it stand for the range of all there is. */
static const char *ask(struct world *w, const char *method, const char *json)
{
    static char path[100], text[2000];
    char *to = text;
    snprintf(path, sizeof(path), "/querier.v1.QuerierService/%s", method);
    while (*json) {
        bool is_start = strncmp(json, "START", 5) == 0, is_end = strncmp(json, "END", 3) == 0;
        if (is_start || is_end) {
            int64_t ms = w->start / 1000000 + (is_end ? 600000 : 0);
            to += sprintf(to, "%lld", (long long)ms);
            json += is_start ? 5 : 3;
        } else {
            *to++ = *json++;
        }
    }
    *to = '\0';
    request(w, "POST", path, "application/json", bytes_of(text));
    return buf_cstr(&w->reply.body);
}

#define CPU    "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
#define RANGE  "\"start\":START,\"end\":END"
#define OF_CPU "{\"profileTypeID\":\"" CPU "\"," RANGE

static int status(const struct world *w)
{
    return w->reply.status ? w->reply.status : 200;
}

static void profile_types_are_listed_with_their_parts(struct test *t)
{
    struct world w;
    world_init(&w);
    CHECK_STR(t, ask(&w, "ProfileTypes", "{" RANGE "}"),
              "{\"profileTypes\":["
              "{\"ID\":\"block:contentions:count:contentions:nanoseconds\",\"name\":\"block\","
              "\"sampleType\":\"contentions\",\"sampleUnit\":\"count\","
              "\"periodType\":\"contentions\",\"periodUnit\":\"nanoseconds\"},"
              "{\"ID\":\"memory:inuse_space:bytes:space:nanoseconds\",\"name\":\"memory\","
              "\"sampleType\":\"inuse_space\",\"sampleUnit\":\"bytes\",\"periodType\":\"space\","
              "\"periodUnit\":\"nanoseconds\"},"
              "{\"ID\":\"mutex:contentions:count:contentions:nanoseconds\",\"name\":\"mutex\","
              "\"sampleType\":\"contentions\",\"sampleUnit\":\"count\","
              "\"periodType\":\"contentions\",\"periodUnit\":\"nanoseconds\"},"
              "{\"ID\":\"" CPU "\",\"name\":\"process_cpu\",\"sampleType\":\"cpu\","
              "\"sampleUnit\":\"nanoseconds\",\"periodType\":\"cpu\","
              "\"periodUnit\":\"nanoseconds\"}]}");
    CHECK_STR(t, ask(&w, "ProfileTypes", "{\"start\":1,\"end\":2}"), "{}");
    world_done(&w);
}

static void labels_are_shown_and_found_with_underscores(struct test *t)
{
    struct world w;
    world_init(&w);
    CHECK_STR(t, ask(&w, "LabelNames", "{\"matchers\":[\"{}\"]," RANGE "}"),
              "{\"names\":[\"__name__\",\"__period_type__\",\"__period_unit__\","
              "\"__profile_type__\",\"__type__\",\"__unit__\",\"deployment_environment_name\","
              "\"pod\",\"service_name\"]}");
    CHECK_STR(t,
              ask(&w, "LabelValues",
                  "{\"name\":\"pod\",\"matchers\":[\"{service_name=\\\"checkout\\\"}\"]," RANGE
                  "}"),
              "{\"names\":[\"a\",\"b\"]}");
    CHECK_STR(t, ask(&w, "LabelValues", "{\"name\":\"deployment_environment_name\"," RANGE "}"),
              "{\"names\":[\"prod\"]}");
    CHECK_STR(t, ask(&w, "LabelValues", "{\"name\":\"service.name\"," RANGE "}"),
              "{\"names\":[\"cart\",\"checkout\"]}");
    CHECK_STR(t, ask(&w, "LabelValues", "{\"name\":\"nowhere\"," RANGE "}"), "{}");
    CHECK_STR(t,
              ask(&w, "LabelValues",
                  "{\"name\":\"service_name\",\"matchers\":[\"{deployment_environment_name!="
                  "\\\"prod\\\"}\"]," RANGE "}"),
              "{}");
    world_done(&w);
}

static void drilldown_lists_services_by_profile_type(struct test *t)
{
    struct world w;
    world_init(&w);
    CHECK_STR(t,
              ask(&w, "Series",
                  "{" RANGE ",\"labelNames\":[\"service_name\",\"__name__\"],\"matchers\":[]}"),
              "{\"labelsSet\":["
              "{\"labels\":[{\"name\":\"service_name\",\"value\":\"cart\"},"
              "{\"name\":\"__name__\",\"value\":\"block\"}]},"
              "{\"labels\":[{\"name\":\"service_name\",\"value\":\"cart\"},"
              "{\"name\":\"__name__\",\"value\":\"mutex\"}]},"
              "{\"labels\":[{\"name\":\"service_name\",\"value\":\"cart\"},"
              "{\"name\":\"__name__\",\"value\":\"memory\"}]},"
              "{\"labels\":[{\"name\":\"service_name\",\"value\":\"cart\"},"
              "{\"name\":\"__name__\",\"value\":\"process_cpu\"}]},"
              "{\"labels\":[{\"name\":\"service_name\",\"value\":\"checkout\"},"
              "{\"name\":\"__name__\",\"value\":\"process_cpu\"}]}]}");
    /* As Drilldown makes matchers of "TYPE{}": the comma stays. */
    CHECK_STR(t,
              ask(&w, "LabelValues",
                  "{\"name\":\"pod\",\"matchers\":[\"{__profile_type__=\\\"" CPU "\\\", }\"]," RANGE
                  "}"),
              "{\"names\":[\"a\",\"b\",\"c\"]}");
    CHECK_STR(
        t,
        ask(&w, "LabelValues",
            "{\"name\":\"service_name\",\"matchers\":[\"{__name__=~\\\"block|memory\\\"}\"]," RANGE
            "}"),
        "{\"names\":[\"cart\"]}");
    world_done(&w);
}

static void stacks_merge_into_a_flame_graph(struct test *t)
{
    struct world w;
    world_init(&w);
    /* Own share at the left, then children, the heaviest first. */
    CHECK_STR(t,
              ask(&w, "SelectMergeStacktraces",
                  OF_CPU ",\"labelSelector\":\"{service_name=\\\"checkout\\\"}\"}"),
              "{\"flamegraph\":{\"names\":[\"total\",\"main\",\"parse\",\"read\",\"sort\"],"
              "\"levels\":[{\"values\":[\"0\",\"23\",\"0\",\"0\"]},"
              "{\"values\":[\"0\",\"23\",\"0\",\"1\"]},"
              "{\"values\":[\"0\",\"12\",\"7\",\"2\",\"0\",\"11\",\"11\",\"4\"]},"
              "{\"values\":[\"7\",\"5\",\"5\",\"3\"]}],"
              "\"total\":\"23\",\"maxSelf\":\"11\"}}");
    /* Drilldown's spellings; what was cut is "other". */
    CHECK_STR(t,
              ask(&w, "SelectMergeStacktraces",
                  "{\"profile_typeID\":\"" CPU "\",\"label_selector\":\"{service_name=~\\\"check.*"
                  "\\\",pod!=\\\"x\\\"}\",\"start\":START,\"end\":\"END\",\"max_nodes\":3}"),
              "{\"flamegraph\":{\"names\":[\"total\",\"main\",\"parse\",\"other\"],"
              "\"levels\":[{\"values\":[\"0\",\"23\",\"0\",\"0\"]},"
              "{\"values\":[\"0\",\"23\",\"0\",\"1\"]},"
              "{\"values\":[\"0\",\"12\",\"7\",\"2\",\"0\",\"11\",\"11\",\"3\"]},"
              "{\"values\":[\"7\",\"5\",\"5\",\"3\"]}],"
              "\"total\":\"23\",\"maxSelf\":\"11\"}}");
    CHECK_STR(t,
              ask(&w, "SelectMergeStacktraces",
                  OF_CPU ",\"labelSelector\":\"{service_name=\\\"nobody\\\"}\"}"),
              "{}");
    /* Moments are averaged, of equal periods the name decides. */
    CHECK(t, strstr(ask(&w, "SelectMergeStacktraces",
                        "{\"profileTypeID\":\"memory:inuse_space:bytes:space:nanoseconds\"," RANGE
                        "}"),
                    "\"total\":\"200\""));
    CHECK(t,
          strstr(ask(&w, "SelectMergeStacktraces",
                     "{\"profileTypeID\":\"mutex:contentions:count:contentions:nanoseconds\"," RANGE
                     "}"),
                 "\"total\":\"3\""));
    CHECK(t,
          strstr(ask(&w, "SelectMergeStacktraces",
                     "{\"profileTypeID\":\"block:contentions:count:contentions:nanoseconds\"," RANGE
                     "}"),
                 "\"total\":\"4\""));
    CHECK_STR(t,
              ask(&w, "SelectMergeStacktraces",
                  "{\"profileTypeID\":\"wall:cpu:nanoseconds:wall:nanoseconds\"," RANGE "}"),
              "{}");
    world_done(&w);
}

static void samples_of_spans_profiles_and_call_sites_alone(struct test *t)
{
    struct world w;
    world_init(&w);
    CHECK(t, strstr(ask(&w, "SelectMergeSpanProfile",
                        OF_CPU ",\"spanSelector\":[\"0702000000000000\"]}"),
                    "[\"total\",\"main\",\"sort\"]"));
    CHECK(t, strstr(ask(&w, "SelectMergeStacktraces",
                        OF_CPU ",\"traceIdSelector\":[\"07010000000000000000000000000000\"]}"),
                    "\"total\":\"11\""));
    CHECK_STR(t,
              ask(&w, "SelectMergeSpanProfile", OF_CPU ",\"spanSelector\":[\"00000000000000aa\"]}"),
              "{}");
    CHECK(t, strstr(ask(&w, "SelectMergeStacktraces",
                        OF_CPU ",\"profileIdSelector\":[\"01010000-0000-0000-0000-000000000000\","
                               "\"02020000-0000-0000-0000-000000000000\"]}"),
                    "\"total\":\"12\""));
    CHECK(t, strstr(ask(&w, "SelectMergeStacktraces",
                        OF_CPU ",\"stackTraceSelector\":{\"call_site\":[{\"name\":\"main\"},"
                               "{\"name\":\"parse\"}]}}"),
                    "\"total\":\"12\""));
    CHECK_STR(t,
              ask(&w, "SelectMergeStacktraces",
                  OF_CPU ",\"stackTraceSelector\":{\"callSite\":[{\"name\":\"parse\"}]}}"),
              "{}");
    world_done(&w);
}

static void profiles_are_pprof_in_both_forms(struct test *t)
{
    struct world w;
    world_init(&w);
    const char *json =
        ask(&w, "SelectMergeProfile",
            OF_CPU ",\"label_selector\":\"{}\",\"stackTraceSelector\":{\"call_site\":"
                   "[{\"name\":\"main\"},{\"name\":\"sort\"}]},\"maxNodes\":16384}");
    CHECK(t, strstr(json, "\"sampleType\":[{\"type\":\"1\",\"unit\":\"2\"}]"));
    CHECK(t, strstr(json, "\"sample\":[{\"locationId\":[\"2\",\"1\"],\"value\":[\"11\"]"));
    CHECK(t, strstr(json, "\"stringTable\":[\"\",\"cpu\",\"nanoseconds\""));
    CHECK(t, strstr(json, "\"periodType\":"));
    CHECK(t,
          strstr(ask(&w, "SelectMergeStacktraces", OF_CPU ",\"format\":\"PROFILE_FORMAT_PPROF\"}"),
                 "{\"pprof\":{\"profile\":{\"sampleType\""));
    CHECK(t,
          strstr(ask(&w, "SelectMergeStacktraces", OF_CPU ",\"format\":3}"), "{\"dot\":\"digraph"));
    CHECK_STR(t,
              ask(&w, "SelectMergeStacktraces",
                  OF_CPU ",\"labelSelector\":\"{service_name=\\\"cart\\\"}\",\"format\":2}"),
              "{\"tree\":\"AAABBG1haW4AAQNhZGQNAA==\"}");
    CHECK_STR(
        t, ask(&w, "SelectMergeProfile", "{\"profileTypeID\":\"" CPU "\",\"start\":1,\"end\":2}"),
        "{}");
    world_done(&w);
}

static void stacks_are_cut_for_go_pgo(struct test *t)
{
    struct world w;
    world_init(&w);
    const char *json = ask(&w, "SelectMergeProfile",
                           OF_CPU ",\"labelSelector\":\"{pod=\\\"a\\\"}\",\"stackTraceSelector\":"
                                  "{\"goPgo\":{\"keepLocations\":1,\"aggregateCallees\":true}}}");
    CHECK(t, strstr(json, "\"sample\":[{\"locationId\":[\"1\"],\"value\":[\"7\"]},"
                          "{\"locationId\":[\"2\"],\"value\":[\"5\"]}]"));
    CHECK(t, !strstr(json, "\"main\""));
    world_done(&w);
}

static void names_that_are_no_utf8_do_not_break_protobuf(struct test *t)
{
    struct world w;
    struct buf body = {0};
    world_init(&w);
    append(&w, &(struct incoming){"odd", "x", "cpu", "nanoseconds", .second = 5,
                                  .stack = "a\xff"
                                           "b",
                                  .value = 1});
    pb_put_bytes(&body, 1, BYTES(CPU));
    pb_put_bytes(&body, 2, BYTES("{service_name=\"odd\"}"));
    pb_put_u64(&body, 3, (uint64_t)(w.start / 1000000));
    pb_put_u64(&body, 4, (uint64_t)(w.start / 1000000 + 600000));
    static const char *const paths[] = {"/querier.v1.QuerierService/SelectMergeStacktraces",
                                        "/querier.v1.QuerierService/SelectMergeProfile"};
    for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
        request(&w, "POST", paths[i], "application/proto", buf_bytes(&body));
        CHECK_INT(t, status(&w), 200);
        struct bytes reply = buf_bytes(&w.reply.body);
        CHECK(t, bytes_find(reply, BYTES("a\xef\xbf\xbd"
                                         "b")));
        CHECK(t, !bytes_find(reply, BYTES("a\xff")));
    }
    buf_done(&body);
    world_done(&w);
}

static void series_are_grouped_averaged_and_limited(struct test *t)
{
    struct world w;
    char want[600];
    world_init(&w);
    long long at = w.start / 1000000;
    snprintf(want, sizeof(want),
             "{\"series\":[{\"points\":[{\"value\":5,\"timestamp\":\"%lld\"},"
             "{\"value\":18,\"timestamp\":\"%lld\"},{\"value\":13,\"timestamp\":\"%lld\"}]}]}",
             at + 60000, at + 120000, at + 180000);
    CHECK_STR(t, ask(&w, "SelectSeries", OF_CPU ",\"step\":60}"), want);
    snprintf(want, sizeof(want),
             "{\"series\":[{\"labels\":[{\"name\":\"service_name\",\"value\":\"checkout\"}],"
             "\"points\":[{\"value\":5,\"timestamp\":\"%lld\"},{\"value\":9,\"timestamp\":\"%lld\"}"
             "]}]}",
             at + 60000, at + 120000);
    CHECK_STR(t,
              ask(&w, "SelectSeries",
                  OF_CPU ",\"step\":60,\"groupBy\":[\"service_name\"],\"limit\":1,\"aggregation\":"
                         "\"TIME_SERIES_AGGREGATION_TYPE_AVERAGE\"}"),
              want);
    snprintf(want, sizeof(want),
             "{\"series\":[{\"points\":[{\"value\":200,\"timestamp\":\"%lld\"}]}]}", at + 60000);
    CHECK_STR(
        t,
        ask(&w, "SelectSeries",
            "{\"profileTypeID\":\"memory:inuse_space:bytes:space:nanoseconds\",\"step\":60," RANGE
            "}"),
        want);
    CHECK(t, strstr(ask(&w, "SelectSeries",
                        OF_CPU ",\"step\":600,\"stackTraceSelector\":{\"callSite\":[{\"name\":"
                               "\"main\"},{\"name\":\"parse\"}]}}"),
                    "\"value\":12,"));
    snprintf(want, sizeof(want),
             "\"exemplars\":[{\"timestamp\":\"%lld\",\"profileId\":"
             "\"03030000-0000-0000-0000-000000000000\",\"value\":\"11\",\"labels\":["
             "{\"name\":\"deployment_environment_name\",\"value\":\"prod\"},"
             "{\"name\":\"pod\",\"value\":\"b\"}]}]",
             at + 60000);
    CHECK(t, strstr(ask(&w, "SelectSeries",
                        OF_CPU ",\"step\":60,\"groupBy\":[\"service_name\"],\"exemplarType\":"
                               "\"EXEMPLAR_TYPE_INDIVIDUAL\"}"),
                    want));
    world_done(&w);
}

static void heat_maps_count_profiles_by_value(struct test *t)
{
    struct world w;
    char want[300];
    world_init(&w);
    long long at = w.start / 1000000;
    const char *json = ask(&w, "SelectHeatmap",
                           OF_CPU ",\"step\":60,\"queryType\":\"HEATMAP_QUERY_TYPE_INDIVIDUAL\"}");
    snprintf(want, sizeof(want), "{\"series\":[{\"slots\":[{\"timestamp\":\"%lld\",\"yMin\":[5,5",
             at);
    CHECK(t, strncmp(json, want, strlen(want)) == 0);
    snprintf(want, sizeof(want), "\"timestamp\":\"%lld\"", at + 60000);
    CHECK(t, strstr(json, want));
    CHECK(t, strstr(json, "\"counts\":[0,0,1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]"));
    CHECK(t, strstr(json, "\"counts\":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,1]"));
    json = ask(&w, "SelectHeatmap",
               OF_CPU ",\"step\":60,\"queryType\":2,\"exemplarType\":\"EXEMPLAR_TYPE_SPAN\"}");
    CHECK(t, strstr(json, "\"spanId\":\"0702000000000000\",\"value\":\"11\""));
    CHECK(t, strstr(json, "\"traceId\":\"07010000000000000000000000000000\""));
    world_done(&w);
}

static void two_selections_compare(struct test *t)
{
    struct world w;
    world_init(&w);
    CHECK_STR(t,
              ask(&w, "Diff",
                  "{\"left\":" OF_CPU ",\"labelSelector\":\"{pod=\\\"a\\\"}\"},"
                  "\"right\":" OF_CPU ",\"labelSelector\":\"{pod=\\\"b\\\"}\"}}"),
              "{\"flamegraph\":{\"names\":[\"total\",\"main\",\"parse\",\"read\",\"sort\"],"
              "\"levels\":[{\"values\":[\"0\",\"12\",\"0\",\"0\",\"11\",\"0\",\"0\"]},"
              "{\"values\":[\"0\",\"12\",\"0\",\"0\",\"11\",\"0\",\"1\"]},"
              "{\"values\":[\"0\",\"12\",\"7\",\"0\",\"0\",\"0\",\"2\","
              "\"0\",\"0\",\"0\",\"0\",\"11\",\"11\",\"4\"]},"
              "{\"values\":[\"7\",\"5\",\"5\",\"0\",\"0\",\"0\",\"3\"]}],"
              "\"total\":\"23\",\"maxSelf\":\"11\",\"leftTicks\":\"12\",\"rightTicks\":\"11\"}}");
    CHECK(t, strstr(ask(&w, "Diff",
                        "{\"left\":" OF_CPU ",\"labelSelector\":\"{pod=\\\"z\\\"}\"},"
                        "\"right\":" OF_CPU "}}"),
                    "\"rightTicks\":\"36\""));
    world_done(&w);
}

static void figures_tell_that_there_is_data(struct test *t)
{
    struct world w;
    world_init(&w);
    const char *json = ask(&w, "GetProfileStats", "{}");
    CHECK(t, strncmp(json, "{\"dataIngested\":true,\"oldestProfileTime\":\"1", 43) == 0);
    json =
        ask(&w, "AnalyzeQuery", "{" RANGE ",\"query\":\"" CPU "{service_name=\\\"checkout\\\"}\"}");
    CHECK(t, strstr(json, "\"seriesCount\":\"2\",\"profileCount\":\"3\""));
    world_done(&w);
}

static void mistakes_are_invalid_arguments_with_words(struct test *t)
{
    static const struct {
        const char *method, *json, *why;
    } cases[] = {
        {"SelectMergeStacktraces", "{\"profileTypeID\":\"cpu\"," RANGE "}",
         "is not a profile type"},
        {"SelectMergeStacktraces", "{\"profileTypeID\":\"" CPU "\"}", "start and end are missing"},
        {"SelectMergeStacktraces", "{\"profileTypeID\":\"" CPU "\",\"start\":2,\"end\":1}",
         "the range ends before it starts: 2 to 1"},
        {"SelectMergeStacktraces", OF_CPU ",\"maxNodes\":2000000}", "at most 1048576 are allowed"},
        {"SelectMergeStacktraces", OF_CPU ",\"format\":9}", "there is no profile format 9"},
        {"SelectMergeStacktraces", OF_CPU ",\"labelSelector\":\"{pod=~\\\"(\\\"}\"}", "selector"},
        {"SelectMergeStacktraces", OF_CPU ",\"labelSelector\":\"{pod\"}",
         "the brace is never closed"},
        {"SelectMergeSpanProfile", OF_CPU ",\"spanSelector\":[\"xyz\"]}",
         "is no span id: expected 16 hexadecimal digits"},
        {"SelectSeries", OF_CPU "}", "step is 0"},
        {"SelectHeatmap", OF_CPU ",\"step\":60,\"limit\":-1}", "it cannot be negative"},
        {"LabelValues", "{}", "the name of a label is missing"},
        {"LabelNames", "{\"matchers\":{}}", "JSON message at byte"},
    };
    struct world w;
    world_init(&w);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        const char *json = ask(&w, cases[i].method, cases[i].json);
        CHECK_INT(t, status(&w), 400);
        if (!strstr(json, "\"code\":\"invalid_argument\"") || !strstr(json, cases[i].why))
            CHECK_STR(t, json, cases[i].why);
    }
    request(&w, "POST", "/querier.v1.QuerierService/LabelNames", "application/proto",
            BYTES("\x0a\x7f"));
    CHECK_INT(t, status(&w), 400);
    CHECK(t, strstr(buf_cstr(&w.reply.body), "the message is malformed: a length runs past"));
    world_done(&w);
}

static void protobuf_says_the_same(struct test *t)
{
    struct world w;
    struct buf body = {0};
    world_init(&w);
    pb_put_bytes(&body, 1, BYTES("pod"));
    pb_put_bytes(&body, 2, BYTES("{service_name=\"checkout\"}"));
    pb_put_u64(&body, 3, (uint64_t)(w.start / 1000000));
    pb_put_u64(&body, 4, (uint64_t)(w.start / 1000000 + 600000));
    pb_put_bytes(&body, 99, BYTES("from the future"));
    request(&w, "POST", "/querier.v1.QuerierService/LabelValues", "application/proto",
            buf_bytes(&body));
    CHECK_INT(t, status(&w), 200);
    CHECK(t, bytes_equal(buf_bytes(&w.reply.body), BYTES("\x0a\x01"
                                                         "a\x0a\x01"
                                                         "b")));
    buf_done(&body);
    world_done(&w);
}

static void render_speaks_flamebearer(struct test *t)
{
    struct world w;
    char path[500], want[200];
    world_init(&w);
    long long from = w.start / 1000000, until = from + 180000;
    snprintf(path, sizeof(path),
             "/pyroscope/render?query=" CPU "%%7Bservice_name%%3D%%22checkout%%22%%7D&from=%lld"
             "&until=%lld&max-nodes=100",
             from, until);
    request(&w, "GET", path, "", (struct bytes){0});
    const char *json = buf_cstr(&w.reply.body);
    CHECK(t, strncmp(json,
                     "{\"version\":1,\"flamebearer\":{\"names\":[\"total\",\"main\",\"parse\","
                     "\"read\",\"sort\"],\"levels\":[[0,23,0,0],[0,23,0,1],[0,12,7,2,0,11,11,4],"
                     "[7,5,5,3]],\"numTicks\":23,\"maxSelf\":11},\"metadata\":{\"format\":"
                     "\"single\",\"spyName\":\"\",\"sampleRate\":1000000000,\"units\":\"samples\","
                     "\"name\":\"cpu\"},",
                     265) == 0);
    snprintf(want, sizeof(want),
             "\"timeline\":{\"startTime\":%lld,\"samples\":[5,0,0,0,18,0,0,0,0,0,0,0],"
             "\"durationDelta\":15,\"watermarks\":null},\"groups\":null",
             from / 1000);
    CHECK(t, strstr(json, want));
    strcat(path, "&groupBy=service_name");
    request(&w, "GET", path, "", (struct bytes){0});
    CHECK(t, strstr(buf_cstr(&w.reply.body), "\"groups\":{\"checkout\":{\"startTime\""));
    strcat(path, "&format=dot");
    request(&w, "GET", path, "", (struct bytes){0});
    CHECK(t, strncmp(buf_cstr(&w.reply.body), "digraph", 7) == 0);

    snprintf(path, sizeof(path),
             "/pyroscope/render-diff?leftQuery=" CPU "{pod=\"a\"}&leftFrom=%lld&leftUntil=%lld&"
             "rightQuery=" CPU "{pod=\"b\"}&rightFrom=%lld&rightUntil=%lld",
             from, until, from, until);
    request(&w, "GET", path, "", (struct bytes){0});
    json = buf_cstr(&w.reply.body);
    CHECK(t, strstr(json, "\"levels\":[[0,12,0,0,11,0,0],"));
    CHECK(t, strstr(json, "\"format\":\"double\""));
    CHECK(t, strstr(json, "\"leftTicks\":12,\"rightTicks\":11}"));

    request(&w, "GET", "/pyroscope/label-values?label=service_name", "", (struct bytes){0});
    CHECK_STR(t, buf_cstr(&w.reply.body), "[\"cart\",\"checkout\"]");
    request(&w, "GET", "/pyroscope/render?query=cpu", "", (struct bytes){0});
    CHECK_INT(t, status(&w), 400);
    CHECK(t, strstr(buf_cstr(&w.reply.body), "is not a profile type"));
    request(&w, "GET", "/pyroscope/render", "", (struct bytes){0});
    CHECK(t, strstr(buf_cstr(&w.reply.body), "query is missing"));
    world_done(&w);
}

static void settings_are_kept_and_the_rest_is_unimplemented(struct test *t)
{
    struct world w;
    world_init(&w);
    const char *type = "application/json";
    request(&w, "POST", "/settings.v1.SettingsService/Get", type, BYTES("{}"));
    CHECK_STR(t, buf_cstr(&w.reply.body), "{}");
    request(&w, "POST", "/settings.v1.SettingsService/Set", type,
            BYTES("{\"setting\":{\"name\":\"pluginSettings\",\"value\":\"{\\\"a\\\":1}\"}}"));
    CHECK_INT(t, status(&w), 200);
    request(&w, "POST", "/settings.v1.SettingsService/Get", type, BYTES("{}"));
    CHECK(t, strstr(buf_cstr(&w.reply.body), "{\"settings\":[{\"name\":\"pluginSettings\","
                                             "\"value\":\"{\\\"a\\\":1}\",\"modifiedAt\":\"1"));
    request(&w, "POST", "/version.v1.Version/Version", type, BYTES("{}"));
    CHECK_STR(t, buf_cstr(&w.reply.body), "{\"QuerierAPI\":\"1\"}");
    static const char *const others[] = {
        "/adhocprofiles.v1.AdHocProfileService/Upload",
        "/settings.v1.RecordingRulesService/ListRecordingRules",
        "/vcs.v1.VCSService/GithubApp",
        "/querier.v1.QuerierService/Tomorrow",
    };
    for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
        request(&w, "POST", others[i], type, BYTES("{}"));
        CHECK(t, strstr(buf_cstr(&w.reply.body), "\"code\":\"unimplemented\""));
        CHECK_INT(t, status(&w), 501);
    }
    world_done(&w);
}

static const struct test_case cases[] = {
    TEST(profile_types_are_listed_with_their_parts),
    TEST(labels_are_shown_and_found_with_underscores),
    TEST(drilldown_lists_services_by_profile_type),
    TEST(stacks_merge_into_a_flame_graph),
    TEST(samples_of_spans_profiles_and_call_sites_alone),
    TEST(profiles_are_pprof_in_both_forms),
    TEST(stacks_are_cut_for_go_pgo),
    TEST(names_that_are_no_utf8_do_not_break_protobuf),
    TEST(series_are_grouped_averaged_and_limited),
    TEST(heat_maps_count_profiles_by_value),
    TEST(two_selections_compare),
    TEST(figures_tell_that_there_is_data),
    TEST(mistakes_are_invalid_arguments_with_words),
    TEST(protobuf_says_the_same),
    TEST(render_speaks_flamebearer),
    TEST(settings_are_kept_and_the_rest_is_unimplemented),
};
TEST_MAIN(cases)

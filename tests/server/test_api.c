#include <errno.h>
#include <stdarg.h>

#include "base/clock.h"
#include "lib/calls.h"
#include "server/auth.h"
#include "server/mask.h"
#include "server/server_internal.h"
#include "wire/json.h"

/* Questions to /api/v1 of a server without a network, over profiles put straight into its store. */
#define S ((int64_t)1000000000)

struct world {
    struct calls calls;
    struct store_source *source;
    int64_t now;
};

static void must(int r, const struct error *err)
{
    if (r < 0) {
        printf("Bail out! %s\n", err->text);
        exit(1);
    }
}

static uint32_t frame(struct dict *d, uint32_t parent, const char *name, int64_t line)
{
    return dict_frame(
        d, parent,
        (struct function){.name = dict_cstring(d, name), .file = dict_cstring(d, "/src/a.c")}, line,
        0, dict_cstring(d, "native"));
}

static struct profile *begin(struct world *w)
{
    store_source_reset(w->source);
    struct profile *p = profile_set_add(w->source->set);
    profile_add_ctype(p, "cpu", "nanoseconds");
    return p;
}

static void append(struct world *w, struct profile *p, const char *service, int ago, uint8_t id)
{
    struct error err = {""};
    struct store_outcome outcome;
    p->time_unix_ns = w->now - ago * S;
    p->duration_ns = S;
    struct label labels[] = {{BYTES("service.name"), bytes_of(service)}};
    struct store_incoming in = {
        .profile = p, .labels = labels, .n_labels = 1, .has_id = id != 0, .id = {id}};
    must(store_append(w->source, BYTES("default"), &in, 1, &outcome, &err), &err);
    if (outcome.verdict != STORE_STORED)
        must(-EINVAL, &outcome.why);
}

/* main calls leaf, which spends `value`. */
static void add(struct world *w, const char *service, const char *leaf, int ago, int64_t value,
                uint8_t id)
{
    struct profile *p = begin(w);
    struct dict *d = p->dict;
    profile_add(p, &(struct sample){.node = frame(d, frame(d, 0, "main", 3), leaf, 7),
                                    .link = dict_link(d, (struct link){{id}, {id}}),
                                    .values = &value});
    append(w, p, service, ago, id);
}

static void start(struct test *t, struct world *w)
{
    struct error err = {""};
    calls_begin(t, &w->calls);
    w->now = clock_wall_ns(clock_real());
    must(store_source_new(w->calls.server->store, 0, &w->source, &err), &err);
    add(w, "checkout", "parse", 600, 30, 1);
    add(w, "checkout", "sort", 300, 50, 2);
    add(w, "payments", "parse", 200, 20, 3);
}

static void finish(struct world *w)
{
    store_source_free(w->source);
    calls_end(&w->calls);
}

/* Asks, and checks the status and that the answer holds each of the texts up to NULL. */
static void asks(struct test *t, struct world *w, const char *target, int status, ...)
{
    struct http_reply r = call_get(&w->calls, target);
    va_list ap;
    bool is_good = r.status == status;

    va_start(ap, status);
    for (const char *text; (text = va_arg(ap, const char *)) != NULL;) {
        if (!reply_has(&r, text)) {
            printf("# %s: no %s\n", target, text);
            is_good = false;
        }
    }
    va_end(ap);
    if (!is_good)
        printf("# %s: %d %s\n", target, r.status, buf_cstr(&r.body));
    CHECK(t, is_good);
    http_reply_done(&r);
}

static void trees_and_tables_have_the_numbers(struct test *t)
{
    struct world w;
    start(t, &w);
    asks(t, &w, "/api/v1/flame?query=cpu", 200, "\"total\":100,", "\"unit\":\"nanoseconds\"",
         "\"frames\":{\"name\":[\"root\",\"main\",\"parse\",\"sort\"],",
         "\"nodes\":{\"parent\":[0,0,1,1],\"frame\":[0,1,2,3],\"self\":[0,0,50,50],"
         "\"total\":[100,100,50,50],",
         NULL);
    asks(t, &w, "/api/v1/flame?under=main&under=sort", 200, "\"parent\":[0],", "\"self\":[50]",
         NULL);
    asks(t, &w, "/api/v1/flame?under=nobody", 404, "under: no frame \\\"nobody\\\" at depth 1",
         NULL);
    asks(t, &w, "/api/v1/flame?max_nodes=2", 200, "\"cut_nodes\":2,", "\"hidden_children\":[0,2]",
         NULL);
    asks(t, &w, "/api/v1/flame?invert=1", 200, "\"name\":[\"root\",\"parse\",\"main\",\"sort\"]",
         NULL);
    asks(t, &w, "/api/v1/top?query=cpu%7Bservice.name%3D%22checkout%22%7D", 200, "\"total\":80,",
         "\"rows\":[{\"name\":\"sort\",\"file\":\"/src/a.c\",\"flat\":50,\"cum\":50},"
         "{\"name\":\"parse\",\"file\":\"/src/a.c\",\"flat\":30,\"cum\":30},"
         "{\"name\":\"main\",\"file\":\"/src/a.c\",\"flat\":0,\"cum\":80}]",
         NULL);
    asks(t, &w, "/api/v1/top?order=cum&limit=1", 200, "\"all_rows\":3,", "[{\"name\":\"main\",",
         NULL);
    asks(t, &w, "/api/v1/callers?function=parse", 200,
         "\"function\":{\"name\":\"parse\",\"flat\":50,\"cum\":50}",
         "\"callers\":[{\"name\":\"main\",\"file\":\"/src/a.c\",\"cum\":50}],\"callees\":[]", NULL);
    asks(t, &w, "/api/v1/callers?function=nobody", 404, "no function is called", NULL);
    asks(t, &w, "/api/v1/lines?file=a.c", 200, "\"line\":3,\"flat\":0,\"cum\":100",
         "\"line\":7,\"flat\":50,\"cum\":50", NULL);
    asks(t, &w, "/api/v1/graph", 200, "{\"name\":\"main\",\"file\":\"/src/a.c\",\"flat\":0,",
         "\"value\":50", NULL);
    asks(t, &w, "/api/v1/graph?format=dot", 200, "digraph", "label=\"main\\n0 of 100ns\"", NULL);
    asks(t, &w, "/api/v1/stacks?limit=1&query=%7Bservice.name%3D%22checkout%22%7D", 200,
         "\"all_stacks\":2,", "\"stacks\":{\"value\":[50],\"end\":[2]}",
         "\"name\":[\"sort\",\"main\"]", NULL);
    finish(&w);
}

static void filters_traces_and_ids_narrow_the_answer(struct test *t)
{
    struct world w;
    start(t, &w);
    asks(t, &w, "/api/v1/top?focus=sort", 200, "\"total\":50,", NULL);
    asks(t, &w, "/api/v1/top?ignore=sort", 200, "\"total\":50,", NULL);
    asks(t, &w, "/api/v1/top?focus=nobody", 200, "\"total\":0,",
         "\"warnings\":[\"Focus expression matched no samples\"]", NULL);
    asks(t, &w, "/api/v1/top?focus=(", 400, "focus", NULL);
    asks(t, &w, "/api/v1/top?id=02000000000000000000000000000000", 200, "\"total\":50,", NULL);
    asks(t, &w, "/api/v1/top?trace=03000000000000000000000000000000", 200, "\"total\":20,", NULL);
    asks(t, &w, "/api/v1/top?trace=03000000000000000000000000000000&span=0400000000000000", 404,
         "nothing is stored", NULL);
    asks(t, &w, "/api/v1/top?from=now-250s", 200, "\"total\":20,", NULL);
    asks(t, &w, "/api/v1/top?from=now-30d&until=now-29d", 404, "nothing is stored", "no_data",
         "; there is at other times", NULL);
    asks(t, &w, "/api/v1/top?type=cpu:nanoseconds", 200, "\"total\":100,", NULL);
    asks(t, &w, "/api/v1/top?type=wall", 404, "nothing is stored",
         "no profile has the sample type \\\"wall\\\": there is \\\"cpu:nanoseconds\\\"", NULL);
    finish(&w);
}

static void who_finds_nothing_is_told_what_there_is(struct test *t)
{
    struct world w;
    start(t, &w);
    asks(t, &w, "/api/v1/top?query=%7Bservice.name=%22chekout%22%7D", 404, "no_data",
         "; no profile has such a \\\"service.name\\\"; did you mean \\\"checkout\\\"?", NULL);
    asks(t, &w, "/api/v1/flame?query=%7Bservice.name=~%22x.*%22%7D", 404, "no_data",
         "such a \\\"service.name\\\": there is \\\"checkout\\\", \\\"payments\\\"", NULL);
    asks(t, &w, "/api/v1/top?query=%7Bpod=%22a%22%7D", 404,
         "; no profile has the label \\\"pod\\\": there is \\\"", NULL);
    asks(t, &w, "/api/v1/diff?query=%7Bservice.name=%22x%22%7D", 404, "no_data", "payments", NULL);
    finish(&w);
}

static void lists_say_what_there_is(struct test *t)
{
    struct world w;
    start(t, &w);
    asks(t, &w, "/api/v1/types", 200, "{\"types\":[{\"type\":\"cpu\",\"unit\":\"nanoseconds\"}]}",
         NULL);
    asks(t, &w, "/api/v1/labels", 200, "{\"labels\":[\"service.name\"]}", NULL);
    asks(t, &w, "/api/v1/label_values?label=service.name", 200,
         "{\"values\":[\"checkout\",\"payments\"]}", NULL);
    asks(t, &w, "/api/v1/label_values?label=nothing", 200, "{\"values\":[]}", NULL);
    asks(t, &w, "/api/v1/series", 200, "{\"labels\":{\"service.name\":\"payments\"},", NULL);
    asks(t, &w, "/api/v1/series?limit=1", 200, "\"is_cut\":true", NULL);
    asks(t, &w, "/api/v1/services", 200, "\"service\":\"checkout\"", "\"series\":1,\"profiles\":2,",
         NULL);
    asks(t, &w, "/api/v1/profiles?limit=2", 200, "\"profiles\":[{\"id\":\"03", "},{\"id\":\"02",
         "\"total\":50}", "\"is_cut\":true", NULL);
    asks(t, &w, "/api/v1/profile?id=01000000000000000000000000000000", 200,
         "{\"id\":\"01000000000000000000000000000000\",", "\"total\":30", NULL);
    asks(t, &w, "/api/v1/profile?id=09000000000000000000000000000000", 404, "there is no profile",
         NULL);
    asks(t, &w, "/api/v1/exemplars?limit=1", 200,
         "\"exemplars\":[{\"trace\":\"02000000000000000000000000000000\","
         "\"span\":\"0200000000000000\",\"value\":50,",
         "\"is_cut\":true", NULL);
    asks(t, &w, "/api/v1/spans", 200, "\"spans\":[],\"is_cut\":false", NULL);
    asks(t, &w, "/api/v1/stat", 200, "\"profiles\":3,", NULL);
    finish(&w);
}

static size_t count(const struct http_reply *r, const char *text)
{
    struct bytes rest = buf_bytes(&r->body);
    size_t n = 0;
    for (const uint8_t *at; (at = bytes_find(rest, bytes_of(text))) != NULL; n++)
        rest = bytes_from(rest, (size_t)(at - rest.data) + 1);
    return n;
}

static void long_lists_come_line_by_line(struct test *t)
{
    struct world w;
    start(t, &w);
    struct http_reply r = call_get(&w.calls, "/api/v1/profiles?format=ndjson&samples=1");
    CHECK_INT(t, r.status, 200);
    CHECK(t, bytes_are(reply_header(&r, "content-type"), "application/x-ndjson"));
    CHECK_INT(t, count(&r, "\n"), 3);
    CHECK_INT(t, count(&r, "\n{"), 2);
    CHECK(t, reply_has(&r, "\"samples\":[{\"values\":[50],\"trace\":\"02"));
    CHECK(t, reply_has(&r, "\"stack\":[\"sort\",\"main\"]}]}\n"));
    http_reply_done(&r);
    const char *const headers[] = {"accept", "application/x-ndjson", NULL};
    r = call_send(&w.calls, "GET", "/api/v1/series", headers, (struct bytes){0});
    CHECK_INT(t, count(&r, "\n"), 2);
    http_reply_done(&r);
    asks(t, &w, "/api/v1/profiles?samples=1", 400, "samples needs format=ndjson", NULL);
    finish(&w);
}

static void values_over_time(struct test *t)
{
    struct world w;
    start(t, &w);
    asks(t, &w, "/api/v1/timeline?by=service.name&step=1h", 200, "\"step_ns\":\"3600000000000\"",
         "{\"labels\":{\"service.name\":\"checkout\"},\"total\":80}", "\"value\":[", NULL);
    asks(t, &w, "/api/v1/timeline?by=service.name&step=1h&limit=1", 200,
         "\"all_groups\":2,\"groups\":[{\"labels\":{\"service.name\":\"checkout\"},\"total\":80}]",
         NULL);
    asks(t, &w, "/api/v1/function?function=parse&step=1d", 200, "\"flat\":[", "\"total\":50", NULL);
    asks(t, &w, "/api/v1/heatmap?rows=10", 200, "\"n_rows\":10,", "\"cells\":{\"column\":[", NULL);
    asks(t, &w, "/api/v1/timeline?step=1ms", 400, "step: the range has more than", NULL);
    asks(t, &w, "/api/v1/timeline?step=-5s", 400, "step: ", NULL);
    finish(&w);
}

static void sides_are_compared(struct test *t)
{
    struct world w;
    start(t, &w);
    asks(t, &w,
         "/api/v1/diff?before_query=%7Bservice.name%3D%22checkout%22%7D&"
         "after_query=%7Bservice.name%3D%22payments%22%7D",
         200, "\"before\":{\"query\":\"{service.name=\\\"checkout\\\"}\"",
         "\"before_self\":[0,0,50,30],\"before_total\":[80,80,50,30],"
         "\"after_self\":[0,0,0,20],\"after_total\":[20,20,0,20]",
         NULL);
    asks(t, &w,
         "/api/v1/diff?invert=1&before_query=%7Bservice.name%3D%22checkout%22%7D&"
         "after_query=%7Bservice.name%3D%22payments%22%7D",
         200, "\"before_total\":[80,50,50,30,30],", "\"after_total\":[20,0,0,20,20]", NULL);
    asks(t, &w,
         "/api/v1/diff/table?before_query=%7Bservice.name%3D%22checkout%22%7D&"
         "after_query=%7Bservice.name%3D%22payments%22%7D",
         200,
         "{\"name\":\"sort\",\"file\":\"/src/"
         "a.c\",\"before_flat\":50,\"after_flat\":0,\"flat_change\":-50,"
         "\"flat_share_change\":-0.625,\"flat_ratio\":0,",
         NULL);
    finish(&w);
}

static void parameters_that_are_wrong_are_named(struct test *t)
{
    static const struct {
        const char *target, *why;
    } cases[] = {
        {"/api/v1/top?form=now-1h",
         "there is no parameter \\\"form\\\": did you mean \\\"from\\\"?"},
        {"/api/v1/top?limti=1", "did you mean \\\"limit\\\"?"},
        {"/api/v1/top?qqqqqqqq=1", "/api/v1/top takes no parameter \\\"qqqqqqqq\\\""},
        {"/api/v1/top?limit=0", "limit takes a number from 1 to 1000000, not \\\"0\\\""},
        {"/api/v1/top?limit=-1", "limit takes a number"},
        {"/api/v1/top?order=best", "order is one of flat, cum, name, not \\\"best\\\""},
        {"/api/v1/top?from=yesterday", "from: "},
        {"/api/v1/top?until=now-2h", "until is "},
        {"/api/v1/top?query=cpu{", "query: "},
        {"/api/v1/top?query=cpu&type=wall", "type is \\\"wall\\\" but the query says \\\"cpu\\\""},
        {"/api/v1/top?id=12", "id takes 32 hex digits, not \\\"12\\\""},
        {"/api/v1/top?trace=0x000000000000000000000000000000", "trace takes 32 hex digits"},
        {"/api/v1/top?granularity=words", "granularity is one of functions, "},
        {"/api/v1/top?instant=now", "instant is one of average, last, peak, sum"},
        {"/api/v1/top?format=xml", "format is json or columns, not \\\"xml\\\""},
        {"/api/v1/top?format=dot", "format is json or columns, not \\\"dot\\\""},
        {"/api/v1/top?noinlines=maybe", "noinlines takes 1 or 0"},
        {"/api/v1/top?focus=a%00b", "the parameter \\\"focus\\\" has a NUL in it"},
        {"/api/v1/lines", "the parameter \\\"file\\\" is missing"},
        {"/api/v1/graph?node_fraction=2", "node_fraction takes a number from 0 to 1"},
    };
    struct world w;
    start(t, &w);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        asks(t, &w, cases[i].target, 400, cases[i].why, "\"code\":\"bad_parameter\"", NULL);
    finish(&w);
}

static void posts(struct test *t, struct world *w, const char *type, const char *body, int status,
                  const char *text)
{
    struct http_reply r = call_post(&w->calls, "/api/v1/top", type, bytes_of(body));
    if (r.status != status || !reply_has(&r, text))
        printf("# %s: %d %s\n", body, r.status, buf_cstr(&r.body));
    CHECK_INT(t, r.status, status);
    CHECK(t, reply_has(&r, text));
    http_reply_done(&r);
}

static void parameters_may_be_posted(struct test *t)
{
    struct world w;
    start(t, &w);
    posts(t, &w, "application/json", "{\"focus\":\"sort\",\"limit\":5,\"noinlines\":true}", 200,
          "\"total\":50,");
    posts(t, &w, "application/json; charset=utf-8", "{\"focus\":null}", 200, "\"total\":100,");
    posts(t, &w, "application/x-www-form-urlencoded", "focus=sort&limit=1", 200, "\"total\":50,");
    posts(t, &w, "application/json", "{\"focsu\":\"sort\"}", 400, "did you mean \\\"focus\\\"?");
    posts(t, &w, "application/json", "{\"focus\":{}}", 400,
          "the parameter \\\"focus\\\" must be a text, a number or a list");
    posts(t, &w, "application/json", "{\"focus\":", 400, "the body at byte");
    posts(t, &w, "text/plain", "focus=sort", 400, "\\\"text/plain\\\" is no parameters");
    finish(&w);
}

static void what_the_client_has_is_not_sent_again(struct test *t)
{
    char target[200], tag[64];
    struct world w;
    start(t, &w);
    snprintf(target, sizeof(target), "/api/v1/flame?query=cpu&from=%lld&until=%lld",
             (long long)(w.now - 3600 * S), (long long)(w.now - 100 * S));
    struct http_reply r = call_get(&w.calls, target);
    struct bytes etag = reply_header(&r, "etag");
    CHECK_INT(t, r.status, 200);
    CHECK_INT(t, etag.len, 36);
    snprintf(tag, sizeof(tag), "%.*s", (int)etag.len, (const char *)etag.data);
    http_reply_done(&r);

    const char *const headers[] = {"if-none-match", tag, NULL};
    r = call_send(&w.calls, "GET", target, headers, (struct bytes){0});
    CHECK_INT(t, r.status, 304);
    CHECK_INT(t, r.body.len, 0);
    CHECK(t, bytes_are(reply_header(&r, "etag"), tag));
    http_reply_done(&r);

    /* Another question, another format, other data: another answer. */
    r = call_send(&w.calls, "GET", "/api/v1/top?query=cpu", headers, (struct bytes){0});
    CHECK_INT(t, r.status, 200);
    http_reply_done(&r);
    const char *const columns[] = {"if-none-match", tag, "accept", "application/vnd.vesta.columns",
                                   NULL};
    r = call_send(&w.calls, "GET", target, columns, (struct bytes){0});
    CHECK_INT(t, r.status, 200);
    http_reply_done(&r);
    add(&w, "checkout", "sort", 400, 1, 0);
    r = call_send(&w.calls, "GET", target, headers, (struct bytes){0});
    CHECK_INT(t, r.status, 200);
    CHECK(t, reply_has(&r, "\"total\":101,"));
    http_reply_done(&r);
    finish(&w);
}

static void the_same_answer_comes_as_columns(struct test *t)
{
    struct world w;
    start(t, &w);
    static const char *const targets[] = {"/api/v1/flame", "/api/v1/top", "/api/v1/diff",
                                          "/api/v1/timeline?step=1h"};
    const char *const headers[] = {"accept", "application/vnd.vesta.columns", NULL};
    for (size_t i = 0; i < ARRAY_SIZE(targets); i++) {
        struct http_reply r = call_send(&w.calls, "GET", targets[i], headers, (struct bytes){0});
        CHECK_INT(t, r.status, 200);
        CHECK(t, bytes_are(reply_header(&r, "content-type"), "application/vnd.vesta.columns"));
        CHECK(t, bytes_start_with(buf_bytes(&r.body), BYTES("VESTACOL")));
        CHECK(t, reply_has(&r, "\"unit\":\"nanoseconds\""));
        http_reply_done(&r);
    }
    finish(&w);
}

static void exports_open_elsewhere(struct test *t)
{
    struct world w;
    start(t, &w);
    struct http_reply r = call_get(&w.calls, "/api/v1/profile.pb.gz?seconds=250");
    CHECK_INT(t, r.status, 200);
    CHECK(t, r.body.len > 2 && r.body.data[0] == 0x1f && r.body.data[1] == 0x8b);
    CHECK(t, bytes_are(reply_header(&r, "content-disposition"),
                       "attachment; filename=\"profile.pb.gz\""));
    http_reply_done(&r);
    asks(t, &w, "/api/v1/profile.folded?seconds=250", 200, "main;parse 20\n", NULL);
    asks(t, &w, "/api/v1/profile.json", 200, "resourceProfiles", NULL);
    asks(t, &w, "/api/v1/profile.speedscope.json", 200, "speedscope", NULL);
    asks(t, &w, "/api/v1/profile.otlp", 200, "parse", NULL);
    r = call_get(&w.calls, "/api/v1/flame.svg");
    CHECK_INT(t, r.status, 200);
    CHECK(t, bytes_find(reply_header(&r, "content-security-policy"), BYTES("sandbox")));
    CHECK(t, bytes_start_with(reply_header(&r, "content-disposition"), BYTES("attachment")));
    http_reply_done(&r);
    finish(&w);
}

static void exports_are_masked_by_the_rules_of_today(struct test *t)
{
    struct world w;
    struct error err = {""};
    start(t, &w);
    struct server_config rules = w.calls.config;
    rules.mask =
        (struct config_list){{"functions: /^so(rt)$/xx$1/", "paths: #^/src/#/hidden/#"}, 2};
    must(mask_reload(w.calls.server->mask, &rules, &err), &err);
    asks(t, &w, "/api/v1/profile.folded?query=%7Bservice.name%3D%22checkout%22%7D", 200,
         "main;parse 30\n", "main;xxrt 50\n", NULL);
    struct http_reply r = call_get(&w.calls, "/api/v1/profile.otlp");
    CHECK(t, reply_has(&r, "/hidden/a.c"));
    CHECK(t, !reply_has(&r, "/src/a.c"));
    CHECK(t, !reply_has(&r, "sort"));
    http_reply_done(&r);
    finish(&w);
}

static void tenants_see_only_their_own(struct test *t)
{
    struct world w;
    start(t, &w);
    w.calls.config.default_tenant = "other";
    CHECK_INT(t, auth_reload(w.calls.server->auth, NULL, NULL), 0);
    asks(t, &w, "/api/v1/top", 404, "nothing is stored", NULL);
    asks(t, &w, "/api/v1/services", 200, "\"services\":[]", NULL);
    asks(t, &w, "/api/v1/profiles", 200, "\"profiles\":[]", NULL);
    asks(t, &w, "/api/v1/profile?id=01000000000000000000000000000000", 404, "there is no profile",
         NULL);
    asks(t, &w, "/api/v1/spans", 200, "\"spans\":[]", NULL);
    finish(&w);
}

static void a_limit_of_memory_names_itself(struct test *t)
{
    struct world w;
    start(t, &w);
    w.calls.config.query_memory_limit = 1000;
    asks(t, &w, "/api/v1/top", 413, "memory limit of", "\"code\":\"too_large\"", NULL);
    finish(&w);
}

static void the_description_names_every_route(struct test *t)
{
    struct world w;
    start(t, &w);
    asks(t, &w, "/api/v1/openapi.json", 200, "\"openapi\":\"3.1.0\"",
         "\"/api/v1/flame\":{\"get\":", "\"#/components/schemas/Flame\"", "\"name\":\"max_nodes\"",
         NULL);
    struct http_reply r = call_get(&w.calls, "/api/v1/openapi.json");
    struct budget b;
    budget_init(&b, 1 << 24);
    CLEANUP(json_reader_freep) struct json_reader *reader = json_reader_new(NULL, &b);
    json_reader_set_text(reader, buf_bytes(&r.body), 0);
    json_skip(reader);
    struct error err = {""};
    CHECK_INT(t, json_finish(reader, "openapi", &err), 0);
    http_reply_done(&r);
    finish(&w);
}

static const struct test_case cases[] = {
    TEST(trees_and_tables_have_the_numbers),
    TEST(filters_traces_and_ids_narrow_the_answer),
    TEST(who_finds_nothing_is_told_what_there_is),
    TEST(lists_say_what_there_is),
    TEST(long_lists_come_line_by_line),
    TEST(values_over_time),
    TEST(sides_are_compared),
    TEST(parameters_that_are_wrong_are_named),
    TEST(parameters_may_be_posted),
    TEST(what_the_client_has_is_not_sent_again),
    TEST(the_same_answer_comes_as_columns),
    TEST(exports_open_elsewhere),
    TEST(exports_are_masked_by_the_rules_of_today),
    TEST(tenants_see_only_their_own),
    TEST(a_limit_of_memory_names_itself),
    TEST(the_description_names_every_route),
};
TEST_MAIN(cases)

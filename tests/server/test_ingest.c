#include <errno.h>
#include <time.h>

#include "base/clock.h"
#include "formats/format.h"
#include "lib/calls.h"
#include "server/server_internal.h"
#include "wire/protobuf.h"

/*
 * Ingest through the whole server, but for the network: requests as exporters send them, and what
 * the store has of them.
 */
#define SEC_NS ((int64_t)1000000000)
#define PROTO  "application/x-protobuf"
#define JSON   "application/json"
#define HTTP   "/v1development/profiles"
#define RPC    "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export"

/* ---- Requests */

struct sent {
    struct budget budget;
    struct profile_set *set;
    struct buf body;
};

static void sent_init(struct sent *s)
{
    *s = (struct sent){.set = NULL};
    budget_init(&s->budget, (size_t)64 << 20);
    s->set = profile_set_new(&s->budget);
}

static void sent_done(struct sent *s)
{
    buf_done(&s->body);
    profile_set_free(s->set);
}

/* A profile of two stacks that counts samples, as a host profiler sends it: 3 of them. */
static struct profile *add_profile(struct sent *s, const char *const *resource)
{
    struct dict *d = s->set->dict;
    struct profile *p = profile_set_add(s->set);
    uint32_t ids[16];
    size_t n = 0;
    for (; *resource; resource += 2)
        ids[n++] =
            dict_string_attribute(d, dict_cstring(d, resource[0]), dict_cstring(d, resource[1]));
    p->resource_attrs = dict_attrs(d, ids, n);
    p->resource_index = (uint32_t)s->set->profiles.len;
    p->time_unix_ns = clock_wall_ns(clock_real()) - 10 * SEC_NS;
    p->duration_ns = 5 * SEC_NS;
    p->period_type = (struct value_type){dict_cstring(d, "cpu"), dict_cstring(d, "nanoseconds")};
    p->period = 50000000;
    profile_add_ctype(p, "samples", "count");
    struct function main = {.name = dict_cstring(d, "main"), .file = dict_cstring(d, "a.c")};
    struct function work = {.name = dict_cstring(d, "work"),
                            .file = dict_cstring(d, "/home/bob/a.c")};
    uint32_t caller = dict_frame(d, 0, main, 1, 0, 0);
    profile_add_value(p, caller, 1);
    profile_add_value(p, dict_frame(d, caller, work, 2, 0, 0), 2);
    return p;
}

static struct bytes encode(struct test *t, struct sent *s, const char *format)
{
    CLEANUP(buf_done) struct buf losses = {0};
    struct error err = {""};
    buf_clear(&s->body);
    CHECK_INT(t, format_by_name(format)->encode(s->set, &s->body, &losses, &err), 0);
    return buf_bytes(&s->body);
}

static const char *const shop[] = {"service.name", "shop", NULL};

static struct http_reply send_shop(struct test *t, struct calls *c)
{
    struct sent s;
    sent_init(&s);
    add_profile(&s, shop);
    struct http_reply r = call_post(c, HTTP, PROTO, encode(t, &s, "otlp"));
    sent_done(&s);
    return r;
}

static void check_reply(struct test *t, struct http_reply *r, int status, const char *part)
{
    CHECK_INT(t, r->status, status);
    if (part && !reply_has(r, part))
        CHECK_STR(t, buf_cstr(&r->body), part);
    http_reply_done(r);
}

/* ---- What is stored */

static int on_series(void *ctx, const struct store_series *s)
{
    struct buf *out = ctx;
    for (size_t i = 0; i < s->n_types; i++)
        buf_addf(out, "%s%.*s:%.*s", i ? "+" : "", (int)s->types[i].name.len,
                 (const char *)s->types[i].name.data, (int)s->types[i].unit.len,
                 (const char *)s->types[i].unit.data);
    buf_add_byte(out, '{');
    for (size_t i = 0; i < s->n_labels; i++)
        buf_addf(out, "%s%.*s=%.*s", i ? "," : "", (int)s->labels[i].name.len,
                 (const char *)s->labels[i].name.data, (int)s->labels[i].value.len,
                 (const char *)s->labels[i].value.data);
    buf_add_str(out, "}");
    return 0;
}

static void check_series(struct test *t, struct calls *c, const char *want)
{
    CLEANUP(buf_done) struct buf out = {0};
    struct store_scope scope = {.tenant = BYTES("default"), .to_ns = INT64_MAX};
    CHECK_INT(t, store_series(c->server->store, &scope, on_series, &out, NULL), 0);
    CHECK_STR(t, buf_cstr(&out), want);
}

struct totals {
    size_t profiles;
    int64_t values[2];
    struct buf files;
};

static int on_found(void *ctx, const struct store_found *f)
{
    struct totals *x = ctx;
    const struct dict *d = f->profile->dict;
    x->profiles++;
    for (size_t i = 0; i < f->series->n_types && i < 2; i++)
        x->values[i] += f->totals[i];
    for (size_t i = 1; i < d->functions.len; i++)
        buf_addf(&x->files, "%s,", dict_cstr(d, d->functions.data[i].file));
    return 0;
}

static struct totals totals_of(struct test *t, struct calls *c)
{
    struct totals x = {0};
    struct store_find find = {.tenant = BYTES("default"), .to_ns = INT64_MAX, .with_samples = true};
    CHECK_INT(t, store_profiles(c->server->store, &find, on_found, &x, NULL), 0);
    return x;
}

static void check_totals(struct test *t, struct calls *c, size_t profiles, int64_t count)
{
    struct totals x = totals_of(t, c);
    CHECK_INT(t, x.profiles, profiles);
    CHECK_INT(t, x.values[0], count);
    CHECK_INT(t, x.values[1], count * 50000000);
    buf_done(&x.files);
}

static uint64_t counted(struct calls *c, enum metric which, const char *value)
{
    return metrics_get(c->server->metrics, which, value);
}

/* ---- Profiles */

static void counted_samples_also_become_cpu_time(struct test *t)
{
    struct calls c;
    calls_begin(t, &c);
    struct http_reply r = send_shop(t, &c);
    CHECK_INT(t, r.body.len, 0);
    CHECK(t, bytes_are(reply_header(&r, "content-type"), PROTO));
    check_reply(t, &r, 200, NULL);
    check_series(t, &c, "samples:count+cpu:nanoseconds{service.name=shop}");
    check_totals(t, &c, 1, 3);
    CHECK_INT(t, counted(&c, METRIC_INGEST_PROFILES, "otlp"), 1);
    CHECK_INT(t, counted(&c, METRIC_INGEST_SAMPLES, "otlp"), 2);
    CHECK_INT(t, counted(&c, METRIC_INGEST_REQUESTS, "otlp"), 1);
    CHECK(t, counted(&c, METRIC_INGEST_BYTES, "otlp") > 50);
    calls_end(&c);
}

static void units_and_wall_time_have_their_usual_names(struct test *t)
{
    struct calls c;
    calls_begin(t, &c);
    struct sent s;
    sent_init(&s);
    struct profile *p = add_profile(&s, shop);
    struct dict *d = s.set->dict;
    p->period_type = (struct value_type){dict_cstring(d, "wall"), dict_cstring(d, "ns")};
    p = add_profile(&s, (const char *const[]){"service.name", "bytes", NULL});
    p->types[0] = (struct value_type){dict_cstring(d, "alloc_space"), dict_cstring(d, "By")};
    struct http_reply r = call_post(&c, HTTP, PROTO, encode(t, &s, "otlp"));
    CHECK_INT(t, r.body.len, 0);
    check_reply(t, &r, 200, NULL);
    check_series(t, &c,
                 "samples:count+wall:nanoseconds{service.name=shop}"
                 "alloc_space:bytes{service.name=bytes}");
    sent_done(&s);
    calls_end(&c);
}

static struct bytes framed(struct sent *s, struct buf *out)
{
    size_t n = s->body.len;
    uint8_t head[5] = {0, (uint8_t)(n >> 24), (uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n};
    buf_clear(out);
    buf_add(out, head, 5);
    buf_add_bytes(out, buf_bytes(&s->body));
    return buf_bytes(out);
}

static void every_protocol_takes_profiles(struct test *t)
{
    static const struct {
        const char *path, *type, *format, *reply_type;
    } ways[] = {
        {"/v1development/profiles", PROTO, "otlp", PROTO},
        {"/v1/profiles", "application/protobuf", "otlp", PROTO},
        {"/v1/profiles", "application/json; charset=utf-8", "otlp-json", JSON},
        {RPC, "application/grpc", "otlp", "application/grpc"},
        {"/opentelemetry.proto.collector.profiles.v1.ProfilesService/Export",
         "application/grpc+proto", "otlp", "application/grpc"},
        {RPC, "application/proto", "otlp", "application/proto"},
        {RPC, JSON, "otlp-json", JSON},
    };
    struct calls c;
    calls_begin(t, &c);
    for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
        CLEANUP(buf_done) struct buf frame = {0};
        struct sent s;
        sent_init(&s);
        add_profile(&s, shop);
        struct bytes body = encode(t, &s, ways[i].format);
        if (strncmp(ways[i].type, "application/grpc", 16) == 0)
            body = framed(&s, &frame);
        struct http_reply r = call_post(&c, ways[i].path, ways[i].type, body);
        struct bytes type = reply_header(&r, "content-type");
        CHECK(t, bytes_start_with(type, bytes_of(ways[i].reply_type)));
        check_reply(t, &r, 200, strcmp(ways[i].reply_type, JSON) == 0 ? "{}" : NULL);
        sent_done(&s);
        check_totals(t, &c, i + 1, 3 * (int64_t)(i + 1));
    }
    calls_end(&c);
}

static void nothing_is_success(struct test *t)
{
    struct calls c;
    calls_begin(t, &c);
    struct http_reply r = call_post(&c, HTTP, PROTO, (struct bytes){0});
    CHECK_INT(t, r.body.len, 0);
    check_reply(t, &r, 200, NULL);
    r = call_post(&c, HTTP, JSON, BYTES("{}"));
    check_reply(t, &r, 200, "{}");
    r = call_post(&c, HTTP, JSON, (struct bytes){0});
    check_reply(t, &r, 200, "{}");
    calls_end(&c);
}

static void what_is_too_old_is_a_partial_success(struct test *t)
{
    struct calls c;
    calls_begin(t, &c);
    struct sent s;
    sent_init(&s);
    add_profile(&s, shop);
    add_profile(&s, (const char *const[]){"service.name", "old", NULL})->time_unix_ns = SEC_NS;
    add_profile(&s, (const char *const[]){"service.name", "older", NULL})->time_unix_ns = 2;
    struct http_reply r = call_post(&c, HTTP, PROTO, encode(t, &s, "otlp"));
    struct pb_reader outer = pb_reader(buf_bytes(&r.body));
    CHECK(t, pb_next(&outer) && outer.field == 1);
    struct pb_reader partial = pb_reader(pb_bytes(&outer));
    CHECK(t, pb_next(&partial) && partial.field == 1 && pb_u64(&partial) == 2);
    CHECK(t, pb_next(&partial) && partial.field == 2);
    check_reply(t, &r, 200, "old: profiles are kept for 30d");
    r = call_post(&c, HTTP, JSON, encode(t, &s, "otlp-json"));
    CHECK(t, reply_has(&r, "\"errorMessage\":\"the profile is "));
    check_reply(t, &r, 200, "{\"partialSuccess\":{\"rejectedProfiles\":\"2\",");
    sent_done(&s);
    check_totals(t, &c, 1, 3); /* the second time it was there */
    CHECK_INT(t, counted(&c, METRIC_REJECTS, "time"), 4);
    CHECK_INT(t, counted(&c, METRIC_DUPLICATES, "otlp-json"), 1);
    calls_end(&c);
}

static void rubbish_is_refused_in_the_callers_words(struct test *t)
{
    struct calls c;
    calls_begin(t, &c);
    struct http_reply r = call_post(&c, HTTP, PROTO, BYTES("\x0a\x7f"));
    struct pb_reader status = pb_reader(buf_bytes(&r.body));
    CHECK(t, pb_next(&status) && status.field == 1 && pb_u64(&status) == 3);
    check_reply(t, &r, 400, "otlp at byte");
    r = call_post(&c, HTTP, JSON, BYTES("{\"resourceProfiles\":7}"));
    check_reply(t, &r, 400, "\"message\":");
    r = call_post(&c, HTTP, "text/plain", BYTES("hello"));
    check_reply(t, &r, 415,
                "content-type \"text/plain\" is not application/x-protobuf or application/json");
    r = call_post(&c, RPC, "application/grpc", BYTES("\0\0\0\0\2\x0a\x7f"));
    CHECK_INT(t, r.status, 200); /* gRPC's status is in its trailers */
    CHECK(t, bytes_find(buf_bytes(&r.trailers), BYTES("grpc-status")) ||
                 reply_header(&r, "grpc-status").len > 0);
    http_reply_done(&r);
    r = call_post(&c, RPC, "text/plain", BYTES("hello"));
    check_reply(t, &r, 400, "content-type \\\"text/plain\\\" is not application/grpc");
    r = call_send(&c, "GET", HTTP, NULL, (struct bytes){0});
    check_reply(t, &r, 405, NULL);
    check_totals(t, &c, 0, 0);
    calls_end(&c);
}

static void processes_that_look_alike_are_all_kept(struct test *t)
{
    struct calls c;
    calls_begin(t, &c);
    struct sent s;
    sent_init(&s);
    struct profile *a =
        add_profile(&s, (const char *const[]){"container.id", "c1", "process.pid", "7", NULL});
    struct profile *b =
        add_profile(&s, (const char *const[]){"container.id", "c1", "process.pid", "8", NULL});
    b->time_unix_ns = a->time_unix_ns;
    for (int i = 0; i < 2; i++) { /* a retry adds nothing */
        struct http_reply r = call_post(&c, HTTP, PROTO, encode(t, &s, "otlp"));
        check_reply(t, &r, 200, NULL);
        check_totals(t, &c, 2, 6);
    }
    check_series(t, &c,
                 "samples:count+cpu:nanoseconds{container.id=c1,service.name=unknown_service}");
    CHECK_INT(t, counted(&c, METRIC_DUPLICATES, "otlp"), 2);
    sent_done(&s);
    calls_end(&c);
}

static void a_profile_without_a_time_is_from_now(struct test *t)
{
    struct calls c;
    calls_begin(t, &c);
    struct sent s;
    sent_init(&s);
    add_profile(&s, shop)->time_unix_ns = 0;
    struct http_reply r = call_post(&c, HTTP, PROTO, encode(t, &s, "otlp"));
    CHECK_INT(t, r.body.len, 0);
    check_reply(t, &r, 200, NULL);
    check_totals(t, &c, 1, 3);
    sent_done(&s);
    calls_end(&c);
}

static void a_resource_with_very_many_attributes_is_named_once(struct test *t)
{
    struct calls c;
    calls_begin(t, &c);
    struct sent s;
    sent_init(&s);
    struct profile *p = add_profile(&s, shop);
    struct dict *d = s.set->dict;
    uint32_t *ids = calloc(100000, sizeof(*ids));
    for (uint32_t i = 1; i < 100000; i++)
        ids[i] = dict_int_attribute(d, dict_cstring(d, "a.name.that.is.not.known"), i, 0);
    ids[0] = d->attr_ids.data[d->attr_sets.data[p->resource_attrs].first];
    uint32_t many = dict_attrs(d, ids, 100000);
    free(ids);
    p->resource_attrs = many;
    for (int i = 0; i < 5000; i++) { /* of one resource, each a nanosecond later */
        struct profile *next = profile_copy(p, NULL, 0);
        next->time_unix_ns = p->time_unix_ns + 1 + i;
        vec_push(s.set->budget, &s.set->profiles, next);
    }
    struct bytes body = encode(t, &s, "otlp");
    clock_t begun = clock();
    struct http_reply r = call_post(&c, HTTP, PROTO, body);
    CHECK(t, clock() - begun < 5 * CLOCKS_PER_SEC); /* a fraction of one */
    CHECK_INT(t, r.body.len, 0);
    check_reply(t, &r, 200, NULL);
    check_totals(t, &c, 5001, 15003);
    sent_done(&s);
    calls_end(&c);
}

static void time_that_does_not_fit_is_rejected(struct test *t)
{
    struct calls c;
    calls_begin(t, &c);
    struct sent s;
    sent_init(&s);
    struct profile *p = add_profile(&s, shop);
    p->values[0][0] = INT64_MAX / 2;
    struct http_reply r = call_post(&c, HTTP, PROTO, encode(t, &s, "otlp"));
    check_reply(t, &r, 200, "are more than can be counted");
    check_totals(t, &c, 0, 0);
    sent_done(&s);
    calls_end(&c);
}

static void secrets_never_reach_the_store(struct test *t)
{
    struct calls c;
    calls_begin(t, &c);
    struct sent s;
    sent_init(&s);
    add_profile(&s, (const char *const[]){"service.name", "shop", "deployment.environment.name",
                                          "postgres://bob:hunter2@db/x", NULL});
    for (int i = 0; i < 2; i++) {
        struct http_reply r = call_post(&c, HTTP, PROTO, encode(t, &s, "otlp"));
        check_reply(t, &r, 200, NULL);
    }
    check_series(t, &c,
                 "samples:count+cpu:nanoseconds{deployment.environment.name=postgres://bob:***@db/"
                 "x,service.name="
                 "shop}");
    struct totals x = totals_of(t, &c);
    CHECK_STR(t, buf_cstr(&x.files), "a.c,/home/*/a.c,");
    buf_done(&x.files);
    CHECK(t, counted(&c, METRIC_MASKED, "names") > 0);
    CHECK(t, counted(&c, METRIC_MASKED, "labels") > 0);
    sent_done(&s);
    calls_end(&c);
}

/* ---- Limits */

static void limits_of_labels_and_stacks_are_named(struct test *t)
{
    struct calls c;
    calls_config(&c);
    c.config.label_value_max = 3;
    calls_open(t, &c);
    struct http_reply r = send_shop(t, &c);
    check_reply(t, &r, 200,
                "the value of label \"service.name\" has 4 bytes: limits.label_value is 3");
    CHECK_INT(t, counted(&c, METRIC_REJECTS, "labels"), 1);
    calls_end(&c);

    calls_config(&c);
    c.config.profile_nodes_max = 1;
    calls_open(t, &c);
    r = send_shop(t, &c);
    check_reply(t, &r, 413,
                "the request has 2 stack nodes that were not known: limits.profile_nodes is 1");
    check_totals(t, &c, 0, 0);
    calls_end(&c);
}

static void a_tenant_over_its_rate_is_told_when_to_come_back(struct test *t)
{
    struct calls c;
    calls_config(&c);
    c.config.tenant_profiles_per_s = 1;
    calls_open(t, &c);
    int refused = 0;
    for (int i = 0; i < 15; i++) {
        struct http_reply r = send_shop(t, &c);
        if (r.status == 429) {
            refused++;
            CHECK(t, reply_header(&r, "retry-after").len > 0);
        }
        http_reply_done(&r);
    }
    CHECK(t, refused >= 3 && refused <= 6);
    calls_end(&c);
}

static void series_have_a_limit(struct test *t)
{
    struct calls c;
    calls_config(&c);
    c.config.tenant_series_max = 5;
    calls_open(t, &c);
    struct sent s;
    sent_init(&s);
    char names[20][8];
    for (int i = 0; i < 20; i++) {
        snprintf(names[i], sizeof(names[i]), "s%d", i);
        add_profile(&s, (const char *const[]){"service.name", names[i], NULL});
    }
    struct http_reply r = call_post(&c, HTTP, PROTO, encode(t, &s, "otlp"));
    check_reply(t, &r, 200, "series: the limit is 5");
    CHECK(t, counted(&c, METRIC_REJECTS, "series") >= 15);
    CHECK(t, counted(&c, METRIC_INGEST_PROFILES, "otlp") > 0);
    sent_done(&s);
    calls_end(&c);
}

static void a_full_disk_is_said(struct test *t)
{
    struct calls c;
    calls_begin(t, &c);
    struct http_reply r = send_shop(t, &c);
    check_reply(t, &r, 200, NULL);
    sim_fs_set_space(c.sim, 1 << 20);
    usleep(120000); /* the store looks at the disk every 100 ms */
    r = send_shop(t, &c);
    CHECK(t, reply_header(&r, "retry-after").len > 0);
    check_reply(t, &r, 503, "disk nearly full");
    calls_end(&c);
}

/* ---- Deployments */

static void new_versions_in_the_stream_are_deployments(struct test *t)
{
    struct calls c;
    calls_begin(t, &c);
    static const char *const versions[] = {"1.0", "1.0", "1.1"};
    for (size_t i = 0; i < ARRAY_SIZE(versions); i++) {
        struct sent s;
        sent_init(&s);
        add_profile(&s, (const char *const[]){"service.name", "shop", "service.version",
                                              versions[i], "git.commit", "abc", NULL});
        struct http_reply r = call_post(&c, HTTP, PROTO, encode(t, &s, "otlp"));
        check_reply(t, &r, 200, NULL);
        sent_done(&s);
    }
    struct http_reply r = call_get(&c, "/api/v1/deployments?service=shop");
    const uint8_t *first = bytes_find(buf_bytes(&r.body), BYTES("\"version\":\"1.0\""));
    CHECK(t, first != NULL);
    CHECK(t, reply_has(&r, "\"commit\":\"abc\""));
    CHECK(t, first && memmem(first + 1, 10, "\"version\":\"1.0\"", 15) == NULL);
    check_reply(t, &r, 200, "\"version\":\"1.1\"");
    r = call_get(&c, "/api/v1/deployments?service=other");
    check_reply(t, &r, 200, "{\"deployments\":[]}");
    calls_end(&c);
}

static void versions_that_are_made_up_do_not_fill_the_catalog(struct test *t)
{
    struct calls c;
    calls_begin(t, &c);
    for (int i = 0; i < 1000; i++) {
        char id[16];
        snprintf(id, sizeof(id), "d%d", i);
        struct catalog_deployment d = {.tenant = BYTES("default"),
                                       .id = bytes_of(id),
                                       .service = BYTES("shop"),
                                       .version = bytes_of(id),
                                       .start_ns = clock_wall_ns(clock_real())};
        CHECK_INT(t, catalog_put_deployment(c.server->catalog, &d, NULL), 0);
    }
    static const char *const services[] = {"shop", "other"};
    for (size_t i = 0; i < ARRAY_SIZE(services); i++) {
        struct sent s;
        sent_init(&s);
        add_profile(&s, (const char *const[]){"service.name", services[i], "service.version",
                                              "one-more", NULL});
        struct http_reply r = call_post(&c, HTTP, PROTO, encode(t, &s, "otlp"));
        check_reply(t, &r, 200, NULL);
        sent_done(&s);
    }
    struct http_reply r = call_get(&c, "/api/v1/deployments?service=shop");
    CHECK(t, !reply_has(&r, "one-more"));
    http_reply_done(&r);
    r = call_get(&c, "/api/v1/deployments?service=other");
    check_reply(t, &r, 200, "one-more");
    calls_end(&c);
}

static void deployments_that_were_told_are_not_found_again(struct test *t)
{
    struct calls c;
    calls_begin(t, &c);
    struct http_reply r =
        call_post(&c, "/api/v1/deployments", JSON,
                  BYTES("{\"service\":\"shop\",\"version\":\"2\",\"branch\":\"main\",\"id\":\"d1\","
                        "\"time\":\"now-1h\"}"));
    check_reply(t, &r, 200, "{\"id\":\"d1\"}");
    struct sent s;
    sent_init(&s);
    add_profile(&s, (const char *const[]){"service.name", "shop", "service.version", "2", NULL});
    r = call_post(&c, HTTP, PROTO, encode(t, &s, "otlp"));
    check_reply(t, &r, 200, NULL);
    sent_done(&s);
    r = call_get(&c, "/api/v1/deployments");
    CHECK(t, reply_has(&r, "\"branch\":\"main\""));
    const char *text = buf_cstr(&r.body);
    CHECK(t, strstr(strstr(text, "\"id\"") + 1, "\"id\"") == NULL);
    http_reply_done(&r);
    static const char *const bad[][2] = {
        {"{}", "a deployment needs a \\\"service\\\""},
        {"{\"service\":\"x\",\"time\":\"soon\"}", "\\\"time\\\": "},
        {"{\"service\":\"x\",\"colour\":1}", "\\\"colour\\\" is no field of a deployment"},
        {"", "json at byte 0"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        r = call_post(&c, "/api/v1/deployments", JSON, bytes_of(bad[i][0]));
        check_reply(t, &r, 400, bad[i][1]);
    }
    r = call_get(&c, "/api/v1/deployments?from=never");
    check_reply(t, &r, 400, "\\\"from\\\"");
    calls_end(&c);
}

/* ---- Traces */

static int on_span(void *ctx, const struct store_span *s)
{
    buf_addf(ctx, "%.*s/%.*s", (int)s->service.len, (const char *)s->service.data, (int)s->name.len,
             (const char *)s->name.data);
    for (size_t i = 0; i < s->n_attributes; i++)
        buf_addf(ctx, " %.*s=%.*s", (int)s->attributes[i].name.len,
                 (const char *)s->attributes[i].name.data, (int)s->attributes[i].value.len,
                 (const char *)s->attributes[i].value.data);
    return 0;
}

static void spans_are_kept_and_masked(struct test *t)
{
    struct calls c;
    char json[1024];
    calls_begin(t, &c);
    int64_t now = clock_wall_ns(clock_real());
    snprintf(json, sizeof(json),
             "{\"resourceSpans\":[{\"resource\":{\"attributes\":[{\"key\":\"service.name\","
             "\"value\":{\"stringValue\":\"shop\"}}]},\"scopeSpans\":[{\"spans\":[{\"traceId\":"
             "\"5b8efff798038103d269b633813fc60c\",\"spanId\":\"eee19b7ec3c1b174\",\"name\":"
             "\"GET /?token=abc\",\"startTimeUnixNano\":\"%lld\",\"endTimeUnixNano\":\"%lld\","
             "\"attributes\":[{\"key\":\"url.path\",\"value\":{\"stringValue\":\"/home/bob/x\"}}]},"
             "{\"name\":\"no ids\"}]}]}]}",
             (long long)now - 5000, (long long)now);
    struct http_reply r = call_post(&c, "/v1/traces", JSON, bytes_of(json));
    check_reply(t, &r, 200,
                "{\"partialSuccess\":{\"rejectedSpans\":\"1\",\"errorMessage\":\"span \\\"no "
                "ids\\\": its trace id is not 16 bytes, or all zero\"}}");
    CLEANUP(buf_done) struct buf out = {0};
    struct store_span_find find = {.tenant = BYTES("default"), .to_ns = INT64_MAX};
    CHECK_INT(t, store_spans(c.server->store, &find, on_span, &out, NULL), 0);
    CHECK_STR(t, buf_cstr(&out), "shop/GET /?token=*** url.path=/home/*/x");
    CHECK_INT(t, counted(&c, METRIC_INGEST_SPANS, ""), 1);
    CHECK_INT(t, counted(&c, METRIC_REJECTS, "spans"), 1);
    r = call_post(&c, "/v1/traces", PROTO, BYTES("\x0a\x05"));
    check_reply(t, &r, 400, "otlp traces at byte");
    r = call_post(&c, "/v1/traces", PROTO, (struct bytes){0});
    check_reply(t, &r, 200, NULL);
    calls_end(&c);
}

static void logs_and_metrics_are_taken_only_when_told_so(struct test *t)
{
    struct calls c;
    calls_begin(t, &c);
    struct http_reply r = call_post(&c, "/v1/logs", PROTO, BYTES("x"));
    check_reply(t, &r, 501, "logs are not kept here");
    r = call_post(&c, "/v1/metrics", JSON, BYTES("{}"));
    check_reply(t, &r, 501, "metrics are not kept here");
    calls_end(&c);
    calls_config(&c);
    c.config.accept_logs_and_metrics = true;
    calls_open(t, &c);
    r = call_post(&c, "/v1/metrics", JSON, BYTES("{}"));
    check_reply(t, &r, 200, "{}");
    r = call_post(&c, "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
                  "application/grpc", BYTES("\0\0\0\0\0"));
    check_reply(t, &r, 200, NULL);
    calls_end(&c);
}

static const struct test_case cases[] = {
    TEST(counted_samples_also_become_cpu_time),
    TEST(units_and_wall_time_have_their_usual_names),
    TEST(every_protocol_takes_profiles),
    TEST(nothing_is_success),
    TEST(what_is_too_old_is_a_partial_success),
    TEST(rubbish_is_refused_in_the_callers_words),
    TEST(processes_that_look_alike_are_all_kept),
    TEST(a_profile_without_a_time_is_from_now),
    TEST(a_resource_with_very_many_attributes_is_named_once),
    TEST(time_that_does_not_fit_is_rejected),
    TEST(secrets_never_reach_the_store),
    TEST(limits_of_labels_and_stacks_are_named),
    TEST(a_tenant_over_its_rate_is_told_when_to_come_back),
    TEST(series_have_a_limit),
    TEST(a_full_disk_is_said),
    TEST(new_versions_in_the_stream_are_deployments),
    TEST(versions_that_are_made_up_do_not_fill_the_catalog),
    TEST(deployments_that_were_told_are_not_found_again),
    TEST(spans_are_kept_and_masked),
    TEST(logs_and_metrics_are_taken_only_when_told_so),
};
TEST_MAIN(cases)

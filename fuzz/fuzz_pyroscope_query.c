#include "base/clock.h"
#include "fuzz.h"
#include "lib/calls.h"
#include "server/server_internal.h"

/*
 * Questions of Grafana's kind to a server that holds a few profiles: the first byte chooses the
 * method, the second the codec, the rest is the message (or the query string of /pyroscope/render).
 * No crash; every answer is a success or the client's fault. "@" in JSON and in queries stands for
 * the present time in milliseconds, so that there is something to find.
 *
 * Links: server.
 */
static const char *const methods[] = {
    "ProfileTypes",
    "LabelNames",
    "LabelValues",
    "Series",
    "SelectMergeStacktraces",
    "SelectMergeSpanProfile",
    "SelectMergeProfile",
    "SelectSeries",
    "SelectHeatmap",
    "Diff",
    "GetProfileStats",
    "AnalyzeQuery",
};
static const char *const plain[] = {"/pyroscope/render?", "/pyroscope/render-diff?",
                                    "/pyroscope/label-values?"};

static void add_profile(struct store_source *source, const char *leaf, int64_t start_ns)
{
    struct error err;
    struct store_outcome outcome;
    store_source_reset(source);
    struct dict *d = source->set->dict;
    struct profile *p = profile_set_add(source->set);
    profile_add_ctype(p, "cpu", "nanoseconds");
    p->period_type = (struct value_type){dict_cstring(d, "cpu"), dict_cstring(d, "nanoseconds")};
    uint32_t top = dict_frame(d, 0, (struct function){.name = dict_cstring(d, "main")}, 3, 0, 0);
    struct function f = {.name = dict_cstring(d, leaf)};
    profile_add(p, &(struct sample){.node = dict_frame(d, top, f, 7, 0, 0),
                                    .link = dict_link(d, (struct link){{1}, {2}}),
                                    .values = (int64_t[]){10000000}});
    p->time_unix_ns = start_ns;
    p->duration_ns = 1000000000;
    struct label labels[] = {{BYTES("k8s.pod.name"), bytes_of(leaf)},
                             {BYTES("service.name"), BYTES("checkout")}};
    struct store_incoming in = {
        .profile = p, .labels = labels, .n_labels = 2, .has_id = true, .id = {(uint8_t)*leaf}};
    REQUIRE(store_append(source, BYTES("default"), &in, 1, &outcome, &err) == 0);
}

static void start(struct calls *c)
{
    static struct test test;
    struct error err;
    struct store_source *source = NULL;
    calls_begin(&test, c);
    int64_t now = clock_wall_ns(clock_real());
    REQUIRE(store_source_new(c->server->store, 0, &source, &err) == 0);
    add_profile(source, "parse", now - 60 * (int64_t)1000000000);
    add_profile(source, "sort", now - 30 * (int64_t)1000000000);
    store_source_free(source);
}

/* The input with the time put in. */
static void put_time(struct bytes in, struct buf *out)
{
    for (size_t i = 0; i < in.len; i++) {
        if (in.data[i] == '@')
            buf_add_i64(out, clock_wall_ns(clock_real()) / 1000000);
        else if (in.data[i] != 0)
            buf_add_byte(out, in.data[i]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static struct calls calls;
    CLEANUP(buf_done) struct buf target = {0}, text = {0};
    struct http_reply r;

    if (len < 2)
        return 0;
    if (!calls.server)
        start(&calls);
    struct bytes body = {data + 2, len - 2};
    size_t which = data[0] % (ARRAY_SIZE(methods) + ARRAY_SIZE(plain));
    if (which >= ARRAY_SIZE(methods)) {
        buf_add_str(&target, plain[which - ARRAY_SIZE(methods)]);
        put_time(body, &target);
        r = call_get(&calls, buf_cstr(&target));
    } else {
        bool is_json = data[1] % 2 == 0;
        buf_addf(&target, "/querier.v1.QuerierService/%s", methods[which]);
        if (is_json)
            put_time(body, &text);
        r = call_post(&calls, buf_cstr(&target), is_json ? "application/json" : "application/proto",
                      is_json ? buf_bytes(&text) : body);
    }
    REQUIRE(r.status == 200 || (r.status >= 400 && r.status < 500));
    http_reply_done(&r);
    return 0;
}

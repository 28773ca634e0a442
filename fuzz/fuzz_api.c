#include "base/clock.h"
#include "fuzz.h"
#include "lib/calls.h"
#include "server/server_internal.h"

/*
 * Questions to a server that holds a few profiles: a target behind /api/v1/, a newline, and a body
 * (JSON when it begins with a brace). No crash; every answer is a success or the client's fault.
 *
 * Links: server.
 */
static void add_profile(struct store_source *source, const char *leaf, int64_t start_ns)
{
    struct error err;
    struct store_outcome outcome;
    store_source_reset(source);
    struct dict *d = source->set->dict;
    struct profile *p = profile_set_add(source->set);
    profile_add_ctype(p, "samples", "count");
    profile_add_ctype(p, "cpu", "nanoseconds");
    uint32_t thread = dict_string_attribute(d, dict_cstring(d, "thread"), dict_cstring(d, "main"));
    struct function f = {.name = dict_cstring(d, "main"), .file = dict_cstring(d, "/src/a.c")};
    uint32_t top = dict_frame(d, 0, f, 3, 0, 0);
    f.name = dict_cstring(d, leaf);
    profile_add(p, &(struct sample){.node = dict_frame(d, top, f, 7, 0, 0),
                                    .attrs = dict_attrs(d, &thread, 1),
                                    .link = dict_link(d, (struct link){{1}, {2}}),
                                    .values = (int64_t[]){1, 10000000}});
    p->time_unix_ns = start_ns;
    p->duration_ns = 1000000000;
    struct label labels[] = {{BYTES("pod"), bytes_of(leaf)},
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static struct calls calls;
    struct bytes in = {data, len}, body = {0};
    const uint8_t *end = bytes_find_byte(in, '\n');
    CLEANUP(buf_done) struct buf target = {0};

    if (!calls.server)
        start(&calls);
    buf_add_str(&target, "/api/v1/");
    for (size_t i = 0; i < len && in.data[i] != '\n'; i++)
        if (in.data[i] != 0) /* the parser of requests lets none through */
            buf_add_byte(&target, in.data[i]);
    if (end)
        body = bytes_from(in, (size_t)(end - in.data) + 1);
    bool is_json = body.len > 0 && body.data[0] == '{';
    struct http_reply r =
        body.len > 0
            ? call_post(&calls, buf_cstr(&target),
                        is_json ? "application/json" : "application/x-www-form-urlencoded", body)
            : call_get(&calls, buf_cstr(&target));
    REQUIRE(r.status == 200 || r.status == 201 || (r.status >= 400 && r.status < 500));
    REQUIRE(r.status == 200 || r.body.len > 0);
    http_reply_done(&r);
    return 0;
}

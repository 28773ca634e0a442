#include <errno.h>

#include "base/clock.h"
#include "server/stored.h"
#include "wire/base64.h"
#include "wire/protobuf.h"

#define PATH  "/push.v1.PusherService/Push"
#define PROTO "application/proto"

/* A series: labels alternate names and values up to NULL. */
static void put_series(struct buf *out, const char *const *labels, struct bytes profile,
                       const char *id)
{
    size_t series = pb_begin(out, 1), sample;

    sample = pb_begin(out, 2); /* samples may stand before labels */
    pb_put_bytes(out, 1, profile);
    pb_put_bytes_opt(out, 2, bytes_of(id));
    pb_end(out, sample);
    for (; *labels; labels += 2) {
        size_t label = pb_begin(out, 1);
        pb_put_bytes(out, 1, bytes_of(labels[0]));
        pb_put_bytes(out, 2, bytes_of(labels[1]));
        pb_end(out, label);
    }
    pb_end(out, series);
}

static const char *const cpu_types[] = {"cpu/nanoseconds", NULL};
static const char *const cpu_rows[] = {"main;a 20", NULL};
static const char *const shop[] = {
    "__name__", "process_cpu", "service_name", "shop", "pyroscope_spy", "pyspy", "__session__",
    "7",        NULL};

#define SHOP "pyroscope_spy=pyspy service.name=shop telemetry.sdk.language=python"

static void labels_ids_and_profiles_are_kept(struct test *t)
{
    CLEANUP(buf_done) struct buf pprof = {0};
    CLEANUP(buf_done) struct buf packed = {0};
    CLEANUP(buf_done) struct buf body = {0};
    struct calls c;
    struct stored s;
    calls_begin(t, &c);

    make_pprof(cpu_types, cpu_rows, &pprof);
    pb_put_u64(&pprof, 9, (uint64_t)clock_wall_ns(clock_real()));
    gzip_pack(buf_bytes(&pprof), 6, &packed);
    put_series(&body, shop, buf_bytes(&packed), "734FD599-6865-419E-9475-932762D8F469");
    CHECK_POST(t, &c, PATH, PROTO, buf_bytes(&body), 200, "");
    CHECK_POST(t, &c, PATH, PROTO, buf_bytes(&body), 200, ""); /* sent again */
    stored_read(t, &c, &s);
    CHECK_STR(t, buf_cstr(&s.text), SHOP " | cpu/nanoseconds | main;a 20\n");
    CHECK_INT(t, s.id[0], 0x73);
    CHECK_INT(t, s.id[15], 0x69);
    buf_done(&s.text);
    calls_end(&c);
}

static void each_series_has_its_own_labels_and_name(struct test *t)
{
    static const char *const types[] = {"contentions/count", "delay/nanoseconds", NULL};
    static const char *const rows[] = {"main;lock 1 10", NULL};
    static const char *const block[] = {"__name__", "block", "service_name", "a", NULL};
    static const char *const mutex[] = {"__name__", "mutex", "service_name", "b", "k", "v", NULL};
    CLEANUP(buf_done) struct buf pprof = {0};
    CLEANUP(buf_done) struct buf body = {0};
    struct calls c;
    struct stored s;
    calls_begin(t, &c);

    make_pprof(types, rows, &pprof);
    put_series(&body, block, buf_bytes(&pprof), "");
    put_series(&body, mutex, buf_bytes(&pprof), "");
    CHECK_POST(t, &c, PATH, PROTO, buf_bytes(&body), 200, "");
    stored_read(t, &c, &s);
    CHECK_INT(t, s.n, 2);
    CHECK(t, strstr(buf_cstr(&s.text), "profile.kind=block service.name=a | contentions") != NULL);
    CHECK(t, strstr(buf_cstr(&s.text), "k=v service.name=b | contentions") != NULL);
    buf_done(&s.text);
    calls_end(&c);
}

static void an_id_that_is_no_uuid_counts_with_its_content(struct test *t)
{
    static const char *const other_rows[] = {"main;b 30", NULL};
    CLEANUP(buf_done) struct buf a = {0};
    CLEANUP(buf_done) struct buf b = {0};
    CLEANUP(buf_done) struct buf body = {0};
    struct calls c;
    struct stored s;
    calls_begin(t, &c);

    make_pprof(cpu_types, cpu_rows, &a);
    make_pprof(cpu_types, other_rows, &b);
    put_series(&body, shop, buf_bytes(&a), "always the same");
    put_series(&body, shop, buf_bytes(&a), "always the same");
    put_series(&body, shop, buf_bytes(&b), "always the same");
    CHECK_POST(t, &c, PATH, PROTO, buf_bytes(&body), 200, "");
    stored_read(t, &c, &s);
    CHECK_INT(t, s.n, 2);
    buf_done(&s.text);
    calls_end(&c);
}

static void heaps_are_split_only_when_they_are_deltas(struct test *t)
{
    static const char *const types[] = {"alloc_space/bytes", "inuse_space/bytes", NULL};
    static const char *const rows[] = {"main;a 20 10", NULL};
    static const char *const delta[] = {"__name__", "memory", "service_name", "a", "__delta__",
                                        "false",    NULL};
    static const char *const total[] = {"__name__", "memory", "service_name", "b", NULL};
    CLEANUP(buf_done) struct buf pprof = {0};
    CLEANUP(buf_done) struct buf body = {0};
    struct calls c;
    struct stored s;
    calls_begin(t, &c);

    make_pprof(types, rows, &pprof);
    put_series(&body, delta, buf_bytes(&pprof), "734FD599-6865-419E-9475-932762D8F469");
    put_series(&body, total, buf_bytes(&pprof), "734FD599-6865-419E-9475-932762D8F46A");
    CHECK_POST(t, &c, PATH, PROTO, buf_bytes(&body), 200, "");
    stored_read(t, &c, &s);
    const char *text = buf_cstr(&s.text);
    CHECK_INT(t, s.n, 3);
    CHECK(t, strstr(text, "service.name=a | alloc_space/bytes | main;a 20\n") != NULL);
    CHECK(t, strstr(text, "service.name=a | inuse_space/bytes instant | main;a 10\n") != NULL);
    CHECK(t, strstr(text, "service.name=b | alloc_space/bytes inuse_space/bytes instant") != NULL);
    buf_done(&s.text);
    calls_end(&c);
}

static void json_is_read_too(struct test *t)
{
    CLEANUP(buf_done) struct buf pprof = {0};
    CLEANUP(buf_done) struct buf body = {0};
    struct calls c;
    calls_begin(t, &c);

    make_pprof(cpu_types, cpu_rows, &pprof);
    buf_add_str(&body, "{\"series\":[{\"labels\":[{\"name\":\"service_name\",\"value\":\"shop\"}],"
                       "\"samples\":[{\"raw_profile\":\"");
    base64_encode(buf_bytes(&pprof), true, &body);
    buf_add_str(&body, "\"}]}]}");
    CHECK_POST(t, &c, PATH, "application/json", buf_bytes(&body), 200, "{}");
    CHECK_STORED(t, &c, "service.name=shop | cpu/nanoseconds | main;a 20\n");
    calls_end(&c);
}

static void grpc_is_answered_with_trailers(struct test *t)
{
    CLEANUP(buf_done) struct buf pprof = {0};
    CLEANUP(buf_done) struct buf message = {0};
    CLEANUP(buf_done) struct buf body = {0};
    struct calls c;
    calls_begin(t, &c);

    make_pprof(cpu_types, cpu_rows, &pprof);
    put_series(&message, shop, buf_bytes(&pprof), "");
    uint8_t head[5] = {0, (uint8_t)(message.len >> 24), (uint8_t)(message.len >> 16),
                       (uint8_t)(message.len >> 8), (uint8_t)message.len};
    buf_add(&body, head, sizeof(head));
    buf_add_bytes(&body, buf_bytes(&message));
    struct http_reply r = call_post(&c, PATH, "application/grpc", buf_bytes(&body));
    CHECK_INT(t, r.status, 200);
    CHECK_INT(t, r.body.len, 5);
    struct bytes rest = buf_bytes(&r.trailers);
    struct http_header h;
    bool is_ok = false;
    while (http_reply_next(&rest, &h))
        is_ok |= bytes_are(h.name, "grpc-status") && bytes_are(h.value, "0");
    CHECK(t, is_ok);
    http_reply_done(&r);
    CHECK_STORED(t, &c, SHOP " | cpu/nanoseconds | main;a 20\n");
    calls_end(&c);
}

static void refuses_and_names_the_place(struct test *t)
{
    static const char *const old[] = {"service_name", "a", NULL};
    CLEANUP(buf_done) struct buf good = {0};
    CLEANUP(buf_done) struct buf bad = {0};
    CLEANUP(buf_done) struct buf ancient = {0};
    CLEANUP(buf_done) struct buf body = {0};
    struct calls c;
    calls_begin(t, &c);

    make_pprof(cpu_types, cpu_rows, &good);
    buf_add_bytes(&bad, buf_bytes(&good));
    bad.len -= 3;
    put_series(&body, shop, buf_bytes(&good), "");
    put_series(&body, shop, buf_bytes(&bad), "");
    CHECK_POST(t, &c, PATH, PROTO, buf_bytes(&body), 400, "series 2, sample 1: pprof at byte");
    CHECK_POST(t, &c, PATH, PROTO, buf_bytes(&body), 400, "\"code\":\"invalid_argument\"");
    CHECK_POST(t, &c, PATH, PROTO, BYTES("\x0a\x05z"), 400, "push request at byte 2: a length");
    CHECK_POST(t, &c, PATH, PROTO, BYTES("\x0a\x03\x0a\x01\x0a"), 400,
               "push request at byte 5: a length is cut short");
    CHECK_POST(t, &c, PATH, "application/json", BYTES("{\"series\":1}"), 400, "at byte");
    buf_clear(&body);
    buf_add_bytes(&ancient, buf_bytes(&good));
    pb_put_u64(&ancient, 9, (uint64_t)1500000000 * 1000000000);
    put_series(&body, old, buf_bytes(&ancient), "");
    CHECK_POST(t, &c, PATH, PROTO, buf_bytes(&body), 400, "invalid_argument");
    CHECK_STORED(t, &c, "");
    CHECK_POST(t, &c, PATH, PROTO, (struct bytes){0}, 200, "");
    calls_end(&c);
}

static void too_many_labels_are_refused(struct test *t)
{
    const char *labels[2 * 300 + 1];
    char names[300][8];
    CLEANUP(buf_done) struct buf pprof = {0};
    CLEANUP(buf_done) struct buf body = {0};
    struct calls c;
    calls_begin(t, &c);

    for (int i = 0; i < 300; i++) {
        snprintf(names[i], sizeof(names[i]), "k%d", i);
        labels[2 * i] = labels[2 * i + 1] = names[i];
    }
    labels[600] = NULL;
    make_pprof(cpu_types, cpu_rows, &pprof);
    put_series(&body, labels, buf_bytes(&pprof), "");
    CHECK_POST(t, &c, PATH, PROTO, buf_bytes(&body), 400, "series 1 has more than 255 labels");
    buf_clear(&body);
    labels[200] = NULL;
    put_series(&body, labels, buf_bytes(&pprof), "");
    CHECK_POST(t, &c, PATH, PROTO, buf_bytes(&body), 400, "limits.labels");
    CHECK_STORED(t, &c, "");
    calls_end(&c);
}

static const struct test_case cases[] = {
    TEST(labels_ids_and_profiles_are_kept),
    TEST(each_series_has_its_own_labels_and_name),
    TEST(an_id_that_is_no_uuid_counts_with_its_content),
    TEST(heaps_are_split_only_when_they_are_deltas),
    TEST(json_is_read_too),
    TEST(grpc_is_answered_with_trailers),
    TEST(refuses_and_names_the_place),
    TEST(too_many_labels_are_refused),
};
TEST_MAIN(cases)

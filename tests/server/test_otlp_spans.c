#include <errno.h>

#include "lib/test.h"
#include "server/otlp_spans.h"
#include "wire/protobuf.h"

#define NOW_NS ((int64_t)1800000000 * 1000000000)

struct fixture {
    struct budget budget;
    struct arena arena;
    struct otlp_spans spans;
    struct config_list wanted;
    struct error err;
    struct buf message;
};

static void fixture_init(struct fixture *f)
{
    *f = (struct fixture){.err = {""}};
    f->wanted = (struct config_list){{"http.route", "http.response.status_code", "http.status_code",
                                      "thread.id", "error.type", "service.version", "host.name"},
                                     7};
    budget_init(&f->budget, (size_t)16 << 20);
    arena_init(&f->arena, &f->budget);
}

static int decode(struct fixture *f, struct bytes message, bool is_json)
{
    struct otlp_spans_options o = {.attributes = &f->wanted, .is_json = is_json, .now_ns = NOW_NS};
    otlp_spans_done(&f->spans);
    f->spans = (struct otlp_spans){.arena = &f->arena};
    return otlp_spans_decode(message, &o, &f->spans, &f->err);
}

static void fixture_done(struct test *t, struct fixture *f)
{
    otlp_spans_done(&f->spans);
    arena_done(&f->arena);
    buf_done(&f->message);
    CHECK_INT(t, f->budget.used, 0);
}

static void put_attribute(struct buf *b, uint32_t field, const char *key, const char *value)
{
    size_t at = pb_begin(b, field), in;
    pb_put_bytes(b, 1, bytes_of(key));
    in = pb_begin(b, 2);
    pb_put_bytes(b, 1, bytes_of(value));
    pb_end(b, in);
    pb_end(b, at);
}

static void put_int_attribute(struct buf *b, uint32_t field, const char *key, uint64_t value)
{
    size_t at = pb_begin(b, field), in;
    pb_put_bytes(b, 1, bytes_of(key));
    in = pb_begin(b, 2);
    pb_put_u64(b, 3, value);
    pb_end(b, in);
    pb_end(b, at);
}

struct span_parts {
    struct bytes trace_id, span_id, parent_id;
    int64_t start, end;
    const char *name;
};

#define TRACE BYTES("0123456789abcdef")
#define SPAN  BYTES("01234567")

static void put_span(struct buf *b, struct span_parts p)
{
    size_t at = pb_begin(b, 2);
    size_t status = pb_begin(b, 15);
    pb_put_u64(b, 3, 2);
    pb_end(b, status);
    put_attribute(b, 9, "http.route", "/cart/:id");
    put_attribute(b, 9, "not.wanted", "x");
    put_int_attribute(b, 9, "http.response.status_code", 503);
    pb_put_fixed64(b, 8, (uint64_t)p.end);
    pb_put_fixed64(b, 7, (uint64_t)p.start);
    pb_put_u64(b, 6, 2);
    pb_put_bytes(b, 5, bytes_of(p.name ? p.name : "GET /cart/:id"));
    pb_put_bytes(b, 4, p.parent_id);
    pb_put_bytes(b, 2, p.span_id);
    pb_put_bytes(b, 1, p.trace_id);
    pb_end(b, at);
}

/* The Collector's order: the resource behind the spans. */
static void put_request(struct buf *b, const struct span_parts *spans, size_t n)
{
    size_t at = pb_begin(b, 1), scope = pb_begin(b, 2);
    for (size_t i = 0; i < n; i++)
        put_span(b, spans[i]);
    pb_end(b, scope);
    size_t resource = pb_begin(b, 1);
    put_attribute(b, 1, "service.name", "shop");
    put_attribute(b, 1, "service.version", "1.2");
    pb_end(b, resource);
    pb_end(b, at);
}

static const char *attribute(const struct store_span *s, const char *name)
{
    static char text[2000];
    struct bytes v = label_value(s->attributes, s->n_attributes, bytes_of(name));
    snprintf(text, sizeof(text), "%.*s", (int)v.len, v.data ? (const char *)v.data : "");
    return text;
}

static void spans_keep_what_correlation_needs(struct test *t)
{
    struct fixture f;
    fixture_init(&f);
    struct span_parts parts = {TRACE, SPAN, BYTES("parent!!"), NOW_NS, NOW_NS + 5000, NULL};
    put_request(&f.message, &parts, 1);
    CHECK_INT(t, decode(&f, buf_bytes(&f.message), false), 0);
    CHECK_INT(t, f.spans.n, 1);
    const struct store_span *s = f.spans.all;
    CHECK(t, bytes_are(s->service, "shop"));
    CHECK(t, bytes_are(s->name, "GET /cart/:id"));
    CHECK_INT(t, memcmp(s->trace_id, "0123456789abcdef", 16), 0);
    CHECK_INT(t, memcmp(s->span_id, "01234567", 8), 0);
    CHECK_INT(t, memcmp(s->parent_id, "parent!!", 8), 0);
    CHECK_INT(t, s->start_ns, NOW_NS);
    CHECK_INT(t, s->duration_ns, 5000);
    CHECK_INT(t, s->kind, 2);
    CHECK_INT(t, s->status, 2);
    CHECK_INT(t, s->n_attributes, 3);
    CHECK_STR(t, attribute(s, "http.route"), "/cart/:id");
    CHECK_STR(t, attribute(s, "http.response.status_code"), "503");
    CHECK_STR(t, attribute(s, "service.version"), "1.2");
    fixture_done(t, &f);
}

static void the_config_chooses_attributes(struct test *t)
{
    struct fixture f;
    fixture_init(&f);
    f.wanted = (struct config_list){{"not.wanted"}, 1};
    struct span_parts parts = {TRACE, SPAN, {0}, NOW_NS, NOW_NS - 5, NULL};
    put_request(&f.message, &parts, 1);
    CHECK_INT(t, decode(&f, buf_bytes(&f.message), false), 0);
    CHECK_INT(t, f.spans.all[0].n_attributes, 1);
    CHECK_STR(t, attribute(f.spans.all, "not.wanted"), "x");
    CHECK_INT(t, f.spans.all[0].duration_ns, 0); /* a clock that went back */
    fixture_done(t, &f);
}

static void spans_with_bad_ids_or_times_are_rejected_alone(struct test *t)
{
    static const char zero[16];
    const struct {
        struct span_parts parts;
        const char *why;
    } cases[] = {
        {{BYTES("short"), SPAN, {0}, NOW_NS, NOW_NS, "a"},
         "span \"a\": its trace id is not 16 bytes, or all zero"},
        {{{(const uint8_t *)zero, 16}, SPAN, {0}, NOW_NS, NOW_NS, "a"},
         "span \"a\": its trace id is not 16 bytes, or all zero"},
        {{TRACE, TRACE, {0}, NOW_NS, NOW_NS, "a"},
         "span \"a\": its span id is not 8 bytes, or all zero"},
        {{TRACE, SPAN, BYTES("xyz"), NOW_NS, NOW_NS, "a"},
         "span \"a\": its parent id is not 8 bytes"},
        {{TRACE, SPAN, {0}, 0, NOW_NS, "a"}, "span \"a\": it does not say when it began"},
        {{TRACE, SPAN, {0}, NOW_NS * 2, NOW_NS, "a"},
         "span \"a\": it is from more than an hour in the future"},
        {{TRACE, SPAN, {0}, -1, NOW_NS, "a"},
         "span \"a\": it is from more than an hour in the future"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct fixture f;
        fixture_init(&f);
        struct span_parts all[] = {cases[i].parts, {TRACE, SPAN, {0}, NOW_NS, NOW_NS, "good"}};
        put_request(&f.message, all, 2);
        CHECK_INT(t, decode(&f, buf_bytes(&f.message), false), 0);
        CHECK_INT(t, f.spans.n, 1);
        CHECK_INT(t, f.spans.rejected, 1);
        CHECK_STR(t, f.spans.why.text, cases[i].why);
        fixture_done(t, &f);
    }
}

static void a_parent_of_zeros_is_none(struct test *t)
{
    static const char zero[8];
    struct fixture f;
    fixture_init(&f);
    struct span_parts parts = {TRACE, SPAN, {(const uint8_t *)zero, 8}, NOW_NS, NOW_NS, NULL};
    put_request(&f.message, &parts, 1);
    CHECK_INT(t, decode(&f, buf_bytes(&f.message), false), 0);
    CHECK_INT(t, f.spans.n, 1);
    CHECK_INT(t, memcmp(f.spans.all[0].parent_id, zero, 8), 0);
    fixture_done(t, &f);
}

static void json_says_the_same(struct test *t)
{
    struct fixture f;
    fixture_init(&f);
    static const char json[] =
        "{\"resourceSpans\":[{\"resource\":{\"attributes\":[{\"key\":\"service.name\",\"value\":{"
        "\"stringValue\":\"shop\"}},{\"key\":\"host.name\",\"value\":{\"stringValue\":\"h\"}}]},"
        "\"scopeSpans\":[{\"scope\":{\"name\":\"x\"},\"spans\":[{\"traceId\":"
        "\"5B8EFFF798038103D269B633813FC60C\",\"spanId\":\"eee19b7ec3c1b174\",\"parentSpanId\":"
        "\"\",\"name\":\"GET /\",\"kind\":\"SPAN_KIND_CLIENT\",\"startTimeUnixNano\":"
        "\"1800000000000000000\",\"endTimeUnixNano\":\"1800000000000000700\",\"attributes\":[{"
        "\"key\":\"http.route\",\"value\":{\"arrayValue\":{\"values\":[]}}},{\"key\":"
        "\"http.status_code\",\"value\":{\"intValue\":\"200\"}},{\"key\":\"thread.id\",\"value\":{"
        "\"doubleValue\":1.5}},{\"key\":\"error.type\",\"value\":{\"boolValue\":true}}],"
        "\"status\":{\"code\":1},\"unknown\":[1,{}]},{\"traceId\":\"zz\",\"name\":\"bad\"}]}]}]}";
    CHECK_INT(t, decode(&f, bytes_of(json), true), 0);
    CHECK_STR(t, f.err.text, "");
    CHECK_INT(t, f.spans.n, 1);
    CHECK_INT(t, f.spans.rejected, 1);
    const struct store_span *s = f.spans.all;
    static const uint8_t trace[16] = {0x5b, 0x8e, 0xff, 0xf7, 0x98, 0x03, 0x81, 0x03,
                                      0xd2, 0x69, 0xb6, 0x33, 0x81, 0x3f, 0xc6, 0x0c};
    CHECK_INT(t, memcmp(s->trace_id, trace, 16), 0);
    CHECK_INT(t, s->span_id[0], 0xee);
    CHECK_INT(t, s->kind, 3);
    CHECK_INT(t, s->status, 1);
    CHECK_INT(t, s->start_ns, NOW_NS);
    CHECK_INT(t, s->duration_ns, 700);
    CHECK_STR(t, attribute(s, "http.status_code"), "200");
    CHECK_STR(t, attribute(s, "thread.id"), "1.5");
    CHECK_STR(t, attribute(s, "error.type"), "true");
    CHECK_STR(t, attribute(s, "host.name"), "h");
    CHECK_STR(t, attribute(s, "http.route"), "");
    fixture_done(t, &f);
}

static void long_texts_are_cut_between_characters(struct test *t)
{
    struct fixture f;
    fixture_init(&f);
    char name[3001];
    for (int i = 0; i < 3000; i += 2)
        memcpy(name + i, "\xc3\xa4", 2);
    name[0] = 'x'; /* so that the cut falls into a character */
    name[1] = 'y';
    name[2] = 'z';
    memmove(name + 3, name + 4, 2996);
    name[2999] = '\0';
    struct span_parts parts = {TRACE, SPAN, {0}, NOW_NS, NOW_NS, name};
    put_request(&f.message, &parts, 1);
    CHECK_INT(t, decode(&f, buf_bytes(&f.message), false), 0);
    CHECK_INT(t, f.spans.all[0].name.len, 1023);
    fixture_done(t, &f);
}

static void nothing_is_fine_and_rubbish_is_not(struct test *t)
{
    struct fixture f;
    fixture_init(&f);
    CHECK_INT(t, decode(&f, (struct bytes){0}, false), 0);
    CHECK_INT(t, f.spans.n, 0);
    CHECK_INT(t, decode(&f, (struct bytes){0}, true), 0);
    CHECK_INT(t, decode(&f, BYTES("{}"), true), 0);
    CHECK_INT(t, decode(&f, BYTES("\x0a\x05\x12"), false), -EBADMSG);
    CHECK_STR(t, f.err.text, "otlp traces at byte 2: a length runs past the end of its message");
    CHECK_INT(t, decode(&f, BYTES("{\"resourceSpans\":[{"), true), -EBADMSG);
    fixture_done(t, &f);
}

static void memory_has_a_limit(struct test *t)
{
    struct fixture f;
    fixture_init(&f);
    struct span_parts parts = {TRACE, SPAN, {0}, NOW_NS, NOW_NS, NULL};
    for (int i = 0; i < 100; i++)
        put_request(&f.message, &parts, 1);
    f.budget.limit = 20000;
    CHECK_INT(t, decode(&f, buf_bytes(&f.message), false), -ENOBUFS);
    CHECK(t, strstr(f.err.text, "limit") != NULL);
    fixture_done(t, &f);
}

static const struct test_case cases[] = {
    TEST(spans_keep_what_correlation_needs),
    TEST(the_config_chooses_attributes),
    TEST(spans_with_bad_ids_or_times_are_rejected_alone),
    TEST(a_parent_of_zeros_is_none),
    TEST(json_says_the_same),
    TEST(long_texts_are_cut_between_characters),
    TEST(nothing_is_fine_and_rubbish_is_not),
    TEST(memory_has_a_limit),
};
TEST_MAIN(cases)

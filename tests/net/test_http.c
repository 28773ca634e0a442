#include "base/cleanup.h"
#include "lib/test.h"
#include "net/http.h"

static void finds_headers_by_name(struct test *t)
{
    struct http_header headers[] = {
        {BYTES("a"), BYTES("1")}, {BYTES("content-type"), BYTES("x")}, {BYTES("a"), BYTES("2")}};
    struct http_request r = {.headers = headers, .n_headers = 3};

    CHECK(t, bytes_are(http_header_value(&r, "a"), "1"));
    CHECK(t, bytes_are(http_header_value(&r, "content-type"), "x"));
    CHECK_INT(t, http_header_value(&r, "content").len, 0);
}

static void finds_tokens_in_lists(struct test *t)
{
    static const struct {
        const char *value, *token;
        bool has;
    } lists[] = {
        {"gzip", "gzip", true},
        {"GZIP", "gzip", true},
        {"deflate, gzip;q=0.5", "gzip", true},
        {"deflate,gzip ; q=1 , br", "gzip", true},
        {"gzip;q=0", "gzip", false},
        {"gzip; q=0.000", "gzip", false},
        {"gzip;q=0.001", "gzip", true},
        {"gzip;q=0, gzip", "gzip", true},
        {"gzipped", "gzip", false},
        {"x-gzip", "gzip", false},
        {"", "gzip", false},
        {",,;,", "gzip", false},
        {"a;gzip", "gzip", false},
    };

    for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
        if (http_value_has_token(bytes_of(lists[i].value), lists[i].token) != lists[i].has)
            CHECK_STR(t, lists[i].value, lists[i].has ? "has it" : "has it not");
}

static void media_types_lose_their_parameters(struct test *t)
{
    CHECK(t, bytes_are(http_media_type(BYTES("application/json; charset=x")), "application/json"));
    CHECK(t, bytes_are(http_media_type(BYTES(" text/plain ;")), "text/plain"));
    CHECK_INT(t, http_media_type(BYTES("")).len, 0);
}

static void unescapes(struct test *t)
{
    static const struct {
        const char *in, *out; /* NULL: broken */
        bool is_query;
    } escapes[] = {
        {"a%20b", "a b", false}, {"a+b", "a+b", false},
        {"a+b", "a b", true},    {"%41%4a%4A", "AJJ", false},
        {"%", NULL, false},      {"%4", NULL, false},
        {"%4g", NULL, false},    {"a%zz", NULL, true},
        {"%2541", "%41", false}, {"", "", true},
    };
    struct buf out = {0};

    for (size_t i = 0; i < ARRAY_SIZE(escapes); i++) {
        buf_clear(&out);
        buf_add_str(&out, "-");
        CHECK_INT(t, http_unescape(bytes_of(escapes[i].in), escapes[i].is_query, &out),
                  escapes[i].out != NULL);
        CHECK_STR(t, buf_cstr(&out) + 1, escapes[i].out ? escapes[i].out : "");
    }
    buf_done(&out);
}

static void steps_through_queries(struct test *t)
{
    struct bytes rest = BYTES("a=1&&b&c=%26+x&=e&d=x=y&%61=2&f=%zz"), name, value;
    struct buf scratch = {0}, all = {0};

    while (http_query_next(&rest, &scratch, &name, &value)) {
        buf_add_bytes(&all, name);
        buf_add_str(&all, "->");
        buf_add_bytes(&all, value);
        buf_add_str(&all, " ");
    }
    CHECK_STR(t, buf_cstr(&all), "a->1 b-> c->& x ->e d->x=y a->2 f->%zz ");
    CHECK(t, http_query_value(BYTES("x=1&y=%31&x=2"), "x", &scratch, &value));
    CHECK(t, bytes_are(value, "1"));
    CHECK(t, http_query_value(BYTES("x=1&%79=%31&x=2"), "y", &scratch, &value));
    CHECK(t, bytes_are(value, "1"));
    CHECK(t, !http_query_value(BYTES("x=1&y=%31&x=2"), "z", &scratch, &value));
    CHECK(t, !http_query_value(BYTES(""), "z", &scratch, &value));
    buf_done(&scratch);
    buf_done(&all);
}

static void replies_keep_their_headers(struct test *t)
{
    struct http_reply reply = {0};
    struct http_header h = {0};
    char long_value[2000];

    memset(long_value, 'x', sizeof(long_value) - 1);
    long_value[sizeof(long_value) - 1] = '\0';
    http_reply_header(&reply, "a", BYTES("1"));
    http_reply_header(&reply, "b", BYTES("x\ny"));
    http_reply_header(&reply, "C", BYTES("x"));
    http_reply_header(&reply, "", BYTES("x"));
    http_reply_headerf(&reply, "d", "%d%%", 7);
    http_reply_headerf(&reply, "e", "%s", long_value);
    http_reply_header(&reply, "f", bytes_of(long_value));
    http_reply_trailer(&reply, "g", BYTES(""));
    struct bytes rest = buf_bytes(&reply.head);
    CHECK(t, http_reply_next(&rest, &h) && bytes_are(h.name, "a") && bytes_are(h.value, "1"));
    CHECK(t, http_reply_next(&rest, &h) && bytes_are(h.name, "d") && bytes_are(h.value, "7%"));
    CHECK(t, http_reply_next(&rest, &h) && bytes_are(h.name, "f") && h.value.len == 1999);
    CHECK(t, !http_reply_next(&rest, &h));
    rest = buf_bytes(&reply.trailers);
    CHECK(t, http_reply_next(&rest, &h) && bytes_are(h.name, "g") && h.value.len == 0);
    http_reply_done(&reply);
}

static void statuses_have_names(struct test *t)
{
    CHECK_STR(t, http_reason(404), "Not Found");
    CHECK_STR(t, http_reason(499), "Client Closed Request");
    CHECK_STR(t, http_reason(599), "Server Error");
    CHECK_INT(t, strlen(http_date()), 29);
    CHECK_STR(t, http_date() + 25, " GMT");
}

static const struct test_case cases[] = {
    TEST(finds_headers_by_name),
    TEST(finds_tokens_in_lists),
    TEST(media_types_lose_their_parameters),
    TEST(unescapes),
    TEST(steps_through_queries),
    TEST(replies_keep_their_headers),
    TEST(statuses_have_names),
};
TEST_MAIN(cases)

#include <errno.h>

#include "base/cleanup.h"
#include "lib/test.h"
#include "wire/proto_json.h"
#include "wire/protobuf.h"

static const struct proto_field place[] = {{1, "name", PROTO_STRING}, {0}};

static const char *const colours[] = {"RED", "GREEN", NULL};

static const struct proto_field message[] = {
    {1, "profileTypeID", PROTO_STRING},
    {2, "start", PROTO_INT64},
    {3, "callSite", PROTO_MESSAGE, .is_repeated = true, .message = place},
    {4, "step", PROTO_DOUBLE},
    {5, "colour", PROTO_ENUM, .values = colours},
    {6, "values", PROTO_INT64, .is_repeated = true},
    {7, "tree", PROTO_BYTES},
    {8, "isGood", PROTO_BOOL},
    {9, "count", PROTO_INT32},
    {10, "size", PROTO_UINT64},
    {11, "names", PROTO_STRING, .is_repeated = true},
    {0},
};

static struct buf text;

static int from_json(const char *json, struct error *err)
{
    struct budget budget;
    CLEANUP(buf_done) struct buf out = {0};
    budget_init(&budget, 1 << 20);
    buf_done(&text);
    int r = proto_from_json(message, bytes_of(json), &budget, &out, err);
    if (budget.used != 0)
        abort();
    return r < 0 ? r : proto_to_json(message, buf_bytes(&out), &text, err);
}

/* What JSON becomes, by way of protobuf, as JSON again. */
static const char *again(const char *json)
{
    struct error err = {0};
    return from_json(json, &err) < 0 ? "" : buf_cstr(&text);
}

static void takes_keys_in_every_spelling(struct test *t)
{
    const char *want = "{\"profileTypeID\":\"a\",\"callSite\":[{\"name\":\"f\"}]}";
    CHECK_STR(t, again("{\"profile_typeID\":\"a\",\"call_site\":[{\"name\":\"f\"}]}"), want);
    CHECK_STR(t, again("{\"profileTypeID\":\"a\",\"callSite\":[{\"name\":\"f\"}]}"), want);
    CHECK_STR(t, again("{\"profile_type_id\":\"a\",\"callsite\":[{\"name\":\"f\"}]}"), want);
    CHECK_STR(t, again("{\"profile_type\":\"a\",\"profile_type_idx\":1}"), "{}");
}

static void carries_every_kind_of_value(struct test *t)
{
    const char *json = "{\"profileTypeID\":\"\\u00e9\",\"start\":\"-5\",\"step\":1.5,"
                       "\"colour\":\"GREEN\",\"values\":[\"1\",\"-2\"],\"tree\":\"AAEC/w==\","
                       "\"isGood\":true,\"count\":-3,\"size\":\"18446744073709551615\","
                       "\"names\":[\"x\",\"y\"]}";
    CHECK_STR(t, again(json),
              "{\"profileTypeID\":\"\xc3\xa9\",\"start\":\"-5\",\"step\":1.5,"
              "\"colour\":\"GREEN\",\"values\":[\"1\",\"-2\"],\"tree\":\"AAEC/w==\","
              "\"isGood\":true,\"count\":-3,\"size\":\"18446744073709551615\","
              "\"names\":[\"x\",\"y\"]}");
}

static void takes_numbers_for_text_and_the_other_way_round(struct test *t)
{
    CHECK_STR(t, again("{\"start\":1700000000000,\"step\":\"15\",\"colour\":1,\"values\":[7]}"),
              "{\"start\":\"1700000000000\",\"step\":15,\"colour\":\"GREEN\",\"values\":[\"7\"]}");
    CHECK_STR(t, again("{\"tree\":\"_-8\"}"), "{\"tree\":\"/+8=\"}");
}

static void skips_what_it_does_not_know(struct test *t)
{
    CHECK_STR(t, again("{\"other\":{\"deep\":[1,{}]},\"start\":null,\"names\":null}"), "{}");
    CHECK_STR(t, again(""), "{}");
    CHECK_STR(t, again(" \n"), "{}");
    CHECK_STR(t, again("{\"colour\":9}"), "{\"colour\":9}");
}

static void refuses_bad_json_and_says_where(struct test *t)
{
    static const struct {
        const char *json, *why;
    } cases[] = {
        {"{\"start\":", "JSON message at byte 9"},
        {"[]", "JSON message at byte 0"},
        {"{\"start\":\"x\"}", "JSON message at byte"},
        {"{\"colour\":\"BLUE\"}", "\"BLUE\" is no value of \"colour\""},
        {"{\"tree\":\"AAAAA\"}", "\"tree\" is not base64"},
        {"{\"tree\":\"A*==\"}", "\"tree\" is not base64"},
        {"{\"names\":\"x\"}", "JSON message at byte"},
        {"{} x", "JSON message at byte"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct error err = {0};
        CHECK_INT(t, from_json(cases[i].json, &err), -EBADMSG);
        if (!strstr(err.text, cases[i].why))
            CHECK_STR(t, err.text, cases[i].why);
    }
}

static void gathers_fields_that_lie_apart(struct test *t)
{
    CLEANUP(buf_done) struct buf in = {0};
    pb_put_bytes(&in, 11, BYTES("x"));
    pb_put_u64(&in, 2, 1);
    pb_put_bytes(&in, 11, BYTES("y"));
    pb_put_u64(&in, 2, 7);
    pb_put_bytes(&in, 6, BYTES("\x01\x02"));
    pb_put_u64(&in, 6, 3);
    buf_done(&text);
    CHECK_INT(t, proto_to_json(message, buf_bytes(&in), &text, NULL), 0);
    CHECK_STR(t, buf_cstr(&text),
              "{\"start\":\"7\",\"values\":[\"1\",\"2\",\"3\"],\"names\":[\"x\",\"y\"]}");
}

static void refuses_messages_that_are_none(struct test *t)
{
    static const struct {
        const char *in, *why;
    } cases[] = {
        {"\x08\x01", "bytes were expected and a number was found"},
        {"\x12\x01x", "a number was expected and bytes were found"},
        {"\x0a\x05x", "a length runs past the end of its message"},
        {"\x1a\x02\x0a\x09", "a length runs past the end of its message"},
        {"\x32\x01\x80", "a packed number is cut short or too long"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct error err = {0};
        buf_done(&text);
        CHECK_INT(t, proto_to_json(message, bytes_of(cases[i].in), &text, &err), -EBADMSG);
        if (!strstr(err.text, cases[i].why))
            CHECK_STR(t, err.text, cases[i].why);
    }
}

static void strings_are_made_utf8(struct test *t)
{
    CLEANUP(buf_done) struct buf out = {0};
    proto_put_text(&out, 1, BYTES("a\xff\xc3\xa9\xc3"));
    CHECK(t, bytes_equal(buf_bytes(&out), BYTES("\x0a\x09"
                                                "a\xef\xbf\xbd\xc3\xa9\xef\xbf\xbd")));
    buf_clear(&out);
    proto_put_text(&out, 1, BYTES("plain"));
    CHECK(t, bytes_equal(buf_bytes(&out), BYTES("\x0a\x05plain")));
    buf_done(&text);
}

static const struct test_case cases[] = {
    TEST(takes_keys_in_every_spelling),
    TEST(carries_every_kind_of_value),
    TEST(takes_numbers_for_text_and_the_other_way_round),
    TEST(skips_what_it_does_not_know),
    TEST(refuses_bad_json_and_says_where),
    TEST(gathers_fields_that_lie_apart),
    TEST(refuses_messages_that_are_none),
    TEST(strings_are_made_utf8),
};
TEST_MAIN(cases)

#include "server/stored.h"

/* Questions about a profile in the body. */
#define FOLDED "main;serve;sort 100\nmain;serve;parse 60\nmain;idle 40\n"
#define LATER  "main;serve;sort 100\nmain;serve;parse 30\n"

static void ask(struct test *t, struct calls *c, const char *target, struct bytes body, int status,
                const char *want)
{
    CHECK_POST(t, c, target, "application/octet-stream", body, status, want);
}

static void answers_what_the_store_is_asked(struct test *t)
{
    static const struct {
        const char *target, *want;
    } cases[] = {
        {"top?limit=1", "\"total\":200,"},
        {"top?limit=1", "\"all_rows\":5,\"rows\":[{\"name\":\"sort\",\"file\":\"\",\"flat\":100"},
        {"top?focus=parse", "\"total\":60"},
        {"top?focus=nothing_such", "Focus expression matched no samples"},
        {"flame", "\"total\":[200,200,160,100,60,40]"},
        {"flame?invert=1&max_nodes=3", "\"cut_nodes\":"},
        {"flame?under=main&under=serve", "\"sort\",\"parse\""},
        {"callers?function=serve", "\"callers\":[{\"name\":\"main\",\"file\":\"\",\"cum\":160}]"},
        {"graph", "\"edges\":[{"},
        {"stacks?limit=1", "\"stacks\":{\"value\":[100],\"end\":[3]}"},
        {"profile.folded", "main;serve;sort 100\n"},
        {"profile.speedscope.json", "speedscope"},
        {"profile.json", "resourceProfiles"},
        {"flame.svg", "<svg"},
        {"info", "\"format\":\"collapsed\""},
        {"info", "\"types\":[{\"type\":\"samples\",\"unit\":\"count\",\"total\":200}]"},
        {"top?input_format=pyroscope-lines", "\"total\":3"},
        {"top?type=samples", "\"total\":200"},
        {"top?type=samples:count", "\"total\":200"},
    };
    struct calls c;
    calls_begin(t, &c);

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char target[128];
        snprintf(target, sizeof(target), "/api/v1/file/%s", cases[i].target);
        ask(t, &c, target, BYTES(FOLDED), 200, cases[i].want);
    }
    CHECK_STORED(t, &c, ""); /* nothing is kept */
    calls_end(&c);
}

/* A body that would be parameters elsewhere is none here. */
static void a_body_is_no_parameters(struct test *t)
{
    struct calls c;
    calls_begin(t, &c);

    CHECK_POST(t, &c, "/api/v1/file/top", "application/x-www-form-urlencoded", BYTES(FOLDED), 200,
               "\"total\":200");
    CHECK_POST(t, &c, "/api/v1/file/top", "application/json", BYTES("{\"query\":\"cpu\"}"), 400,
               "not a profile in any known format");
    calls_end(&c);
}

static void refuses_and_says_why(struct test *t)
{
    static const struct {
        const char *target, *body;
        int status;
        const char *why;
    } cases[] = {
        {"top", "", 400, "the body is empty"},
        {"top", "hello", 400, "the body: not a profile in any known format"},
        {"top?from=now-1h", FOLDED, 400, "takes no parameter \\\"from\\\""},
        {"top?query=cpu", FOLDED, 400, "takes no parameter \\\"query\\\""},
        {"top?limmit=3", FOLDED, 400, "did you mean \\\"limit\\\""},
        {"top?type=cpu", FOLDED, 400, "type: "},
        {"top?focus=%28", FOLDED, 400, "focus"},
        {"top?input_format=x", FOLDED, 400, "no format \\\"x\\\" can be read"},
        {"callers", FOLDED, 400, "\\\"function\\\" is missing"},
        {"callers?function=x", FOLDED, 404, "x"},
        {"timeline", FOLDED, 501, "a file is one moment"},
        {"function?function=x", FOLDED, 501, "a file is one moment"},
        {"heatmap", FOLDED, 404, "do not say when"},
        {"services", FOLDED, 404, "nothing that a file can be asked"},
        {"../top", FOLDED, 404, "nothing that a file can be asked"},
        {"diff", FOLDED, 400, "before_bytes and after_bytes say"},
        {"diff?before_bytes=0&after_bytes=0", "", 400, "the body holds no file"},
        {"diff?before_bytes=3&after_bytes=4", FOLDED, 400, "3 and 4 are not the "},
        {"diff?before_bytes=x", FOLDED, 400, "before_bytes takes a number of bytes"},
        {"diff?before_bytes=18446744073709551615&after_bytes=58", FOLDED, 400, "are not the "},
    };
    struct calls c;
    calls_begin(t, &c);

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char target[160];
        snprintf(target, sizeof(target), "/api/v1/file/%s", cases[i].target);
        ask(t, &c, target, bytes_of(cases[i].body), cases[i].status, cases[i].why);
    }
    struct http_reply r = call_get(&c, "/api/v1/file/top");
    CHECK_INT(t, r.status, 405);
    http_reply_done(&r);
    calls_end(&c);
}

static void limits_bite_and_are_named(struct test *t)
{
    CLEANUP(buf_done) struct buf text = {0};
    struct calls c;
    calls_config(&c);
    c.config.body_limit = 4000;
    c.config.query_memory_limit = 20000;
    calls_open(t, &c);

    while (text.len < 3900)
        buf_addf(&text, "main;f%zu 1\n", text.len);
    ask(t, &c, "/api/v1/file/top", buf_bytes(&text), 413, "limits.query_memory");
    while (text.len < 4100)
        buf_addf(&text, "main;f%zu 1\n", text.len);
    ask(t, &c, "/api/v1/file/top", buf_bytes(&text), 413, "is larger than limits.body, 4000");
    calls_end(&c);
}

static void compares_files_and_what_is_stored(struct test *t)
{
    struct calls c;
    char target[200];
    calls_begin(t, &c);

    snprintf(target, sizeof(target), "/api/v1/file/diff/table?before_bytes=%zu&after_bytes=%zu",
             strlen(FOLDED), strlen(LATER));
    ask(t, &c, target, BYTES(FOLDED LATER), 200, "\"total\":200");
    ask(t, &c, target, BYTES(FOLDED LATER), 200, "\"before_flat\":60,\"after_flat\":30");
    snprintf(target, sizeof(target), "/api/v1/file/diff?before_bytes=%zu&after_bytes=%zu",
             strlen(FOLDED), strlen(LATER));
    ask(t, &c, target, BYTES(FOLDED LATER), 200, "\"before_total\":[200,");

    CHECK_POST(t, &c, "/api/v1/profiles?service.name=shop", "", BYTES(FOLDED), 200, "\"stored\":1");
    snprintf(target, sizeof(target),
             "/api/v1/file/diff/table?before_bytes=0&after_bytes=%zu&query=samples&until=now%%2B1m",
             strlen(LATER));
    ask(t, &c, target, BYTES(LATER), 200, "\"before_flat\":60,\"after_flat\":30");
    calls_end(&c);
}

static void a_file_without_a_profile_is_told(struct test *t)
{
    struct calls c;
    calls_begin(t, &c);
    ask(t, &c, "/api/v1/file/top", BYTES("{\"resourceProfiles\":[]}"), 400, "the body");
    calls_end(&c);
}

static void the_description_has_them(struct test *t)
{
    struct calls c;
    calls_begin(t, &c);
    struct http_reply r = call_get(&c, "/api/v1/openapi.json");
    CHECK(t, reply_has(&r, "\"/api/v1/file/top\""));
    CHECK(t, reply_has(&r, "\"/api/v1/file/info\""));
    CHECK(t, reply_has(&r, "before_bytes"));
    CHECK(t, !reply_has(&r, "\"/api/v1/file/{rest}\""));
    http_reply_done(&r);
    calls_end(&c);
}

static const struct test_case cases[] = {
    TEST(answers_what_the_store_is_asked),
    TEST(a_body_is_no_parameters),
    TEST(refuses_and_says_why),
    TEST(limits_bite_and_are_named),
    TEST(compares_files_and_what_is_stored),
    TEST(a_file_without_a_profile_is_told),
    TEST(the_description_has_them),
};
TEST_MAIN(cases)

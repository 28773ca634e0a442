#include "lib/calls.h"
#include "server/web_pages.h"

static void the_best_encoding_that_is_accepted_is_sent(struct test *t)
{
    static const struct web_asset all = {.plain = {(const uint8_t *)"plain", 5},
                                         .gzip = {(const uint8_t *)"gz", 2},
                                         .brotli = {(const uint8_t *)"b", 1}};
    static const struct web_asset small = {.plain = {(const uint8_t *)"plain", 5}};
    static const struct {
        const char *accepted, *coding;
        size_t len;
    } wanted[] = {
        {"gzip, deflate, br, zstd", "br", 1},
        {"br;q=0, gzip", "gzip", 2},
        {"GZIP;q=0.5", "gzip", 2},
        {"gzip;q=0", NULL, 5},
        {"zstd", NULL, 5},
        {"brotli, gzipped", NULL, 5},
        {"", NULL, 5},
    };

    for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
        const char *coding = "?";
        struct bytes body = web_asset_body(&all, bytes_of(wanted[i].accepted), &coding);
        CHECK_INT(t, body.len, wanted[i].len);
        CHECK_STR(t, coding ? coding : "none", wanted[i].coding ? wanted[i].coding : "none");
        /* What packing did not make smaller there is plain only. */
        body = web_asset_body(&small, bytes_of(wanted[i].accepted), &coding);
        CHECK_INT(t, body.len, 5);
        CHECK(t, !coding);
    }
}

static void tags_are_found_in_lists(struct test *t)
{
    CHECK(t, web_has_tag(BYTES("\"abc\""), "\"abc\""));
    CHECK(t, web_has_tag(BYTES(" \"x\" , W/\"abc\",\"y\""), "\"abc\""));
    CHECK(t, web_has_tag(BYTES(" * "), "\"abc\""));
    CHECK(t, !web_has_tag(BYTES(""), "\"abc\""));
    CHECK(t, !web_has_tag(BYTES(","), "\"abc\""));
    CHECK(t, !web_has_tag(BYTES("abc, \"abc"), "\"abc\""));
    CHECK(t, !web_has_tag(BYTES("\"abc-br\""), "\"abc\""));
}

static void check_base(struct test *t, const char *url, const char *expected)
{
    CLEANUP(buf_done) struct buf out = {0};
    web_base_path(url, &out);
    CHECK_STR(t, buf_cstr(&out), expected);
}

static void the_base_is_the_path_of_the_external_url(struct test *t)
{
    check_base(t, "", "/");
    check_base(t, "https://example.com", "/");
    check_base(t, "https://example.com/", "/");
    check_base(t, "https://example.com/tools/vesta", "/tools/vesta/");
    check_base(t, "https://example.com/tools/vesta//?a=b#c", "/tools/vesta/");
    check_base(t, "https://example.com/\"><script>'&", "/&quot;&gt;&lt;script&gt;&#39;&amp;/");
}

static void nothing_in_the_page_ends_its_elements(struct test *t)
{
    struct calls c;
    bool is_built = web_page.after_boot.len > 0;

    calls_config(&c);
    c.config.external_url = "https://example.com/a</script><!--b/";
    calls_open(t, &c);
    struct http_reply r = call_get(&c, "/");
    CHECK_INT(t, r.status, 200);
    CHECK(t, reply_has(&r, "<!doctype html>"));
    if (is_built) {
        CHECK(t, reply_has(&r, "<base href=\"/a&lt;/script&gt;&lt;!--b/\">"));
        CHECK(t, reply_has(
                     &r, "{\"version\":\"" VESTA_VERSION "\",\"needs_token\":false,"
                         "\"external_url\":\"https://example.com/a\\u003c/script>\\u003c!--b/\"}"));
        CHECK(t, !reply_has(&r, "<!--"));
    } else {
        CHECK(t, reply_has(&r, "without its web UI"));
    }
    http_reply_done(&r);
    calls_end(&c);
}

static void places_within_the_page_get_it(struct test *t)
{
    struct calls c;
    bool is_built = web_page.after_boot.len > 0;
    static const char *const html[] = {"accept", "text/html,*/*;q=0.8", NULL};
    static const struct {
        const char *path;
        bool is_page;
    } wanted[] = {
        {"/explore", true},      {"/compare/this/and.that/x", true},
        {"/explore.php", false}, {"/api/v1/nothing", false},
        {"/assets/x.js", false}, {"/assets/../../etc/passwd.txt", false},
        {"/v1/nothing", false},
    };

    calls_begin(t, &c);
    for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
        struct http_reply r = call_send(&c, "GET", wanted[i].path, html, (struct bytes){0});
        CHECK_INT(t, r.status, is_built && wanted[i].is_page ? 200 : 404);
        http_reply_done(&r);
        r = call_get(&c, wanted[i].path);
        CHECK_INT(t, r.status, 404);
        http_reply_done(&r);
    }
    calls_end(&c);
}

static const struct test_case cases[] = {
    TEST(the_best_encoding_that_is_accepted_is_sent),
    TEST(tags_are_found_in_lists),
    TEST(the_base_is_the_path_of_the_external_url),
    TEST(nothing_in_the_page_ends_its_elements),
    TEST(places_within_the_page_get_it),
};
TEST_MAIN(cases)

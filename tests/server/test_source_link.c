#include "base/cleanup.h"
#include "lib/test.h"
#include "server/source_link.h"

static const struct config_list strip = {.items = {"/app", "/build/shop"}, .n = 2};

static void check_link(struct test *t, const char *repository, const char *path,
                       const char *template, const char *want, const char *want_anchor)
{
    CLEANUP(buf_done) struct buf got = {0};
    struct source_place p = {.repository = bytes_of(repository),
                             .commit = BYTES("abc123"),
                             .service = BYTES("shop"),
                             .version = BYTES("1.2"),
                             .path = bytes_of(path)};
    struct source_link_options o = {.template = template, .strip = &strip};
    const char *anchor = "";
    bool is_made = source_link(&p, &o, &got, &anchor);
    CHECK_INT(t, is_made, want != NULL);
    if (is_made && want) {
        CHECK_STR(t, buf_cstr(&got), want);
        CHECK_STR(t, anchor, want_anchor);
    }
}

static void hosts_have_their_shapes(struct test *t)
{
    check_link(t, "https://github.com/x/shop.git", "/app/src/a b.c", "",
               "https://github.com/x/shop/blob/abc123/src/a%20b.c", "#L");
    check_link(t, "git@gitlab.com:group/sub/shop.git", "/app/a.c", "",
               "https://gitlab.com/group/sub/shop/-/blob/abc123/a.c", "#L");
    check_link(t, "ssh://git@bitbucket.org:7999/x/shop", "/app/a.c", "",
               "https://bitbucket.org/x/shop/src/abc123/a.c", "#lines-");
    check_link(t, "https://codeberg.org/x/shop/", "/app/a.c", "",
               "https://codeberg.org/x/shop/src/commit/abc123/a.c", "#L");
    check_link(t, "https://git.sr.ht/~x/shop", "/app/a.c", "",
               "https://git.sr.ht/~x/shop/tree/abc123/item/a.c", "#L");
    check_link(t, "http://git.example.com:3000/x/shop", "/app/a.c", "",
               "http://git.example.com:3000/x/shop/blob/abc123/a.c", "#L");
}

static void places_follow_from_paths(struct test *t)
{
    const char *repository = "https://github.com/x/shop";
    const char *want = "https://github.com/x/shop/blob/abc123/src/a.c";

    check_link(t, repository, "/build/shop/src/a.c", "", want, "#L");
    check_link(t, repository, "src/a.c", "", want, "#L");
    check_link(t, repository, "/home/runner/work/shop/shop/src/a.c", "", want, "#L");
    check_link(t, repository, "github.com/x/shop/src/a.c", "", want, "#L");
    check_link(t, repository, "/go/pkg/mod/github.com/x/shop@v1.2.0/src/a.c", "", want, "#L");
    check_link(t, repository, "webpack:///./src/a.c", "", want, "#L");
    check_link(t, repository, "/usr/include/stdio.h", "", NULL, "");
    check_link(t, repository, "C:/x/a.c", "", NULL, "");
    check_link(t, repository, "", "", NULL, "");
}

/* Labels are said by whoever sends profiles. */
static void nothing_hostile_becomes_a_link(struct test *t)
{
    check_link(t, "javascript:alert(1)//x/y", "/app/a.c", "", NULL, "");
    check_link(t, "file:///etc/passwd", "/app/a.c", "", NULL, "");
    check_link(t, "https://", "/app/a.c", "", NULL, "");
    check_link(t, "https://host", "/app/a.c", "", NULL, "");
    check_link(t, "https://ho\"st/x", "/app/a.c", "", NULL, "");
    check_link(t, "nothing", "/app/a.c", "", NULL, "");
    check_link(t, "/srv/git/shop", "/app/a.c", "", NULL, "");
    check_link(t, "https://user:secret@github.com/x/shop", "/app/<b>\".c", "",
               "https://github.com/x/shop/blob/abc123/%3Cb%3E%22.c", "#L");
}

static void templates_are_filled_in(struct test *t)
{
    check_link(t, "", "/app/src/a.c", "https://code/{service}/{commit}/{path}#{line}",
               "https://code/shop/abc123/src/a.c#1", "");
    check_link(t, "git@host:x/shop.git", "/app/a.c", "{repository}/at/{version}/{path}",
               "https://host/x/shop/at/1.2/a.c", "");
    check_link(t, "", "/app/a.c", "{repository}/{path}", NULL, "");
    check_link(t, "", "/app/a.c", "https://code/{unknown}/{path", "https://code//", "");
}

static const struct test_case cases[] = {
    TEST(hosts_have_their_shapes),
    TEST(places_follow_from_paths),
    TEST(nothing_hostile_becomes_a_link),
    TEST(templates_are_filled_in),
};
TEST_MAIN(cases)

#include "lib/test.h"
#include "profile/path.h"

static void clean_gives_the_shortest_spelling(struct test *t)
{
    static const char *const cases[][2] = {
        {"", "."},         {".", "."},           {"/", "/"},
        {"a//b/", "a/b"},  {"/../a", "/a"},      {"../../a", "../../a"},
        {"a/../..", ".."}, {"a/b/../../c", "c"}, {"./a/./b", "a/b"},
        {"/a/..", "/"},    {"a/..", "."},        {"../a/../b", "../b"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct buf out = {0};
        path_clean(bytes_of(cases[i][0]), &out);
        CHECK_STR(t, buf_cstr(&out), cases[i][1]);
        buf_done(&out);
    }
}

static void base_is_the_last_element(struct test *t)
{
    CHECK(t, bytes_are(path_base(BYTES("/a/b")), "b"));
    CHECK(t, bytes_are(path_base(BYTES("a/b//")), "b"));
    CHECK(t, bytes_are(path_base(BYTES("a")), "a"));
    CHECK(t, bytes_are(path_base(BYTES("//")), "/"));
    CHECK(t, bytes_are(path_base(BYTES("")), "."));
}

static void trim_takes_off_what_only_the_build_machine_knew(struct test *t)
{
    static const struct {
        const char *path, *trim, *search, *want;
    } cases[] = {
        {"/build/src/a.c", "/build", NULL, "src/a.c"},
        {"/build/src/a.c", "/x:/build/src/", NULL, "a.c"},
        {"/buildx/a.c", "/build", NULL, "/buildx/a.c"},
        {"/proc/self/cwd/./a.c", NULL, NULL, "a.c"},
        {"/proc/self/cwd/a.c", "/x", NULL, "a.c"},
        {"/remote/proj/sub/a.c", NULL, "/home/me/proj", "sub/a.c"},
        {"/remote/projx/proj/a.c", "", "/other:/home/proj", "a.c"},
        {"/remote/proj/a.c", "/x", "/home/proj", "/remote/proj/a.c"},
        {"/a.c", NULL, "", "/a.c"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct bytes got = path_trim(bytes_of(cases[i].path), cases[i].trim, cases[i].search);
        CHECK(t, bytes_are(got, cases[i].want));
    }
}

static const struct test_case cases[] = {
    TEST(clean_gives_the_shortest_spelling),
    TEST(base_is_the_last_element),
    TEST(trim_takes_off_what_only_the_build_machine_knew),
};
TEST_MAIN(cases)

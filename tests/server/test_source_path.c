#include "base/cleanup.h"
#include "lib/test.h"
#include "server/source_path.h"

static void cleans_names(struct test *t)
{
    static const struct {
        struct bytes name;
        const char *want; /* NULL: refused */
    } cases[] = {
        {BYTES("src/a.c"), "src/a.c"},
        {BYTES("./src//a.c"), "src/a.c"},
        {BYTES("/src/./a.c"), "src/a.c"},
        {BYTES("src/a b.c"), "src/a b.c"},
        {BYTES("..."), "..."},
        {BYTES("../a.c"), NULL},
        {BYTES("src/../../a.c"), NULL},
        {BYTES(""), NULL},
        {BYTES("./"), NULL},
        {BYTES("/"), NULL},
        {BYTES("a\0b"), NULL},
        {BYTES("a\nb"), NULL},
    };
    CLEANUP(buf_done) struct buf got = {0};

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        bool is_clean = source_name_clean(cases[i].name, &got);
        CHECK_INT(t, is_clean, cases[i].want != NULL);
        if (is_clean && cases[i].want)
            CHECK_STR(t, buf_cstr(&got), cases[i].want);
    }
    CLEANUP(buf_done) struct buf lengthy = {0};
    while (lengthy.len <= SOURCE_NAME_MAX)
        buf_add_str(&lengthy, "abc/");
    CHECK(t, !source_name_clean(buf_bytes(&lengthy), &got));
}

static void fits_names_to_paths(struct test *t)
{
    static const struct {
        const char *name, *path;
        unsigned want;
    } cases[] = {
        {"src/a.c", "/build/shop/src/a.c", 5},
        {"src/a.c", "src/a.c", 5},
        {"shop/src/a.c", "/build/src/a.c", 4},
        {"a.c", "/build/src/a.c", 3},
        {"src/a.c", "a.c", 3},
        {"src/a.c", "/build/lib/a.c", 0},
        {"src/a.c", "/build/src/b.c", 0},
        {"src/a.c", "xsrc/a.c", 0},
        {"src/a.ts", "webpack:///./src/a.ts", 5},
        {"src/a.cs", "C:\\code\\src\\a.cs", 5},
        {"src/a.js", "file:///app/src/a.js", 5},
        {"src/a.c", "", 0},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        CHECK_INT(t, source_name_fits(bytes_of(cases[i].name), bytes_of(cases[i].path)),
                  cases[i].want);
}

static void takes_folders_off(struct test *t)
{
    struct bytes rest = {0};
    CHECK(t, source_path_below(BYTES("/app/src/a.c"), BYTES("/app"), &rest));
    CHECK(t, bytes_are(rest, "src/a.c"));
    CHECK(t, source_path_below(BYTES("/app/src/a.c"), BYTES("/app/"), &rest));
    CHECK(t, bytes_are(rest, "src/a.c"));
    CHECK(t, source_path_below(BYTES("/app/a.c"), BYTES(""), &rest));
    CHECK(t, bytes_are(rest, "app/a.c"));
    CHECK(t, !source_path_below(BYTES("/apple/a.c"), BYTES("/app"), &rest));
    CHECK(t, !source_path_below(BYTES("/app"), BYTES("/app"), &rest));
}

static const struct test_case cases[] = {
    TEST(cleans_names),
    TEST(fits_names_to_paths),
    TEST(takes_folders_off),
};
TEST_MAIN(cases)

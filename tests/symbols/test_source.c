#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/test.h"
#include "symbols/source.h"

static char dir[] = "/tmp/vesta-source-XXXXXX";

static void write_file(const char *name, const char *text)
{
    char path[256];
    FILE *f;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    f = fopen(path, "w");
    fputs(text, f);
    fclose(f);
}

static void make_tree(void)
{
    char command[256];

    if (mkdtemp(dir)) {
        snprintf(command, sizeof(command), "mkdir -p %s/proj/lib/deep", dir);
        if (system(command) != 0)
            abort();
        write_file("proj/main.c", "int main(void)\r\n{\n\treturn 0;\n}");
        write_file("proj/lib/util.c", "one\n\nthree\n");
    }
}

/* Opens and says where it was found, or why not. */
static const char *look(const char *file, const char *trim, const char *search)
{
    static char text[600];
    struct source_file *s = NULL;
    struct error err;

    if (source_open(file, trim, search, &s, &err) < 0)
        snprintf(text, sizeof(text), "%s", err.text);
    else
        snprintf(text, sizeof(text), "%s", source_path(s));
    source_close(s);
    return text;
}

static void finds_files_as_pprof_does(struct test *t)
{
    char proj[64], deep[96], want_main[96], want_util[96];

    make_tree();
    snprintf(proj, sizeof(proj), "%s/proj", dir);
    snprintf(deep, sizeof(deep), "/nonexistent:%s/proj/lib/deep", dir);
    snprintf(want_main, sizeof(want_main), "%s/proj/main.c", dir);
    snprintf(want_util, sizeof(want_util), "%s/proj/lib/util.c", dir);

    CHECK_STR(t, look(want_main, NULL, NULL), want_main);
    CHECK_STR(t, look("main.c", NULL, proj), want_main);
    CHECK_STR(t, look("lib/util.c", NULL, proj), want_util);
    /* The folder of the search path stands in the name. */
    CHECK_STR(t, look("/build/x/proj/lib/util.c", NULL, proj), want_util);
    /* A prefix to take off. */
    CHECK_STR(t, look("/build/x/lib/util.c", "/other:/build/x", proj), want_util);
    /* Folders above the one that was named. */
    CHECK_STR(t, look("lib/util.c", NULL, deep), want_util);
    CHECK_STR(t, look("main.c", NULL, deep), want_main);

    CHECK_STR(t, look("/gone/a.c", NULL, "/nonexistent"),
              "could not find file /gone/a.c on path /nonexistent");
    CHECK_STR(t, look("gone.c", NULL, "/nonexistent:/tmp"),
              "could not find file gone.c on path /nonexistent:/tmp");
    CHECK_STR(t, look("", NULL, NULL), "could not find file  on path .");
    CHECK_STR(t, look(dir, NULL, "/x"),
              (snprintf(want_main, sizeof(want_main), "could not find file %s on path /x", dir),
               want_main));
}

static void gives_lines_by_number(struct test *t)
{
    struct source_file *s = NULL;
    struct error err;
    char path[96];

    snprintf(path, sizeof(path), "%s/proj/main.c", dir);
    CHECK_INT(t, source_open(path, NULL, NULL, &s, &err), 0);
    CHECK_INT(t, source_line_count(s), 4);
    CHECK(t, bytes_are(source_line(s, 1), "int main(void)"));
    CHECK(t, bytes_are(source_line(s, 3), "\treturn 0;"));
    CHECK(t, bytes_are(source_line(s, 4), "}"));
    CHECK_INT(t, source_line(s, 0).len, 0);
    CHECK_INT(t, source_line(s, 5).len, 0);
    source_close(s);
    snprintf(path, sizeof(path), "%s/proj/lib/util.c", dir);
    CHECK_INT(t, source_open(path, NULL, NULL, &s, &err), 0);
    CHECK_INT(t, source_line_count(s), 3);
    CHECK_INT(t, source_line(s, 2).len, 0);
    source_close(s);
}

static void refuses_what_is_too_large(struct test *t)
{
    struct source_file *s = NULL;
    struct error err;
    char path[96], command[128];

    snprintf(path, sizeof(path), "%s/huge.c", dir);
    write_file("huge.c", "x");
    CHECK_INT(t, truncate(path, 65 << 20), 0);
    CHECK_INT(t, source_open(path, NULL, NULL, &s, &err), -EFBIG);
    CHECK(t, strstr(err.text, "has 68157440 bytes, the limit for source is 67108864"));
    snprintf(command, sizeof(command), "rm -r %s", dir);
    CHECK_INT(t, system(command), 0);
}

static const struct test_case cases[] = {
    TEST(finds_files_as_pprof_does),
    TEST(gives_lines_by_number),
    TEST(refuses_what_is_too_large),
};
TEST_MAIN(cases)

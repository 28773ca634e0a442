#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "lib/test.h"
#include "scrape/discover.h"

#define SECOND_NS ((int64_t)1000000000)

struct world {
    char dir[32];
    struct budget budget;
    struct arena arena;
    struct scrape_jobs jobs;
    struct discover *d;
    struct buf problems;
};

static void world_init(struct test *t, struct world *w)
{
    char yaml[256];
    const struct config_node *list = NULL;
    struct error err = {""};

    *w = (struct world){.dir = "/tmp/vesta-scrape-XXXXXX"};
    CHECK(t, mkdtemp(w->dir) != NULL);
    budget_init(&w->budget, 1 << 20);
    arena_init(&w->arena, &w->budget);
    snprintf(yaml, sizeof(yaml),
             "- job_name: a\n  file_sd_configs: [{files: ['%s/*.json', '%s/b.yml']}]\n", w->dir,
             w->dir);
    CHECK_INT(t, config_node_read(bytes_of(yaml), &w->arena, &list, &err), 0);
    CHECK_INT(t, scrape_jobs_parse(list, &w->jobs, &err), 0);
    CHECK_STR(t, err.text, "");
    w->d = discover_new(&w->jobs.items[0]);
}

static void world_done(struct world *w)
{
    char path[64];

    for (const char *const *name = (const char *const[]){"a.json", "b.yml", "c.json", NULL}; *name;
         name++) {
        snprintf(path, sizeof(path), "%s/%s", w->dir, *name);
        unlink(path);
    }
    rmdir(w->dir);
    discover_free(w->d);
    scrape_jobs_done(&w->jobs);
    arena_done(&w->arena);
    buf_done(&w->problems);
}

static void write_file(struct test *t, const struct world *w, const char *name, const char *text)
{
    char path[64], next[64];

    /* As tools do: another file takes its place. */
    snprintf(path, sizeof(path), "%s/%s", w->dir, name);
    snprintf(next, sizeof(next), "%s/next", w->dir);
    FILE *f = fopen(next, "w");
    CHECK(t, f && fputs(text, f) >= 0 && fclose(f) == 0 && rename(next, path) == 0);
}

static void add_address(void *arg, const struct tags *t)
{
    buf_addf(arg, "%s[%s] ", tags_get(t, "__address__"), tags_get(t, "env"));
}

static void check_found(struct test *t, struct world *w, int64_t at_s, const char *want)
{
    CLEANUP(buf_done) struct buf found = {0};

    buf_clear(&w->problems);
    discover_refresh(w->d, at_s * SECOND_NS, &w->problems);
    discover_each(w->d, add_address, &found);
    CHECK_STR(t, buf_cstr(&found), want);
}

static void files_are_followed(struct test *t)
{
    struct world w;

    world_init(t, &w);
    check_found(t, &w, 1, "");
    CHECK(t, strstr(buf_cstr(&w.problems), "b.yml\": No such file"));
    write_file(t, &w, "a.json",
               "[{\"targets\": [\"x:1\", \"y:2\"], \"labels\": {\"env\": \"e\"}}]");
    check_found(t, &w, 2, "x:1[e] y:2[e] ");
    CHECK_STR(t, buf_cstr(&w.problems), "");
    write_file(t, &w, "b.yml", "- targets: ['z:3']\n");
    check_found(t, &w, 3, "x:1[e] y:2[e] z:3[] ");
    write_file(t, &w, "a.json", "[{\"targets\": [\"y:2\"]}]");
    check_found(t, &w, 4, "y:2[] z:3[] ");
    write_file(t, &w, "c.json", "[{\"targets\": [\"c:4\"]}]");
    check_found(t, &w, 5, "y:2[] c:4[] z:3[] ");
    /* One that a pattern found and that is gone takes its targets along. */
    char path[64];
    snprintf(path, sizeof(path), "%s/c.json", w.dir);
    unlink(path);
    check_found(t, &w, 6, "y:2[] z:3[] ");
    CHECK_INT(t, discover_next_ns(w.d), 7 * SECOND_NS);
    world_done(&w);
}

static void what_cannot_be_read_changes_nothing_and_is_told_once(struct test *t)
{
    struct world w;

    world_init(t, &w);
    write_file(t, &w, "a.json", "[{\"targets\": [\"x:1\"]}]");
    write_file(t, &w, "b.yml", "[]");
    check_found(t, &w, 1, "x:1[] ");
    write_file(t, &w, "a.json", "[{\"targets\": [\"x:1\"");
    check_found(t, &w, 2, "x:1[] ");
    CHECK(t, strstr(buf_cstr(&w.problems), "a.json: line 2: did not find expected"));
    CHECK(t, strstr(buf_cstr(&w.problems), "; what was found there before stays\n"));
    write_file(t, &w, "a.json", "[{\"targets\": [\"http://x\"]}]");
    check_found(t, &w, 3, "x:1[] ");
    CHECK_STR(t, buf_cstr(&w.problems), "");
    write_file(t, &w, "a.json", "[{\"targets\": [\"n:9\"]}]");
    check_found(t, &w, 4, "n:9[] ");
    world_done(&w);
}

static void files_of_other_shapes_are_refused(struct test *t)
{
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"{\"targets\": []}", "line 1: a list of {targets, labels} is expected"},
        {"[1]", "line 1: a group of targets is expected to be a map"},
        {"[{\"target\": [\"x:1\"]}]",
         "line 1: a group of targets has no key \"target\"; did you mean \"targets\"?"},
        {"[{\"targets\": [[\"x:1\"]]}]", "line 1: an item is expected to be a text"},
        {"[{\"targets\": [\"x:1\"], \"labels\": {\"a\": [1]}}]",
         "line 1: the label a is expected to be a text"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct tags_list found = {0};
        struct error err = {""};
        CHECK_INT(t, discover_parse_file(bytes_of(cases[i].text), "f", &found, &err), -EINVAL);
        CHECK_STR(t, err.text, cases[i].want);
        tags_list_done(&found);
    }
}

static const struct test_case cases[] = {
    TEST(files_are_followed),
    TEST(what_cannot_be_read_changes_nothing_and_is_told_once),
    TEST(files_of_other_shapes_are_refused),
};
TEST_MAIN(cases)

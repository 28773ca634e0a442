#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "lib/scratch.h"
#include "lib/test.h"
#include "server/sources.h"

#define LIMIT ((uint64_t)1 << 20)

struct world {
    struct scratch scratch;
    struct sources *sources;
};

static void begin(struct world *w)
{
    struct error err = {""};
    scratch_init(&w->scratch);
    if (sources_open(w->scratch.path, &w->sources, &err) < 0) {
        printf("Bail out! %s\n", err.text);
        exit(1);
    }
}

static void end(struct world *w)
{
    sources_close(w->sources);
    scratch_done(&w->scratch);
}

static struct source_key key(const char *tenant, const char *service, const char *revision)
{
    return (struct source_key){bytes_of(tenant), bytes_of(service), bytes_of(revision), false};
}

static int put(struct world *w, struct source_key k, const char *name, const char *text)
{
    struct source_stored stored;
    return sources_put_file(w->sources, &k, bytes_of(name), bytes_of(text), LIMIT, &stored, NULL);
}

/* "name: text", or "" when there is none. */
static const char *find(struct world *w, struct source_key k, const char *path)
{
    static char found[4096];
    CLEANUP(buf_done) struct buf name = {0};
    CLEANUP(buf_done) struct buf text = {0};
    found[0] = '\0';
    if (sources_find(w->sources, &k, bytes_of(path), &name, &text, NULL) == 0)
        snprintf(found, sizeof(found), "%s: %s", buf_cstr(&name), buf_cstr(&text));
    return found;
}

static void finds_what_was_put(struct test *t)
{
    struct world w;
    begin(&w);
    struct source_key one = key("default", "shop", "1.0"), two = key("default", "shop", "2.0");

    CHECK_INT(t, put(&w, one, "src/a.c", "old"), 0);
    CHECK_INT(t, put(&w, one, "lib/a.c", "lib"), 0);
    CHECK_INT(t, put(&w, one, "src/a.c", "new"), 0);
    CHECK_INT(t, put(&w, two, "src/a.c", "two"), 0);
    CHECK_STR(t, find(&w, one, "/build/src/a.c"), "src/a.c: new");
    CHECK_STR(t, find(&w, one, "/build/lib/a.c"), "lib/a.c: lib");
    CHECK_STR(t, find(&w, one, "/build/other/a.c"), "");
    CHECK_STR(t, find(&w, two, "src/a.c"), "src/a.c: two");
    CHECK_STR(t, find(&w, key("default", "shop", "3.0"), "src/a.c"), "");
    CHECK_STR(t, find(&w, key("other", "shop", "1.0"), "src/a.c"), ""); /* tenants are apart */
    one.is_commit = true;
    CHECK_STR(t, find(&w, one, "src/a.c"), "");
    one.is_commit = false;
    CHECK_INT(t, sources_delete(w.sources, &one, NULL), 0);
    CHECK_STR(t, find(&w, one, "src/a.c"), "");
    CHECK_INT(t, sources_delete(w.sources, &one, NULL), -ENOENT);
    end(&w);
}

static void refuses_what_cannot_be(struct test *t)
{
    struct world w;
    struct source_stored stored;
    struct error err = {""};
    begin(&w);
    struct source_key k = key("default", "shop", "1");

    CHECK_INT(t, put(&w, k, "../a.c", "x"), -EINVAL);
    CHECK_INT(t, put(&w, k, "", "x"), -EINVAL);
    CHECK_INT(t, put(&w, key("default", "", "1"), "a.c", "x"), -EINVAL);
    CHECK_INT(t, put(&w, key("default", "a\nb", "1"), "a.c", "x"), -EINVAL);
    CHECK_INT(t, put(&w, key("../x", "a", "1"), "a.c", "x"), -EINVAL);
    CHECK_INT(t, sources_put_file(w.sources, &k, BYTES("a.c"), BYTES("a\0b"), LIMIT, &stored, &err),
              -EINVAL);
    CHECK_INT(t, sources_put_file(w.sources, &k, BYTES("a.c"), BYTES("abc"), 10, &stored, &err),
              -EFBIG);
    CHECK(t, strstr(err.text, "sources.limit is 10") != NULL);
    struct budget b;
    budget_init(&b, 1 << 20);
    struct input *in = input_from_bytes(BYTES("this is no tar, and it is short"), "x", &b);
    CHECK_INT(t, sources_put_tar(w.sources, &k, in, LIMIT, &stored, &err), -EBADMSG);
    input_close(in);
    end(&w);
}

static int count_set(void *ctx, const struct source_set *set)
{
    buf_addf(ctx, "%s %s,", set->service, set->revision);
    return 0;
}

/* Of three sets that do not fit together, the one written first goes. */
static void the_oldest_go_first(struct test *t)
{
    struct world w;
    CLEANUP(buf_done) struct buf text = {0};
    CLEANUP(buf_done) struct buf left = {0};
    struct source_stored stored;
    begin(&w);

    while (text.len < 400)
        buf_add_str(&text, "int a;\n");
    static const char *const revisions[] = {"1", "2", "3"};
    for (size_t i = 0; i < 3; i++) {
        struct source_key k = key("default", "shop", revisions[i]);
        CHECK_INT(
            t, sources_put_file(w.sources, &k, BYTES("a.c"), buf_bytes(&text), 1000, &stored, NULL),
            0);
        usleep(20000); /* times of files have steps */
    }
    CHECK_STR(t, find(&w, key("default", "shop", "1"), "a.c"), "");
    CHECK(t, find(&w, key("default", "shop", "3"), "a.c")[0] != '\0');
    CHECK_INT(t, sources_list(w.sources, BYTES("default"), count_set, &left), 0);
    CHECK_INT(t, left.len, strlen("shop 2,shop 3,"));
    end(&w);
}

/* What was cut off by a crash is not read, and written over. */
static void a_torn_end_is_no_harm(struct test *t)
{
    struct world w;
    char path[1024];
    begin(&w);
    struct source_key k = key("default", "shop", "1");

    CHECK_INT(t, put(&w, k, "a.c", "first"), 0);
    CHECK_INT(t, put(&w, k, "b.c", "second"), 0);
    snprintf(path, sizeof(path), "cd %s/default && truncate -s -3 *.src", w.scratch.path);
    CHECK_INT(t, system(path), 0);
    CHECK_STR(t, find(&w, k, "a.c"), "a.c: first");
    CHECK_STR(t, find(&w, k, "b.c"), "");
    CHECK_INT(t, put(&w, k, "c.c", "third"), 0);
    CHECK_STR(t, find(&w, k, "c.c"), "c.c: third");
    end(&w);
}

static const struct test_case cases[] = {
    TEST(finds_what_was_put),
    TEST(refuses_what_cannot_be),
    TEST(the_oldest_go_first),
    TEST(a_torn_end_is_no_harm),
};
TEST_MAIN(cases)

#include "cli/run_summary.h"
#include "lib/test.h"

#define SECOND ((int64_t)1000000000)

/* A window's profiles, by hand. */
struct window {
    struct budget budget;
    struct profile_set *set;
};

static void window_init(struct window *w)
{
    budget_init(&w->budget, (size_t)16 << 20);
    w->set = profile_set_new(&w->budget);
}

static uint32_t stack_of(struct dict *d, const char *function)
{
    struct line line = {.function =
                            dict_function(d, (struct function){.name = dict_cstring(d, function)})};
    uint32_t location = dict_location(d, (struct location){0}, &line, 1);

    return dict_node(d, 0, location);
}

static void add_suspect(struct window *w, const char *function, int64_t bytes, int64_t growth)
{
    struct profile *p = profile_set_add(w->set);
    int64_t values[3] = {bytes, 10, growth};

    profile_add_ctype(p, "leak_space", "bytes");
    profile_add_ctype(p, "leak_objects", "count");
    profile_add_ctype(p, "leak_growth", "bytes");
    profile_add(p, &(struct sample){.node = stack_of(w->set->dict, function), .values = values});
}

static void end(struct window *w, struct run_summary *s, int64_t second)
{
    run_summary_add(s, w->set, second * SECOND);
    profile_set_free(w->set);
}

static void keeps_suspects_of_windows_before(struct test *t)
{
    struct run_summary s;
    struct window w;
    CLEANUP(buf_done) struct buf out = {0};

    run_summary_init(&s);
    window_init(&w);
    add_suspect(&w, "leaks_and_rests", 1 << 20, 1 << 10);
    add_suspect(&w, "leaks_on", 1 << 20, 1 << 10);
    end(&w, &s, 100);
    window_init(&w);
    add_suspect(&w, "leaks_on", 3 << 20, 2 << 10);
    add_suspect(&w, "leaks_on", 1 << 20, 2 << 10); /* in another process */
    end(&w, &s, 110);
    run_summary_print(&s, &out);
    CHECK_STR(t, buf_cstr(&out),
              "leak suspects: memory that stays and becomes more\n"
              "       4kB/s, 4MB alive in about 20 objects  leaks_on\n"
              "leak suspects before: memory that stayed and became more, for a time\n"
              "       1kB/s, 1MB alive in about 10 objects, 10s before the end  leaks_and_rests\n");

    /* Nobody has any at the end. */
    window_init(&w);
    end(&w, &s, 120);
    buf_clear(&out);
    run_summary_print(&s, &out);
    CHECK_STR(t, buf_cstr(&out),
              "leak suspects before: memory that stayed and became more, for a time\n"
              "       4kB/s, 4MB alive in about 20 objects, 10s before the end  leaks_on\n"
              "       1kB/s, 1MB alive in about 10 objects, 20s before the end  leaks_and_rests\n");
    run_summary_done(&s);
}

static const struct test_case cases[] = {TEST(keeps_suspects_of_windows_before)};
TEST_MAIN(cases)

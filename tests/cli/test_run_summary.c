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

/* A process has several profiles, all of which say the same. */
static void add_process(struct window *w, int64_t pid, int64_t lost)
{
    struct dict *d = w->set->dict;
    uint32_t pid_key = dict_cstring(d, "process.pid");
    uint32_t lost_key = dict_cstring(d, "vesta.preload.lost_records");
    uint32_t who = dict_int_attribute(d, pid_key, pid, 0);
    uint32_t what = dict_int_attribute(d, lost_key, lost, 0);

    for (int i = 0; i < 2; i++) {
        struct profile *p = profile_set_add(w->set);
        profile_add_ctype(p, i ? "alloc_objects" : "threads_created", "count");
        p->resource_attrs = dict_attrs(d, &who, 1);
        p->profile_attrs = dict_attrs(d, &what, 1);
    }
}

static void processes_that_lost_as_much_count_each(struct test *t)
{
    struct run_summary s;
    struct window w;

    run_summary_init(&s);
    window_init(&w);
    add_process(&w, 1, 5);
    add_process(&w, 2, 5);
    add_process(&w, 3, 7);
    end(&w, &s, 100);
    CHECK_INT(t, s.lost[0], 17);
    run_summary_done(&s);
}

/* What found no place in the index is not in the list, and the other way round. */
static void sites_beyond_the_limit_are_left_out(struct test *t)
{
    for (size_t limit = 0; limit < 4096; limit += 32) {
        struct run_summary s;
        struct window w;

        run_summary_init(&s);
        window_init(&w);
        for (int i = 0; i < 40; i++) {
            char name[16];
            snprintf(name, sizeof(name), "site%d", i);
            add_suspect(&w, name, 1, 1);
            add_suspect(&w, name, 1, 1);
        }
        s.budget.limit = s.budget.used + limit;
        end(&w, &s, 100);
        CHECK_INT(t, s.lists[SUMMARY_SUSPECTS].totals[0], 80);
        CHECK_INT(t, s.lists[SUMMARY_SUSPECTS].index.len, s.lists[SUMMARY_SUSPECTS].sites.len);
        run_summary_done(&s);
    }
}

static const struct test_case cases[] = {TEST(keeps_suspects_of_windows_before),
                                         TEST(processes_that_lost_as_much_count_each),
                                         TEST(sites_beyond_the_limit_are_left_out)};
TEST_MAIN(cases)

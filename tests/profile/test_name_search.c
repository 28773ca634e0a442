#include "lib/test.h"
#include "profile/name_search.h"

struct fixture {
    struct budget budget;
    struct profile_set *set;
    struct profile *p;
};

static struct line line_of(struct dict *d, const char *name, const char *file)
{
    return (struct line){.function =
                             dict_function(d, (struct function){.name = dict_cstring(d, name),
                                                                .file = dict_cstring(d, file)}),
                         .line = 1};
}

/* main -> { sort with less inlined into it: 5, [unnamed of /lib/libz.so]: 7, main: 11 }, main: 2 */
static void setup(struct fixture *f)
{
    budget_init(&f->budget, BUDGET_DEFAULT_BYTES);
    f->set = profile_set_new(&f->budget);
    struct dict *d = f->set->dict;
    struct profile *p = f->p = profile_set_add(f->set);
    profile_add_ctype(p, "cpu", "ms");
    uint32_t lib = dict_mapping(d, (struct mapping){.file = dict_cstring(d, "/lib/libz.so")});
    struct line main_line = line_of(d, "main", "/src/main.c");
    struct line inlined[] = {line_of(d, "less", "/src/less.h"), line_of(d, "sort", "/src/sort.c")};
    uint32_t top =
        dict_node(d, 0, dict_location(d, (struct location){.address = 1}, &main_line, 1));
    uint32_t sort = dict_location(d, (struct location){.address = 2}, inlined, 2);
    uint32_t bare = dict_location(d, (struct location){.address = 3, .mapping = lib}, NULL, 0);
    profile_add_value(p, dict_node(d, top, sort), 5);
    profile_add_value(p, dict_node(d, top, bare), 7);
    profile_add_value(p, dict_node(d, top, d->node_location.data[top]), 11);
    profile_add_value(p, top, 2);
    profile_add_value(p, 0, 100); /* no frames at all */
}

static void finds(struct test *t, const char *pattern, bool no_inlines, struct name_search want)
{
    struct fixture f;
    struct frames frames;
    struct name_search got;
    CLEANUP(regex_freep) struct regex *re = NULL;
    setup(&f);
    CHECK_INT(t, regex_new(bytes_of(pattern), &re, NULL), 0);
    frames_init(&frames, f.set->dict,
                (struct frame_options){.name_unknown = true, .no_inlines = no_inlines});
    CHECK(t, profile_search(f.p, 0, &frames, re, &got));
    CHECK_INT(t, got.cum, want.cum);
    CHECK_INT(t, got.flat, want.flat);
    CHECK_INT(t, got.functions, want.functions);
    frames_done(&frames);
    profile_set_free(f.set);
    CHECK_INT(t, f.budget.used, 0);
}

static void counts_each_sample_once(struct test *t)
{
    finds(t, "main", false, (struct name_search){25, 13, 1});
    finds(t, "^sort$", false, (struct name_search){5, 0, 1});
    finds(t, "^less$", false, (struct name_search){5, 5, 1});
    finds(t, "libz", false, (struct name_search){7, 7, 1});
    finds(t, "\\.c$", false, (struct name_search){25, 13, 2});
    finds(t, "nothing", false, (struct name_search){0, 0, 0});
    finds(t, "(?i)SORT|LESS", false, (struct name_search){5, 5, 2});
}

static void what_was_inlined_counts_for_who_has_it(struct test *t)
{
    /* As a focus does: the sample is found, but no frame of that name is there. */
    finds(t, "^less$", true, (struct name_search){5, 0, 0});
    finds(t, "^sort$", true, (struct name_search){5, 5, 1});
}

static void ends_where_the_budget_does(struct test *t)
{
    for (size_t bytes = 0; bytes < 4000; bytes += 64) {
        struct fixture f;
        struct frames frames;
        struct name_search got;
        CLEANUP(regex_freep) struct regex *re = NULL;
        setup(&f);
        CHECK_INT(t, regex_new(BYTES("main|less"), &re, NULL), 0);
        f.budget.limit = f.budget.used + bytes;
        frames_init(&frames, f.set->dict, (struct frame_options){.name_unknown = true});
        if (profile_search(f.p, 0, &frames, re, &got))
            CHECK_INT(t, got.cum, 25);
        frames_done(&frames);
        profile_set_free(f.set);
        CHECK_INT(t, f.budget.used, 0);
    }
}

static const struct test_case cases[] = {TEST(counts_each_sample_once),
                                         TEST(what_was_inlined_counts_for_who_has_it),
                                         TEST(ends_where_the_budget_does)};
TEST_MAIN(cases)

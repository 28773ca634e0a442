#include <errno.h>

#include "lib/test.h"
#include "query/flame_cut.h"

static uint32_t call(struct dict *d, uint32_t parent, const char *name)
{
    return dict_frame(d, parent, (struct function){.name = dict_cstring(d, name)}, 1, 0, 0);
}

/* main 100 -> { big 60 -> { x 50, y 5 }, small 30 -> z 30, tiny 1 } */
static struct profile *make(struct profile_set *set)
{
    struct dict *d = set->dict;
    struct profile *p = profile_set_add(set);
    profile_add_ctype(p, "cpu", "nanoseconds");
    uint32_t top = call(d, 0, "main"), big = call(d, top, "big");
    profile_add_value(p, top, 9);
    profile_add_value(p, big, 5);
    profile_add_value(p, call(d, big, "y"), 5);
    profile_add_value(p, call(d, big, "x"), 50);
    profile_add_value(p, call(d, call(d, top, "small"), "z"), 30);
    profile_add_value(p, call(d, top, "tiny"), 1);
    return p;
}

struct fixture {
    struct budget budget;
    struct profile_set *set;
    struct profile *profile;
};

static void setup(struct fixture *f)
{
    budget_init(&f->budget, BUDGET_DEFAULT_BYTES);
    f->set = profile_set_new(&f->budget);
    f->profile = make(f->set);
}

static void says_what_was_cut_and_how_much_it_weighs(struct test *t)
{
    struct fixture fx;
    struct flame_cut f;
    setup(&fx);
    CHECK_INT(t, flame_cut_build(fx.profile, &(struct flame_cut_options){.max_nodes = 4}, &f, NULL),
              0);
    static const char *const names[] = {"root", "main", "big", "x"};
    CHECK_INT(t, f.nodes.len, 4);
    for (size_t i = 0; i < f.nodes.len && i < 4; i++)
        CHECK_STR(t, flame_cut_name(&f, i), names[i]);
    CHECK_INT(t, f.nodes.data[1].total, 100);
    CHECK_INT(t, f.nodes.data[1].self, 9);
    CHECK_INT(t, f.nodes.data[1].n_hidden, 2);
    CHECK_INT(t, f.nodes.data[1].hidden, 31);
    CHECK_INT(t, f.nodes.data[2].n_hidden, 1);
    CHECK_INT(t, f.nodes.data[2].hidden, 5);
    CHECK_INT(t, f.n_cut, 4);
    CHECK_INT(t, f.cut, 36);
    CHECK_INT(t, f.max_depth, 3);
    flame_cut_done(&f);
    profile_set_free(fx.set);
}

static void shows_hidden_children_when_asked_under_their_parent(struct test *t)
{
    struct fixture fx;
    struct flame_cut f;
    struct error err = {0};
    setup(&fx);
    const char *const under[] = {"main", "small"}, *const wrong[] = {"main", "nowhere"};
    CHECK_INT(
        t,
        flame_cut_build(fx.profile,
                        &(struct flame_cut_options){.max_nodes = 4, .under = under, .n_under = 2},
                        &f, NULL),
        0);
    CHECK_INT(t, f.nodes.len, 2);
    CHECK_STR(t, flame_cut_name(&f, 0), "small");
    CHECK_STR(t, flame_cut_name(&f, 1), "z");
    CHECK_INT(t, f.nodes.data[0].total, 30);
    CHECK_INT(t, f.n_cut, 0);
    flame_cut_done(&f);
    CHECK_INT(t,
              flame_cut_build(fx.profile, &(struct flame_cut_options){.under = wrong, .n_under = 2},
                              &f, &err),
              -ENOENT);
    CHECK_STR(t, err.text, "no frame \"nowhere\" at depth 2 of that path");
    flame_cut_done(&f);
    CHECK_INT(t, flame_cut_build(fx.profile, &(struct flame_cut_options){.type = 1}, &f, &err),
              -EINVAL);
    CHECK_STR(t, err.text, "there is no sample type 1: the profile has 1");
    flame_cut_done(&f);
    profile_set_free(fx.set);
}

static void keeps_whole_paths_whatever_the_limit(struct test *t)
{
    struct fixture fx;
    setup(&fx);
    /* Many equal leaves, a difference whose parent cancels out, and every limit. */
    struct dict *d = fx.set->dict;
    uint32_t even = call(d, 0, "even");
    for (int i = 0; i < 10; i++) {
        char name[16];
        sprintf(name, "leaf%d", i);
        profile_add_value(fx.profile, call(d, even, name), i % 2 ? 40 : -40);
    }
    for (size_t max = 1; max < 25; max++) {
        for (int invert = 0; invert < 2; invert++) {
            struct flame_cut f;
            CHECK_INT(t,
                      flame_cut_build(
                          fx.profile,
                          &(struct flame_cut_options){.max_nodes = max, .invert = invert != 0}, &f,
                          NULL),
                      0);
            CHECK(t, f.nodes.len <= max);
            for (size_t i = 1; i < f.nodes.len; i++) {
                const struct flame_cut_node *n = &f.nodes.data[i];
                CHECK(t, n->parent < i);
                CHECK_INT(t, f.tree.parent.data[n->tree_node], f.nodes.data[n->parent].tree_node);
                CHECK_INT(t, n->depth, f.nodes.data[n->parent].depth + 1);
            }
            CHECK_INT(t, f.nodes.len + f.n_cut, tree_len(&f.tree));
            flame_cut_done(&f);
        }
    }
    profile_set_free(fx.set);
}

static void keeps_what_is_heavy_on_either_side(struct test *t)
{
    struct fixture fx;
    struct flame_cut f;
    setup(&fx);
    struct dict *d = fx.set->dict;
    struct profile *p = fx.profile;
    profile_add_ctype(p, "before", "nanoseconds");
    uint32_t tiny = call(d, call(d, 0, "main"), "tiny");
    profile_add(p, &(struct sample){.node = tiny, .values = (int64_t[]){0, 80}});
    struct flame_cut_options o = {.compares = true, .base_type = 1, .max_nodes = 3};
    CHECK_INT(t, flame_cut_build(p, &o, &f, NULL), 0);
    CHECK_INT(t, f.nodes.len, 3);
    CHECK_STR(t, flame_cut_name(&f, 2), "tiny");
    CHECK_INT(t, f.nodes.data[2].total, 1);
    CHECK_INT(t, f.nodes.data[2].base_total, 80);
    CHECK_INT(t, f.nodes.data[0].base_total, 80);
    flame_cut_done(&f);
    struct error err = {""};
    o.base_type = 2;
    CHECK_INT(t, flame_cut_build(p, &o, &f, &err), -EINVAL);
    CHECK_STR(t, err.text, "there is no sample type 2: the profile has 2");
    flame_cut_done(&f);
    profile_set_free(fx.set);
}

static void survives_running_out_of_memory_anywhere(struct test *t)
{
    bool done = false;
    for (size_t limit = 0; limit < 200000 && !done; limit += 997) {
        struct fixture fx;
        setup(&fx);
        struct flame_cut f;
        struct error err = {0};
        fx.budget.limit = fx.budget.used + limit;
        int r = flame_cut_build(fx.profile, &(struct flame_cut_options){.max_nodes = 4}, &f, &err);
        CHECK(t, r == 0 || (r == -ENOBUFS && err.text[0]));
        done = r == 0;
        flame_cut_done(&f);
        profile_set_free(fx.set);
    }
    CHECK(t, done);
}

static const struct test_case cases[] = {TEST(says_what_was_cut_and_how_much_it_weighs),
                                         TEST(shows_hidden_children_when_asked_under_their_parent),
                                         TEST(keeps_whole_paths_whatever_the_limit),
                                         TEST(keeps_what_is_heavy_on_either_side),
                                         TEST(survives_running_out_of_memory_anywhere)};
TEST_MAIN(cases)

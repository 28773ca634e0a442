#include <errno.h>

#include "lib/test.h"
#include "profile/tree.h"

static uint32_t call(struct dict *d, uint32_t parent, const char *name, int64_t line)
{
    return dict_frame(d, parent, (struct function){.name = dict_cstring(d, name)}, line, 0, 0);
}

static struct profile *sample_profile(struct profile_set *set)
{
    struct dict *d = set->dict;
    struct profile *p = profile_set_add(set);
    profile_add_ctype(p, "samples", "count");
    uint32_t root = call(d, 0, "main", 1), other = call(d, 0, "main", 2);
    profile_add_value(p, call(d, root, "b", 0), 1);
    profile_add_value(p, call(d, other, "a", 0), 2);
    profile_add_value(p, call(d, other, "b", 0), 4);
    profile_add_value(p, root, 8);
    profile_add_value(p, 0, 16);
    return p;
}

static void stacks_that_look_the_same_are_one_branch(struct test *t)
{
    struct budget budget;
    budget_init(&budget, BUDGET_DEFAULT_BYTES);
    struct profile_set *set = profile_set_new(&budget);
    struct profile *p = sample_profile(set);
    struct tree tree;

    CHECK_INT(t, tree_build(p, 0, (struct frame_options){0}, &tree, NULL), 0);
    CHECK_INT(t, tree_len(&tree), 4);
    CHECK_INT(t, tree.max_depth, 2);
    CHECK_INT(t, tree.total.data[0], 31);
    CHECK_INT(t, tree.self.data[0], 16);
    CHECK_STR(t, tree_name(&tree, 0), "root");
    uint32_t main_node = tree.first_child.data[0];
    CHECK_STR(t, tree_name(&tree, main_node), "main");
    CHECK_INT(t, tree.next_sibling.data[main_node], 0);
    CHECK_INT(t, tree.total.data[main_node], 15);
    CHECK_INT(t, tree.self.data[main_node], 8);
    uint32_t a = tree.first_child.data[main_node], b = tree.next_sibling.data[a];
    CHECK_STR(t, tree_name(&tree, a), "a");
    CHECK_STR(t, tree_name(&tree, b), "b");
    CHECK_INT(t, tree.total.data[b], 5);
    tree_done(&tree);

    CHECK_INT(
        t, tree_build(p, 0, (struct frame_options){.granularity = GRANULARITY_LINES}, &tree, NULL),
        0);
    CHECK_INT(t, tree_len(&tree), 6);
    tree_done(&tree);
    profile_set_free(set);
}

/* One column has values where the other has none. */
static struct profile *two_columns(struct profile_set *set)
{
    struct dict *d = set->dict;
    struct profile *p = profile_set_add(set);
    profile_add_ctype(p, "before", "count");
    profile_add_ctype(p, "after", "count");
    uint32_t top = call(d, 0, "main", 1);
    profile_add(p, &(struct sample){.node = call(d, top, "gone", 0), .values = (int64_t[]){3, 0}});
    profile_add(p, &(struct sample){.node = call(d, top, "new", 0), .values = (int64_t[]){0, 5}});
    profile_add(p, &(struct sample){.node = call(d, top, "same", 0), .values = (int64_t[]){7, 7}});
    return p;
}

static void two_trees_stay_alike_when_they_are_inverted(struct test *t)
{
    int r = -ENOBUFS;
    for (size_t extra = 0; r == -ENOBUFS; extra += 32) {
        struct budget budget;
        budget_init(&budget, BUDGET_DEFAULT_BYTES);
        struct profile_set *set = profile_set_new(&budget);
        struct profile *p = two_columns(set);
        struct tree before = {0}, after = {0};
        struct error err = {0};
        budget.limit = budget.used + extra;
        r = tree_build(p, 0, (struct frame_options){0}, &before, &err);
        if (r == 0)
            r = tree_build(p, 1, (struct frame_options){0}, &after, &err);
        if (r == 0)
            r = tree_invert_both(&after, &before, &err);
        CHECK(t, r == 0 || (r == -ENOBUFS && err.text[0]));
        CHECK(t, r < 0 || tree_len(&before) == 7);
        CHECK(t, r < 0 || tree_len(&after) == 7);
        int64_t wanted[2][3] = {{3, 0, 7}, {0, 5, 7}};
        static const char *const names[] = {"gone", "new", "same"};
        uint32_t n = r == 0 ? after.first_child.data[0] : 0;
        for (size_t i = 0; n != 0 && i < 3; n = after.next_sibling.data[n], i++) {
            CHECK_STR(t, tree_name(&after, n), names[i]);
            CHECK_STR(t, tree_name(&before, n), names[i]);
            CHECK_INT(t, before.total.data[n], wanted[0][i]);
            CHECK_INT(t, after.total.data[n], wanted[1][i]);
        }
        tree_done(&before);
        tree_done(&after);
        profile_set_free(set);
    }
    CHECK_INT(t, r, 0);
}

static void survives_running_out_of_memory_anywhere(struct test *t)
{
    int r = -ENOBUFS;
    for (size_t extra = 0; r < 0 && extra < 300000; extra += 16) {
        struct budget budget;
        struct error err = {0};
        budget_init(&budget, BUDGET_DEFAULT_BYTES);
        struct profile_set *set = profile_set_new(&budget);
        struct profile *p = sample_profile(set);
        struct tree tree;
        budget.limit = budget.used + extra;
        r = tree_build(p, 0, (struct frame_options){0}, &tree, &err);
        CHECK(t, r == 0 || (r == -ENOBUFS && err.text[0]));
        tree_done(&tree);
        profile_set_free(set);
    }
    CHECK_INT(t, r, 0);
}

/* main -> a -> a -> b -> a, and main -> a -> a */
static void what_calls_itself_may_be_one_frame(struct test *t)
{
    struct budget budget;
    budget_init(&budget, BUDGET_DEFAULT_BYTES);
    struct profile_set *set = profile_set_new(&budget);
    struct dict *d = set->dict;
    struct profile *p = profile_set_add(set);
    struct tree tree, values;

    profile_add_ctype(p, "samples", "count");
    uint32_t twice = call(d, call(d, call(d, 0, "main", 1), "a", 1), "a", 2);
    profile_add_value(p, call(d, call(d, twice, "b", 1), "a", 1), 3);
    profile_add_value(p, twice, 5);
    const uint32_t types[2] = {0, 0};
    struct frame_options o = {.collapse_recursion = true};
    CHECK_INT(t, tree_build_both(p, types, o, &tree, &values, NULL), 0);
    CHECK_INT(t, tree_len(&tree), 5);
    CHECK_INT(t, tree.max_depth, 4);
    uint32_t a = tree.first_child.data[tree.first_child.data[0]];
    CHECK_STR(t, tree_name(&tree, a), "a");
    CHECK_INT(t, tree.self.data[a], 5);
    CHECK_INT(t, tree.total.data[a], 8);
    CHECK_INT(t, values.self.len, tree_len(&tree));
    CHECK_INT(t, values.total.data[a], 8);
    CHECK_INT(t, tree_invert_both(&tree, &values, NULL), 0);
    CHECK_INT(t, values.total.len, tree_len(&tree));
    CHECK_INT(t, values.total.data[0], 8);
    tree_done(&tree);
    tree_done(&values);

    /* Lines are frames of their own: nothing repeats. */
    o.granularity = GRANULARITY_LINES;
    CHECK_INT(t, tree_build(p, 0, o, &tree, NULL), 0);
    CHECK_INT(t, tree.max_depth, 5);
    tree_done(&tree);
    profile_set_free(set);
}

static const struct test_case cases[] = {
    TEST(stacks_that_look_the_same_are_one_branch),
    TEST(what_calls_itself_may_be_one_frame),
    TEST(two_trees_stay_alike_when_they_are_inverted),
    TEST(survives_running_out_of_memory_anywhere),
};
TEST_MAIN(cases)

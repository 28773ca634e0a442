#include "lib/test.h"
#include "profile/dict.h"
#include "profile/profile.h"

static void equal_things_have_one_id(struct test *t)
{
    struct budget b;
    budget_init(&b, 1 << 24);
    struct dict *d = dict_new(&b);
    uint32_t s = dict_cstring(d, "main");
    CHECK_INT(t, dict_cstring(d, "main"), s);
    CHECK_INT(t, dict_cstring(d, ""), 0);
    CHECK_STR(t, dict_cstr(d, s), "main");
    uint32_t f = dict_function(d, (struct function){.name = s});
    CHECK_INT(t, dict_function(d, (struct function){.name = s}), f);
    CHECK(t, dict_function(d, (struct function){.name = s, .start_line = 1}) != f);
    struct line lines[2] = {{.function = f, .line = 3}, {.function = f, .line = 9}};
    uint32_t l = dict_location(d, (struct location){.address = 16}, lines, 2);
    CHECK_INT(t, dict_location(d, (struct location){.address = 16}, lines, 2), l);
    CHECK(t, dict_location(d, (struct location){.address = 16}, lines, 1) != l);
    uint32_t stack[3] = {l, l + 1, l};
    uint32_t n = dict_stack(d, stack, 3);
    CHECK_INT(t, dict_stack(d, stack, 3), n);
    CHECK_INT(t, d->node_location.data[n], l);
    CHECK(t, d->node_parent.data[n] < n);
    uint32_t a[4] = {3, 1, 3, 0}, a2[2] = {1, 3};
    CHECK_INT(t, dict_attrs(d, a, 4), dict_attrs(d, a2, 2));
    dict_free(d);
    CHECK_INT(t, b.used, 0);
}

/* Tables that come again are found by their order, and others in spite of it. */
static void ids_do_not_depend_on_the_order_of_asking(struct test *t)
{
    static const uint32_t orders[][4] = {{0, 1, 2, 3}, {3, 2, 1, 0}, {1, 2, 0, 1}, {2, 3, 0, 1}};
    struct budget b;
    budget_init(&b, 1 << 24);
    CLEANUP(dict_freep) struct dict *d = dict_new(&b);
    uint32_t nowhere = dict_location(d, (struct location){0}, NULL, 0);

    CHECK(t, nowhere != 0);
    CHECK_INT(t, dict_location(d, (struct location){0}, NULL, 0), nowhere);
    for (size_t round = 0; round < ARRAY_SIZE(orders); round++) {
        for (size_t k = 0; k < 4; k++) {
            uint32_t i = orders[round][k];
            char name[] = {(char)('a' + i), '\0'};
            uint32_t s = dict_cstring(d, name);
            struct line line = {.function = dict_function(d, (struct function){.name = s})};
            CHECK_INT(t, s, i + 1);
            CHECK_INT(t, line.function, i + 1);
            CHECK_INT(t, dict_location(d, (struct location){.address = i}, &line, 1),
                      nowhere + i + 1);
        }
    }
    CHECK_INT(t, d->strings.len, 5);
    CHECK_INT(t, d->locations.len, nowhere + 5);
}

/* Every budget from nothing upwards: each fails cleanly until one is large enough. */
static void survives_running_out_of_memory_anywhere(struct test *t)
{
    for (size_t limit = 0;; limit += 64) {
        struct budget b;
        budget_init(&b, limit);
        struct profile_set *s = profile_set_new(&b);
        struct profile *p = profile_set_add(s);
        if (p) {
            profile_add_ctype(p, "cpu", "nanoseconds");
            for (uint32_t i = 0; i < 100; i++) {
                char name[16];
                snprintf(name, sizeof(name), "f%u", i);
                struct function f = {.name = dict_cstring(s->dict, name)};
                uint32_t node = dict_frame(s->dict, 0, f, 1, 0, 0);
                int64_t v = 1;
                uint32_t attr = dict_string_attribute(s->dict, f.name, f.name);
                profile_add(p, &(struct sample){.node = node,
                                                .attrs = dict_attrs(s->dict, &attr, 1),
                                                .time_ns = i,
                                                .values = &v});
            }
        }
        bool failed = budget_failed(&b);
        if (!failed)
            CHECK_INT(t, profile_total(p, 0), 100);
        profile_set_free(s);
        CHECK_INT(t, b.used, 0);
        if (!failed)
            return;
        CHECK(t, limit < (1 << 20));
    }
}

static void finds_attributes_and_sets_without_adding(struct test *t)
{
    struct budget b;
    budget_init(&b, BUDGET_DEFAULT_BYTES);
    CLEANUP(dict_freep) struct dict *d = dict_new(&b);
    uint32_t key = dict_cstring(d, "k"), text = dict_cstring(d, "v");
    struct attribute a = {.key = key, .text = text, .kind = ATTRIBUTE_STRING};

    CHECK_INT(t, dict_find_attribute(d, a), 0);
    CHECK_INT(t, d->attributes.len, 1);
    uint32_t id = dict_attribute(d, a), other = dict_int_attribute(d, key, 7, 0);
    CHECK_INT(t, dict_find_attribute(d, a), id);
    CHECK_INT(t, dict_find_attrs(d, (uint32_t[]){other, id}, 2), 0);
    CHECK_INT(t, d->attr_sets.len, 1);
    uint32_t set = dict_attrs(d, (uint32_t[]){id, other}, 2);
    CHECK_INT(t, dict_find_attrs(d, (uint32_t[]){other, 0, id, id}, 4), set);
    CHECK_INT(t, dict_find_attrs(d, (uint32_t[]){0}, 1), 0);
}

static const struct test_case cases[] = {
    TEST(finds_attributes_and_sets_without_adding),
    TEST(equal_things_have_one_id),
    TEST(ids_do_not_depend_on_the_order_of_asking),
    TEST(survives_running_out_of_memory_anywhere),
};
TEST_MAIN(cases)

#include <errno.h>

#include "lib/test.h"
#include "profile/translate.h"

static struct dict *filled(struct budget *b)
{
    struct dict *d = dict_new(b);
    uint32_t key = dict_cstring(d, "thread.name");
    uint32_t attribute = dict_string_attribute(d, key, dict_cstring(d, "main"));
    uint32_t attrs = dict_attrs(d, &attribute, 1);
    uint32_t mapping = dict_mapping(d, (struct mapping){.start = 4096,
                                                        .limit = 8192,
                                                        .file = dict_cstring(d, "/bin/x"),
                                                        .build_id = dict_cstring(d, "abcd"),
                                                        .attrs = attrs});
    uint32_t node = 0;

    for (uint32_t i = 0; i < 50; i++) {
        char text[32];
        snprintf(text, sizeof(text), "f%u", i);
        uint32_t f = dict_function(d, (struct function){.name = dict_cstring(d, text),
                                                        .system_name = dict_cstring(d, "sys"),
                                                        .file = dict_cstring(d, "x.c"),
                                                        .start_line = i});
        struct line lines[2] = {{.function = f, .line = i, .column = 3}, {.function = f}};
        uint32_t l = dict_location(d,
                                   (struct location){.address = 4096 + i,
                                                     .mapping = mapping,
                                                     .type = dict_cstring(d, "native"),
                                                     .attrs = attrs},
                                   lines, 1 + i % 2);
        node = dict_node(d, i % 10 ? node : 0, l);
    }
    return d;
}

static void check_text(struct test *t, const struct dict *a, uint32_t x, const struct dict *b,
                       uint32_t y)
{
    CHECK_STR(t, dict_cstr(b, y), dict_cstr(a, x));
}

static void check_location(struct test *t, const struct dict *a, uint32_t x, const struct dict *b,
                           uint32_t y)
{
    struct location p = a->locations.data[x], q = b->locations.data[y];

    CHECK_INT(t, q.address, p.address);
    CHECK_INT(t, q.n_lines, p.n_lines);
    check_text(t, a, p.type, b, q.type);
    check_text(t, a, a->mappings.data[p.mapping].file, b, b->mappings.data[q.mapping].file);
    CHECK_INT(t, b->mappings.data[q.mapping].limit, a->mappings.data[p.mapping].limit);
    CHECK_INT(t, b->attr_sets.data[q.attrs].n, a->attr_sets.data[p.attrs].n);
    for (uint32_t i = 0; i < p.n_lines; i++) {
        struct line m = a->lines.data[p.first_line + i], n = b->lines.data[q.first_line + i];
        CHECK_INT(t, n.line, m.line);
        CHECK_INT(t, n.column, m.column);
        check_text(t, a, a->functions.data[m.function].name, b, b->functions.data[n.function].name);
        check_text(t, a, a->functions.data[m.function].file, b, b->functions.data[n.function].file);
    }
}

static void carries_a_stack_over_with_all_that_it_names(struct test *t)
{
    struct budget b;
    budget_init(&b, BUDGET_DEFAULT_BYTES);
    struct dict *from = filled(&b), *to = dict_new(&b);
    struct translate tr;

    dict_cstring(to, "something that was there before");
    CHECK(t, translate_init(&tr, from, to));
    for (uint32_t n = (uint32_t)dict_n_nodes(from) - 1; n > 0; n -= n > 7 ? 7 : 1) {
        uint32_t m = translate_node(&tr, n), x = n;
        CHECK_INT(t, translate_node(&tr, n), m);
        for (; x && m; x = from->node_parent.data[x], m = to->node_parent.data[m])
            check_location(t, from, from->node_location.data[x], to, to->node_location.data[m]);
        CHECK_INT(t, x, m);
    }
    uint32_t set = translate_attrs(&tr, 1);
    uint32_t a = dict_attrs_get(to, set, dict_find_string(to, BYTES("thread.name")));
    CHECK_STR(t, dict_cstr(to, to->attributes.data[a].text), "main");
    translate_done(&tr);
    dict_free(from);
    dict_free(to);
    CHECK_INT(t, b.used, 0);
}

static void carries_over_only_what_is_asked_for(struct test *t)
{
    struct budget b;
    budget_init(&b, BUDGET_DEFAULT_BYTES);
    struct dict *from = filled(&b), *to = dict_new(&b);
    struct translate tr;

    CHECK(t, translate_init(&tr, from, to));
    CHECK(t, translate_node(&tr, 3) != 0);
    CHECK_INT(t, dict_n_nodes(to), 4);
    CHECK_INT(t, to->locations.len, 4);
    CHECK_INT(t, to->functions.len, 4);
    translate_done(&tr);
    dict_free(from);
    dict_free(to);
}

static void makes_nothing_of_ids_that_are_not_there(struct test *t)
{
    struct budget b;
    budget_init(&b, BUDGET_DEFAULT_BYTES);
    struct dict *from = filled(&b), *to = dict_new(&b);
    struct translate tr;

    CHECK(t, translate_init(&tr, from, to));
    CHECK_INT(t, translate_node(&tr, 99999), 0);
    CHECK_INT(t, translate_location(&tr, 99999), 0);
    CHECK_INT(t, translate_function(&tr, 99999), 0);
    CHECK_INT(t, translate_mapping(&tr, 99999), 0);
    CHECK_INT(t, translate_string(&tr, 99999), 0);
    CHECK_INT(t, translate_attrs(&tr, 99999), 0);
    CHECK_INT(t, translate_node(&tr, 0), 0);
    translate_done(&tr);
    dict_free(from);
    dict_free(to);
}

static void fails_cleanly_at_every_size_of_the_budget(struct test *t)
{
    struct budget b;
    budget_init(&b, BUDGET_DEFAULT_BYTES);
    struct dict *from = filled(&b);
    bool ok = false;

    for (size_t limit = 0; !ok && limit < 1 << 20; limit += 61) {
        struct budget small;
        struct translate tr;
        budget_init(&small, limit);
        struct dict *to = dict_new(&small);

        (void)translate_init(&tr, from, to);
        for (uint32_t n = 1; n < dict_n_nodes(from); n++)
            (void)translate_node(&tr, n);
        ok = !budget_failed(&small);
        if (!ok)
            CHECK_INT(t, budget_error(&small, NULL), -ENOBUFS);
        translate_done(&tr);
        dict_free(to);
        CHECK_INT(t, small.used, 0);
    }
    CHECK(t, ok);
    dict_free(from);
}

static const struct test_case cases[] = {
    TEST(carries_a_stack_over_with_all_that_it_names),
    TEST(carries_over_only_what_is_asked_for),
    TEST(makes_nothing_of_ids_that_are_not_there),
    TEST(fails_cleanly_at_every_size_of_the_budget),
};
TEST_MAIN(cases)

#include <errno.h>
#include <math.h>

#include "lib/test.h"
#include "query/query.h"
#include "query/tables.h"

static uint32_t call(struct dict *d, uint32_t parent, const char *name, const char *file, int line)
{
    struct function f = {.name = dict_cstring(d, name), .file = dict_cstring(d, file)};
    return dict_frame(d, parent, f, line, 0, 0);
}

/* main calls walk, which calls itself and leaf; other calls leaf. */
static struct profile *make(struct profile_set *set, int scale)
{
    struct dict *d = set->dict;
    struct profile *p = profile_set_add(set);
    profile_add_ctype(p, "cpu", "nanoseconds");
    uint32_t top = call(d, 0, "main", "/src/main.c", 3);
    uint32_t walk = call(d, top, "walk", "/src/walk.c", 10);
    uint32_t again = call(d, walk, "walk", "/src/walk.c", 11);
    profile_add_value(p, walk, 4 * scale);
    profile_add_value(p, call(d, again, "leaf", "/src/leaf.c", 7), 10 * scale);
    profile_add_value(p, call(d, call(d, 0, "other", "/src/main.c", 9), "leaf", "/src/leaf.c", 8),
                      6);
    return p;
}

static const struct table_row *row_named(struct table *t, const char *name)
{
    for (size_t i = 0; i < t->rows.len; i++)
        if (strcmp(table_name(t, &t->rows.data[i]), name) == 0)
            return &t->rows.data[i];
    return NULL;
}

static struct profile_set *new_set(struct budget *b)
{
    budget_init(b, BUDGET_DEFAULT_BYTES);
    return profile_set_new(b);
}

static void lists_who_spends(struct test *t)
{
    struct budget b;
    struct profile_set *set = new_set(&b);
    struct profile *p = make(set, 1);
    struct table top;
    CHECK_INT(t, table_top(p, &(struct table_options){.limit = 2}, &top, NULL), 0);
    CHECK_INT(t, top.n_all, 4);
    CHECK_INT(t, top.rows.len, 2);
    CHECK_INT(t, top.total, 20);
    CHECK_STR(t, table_name(&top, &top.rows.data[0]), "leaf");
    CHECK_INT(t, top.rows.data[0].flat, 16);
    CHECK_STR(t, table_name(&top, &top.rows.data[1]), "walk");
    CHECK_INT(t, top.rows.data[1].cum, 14);
    table_done(&top);

    CHECK_INT(t, table_top(p, &(struct table_options){.order = TABLE_BY_NAME}, &top, NULL), 0);
    CHECK_STR(t, table_name(&top, &top.rows.data[3]), "walk");
    table_done(&top);
    CHECK_INT(t, table_top(p, &(struct table_options){.order = TABLE_BY_CUM}, &top, NULL), 0);
    CHECK_INT(t, top.rows.data[0].cum, 16);
    table_done(&top);
    struct error err;
    CHECK_INT(t, table_top(p, &(struct table_options){.type = 3}, &top, &err), -EINVAL);
    CHECK_STR(t, err.text, "there is no sample type 3: the profile has 1");
    table_done(&top);
    profile_set_free(set);
}

static void lists_the_lines_of_a_file(struct test *t)
{
    struct budget b;
    struct profile_set *set = new_set(&b);
    struct profile *p = make(set, 1);
    struct table lines;
    struct error err;
    CHECK_INT(t, table_lines(p, &(struct table_options){0}, "leaf.c", &lines, NULL), 0);
    CHECK_INT(t, lines.rows.len, 2);
    CHECK_INT(t, lines.rows.data[0].line, 7);
    CHECK_INT(t, lines.rows.data[0].flat, 10);
    CHECK_INT(t, lines.rows.data[1].line, 8);
    table_done(&lines);
    CHECK_INT(t, table_lines(p, &(struct table_options){0}, "eaf.c", &lines, &err), -ENOENT);
    CHECK_STR(t, err.text, "no frame is of a file \"eaf.c\"");
    table_done(&lines);
    profile_set_free(set);
}

static void shows_callers_and_callees(struct test *t)
{
    struct budget b;
    struct profile_set *set = new_set(&b);
    struct profile *p = make(set, 1);
    struct sandwich s;
    struct error err;
    CHECK_INT(
        t, table_sandwich(p, &(struct table_options){.order = TABLE_BY_CUM}, "leaf", &s, NULL), 0);
    CHECK_INT(t, s.self.flat, 16);
    CHECK_INT(t, s.callers.rows.len, 2);
    CHECK_STR(t, sandwich_name(&s, &s.callers.rows.data[0]), "walk");
    CHECK_INT(t, s.callers.rows.data[0].cum, 10);
    CHECK_INT(t, s.callees.rows.len, 0);
    sandwich_done(&s);
    CHECK_INT(t, table_sandwich(p, &(struct table_options){0}, "main", &s, NULL), 0);
    CHECK_INT(t, s.callees.rows.len, 1);
    CHECK_INT(t, s.callees.rows.data[0].cum, 14);
    sandwich_done(&s);
    CHECK_INT(t, table_sandwich(p, &(struct table_options){0}, "nobody", &s, &err), -ENOENT);
    CHECK_STR(t, err.text, "no function is called \"nobody\"");
    sandwich_done(&s);
    profile_set_free(set);
}

static void compares_two_selections_by_name(struct test *t)
{
    struct store_answer *answer = store_answer_new(BUDGET_DEFAULT_BYTES);
    struct merged_pair pair = {
        .answer = answer, .before = make(answer->set, 1), .after = make(answer->set, 3)};
    struct difference d;
    struct error err;
    CHECK_INT(t, query_difference(&pair, &(struct difference_options){0}, &d, NULL), 0);
    CHECK_INT(t, d.total[0], 20);
    CHECK_INT(t, d.total[1], 48);
    CHECK_INT(t, d.rows.len, 4);
    CHECK_STR(t, dict_cstr(d.dict, d.rows.data[0].name), "leaf");
    CHECK_INT(t, d.rows.data[0].flat[0], 16);
    CHECK_INT(t, d.rows.data[0].flat[1], 36);
    struct change c = difference_change(&d, d.rows.data[0].flat);
    CHECK_INT(t, c.absolute, 20);
    CHECK(t, fabs(c.share - (36.0 / 48 - 16.0 / 20)) < 1e-9);
    CHECK(t, fabs(c.ratio - 2.25) < 1e-9);
    CHECK(t, isinf(difference_change(&d, (int64_t[]){0, 5}).ratio));
    CHECK(t, isnan(difference_change(&d, (int64_t[]){0, 0}).ratio));
    difference_done(&d);
    CHECK_INT(t, query_difference(&pair, &(struct difference_options){.type = "nope"}, &d, &err),
              -EINVAL);
    CHECK(t, strncmp(err.text, "before: ", 8) == 0);
    difference_done(&d);
    merged_pair_done(&pair);
}

static void rows_are_found_by_name(struct test *t)
{
    struct budget b;
    struct profile_set *set = new_set(&b);
    struct table top;
    CHECK_INT(t, table_top(make(set, 2), &(struct table_options){0}, &top, NULL), 0);
    CHECK(t, row_named(&top, "other") && row_named(&top, "other")->cum == 6);
    CHECK(t, !row_named(&top, "absent"));
    table_done(&top);
    profile_set_free(set);
}

static const struct test_case cases[] = {
    TEST(lists_who_spends), TEST(lists_the_lines_of_a_file), TEST(shows_callers_and_callees),
    TEST(compares_two_selections_by_name), TEST(rows_are_found_by_name)};
TEST_MAIN(cases)

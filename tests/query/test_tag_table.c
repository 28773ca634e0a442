#include <errno.h>

#include "lib/test.h"
#include "profile/tag_filter.h"
#include "query/tag_table.h"

/* A profile of one function whose samples have labels. */
struct fixture {
    struct budget budget;
    struct profile_set *set;
    struct profile *p;
    uint32_t node;
};

static void fixture_init(struct fixture *f, size_t limit)
{
    budget_init(&f->budget, limit);
    f->set = profile_set_new(&f->budget);
    f->p = profile_set_add(f->set);
    struct dict *d = f->set->dict;
    if (!f->p)
        return;
    profile_add_ctype(f->p, "cpu", "nanoseconds");
    f->node = dict_frame(d, 0, (struct function){.name = dict_cstring(d, "main")}, 1, 0, 0);
}

static void fixture_done(struct fixture *f)
{
    profile_set_free(f->set);
}

static uint32_t text(struct fixture *f, const char *key, const char *value)
{
    struct dict *d = f->set->dict;
    return dict_string_attribute(d, dict_cstring(d, key), dict_cstring(d, value));
}

static uint32_t number(struct fixture *f, const char *key, int64_t value, const char *unit)
{
    struct dict *d = f->set->dict;
    return dict_int_attribute(d, dict_cstring(d, key), value, dict_cstring(d, unit));
}

static void add(struct fixture *f, int64_t value, uint32_t *ids, size_t n)
{
    profile_add(f->p, &(struct sample){.node = f->node,
                                       .attrs = dict_attrs(f->set->dict, ids, n),
                                       .values = &value});
}
#define ADD(f, value, ...)                                                                         \
    add(f, value, (uint32_t[]){__VA_ARGS__}, sizeof((uint32_t[]){__VA_ARGS__}) / 4)

static void add_plain(struct fixture *f, int64_t value)
{
    profile_add(f->p, &(struct sample){.node = f->node, .values = &value});
}

/* "name total not_set other repeated n_all: value=total filter|..." */
static const char *told(const struct tag_table *t, size_t row)
{
    static char out[1024];
    CLEANUP(buf_done) struct buf b = {0}, filter = {0};
    const struct tag_row *r = &t->rows.data[row];

    buf_addf(&b, "%s %lld %lld %lld %lld %zu:", dict_cstr(t->dict, r->name), (long long)r->total,
             (long long)r->not_set, (long long)r->other, (long long)r->repeated, r->n_all);
    for (size_t i = 0; i < r->n_values; i++) {
        buf_clear(&filter);
        bool has = tag_table_value_filter(t, &r->values[i], &filter);
        buf_addf(&b, " %s=%lld %s|", dict_cstr(t->dict, r->values[i].text),
                 (long long)r->values[i].value, has ? buf_cstr(&filter) : "-");
    }
    snprintf(out, sizeof(out), "%s", buf_cstr(&b));
    return out;
}

/* What the header promises, of every attribute. */
static void check_sums(struct test *t, const struct tag_table *table)
{
    for (size_t i = 0; i < table->rows.len; i++) {
        const struct tag_row *r = &table->rows.data[i];
        int64_t sum = r->other;
        for (size_t k = 0; k < r->n_values; k++)
            sum += r->values[k].value;
        CHECK_INT(t, sum, r->total + r->repeated);
        CHECK_INT(t, r->total + r->not_set, table->total);
    }
}

static void every_attribute_adds_up(struct test *t)
{
    struct fixture f;
    struct tag_table table;

    fixture_init(&f, BUDGET_DEFAULT_BYTES);
    ADD(&f, 100, text(&f, "http.route", "/cart"), text(&f, "lock.kind", "mutex"));
    ADD(&f, 30, text(&f, "http.route", "/pay"), text(&f, "lock.kind", "mutex"));
    ADD(&f, 5, text(&f, "http.route", "/a,b=(c)"));
    add_plain(&f, 7);
    CHECK_INT(t, tag_table_build(f.p, &(struct tag_table_options){0}, &table, NULL), 0);
    CHECK_INT(t, table.total, 142);
    CHECK_INT(t, table.n_all, 2);
    CHECK_STR(t, told(&table, 0),
              "http.route 135 7 0 0 3: /cart=100 http.route=^/cart$| /pay=30 http.route=^/pay$| "
              "/a,b=(c)=5 http.route=^/a\\x2cb\\x3d\\(c\\)$|");
    CHECK_STR(t, told(&table, 1), "lock.kind 130 12 0 0 1: mutex=130 lock.kind=^mutex$|");
    check_sums(t, &table);
    tag_table_done(&table);

    CHECK_INT(
        t, tag_table_build(f.p, &(struct tag_table_options){.name = "lock.kind"}, &table, NULL), 0);
    CHECK_INT(t, table.rows.len, 1);
    CHECK_INT(t, table.n_all, 1);
    tag_table_done(&table);
    CHECK_INT(t, tag_table_build(f.p, &(struct tag_table_options){.name = "lock"}, &table, NULL),
              0);
    CHECK_INT(t, table.rows.len, 0);
    tag_table_done(&table);

    struct error err;
    CHECK_INT(t, tag_table_build(f.p, &(struct tag_table_options){.type = 1}, &table, &err),
              -EINVAL);
    CHECK_STR(t, err.text, "there is no sample type 1: the profile has 1");
    tag_table_done(&table);
    fixture_done(&f);
}

static void what_is_past_the_limit_is_other(struct test *t)
{
    struct fixture f;
    struct tag_table table;
    char value[16];

    fixture_init(&f, BUDGET_DEFAULT_BYTES);
    for (int i = 0; i < 50; i++) {
        snprintf(value, sizeof(value), "v%d", i);
        ADD(&f, i, text(&f, "key", value), text(&f, value, "x"));
    }
    struct tag_table_options o = {.values_max = 2, .rows_max = 3};
    CHECK_INT(t, tag_table_build(f.p, &o, &table, NULL), 0);
    CHECK_STR(t, told(&table, 0), "key 1225 0 1128 0 50: v49=49 key=^v49$| v48=48 key=^v48$|");
    CHECK_INT(t, table.rows.len, 3);
    CHECK_INT(t, table.n_all, 51);
    check_sums(t, &table);
    tag_table_done(&table);
    fixture_done(&f);
}

/* They count for each value, and it is said what that is too much. */
static void a_sample_may_have_several_values(struct test *t)
{
    struct fixture f;
    struct tag_table table;

    fixture_init(&f, BUDGET_DEFAULT_BYTES);
    ADD(&f, 10, text(&f, "flag", "a"), text(&f, "flag", "b"));
    ADD(&f, 1, text(&f, "flag", "a"));
    add_plain(&f, 4);
    CHECK_INT(t, tag_table_build(f.p, &(struct tag_table_options){0}, &table, NULL), 0);
    CHECK_STR(t, told(&table, 0), "flag 11 4 0 10 2: a=11 flag=^a$| b=10 flag=^b$|");
    check_sums(t, &table);
    tag_table_done(&table);
    fixture_done(&f);
}

/* Numbers that look the same are one value, whose filter spans them. */
static void numbers_have_filters_too(struct test *t)
{
    struct fixture f;
    struct tag_table table;
    CLEANUP(buf_done) struct buf any = {0};

    fixture_init(&f, BUDGET_DEFAULT_BYTES);
    ADD(&f, 1, number(&f, "size", 4194304, "bytes"), number(&f, "thread.id", 17, ""));
    ADD(&f, 2, number(&f, "size", 4194305, "bytes"), text(&f, "thread.id", "17"));
    ADD(&f, 4, number(&f, "size", -3, "bytes"), text(&f, "", "x"), text(&f, "a=b", "c"));
    CHECK_INT(t, tag_table_build(f.p, &(struct tag_table_options){0}, &table, NULL), 0);
    CHECK_STR(t, told(&table, 0), " 4 3 0 0 1: x=4 ^:x$|");
    CHECK_STR(t, told(&table, 1), "a=b 4 3 0 0 1: c=4 ^a\\x3db:c$|");
    CHECK_STR(t, told(&table, 2),
              "size 7 0 0 0 2: -3B=4 size=-3bytes| 4MB=3 size=4194304bytes:4194305bytes|");
    CHECK_STR(t, told(&table, 3), "thread.id 3 4 0 0 1: 17=3 -|");
    CHECK(t, !tag_table_any_filter(&table, &table.rows.data[2], &any));
    CHECK(t, !tag_table_any_filter(&table, &table.rows.data[1], &any));
    check_sums(t, &table);
    tag_table_done(&table);
    fixture_done(&f);
}

static int64_t total_left(struct fixture *f, const char *filter)
{
    struct label_units units;
    struct tag_filter *wanted = NULL;
    bool focused, ignored;

    if (!label_units_build(f->p, &units, NULL) ||
        tag_filter_new(filter, &units, &wanted, NULL, NULL) < 0 ||
        !profile_filter_tags(f->p, wanted, NULL, &focused, &ignored))
        abort();
    tag_filter_free(wanted);
    label_units_done(&units);
    return profile_total(f->p, 0);
}

static void add_strange(struct fixture *f)
{
    fixture_init(f, BUDGET_DEFAULT_BYTES);
    ADD(f, 1, text(f, "k", "a,b"), number(f, "n", 1000, "ms"), text(f, "", "z"));
    ADD(f, 2, text(f, "k", "a"), number(f, "n", 1001, "ms"), text(f, "a=b", "c=d"));
    ADD(f, 4, text(f, "k", "^b.*$"), number(f, "n", 7, "ms"), text(f, "a", "b:c=d"));
    ADD(f, 8, text(f, "k", "99999999999999999999999"), number(f, "id", 12, ""));
    ADD(f, 16, text(f, "k", ""), number(f, "id", 123456789012, ""));
    ADD(f, 32, text(f, "k", "12"), text(f, "k", "5:6"), text(f, "k", "\n"));
}

/* The filter of each value leaves what the table says of it. */
static void filters_mean_what_is_shown(struct test *t)
{
    struct fixture f;
    struct tag_table table;
    CLEANUP(buf_done) struct buf filter = {0};
    size_t n = 0;

    add_strange(&f);
    CHECK_INT(t, tag_table_build(f.p, &(struct tag_table_options){0}, &table, NULL), 0);
    for (size_t i = 0; i < table.rows.len; i++) {
        const struct tag_row *r = &table.rows.data[i];
        for (size_t k = 0; k < r->n_values; k++, n++) {
            struct fixture again;
            buf_clear(&filter);
            CHECK(t, tag_table_value_filter(&table, &r->values[k], &filter));
            add_strange(&again);
            CHECK_INT(t, total_left(&again, buf_cstr(&filter)), r->values[k].value);
            fixture_done(&again);
        }
        buf_clear(&filter);
        if (tag_table_any_filter(&table, r, &filter)) {
            struct fixture again;
            add_strange(&again);
            CHECK_INT(t, total_left(&again, buf_cstr(&filter)), r->total);
            fixture_done(&again);
        }
    }
    CHECK(t, n >= 14);
    tag_table_done(&table);
    fixture_done(&f);
}

static void survives_running_out_of_memory_anywhere(struct test *t)
{
    int r = -ENOBUFS;

    for (size_t limit = 4096; r == -ENOBUFS && limit < 10000000; limit += 64) {
        struct fixture f;
        struct tag_table table = {0};
        fixture_init(&f, limit);
        if (!budget_failed(&f.budget)) {
            ADD(&f, 1, text(&f, "key", "a"), number(&f, "size", 3, "bytes"));
            ADD(&f, 2, text(&f, "key", "b"));
        }
        if (!budget_failed(&f.budget))
            r = tag_table_build(f.p, &(struct tag_table_options){0}, &table, NULL);
        tag_table_done(&table);
        fixture_done(&f);
    }
    CHECK_INT(t, r, 0);
}

static const struct test_case cases[] = {
    TEST(every_attribute_adds_up),          TEST(what_is_past_the_limit_is_other),
    TEST(a_sample_may_have_several_values), TEST(numbers_have_filters_too),
    TEST(filters_mean_what_is_shown),       TEST(survives_running_out_of_memory_anywhere),
};
TEST_MAIN(cases)

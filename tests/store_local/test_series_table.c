#include <errno.h>

#include "lib/test.h"
#include "store_local/series_table.h"

static struct label pods[] = {{BYTES("pod"), BYTES("a")}, {BYTES("service.name"), BYTES("s")}};
static struct store_type types[] = {{BYTES("samples"), BYTES("count")},
                                    {BYTES("cpu"), BYTES("nanoseconds")}};

static struct series_key key(const struct label *labels, size_t n)
{
    return (struct series_key){
        .labels = labels, .n_labels = n, .types = types, .n_types = 2, .period_type = types[1]};
}

static void finds_what_was_added_and_nothing_else(struct test *t)
{
    CLEANUP(series_table_freep) struct series_table *table = series_table_new();
    struct series_key k = key(pods, 2), other = key(pods, 2), fewer = key(pods, 1);

    CHECK(t, !series_table_find(table, &k));
    struct series *s = series_table_add(table, &k, 0);
    CHECK_INT(t, s->id, 1);
    CHECK(t, series_table_find(table, &k) == s);
    CHECK(t, series_table_get(table, 1) == s);
    CHECK(t, !series_table_get(table, 0) && !series_table_get(table, 2));
    other.is_instant = true;
    CHECK(t, !series_table_find(table, &other));
    other = k;
    other.is_group = true;
    CHECK(t, !series_table_find(table, &other));
    other = k;
    other.n_types = 1;
    CHECK(t, !series_table_find(table, &other));
    other = k;
    other.period_type = types[0];
    CHECK(t, !series_table_find(table, &other));
    CHECK(t, !series_table_find(table, &fewer));
    struct label changed[] = {pods[0], {BYTES("service.name"), BYTES("t")}};
    other = key(changed, 2);
    CHECK(t, !series_table_find(table, &other));
    CHECK(t, s->labels != pods && bytes_are(s->labels[0].value, "a"));
    CHECK(t, series_table_bytes(table) > 0);
}

/* A reader may go through a list while more are added. */
static void lists_outlive_growth(struct test *t)
{
    CLEANUP(series_table_freep) struct series_table *table = series_table_new();
    char text[16];
    uint32_t n = 0;
    struct series *const *list = NULL;

    for (unsigned i = 0; i < 1000; i++) {
        snprintf(text, sizeof(text), "%u", i);
        struct label l[] = {{BYTES("pod"), bytes_of(text)}};
        struct series_key k = key(l, 1);
        CHECK_INT(t, series_table_add(table, &k, 0)->id, i + 1);
        if (i == 9)
            list = series_table_list(table, &n);
    }
    CHECK_INT(t, n, 10);
    for (uint32_t i = 0; i < n; i++)
        CHECK_INT(t, list[i]->id, i + 1);
    CHECK_INT(t, series_table_len(table), 1000);
}

static void definitions_come_back(struct test *t)
{
    CLEANUP(series_table_freep) struct series_table *from = series_table_new();
    CLEANUP(series_table_freep) struct series_table *to = series_table_new();
    CLEANUP(buf_done) struct buf out = {0};
    struct series_key k = key(pods, 2), group = key(pods + 1, 1);
    struct series *s;
    struct error err;

    group.is_group = true;
    series_table_add(from, &group, 0);
    series_table_add(from, &k, 1);
    series_encode(series_table_get(from, 1), &out);
    size_t first = out.len;
    series_encode(series_table_get(from, 2), &out);
    struct bytes in = bytes_from(buf_bytes(&out), first);
    CHECK_INT(t, series_apply(to, &in, &s, &err), -ESTALE);
    CHECK_STR(t, err.text, "the definition of a series before 2 is missing");
    in = buf_bytes(&out);
    CHECK_INT(t, series_apply(to, &in, &s, &err), 0);
    CHECK(t, s->is_group);
    CHECK_INT(t, series_apply(to, &in, &s, &err), 0);
    CHECK_INT(t, in.len, 0);
    CHECK_INT(t, s->group, 1);
    CHECK(t, series_table_find(to, &k) == s);
    in = buf_bytes(&out);
    CHECK_INT(t, series_apply(to, &in, &s, &err), 0); /* there already */
    CHECK_INT(t, series_table_len(to), 2);

    /* Another series under a number that is taken, and one a second time. */
    CLEANUP(series_table_freep) struct series_table *third = series_table_new();
    struct series_key instant = k;
    instant.is_instant = true;
    series_table_add(third, &instant, 0);
    in = buf_bytes(&out);
    CHECK_INT(t, series_apply(third, &in, &s, &err), -EBADMSG);
    CHECK_STR(t, err.text, "two series have the number 1");
    CLEANUP(series_table_freep) struct series_table *fourth = series_table_new();
    series_table_add(fourth, &k, 0);
    in = bytes_from(buf_bytes(&out), first);
    CHECK_INT(t, series_apply(fourth, &in, &s, &err), -EBADMSG);
    CHECK_STR(t, err.text, "series 2 is defined a second time");
}

static void lost_ones_keep_their_ids(struct test *t)
{
    CLEANUP(series_table_freep) struct series_table *from = series_table_new();
    CLEANUP(series_table_freep) struct series_table *to = series_table_new();
    CLEANUP(buf_done) struct buf out = {0};
    struct series_key k = key(pods, 2), other = key(pods, 1);
    struct series *s;
    struct error err;

    series_table_add(from, &other, 0);
    series_encode(series_table_add(from, &k, 0), &out);
    struct bytes in = buf_bytes(&out);
    CHECK_INT(t, series_apply_sparse(to, &in, &s, &err), 0);
    CHECK_INT(t, s->id, 2);
    CHECK_INT(t, series_table_get(to, 1)->n_types, 0);
    CHECK(t, series_table_get(to, 1)->is_flushed);
    CHECK(t, series_table_pad(to, 5));
    CHECK_INT(t, series_table_len(to), 5);
    CHECK(t, series_table_pad(to, 3));
    CHECK_INT(t, series_table_len(to), 5);
}

static void damage_is_refused(struct test *t)
{
    CLEANUP(series_table_freep) struct series_table *from = series_table_new();
    CLEANUP(buf_done) struct buf out = {0};
    struct series_key k = key(pods, 2);
    struct series *s;
    struct error err;

    series_encode(series_table_add(from, &k, 0), &out);
    for (size_t n = 0; n < out.len; n++) {
        CLEANUP(series_table_freep) struct series_table *to = series_table_new();
        uint8_t *cut = malloc(n + 1);
        memcpy(cut, out.data, n);
        struct bytes in = {cut, n};
        CHECK_INT(t, series_apply(to, &in, &s, &err), -EBADMSG);
        free(cut);
        for (unsigned bit = 0; bit < 8; bit++) {
            out.data[n] ^= (uint8_t)(1u << bit);
            in = buf_bytes(&out);
            int r = series_apply(to, &in, &s, &err);
            CHECK(t, r == 0 || r == -EBADMSG || r == -ESTALE);
            out.data[n] ^= (uint8_t)(1u << bit);
        }
    }
}

static const struct test_case cases[] = {
    TEST(finds_what_was_added_and_nothing_else),
    TEST(lists_outlive_growth),
    TEST(definitions_come_back),
    TEST(lost_ones_keep_their_ids),
    TEST(damage_is_refused),
};
TEST_MAIN(cases)

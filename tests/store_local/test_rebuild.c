#include <errno.h>

#include "lib/test.h"
#include "segment/run.h"
#include "segment/varint.h"
#include "store_local/rebuild.h"

/* A row of three samples in two attribute sets; one of them in a span, once with a time. */
struct fixture {
    struct budget budget;
    struct dict *dict;
    struct store_type types[2];
    struct series series;
    struct buf payload, side;
    struct rebuild_row row;
};

static void fixture_init(struct fixture *f)
{
    budget_init(&f->budget, BUDGET_DEFAULT_BYTES);
    f->dict = dict_new(&f->budget);
    uint32_t a =
        dict_frame(f->dict, 0, (struct function){.name = dict_cstring(f->dict, "a")}, 1, 0, 0);
    uint32_t b =
        dict_frame(f->dict, a, (struct function){.name = dict_cstring(f->dict, "b")}, 1, 0, 0);
    uint32_t key = dict_cstring(f->dict, "thread.name");
    uint32_t attribute = dict_string_attribute(f->dict, key, dict_cstring(f->dict, "main"));
    uint32_t attrs = dict_attrs(f->dict, &attribute, 1);
    f->types[0] = (struct store_type){BYTES("samples"), BYTES("count")};
    f->types[1] = (struct store_type){BYTES("cpu"), BYTES("nanoseconds")};
    f->series = (struct series){.id = 1,
                                .n_types = 2,
                                .types = f->types,
                                .period_type = {BYTES("cpu"), BYTES("nanoseconds")}};
    f->payload = f->side = (struct buf){0};
    add_varint(&f->payload, 0);
    run_encode((uint32_t[]){a, b}, (const int64_t *const[]){(int64_t[]){1, 5}, (int64_t[]){10, 50}},
               2, 2, &f->payload);
    add_varint(&f->payload, attrs);
    run_encode((uint32_t[]){b}, (const int64_t *const[]){(int64_t[]){3}, (int64_t[]){30}}, 1, 2,
               &f->payload);
    struct side_row rows[] = {{.node = a, .attrs = 0, .time_ns = 1005},
                              {.node = b, .attrs = 0, .link = {{7}, {8}}},
                              {.node = 99, .attrs = 0, .link = {{7}, {9}}}};
    int64_t values[] = {1, 2, 0, 10, 20, 0};
    struct side_rows side = {.rows = rows, .values = values, .n = 3, .n_values = 2};
    side_encode(&side, 1000, &f->side);
    /* Readers may look at a few bytes behind what is theirs. */
    f->row = (struct rebuild_row){.view = f->dict,
                                  .series = &f->series,
                                  .start_ns = 1000,
                                  .duration_ns = 77,
                                  .period = 100,
                                  .id = (const uint8_t *)"0123456789abcdef",
                                  .payload = buf_bytes(&f->payload),
                                  .side = buf_bytes(&f->side)};
    buf_add(&f->payload, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16);
    buf_add(&f->side, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16);
    f->row.payload.data = f->payload.data;
    f->row.side.data = f->side.data;
}

static void fixture_done(struct fixture *f)
{
    buf_done(&f->payload);
    buf_done(&f->side);
    dict_free(f->dict);
}

static void takes_samples_with_links_and_times_apart(struct test *t)
{
    struct fixture f;
    struct rebuild r;
    const struct profile *p = NULL;

    fixture_init(&f);
    rebuild_init(&r, (size_t)16 << 20);
    for (int round = 0; round < 3; round++) {
        CHECK_INT(t, rebuild_profile(&r, &f.row, &p, NULL), 0);
        /* a is all in its side row, b keeps 3 of 5, then b with attributes, then the side rows. */
        CHECK_INT(t, p->n_samples, 5);
        CHECK_INT(t, p->values[0][0], 3);
        CHECK_INT(t, p->values[1][0], 30);
        CHECK_INT(t, p->values[0][1], 3);
        CHECK(t, profile_attrs(p, 0) == 0 && profile_attrs(p, 1) != 0);
        CHECK_INT(t, profile_time_ns(p, 2), 1005);
        CHECK_INT(t, profile_link(p, 2), 0);
        CHECK_INT(t, p->dict->links.data[profile_link(p, 3)].span_id[0], 8);
        CHECK_INT(t, profile_total(p, 1), 90);
        CHECK_INT(t, p->node[4], 0); /* a stack that is not there */
        CHECK_INT(t, p->duration_ns, 77);
        CHECK_INT(t, p->period, 100);
        CHECK(t, memcmp(p->profile_id, "0123456789abcdef", 16) == 0);
    }
    rebuild_done(&r);
    rebuild_done(&r);
    fixture_done(&f);
}

static void begins_a_new_dictionary_when_the_old_one_is_large(struct test *t)
{
    struct fixture f;
    struct rebuild r;
    const struct profile *p = NULL;

    fixture_init(&f);
    rebuild_init(&r, (size_t)1 << 20);
    CHECK_INT(t, rebuild_profile(&r, &f.row, &p, NULL), 0);
    for (int i = 0; i < 20000; i++) {
        char text[64];
        snprintf(text, sizeof(text), "some long text to fill the memory with, number %d", i);
        dict_cstring(r.set->dict, text);
    }
    CHECK_INT(t, rebuild_profile(&r, &f.row, &p, NULL), 0);
    CHECK(t, p->dict->strings.len < 100);
    CHECK_INT(t, profile_total(p, 1), 90);
    rebuild_done(&r);
    fixture_done(&f);
}

static void refuses_damaged_samples_and_says_whose(struct test *t)
{
    struct fixture f;
    struct rebuild r;
    const struct profile *p = NULL;
    struct error err = {{0}};

    fixture_init(&f);
    rebuild_init(&r, (size_t)16 << 20);
    struct bytes payload = f.row.payload, side = f.row.side;
    int n_bad = 0;
    for (size_t len = 1; len < payload.len; len++) {
        f.row.payload.len = len;
        int result = rebuild_profile(&r, &f.row, &p, &err);
        CHECK(t, result == 0 || result == -EBADMSG);
        n_bad += result < 0;
    }
    CHECK(t, n_bad > 5);
    CHECK_STR(t, err.text, "samples of the profile at 1000 are damaged");
    f.row.payload = payload;
    for (size_t len = 1; len < side.len; len++) {
        f.row.side.len = len;
        CHECK_INT(t, rebuild_profile(&r, &f.row, &p, &err), -EBADMSG);
    }
    f.row.side = side;
    for (size_t i = 0; i < payload.len * 8; i++) {
        f.payload.data[i / 8] ^= (uint8_t)(1 << (i % 8));
        int result = rebuild_profile(&r, &f.row, &p, &err);
        CHECK(t, result == 0 || result == -EBADMSG || result == -ENOBUFS);
        f.payload.data[i / 8] ^= (uint8_t)(1 << (i % 8));
    }
    CHECK_INT(t, rebuild_profile(&r, &f.row, &p, &err), 0);
    rebuild_done(&r);
    fixture_done(&f);
}

static void fails_cleanly_at_every_memory_limit(struct test *t)
{
    struct fixture f;
    int result = -ENOBUFS;

    fixture_init(&f);
    for (size_t limit = 0; result == -ENOBUFS; limit += 97) {
        struct rebuild r;
        const struct profile *p = NULL;
        struct error err = {{0}};

        CHECK(t, limit < (size_t)1 << 20);
        rebuild_init(&r, limit);
        result = rebuild_profile(&r, &f.row, &p, &err);
        if (result < 0)
            CHECK(t, result == -ENOBUFS && strstr(err.text, "limit") != NULL);
        rebuild_done(&r);
    }
    CHECK_INT(t, result, 0);
    fixture_done(&f);
}

static const struct test_case cases[] = {
    TEST(takes_samples_with_links_and_times_apart),
    TEST(begins_a_new_dictionary_when_the_old_one_is_large),
    TEST(refuses_damaged_samples_and_says_whose),
    TEST(fails_cleanly_at_every_memory_limit),
};
TEST_MAIN(cases)

#include "base/cleanup.h"
#include "lib/test.h"
#include "query/json_answers.h"

static void a_series_says_its_labels_types_and_kind(struct test *t)
{
    CLEANUP(buf_done) struct buf out = {0};
    struct json_writer w = {.out = &out};
    struct label labels[] = {{BYTES("k"), BYTES("\"v\"")}, {BYTES("service.name"), BYTES("a")}};
    struct store_type types[] = {{BYTES("cpu"), BYTES("nanoseconds")}};
    struct store_series s = {.labels = labels, .n_labels = 2, .types = types, .n_types = 1};

    json_series(&w, &s);
    CHECK_STR(t, buf_cstr(&out),
              "{\"labels\":{\"k\":\"\\\"v\\\"\",\"service.name\":\"a\"},"
              "\"types\":[{\"type\":\"cpu\",\"unit\":\"nanoseconds\"}],\"instant\":false}");
}

static void ids_are_hexadecimal(struct test *t)
{
    CLEANUP(buf_done) struct buf out = {0};
    struct json_writer w = {.out = &out};

    json_begin_object(&w);
    json_id(&w, "span", (const uint8_t[8]){0x0a, 0, 0, 0, 0, 0, 0, 0xff}, 8);
    json_end_object(&w);
    CHECK_STR(t, buf_cstr(&out), "{\"span\":\"0a000000000000ff\"}");
}

static void facts_of_a_store_say_its_trouble_last(struct test *t)
{
    CLEANUP(buf_done) struct buf out = {0};
    struct json_writer w = {.out = &out};
    struct store_stat s = {.tenants = 1, .last_ns = -5, .trouble = "disk"};

    json_store_stat(&w, &s);
    const char *text = buf_cstr(&out);
    CHECK(t, strstr(text, "{\"tenants\":1,\"series\":0,") == text);
    CHECK(t, strstr(text, "\"first_ns\":\"0\",\"last_ns\":\"-5\",\"is_read_only\":false,"
                          "\"trouble\":\"disk\"}") != NULL);
}

static const struct test_case cases[] = {
    TEST(a_series_says_its_labels_types_and_kind),
    TEST(ids_are_hexadecimal),
    TEST(facts_of_a_store_say_its_trouble_last),
};
TEST_MAIN(cases)

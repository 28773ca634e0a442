#include "otlp_helpers.h"

static const char *check(struct bytes message)
{
    static struct buf problems;
    buf_clear(&problems);
    int n = otlp_check(message, &problems);
    return n == 0 && problems.len > 0 ? "text without a problem" : buf_cstr(&problems);
}

static void finds_nothing_wrong_with_a_good_message(struct test *t)
{
    struct buf b = example(V10), good = {0}, losses = {0};
    struct reading r;

    read_into(&r, NULL, buf_bytes(&b), BUDGET_DEFAULT_BYTES);
    CHECK_INT(t, format_otlp.encode(r.set, &good, &losses, &r.err), 0);
    CHECK_STR(t, check(buf_bytes(&good)), "");
    reading_done(&r);
    buf_done(&b);
    buf_done(&good);
    buf_done(&losses);
}

static void wants_profiles_scopes_resources_and_tables(struct test *t)
{
    CHECK_STR(t, check(BYTES("\x0a\x04\x12\x02\x12\x00\x0a\x00\x0a\x02\x12\x00")),
              "resource_profiles[1]: there are no scope_profiles\n"
              "resource_profiles[2].scope_profiles[0]: there are no profiles\n"
              "message: the mapping_table has no element 0\n"
              "message: the location_table has no element 0\n"
              "message: the function_table has no element 0\n"
              "message: the link_table has no element 0\n"
              "message: the string_table has no element 0\n"
              "message: the attribute_table has no element 0\n"
              "message: the stack_table has no element 0\n");
}

/* A message of one profile and the seven tables, each with an empty element 0. */
struct bad {
    struct buf profile, tables;
};

static const char *check_bad(struct bad *bad)
{
    struct buf b = {0};
    size_t resource = pb_begin(&b, 1), scope = pb_begin(&b, 2);

    pb_put_bytes(&b, 2, bad->profile.data ? buf_bytes(&bad->profile) : BYTES(""));
    pb_end(&b, scope);
    pb_end(&b, resource);
    size_t at = pb_begin(&b, 2);
    for (uint32_t table = 1; table <= 7; table++)
        pb_put_bytes(&b, table, BYTES(""));
    buf_add_bytes(&b, buf_bytes(&bad->tables));
    pb_end(&b, at);
    const char *text = check(buf_bytes(&b));
    buf_done(&b);
    buf_done(&bad->profile);
    buf_done(&bad->tables);
    *bad = (struct bad){0};
    return text;
}

#define SAMPLES "resource_profiles[0].scope_profiles[0].profiles[0].samples"

static void put_sample(struct bad *bad, const char *body, size_t len)
{
    pb_put_bytes(&bad->profile, 2, (struct bytes){(const uint8_t *)body, len});
}
#define SAMPLE(bad, body) put_sample((bad), (body), sizeof(body) - 1)

static void checks_samples(struct test *t)
{
    struct bad bad = {0};

    SAMPLE(&bad, "\x08\x05\x18\x06\x12\x01\x07\x22\x01\x01");
    CHECK_STR(t, check_bad(&bad),
              SAMPLES "[0]: stack_index is 5 and the stack_table has 1\n" SAMPLES
                      "[0]: link_index is 6 and the link_table has 1\n" SAMPLES
                      "[0]: attribute_indices is 7 and the attribute_table has "
                      "1\n");
    SAMPLE(&bad, "");
    SAMPLE(&bad, "\x22\x02\x01\x02");
    SAMPLE(&bad, "\x22\x02\x01\x02\x29\x64\x00\x00\x00\x00\x00\x00\x00");
    SAMPLE(&bad, "\x2a\x08\x64\x00\x00\x00\x00\x00\x00\x00");
    SAMPLE(&bad, "\x2a\x08\x6e\x00\x00\x00\x00\x00\x00\x00");
    pb_put_fixed64(&bad.profile, 3, 100);
    pb_put_u64(&bad.profile, 4, 10);
    CHECK_STR(t, check_bad(&bad),
              SAMPLES "[0]: there is neither a value nor a time\n" SAMPLES
                      "[1]: there are 2 values without times\n" SAMPLES
                      "[1]: the sample has another shape than the profile's first\n" SAMPLES
                      "[2]: there are 2 values and 1 times\n" SAMPLES
                      "[2]: the sample has another shape than the profile's first\n" SAMPLES
                      "[3]: the sample has another shape than the profile's first\n" SAMPLES
                      "[4]: timestamps_unix_nano has 110, outside of [100, 110)\n" SAMPLES
                      "[4]: the sample has another shape than the profile's first\n");
    SAMPLE(&bad, "\x22\x05");
    CHECK(t, strstr(check_bad(&bad), "a length runs past the end of its message") != NULL);
}

static void checks_types_and_keys(struct test *t)
{
    struct bad bad = {0};

    pb_put_bytes(&bad.profile, 1, BYTES("\x08\x03"));
    pb_put_bytes(&bad.profile, 5, BYTES("\x10\x04"));
    CHECK_STR(t, check_bad(&bad),
              "resource_profiles[0].scope_profiles[0].profiles[0]: sample_type is 3 and the "
              "string_table has 1\n"
              "resource_profiles[0].scope_profiles[0].profiles[0]: period_type is 4 and the "
              "string_table has 1\n");
    PACKED(&bad.profile, 11, 1, 2);
    pb_put_bytes(&bad.tables, 5, BYTES("key"));
    pb_put_bytes(&bad.tables, 6, BYTES("\x08\x01\x12\x02\x18\x01"));
    pb_put_bytes(&bad.tables, 6, BYTES("\x08\x01\x12\x02\x18\x02"));
    CHECK_STR(t, check_bad(&bad),
              "resource_profiles[0].scope_profiles[0].profiles[0]: attribute_indices has the key "
              "\"key\" twice\n");
}

static void checks_the_elements_of_tables(struct test *t)
{
    static const struct {
        uint32_t table;
        const char *body;
        size_t len;
        const char *why;
    } cases[] = {
        {1, "\x08\x05\x10\x05\x20\x09", 6,
         "mapping_table[1]: filename_strindex is 9 and the string_table has 1\n"
         "mapping_table[1]: memory_start 5 is not below memory_limit 5\n"},
        {2, "\x08\x02\x1a\x02\x08\x03", 6,
         "location_table[1]: mapping_index is 2 and the mapping_table has 1\n"
         "location_table[1]: function_index is 3 and the function_table has 1\n"},
        {2,
         "\x1a\x16\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x18\xff\xff\xff\xff\xff\xff\xff"
         "\xff\xff\x01",
         24, "location_table[1]: line is negative\nlocation_table[1]: column is negative\n"},
        {3, "\x08\x02\x10\x03\x18\x04", 6,
         "function_table[1]: name_strindex is 2 and the string_table has 1\n"
         "function_table[1]: system_name_strindex is 3 and the string_table has 1\n"
         "function_table[1]: filename_strindex is 4 and the string_table has 1\n"},
        {3, "\x20\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11,
         "function_table[1]: start_line is negative\n"},
        {4, "\x0a\x01x", 3,
         "link_table[1]: trace_id has 1 bytes and not 16\n"
         "link_table[1]: span_id has 0 bytes and not 8\n"},
        {6, "\x08\x02\x18\x03", 4,
         "attribute_table[1]: key_strindex is 2 and the string_table has 1\n"
         "attribute_table[1]: unit_strindex is 3 and the string_table has 1\n"},
        {7, "\x0a\x01\x05", 3,
         "stack_table[1]: location_indices is 5 and the location_table has 1\n"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        static const char *const names[] = {"",     "mapping", "location",  "function",
                                            "link", "string",  "attribute", "stack"};
        struct bad bad = {0};
        char text[600];
        pb_put_bytes(&bad.tables, cases[i].table,
                     (struct bytes){(const uint8_t *)cases[i].body, cases[i].len});
        snprintf(text, sizeof(text), "%smessage: nothing refers to element 1 of the %s_table\n",
                 cases[i].why, names[cases[i].table]);
        CHECK_STR(t, check_bad(&bad), text);
    }
}

static void finds_elements_twice_and_first_ones_that_are_not_empty(struct test *t)
{
    struct bad bad = {0};

    pb_put_bytes(&bad.tables, 5, BYTES("a"));
    pb_put_bytes(&bad.tables, 5, BYTES("a"));
    pb_put_bytes(&bad.tables, 1, BYTES("\x20\x01"));
    pb_put_bytes(&bad.tables, 1, BYTES("\x20\x01"));
    CHECK_STR(t, check_bad(&bad),
              "string_table[2]: an equal element stands before it\n"
              "mapping_table[2]: an equal element stands before it\n"
              "message: nothing refers to element 1 of the mapping_table\n"
              "message: nothing refers to element 2 of the mapping_table\n"
              "message: nothing refers to element 2 of the string_table\n");
    CHECK(t, strstr(check(BYTES("\x12\x05\x2a\x01x\x0a\x00")),
                    "string_table[0]: the first string is not empty\n") != NULL);
    CHECK(t, strstr(check(BYTES("\x12\x06\x12\x02\x10\x01\x22\x00")),
                    "location_table[0]: element 0 is not empty\n") != NULL);
    CHECK(t, strstr(check(BYTES("\x12\x05\x22\x03\x0a\x01x")),
                    "link_table[0]: element 0 is not empty\n") != NULL);
    /* A link of zero bytes and a value of no kind are empty. */
    CHECK(t, strstr(check(BYTES("\x12\x09\x22\x03\x0a\x01\x00\x32\x02\x12\x00")), "not empty") ==
                 NULL);
}

static void stops_listing_after_a_while(struct test *t)
{
    struct bad bad = {0};
    for (int i = 0; i < 500; i++)
        SAMPLE(&bad, "");
    const char *text = check_bad(&bad);
    int lines = 0;
    for (; *text; text++)
        lines += *text == '\n';
    CHECK_INT(t, lines, OTLP_CHECK_LINES);
}

static void survives_any_byte_being_wrong(struct test *t)
{
    struct buf b = example(V10);

    for (size_t i = 0; i < b.len; i++) {
        uint8_t was = b.data[i];
        b.data[i] = 0xff;
        check(buf_bytes(&b));
        b.data[i] = (uint8_t)(was + 1);
        check(buf_bytes(&b));
        b.data[i] = was;
        check((struct bytes){b.data, i});
    }
    CHECK(t, strlen(check(BYTES("\xff\xff"))) > 0);
    buf_done(&b);
}

static const struct test_case cases[] = {
    TEST(finds_nothing_wrong_with_a_good_message),
    TEST(wants_profiles_scopes_resources_and_tables),
    TEST(checks_samples),
    TEST(checks_types_and_keys),
    TEST(checks_the_elements_of_tables),
    TEST(finds_elements_twice_and_first_ones_that_are_not_empty),
    TEST(stops_listing_after_a_while),
    TEST(survives_any_byte_being_wrong),
};
TEST_MAIN(cases)

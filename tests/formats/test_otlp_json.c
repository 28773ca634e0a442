#include "otlp_helpers.h"

#define DOCUMENT(profile, tables)                                                                  \
    "{\"resourceProfiles\":[{\"scopeProfiles\":[{\"profiles\":[" profile                           \
    "]}]}],\"dictionary\":{" tables "}}"

static char *read_json(const char *text)
{
    return read_as_text(&format_otlp_json, bytes_of(text));
}

static bool says(const char *text, const char *part)
{
    char *got = read_json(text);
    bool has = strstr(got, part) != NULL;
    if (!has)
        printf("# got: %s\n", got);
    free(got);
    return has;
}

static void reads_the_same_from_json_as_from_protobuf(struct test *t)
{
    struct buf b = example(V10), json = {0}, losses = {0};
    struct reading r;

    read_into(&r, NULL, buf_bytes(&b), BUDGET_DEFAULT_BYTES);
    CHECK_INT(t, format_otlp_json.encode(r.set, &json, &losses, &r.err), 0);
    CHECK_SAME_TEXT(t, read_as_text(NULL, buf_bytes(&json)), dump_set(r.set));
    CHECK(t, format_detect(buf_bytes(&json)) == &format_otlp_json);
    reading_done(&r);
    buf_done(&b);
    buf_done(&json);
    buf_done(&losses);
}

static void takes_keys_in_any_order_and_both_spellings(struct test *t)
{
    const char *camel = DOCUMENT(
        "{\"samples\":[{\"stackIndex\":1,\"values\":[\"7\"]}],\"timeUnixNano\":\"5\","
        "\"sampleType\":{\"typeStrindex\":1,\"unitStrindex\":2}}",
        "\"stackTable\":[{},{\"locationIndices\":[1]}],\"locationTable\":[{},{\"lines\":"
        "[{\"functionIndex\":1,\"line\":\"3\"}]}],\"functionTable\":[{},{\"nameStrindex\":3}],"
        "\"stringTable\":[\"\",\"cpu\",\"ns\",\"main\"]");
    const char *snake =
        "{\"dictionary\":{\"string_table\":[\"\",\"cpu\",\"ns\",\"main\"],\"stack_table\":[{},"
        "{\"location_indices\":[1]}],\"function_table\":[{},{\"name_strindex\":3}],"
        "\"location_table\":[{},{\"lines\":[{\"function_index\":1,\"line\":3}]}],"
        "\"link_table\":null},\"new_things\":[{}],\"resource_profiles\":[{\"scope_profiles\":"
        "[{\"profiles\":[{\"sample_type\":{\"unit_strindex\":2,\"type_strindex\":\"1\"},"
        "\"time_unix_nano\":5,\"samples\":[{\"values\":[7],\"stack_index\":1,"
        "\"a_name_that_is_longer_than_any_of_ours_is\":1}]}]}]}]}";

    CHECK_SAME_TEXT(t, read_json(camel), read_json(snake));
    CHECK(t, says(snake, "sample 7 at 0"));
    CHECK(t, says(snake, "main  :3:0"));
    CHECK(t, format_detect(bytes_of(snake)) == &format_otlp_json);
    CHECK_INT(t, format_otlp_json.sniff(BYTES("{\"dictionary\":{\"stringTable\":[\"\"")), 80);
    CHECK_INT(t, format_otlp_json.sniff(BYTES("{\"nodes\":[]}")), 0);
    CHECK_INT(t, format_otlp_json.sniff(BYTES("[]")), 0);
}

static void reads_the_names_of_1_8(struct test *t)
{
    const char *old =
        DOCUMENT("{\"sample\":[{\"stackIndex\":1,\"timestampsUnixNano\":[\"9\",10]}],"
                 "\"commentStrindices\":[1],\"sampleType\":{\"typeStrindex\":1,"
                 "\"aggregationTemporality\":\"AGGREGATION_TEMPORALITY_CUMULATIVE\"}}",
                 "\"stackTable\":[{},{\"locationIndices\":[1]}],\"stringTable\":[\"\",\"cpu\"],"
                 "\"locationTable\":[{},{\"line\":[{\"line\":3}]}]");

    CHECK(t, says(old, "comment cpu"));
    CHECK(t, says(old, "sample 1 at 10"));
    CHECK(t, says(old, "cumulative 1"));
    CHECK(t, says(old, ":3:0"));
}

static void reads_the_names_of_1_7(struct test *t)
{
    const char *old = DOCUMENT(
        "{\"sample\":[{\"locationsStartIndex\":1,\"locationsLength\":1,\"value\":[4,\"5\"],"
        "\"attributeIndices\":[0],\"linkIndex\":0}],\"locationIndices\":[0,1],"
        "\"defaultSampleTypeIndex\":1,\"timeNanos\":\"77\",\"durationNanos\":3,"
        "\"sampleType\":[{\"typeStrindex\":1,\"aggregationTemporality\":1},{\"typeStrindex\":2}]}",
        "\"stringTable\":[\"\",\"a\",\"b\",\"size\",\"bytes\",\"f\"],\"locationTable\":[{},"
        "{\"isFolded\":true,\"mappingIndex\":0,\"line\":[{\"functionIndex\":0}]}],"
        "\"functionTable\":[{\"nameStrindex\":5}],"
        "\"mappingTable\":[{\"memoryLimit\":16,\"hasFunctions\":true}],"
        "\"attributeTable\":[{\"key\":\"size\",\"value\":{\"intValue\":\"3\"}}],"
        "\"attributeUnits\":[{\"attributeKeyStrindex\":3,\"unitStrindex\":4}],"
        "\"linkTable\":[{\"traceId\":\"000102030405060708090A0B0C0D0E0F\","
        "\"spanId\":\"AQIDBAUGBwg=\"}]");

    CHECK(t, says(old, "type a/\ntype b/\ndefault b time 77 for 3"));
    CHECK(t, says(old, "sample 4 5 at 0 size=2:3bytes "
                       "000102030405060708090a0b0c0d0e0f0102030405060708\n"
                       "  0  folded in 0-10+0  () 1000 | f  :0:0 s=0\n"));
}

static void reads_values_of_every_kind(struct test *t)
{
    struct buf b = {0};

    buf_add_str(&b, "{\"resourceProfiles\":[{\"resource\":{\"attributes\":["
                    "{\"key\":\"a\",\"value\":{\"boolValue\":true}},"
                    "{\"key\":\"b\",\"value\":{\"doubleValue\":0.5}},"
                    "{\"key\":\"c\",\"value\":{\"doubleValue\":\"-Infinity\"}},"
                    "{\"key\":\"d\",\"value\":{\"doubleValue\":\"2.5\"}},"
                    "{\"key\":\"e\",\"value\":{\"bytesValue\":\"_-8\"}},"
                    "{\"key\":\"f\",\"value\":{\"kvlistValue\":{\"values\":[{\"key\":\"x\","
                    "\"value\":{\"doubleValue\":\"NaN\"}}]}}},"
                    "{\"keyStrindex\":1,\"value\":{\"stringValueStrindex\":2}},"
                    "{\"key\":\"h\",\"value\":{\"intValue\":\"-9\"}}"
                    "],\"entityRefs\":[{\"type\":\"t\",\"idKeys\":[\"a\",\"b\"]}]},"
                    "\"scopeProfiles\":[{\"profiles\":[{\"profileId\":\"AAECAwQFBgcICQoLDA0ODw==\","
                    "\"originalPayloadFormat\":\"x\",\"originalPayload\":\"QUJD\"}]}]}],"
                    "\"dictionary\":{\"stringTable\":[\"\",\"g\",\"value\"]}}");
    CHECK(t, says(buf_cstr(&b), "resource 0 a=3:1 b=4:4602678819172646912 "
                                "c=4:-4503599627370496 d=4:4612811918334230528 e=ffef "
                                "f=32100a0e0a01781209210"));
    CHECK(t, says(buf_cstr(&b), " g=\"value\" h=2:-9"));
    CHECK(t, says(buf_cstr(&b), "entities 11"));
    CHECK(t, says(buf_cstr(&b), "profile 000102030405060708090a0b0c0d0e0f"));
    CHECK(t, says(buf_cstr(&b), "payload x 3"));

    /* All of it survives being written and read again. */
    struct reading r;
    struct buf json = {0}, losses = {0};
    read_into(&r, &format_otlp_json, buf_bytes(&b), BUDGET_DEFAULT_BYTES);
    CHECK_INT(t, format_otlp_json.encode(r.set, &json, &losses, &r.err), 0);
    CHECK_SAME_TEXT(t, read_json(buf_cstr(&json)), dump_set(r.set));
    CHECK(t, strstr(buf_cstr(&json), "\"originalPayload\":\"QUJD\"") != NULL);
    CHECK(t, strstr(buf_cstr(&json), "\"bytesValue\":\"/+8=\"") != NULL);
    CHECK(t, strstr(buf_cstr(&json), "\"doubleValue\":\"-Infinity\"") != NULL);
    CHECK(t, strstr(buf_cstr(&json), "\"profileId\":\"000102030405060708090a0b0c0d0e0f\"") != NULL);
    reading_done(&r);
    buf_done(&json);
    buf_done(&losses);
    buf_done(&b);
}

static void reads_one_document_a_line(struct test *t)
{
    struct reading r;

    read_into(&r, NULL,
              BYTES(DOCUMENT("{\"period\":1}", "") "\n" DOCUMENT("{\"period\":2}", "") "\n"),
              BUDGET_DEFAULT_BYTES);
    CHECK_STR(t, r.err.text, "");
    CHECK_INT(t, r.set->profiles.len, 2);
    if (r.set->profiles.len == 2) {
        CHECK_INT(t, r.set->profiles.data[1]->period, 2);
        CHECK_INT(t, r.set->profiles.data[1]->resource_index, 1);
    }
    reading_done(&r);
}

static void says_where_json_is_wrong(struct test *t)
{
    static const struct {
        const char *text, *why;
    } documents[] = {
        {"{\"resourceProfiles\":3}",
         "test: otlp-json at byte 20: an object was expected and a number was found"},
        {"{\"resourceProfiles\":[{]}",
         "test: otlp-json at byte 22: a key was expected and ']' was found"},
        {"{} x", "test: otlp-json at byte 3: something follows the end of the document"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(documents); i++)
        CHECK_SAME_TEXT(t, read_json(documents[i].text), strdup(documents[i].why));
    CHECK(t, says(DOCUMENT("{\"profileId\":\"?\"}", ""), "profileId is not in base64"));
    CHECK(t,
          says(DOCUMENT("{\"profileId\":\"0001020304050607080900zz0c0d0e0f\"}", ""), "type /\n"));
    CHECK(t, says("{\"resourceProfiles\":[{\"resource\":{\"attributes\":[{\"value\":"
                  "{\"doubleValue\":\"x\"}}]}}]}",
                  "a number was expected and another string was found"));
    CHECK(t, says(DOCUMENT("{\"samples\":[{\"stackIndex\":4}]}", ""),
                  "element 4 of the stack table does not exist: it has 0"));
}

/* The place of a bad reference is that in the document, give or take a few bytes. */
static void finds_the_place_of_a_bad_reference(struct test *t)
{
    struct buf b = {0};

    buf_add_str(&b, "{\"resourceProfiles\":[{\"scopeProfiles\":[{\"profiles\":[{\"samples\":[");
    for (int i = 0; i < 2000; i++)
        buf_addf(&b, "{\"values\":[%d]},", i);
    size_t place = b.len;
    buf_add_str(&b, "{\"stackIndex\":9,\"values\":[1]},");
    for (int i = 0; i < 2000; i++)
        buf_addf(&b, "%s{\"values\":[%d]}", i ? "," : "", i);
    buf_add_str(&b, "]}]}]}]}");
    struct reading r;
    read_into(&r, NULL, buf_bytes(&b), BUDGET_DEFAULT_BYTES);
    CHECK_INT(t, r.result, -EBADMSG);
    size_t at = 0;
    CHECK_INT(t, sscanf(r.err.text, "test: otlp-json at byte %zu:", &at), 1);
    CHECK(t, at + 400 > place && at < place + 400);
    reading_done(&r);
    buf_done(&b);
}

static void survives_cuts_and_little_memory(struct test *t)
{
    struct buf b = example(V10), json = {0}, losses = {0};
    struct reading r;

    read_into(&r, NULL, buf_bytes(&b), BUDGET_DEFAULT_BYTES);
    CHECK_INT(t, format_otlp_json.encode(r.set, &json, &losses, &r.err), 0);
    reading_done(&r);
    for (size_t n = 1; n + 2 < json.len; n++) {
        read_into(&r, &format_otlp_json, (struct bytes){json.data, n}, BUDGET_DEFAULT_BYTES);
        CHECK_INT(t, r.result, -EBADMSG);
        reading_done(&r);
        CHECK_INT(t, r.budget.used, 0);
    }
    int result = -ENOBUFS;
    for (size_t limit = 0; result == -ENOBUFS && limit < 1 << 22; limit += 487) {
        read_into(&r, &format_otlp_json, buf_bytes(&json), limit);
        result = r.result;
        CHECK(t, result == 0 || result == -ENOBUFS);
        reading_done(&r);
    }
    CHECK_INT(t, result, 0);
    buf_done(&b);
    buf_done(&json);
    buf_done(&losses);
}

static const struct test_case cases[] = {
    TEST(reads_the_same_from_json_as_from_protobuf),
    TEST(takes_keys_in_any_order_and_both_spellings),
    TEST(reads_the_names_of_1_8),
    TEST(reads_the_names_of_1_7),
    TEST(reads_values_of_every_kind),
    TEST(reads_one_document_a_line),
    TEST(says_where_json_is_wrong),
    TEST(finds_the_place_of_a_bad_reference),
    TEST(survives_cuts_and_little_memory),
};
TEST_MAIN(cases)

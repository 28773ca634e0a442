#include <errno.h>
#include <math.h>

#include "base/buf.h"
#include "lib/test.h"
#include "wire/json.h"

static struct budget budget;

/* A reader over `text`; open() and finish() enclose every use of one. */
static struct input *input;
static struct json_reader *open_json(struct bytes text)
{
    budget_init(&budget, 1 << 24);
    input = input_from_bytes(text, "x", &budget);
    return json_reader_new(input, &budget);
}

static int close_json(struct json_reader *r, struct error *err)
{
    int result = json_finish(r, "test", err);
    json_reader_free(r);
    input_close(input);
    if (budget.used != 0)
        abort();
    return result;
}

static int skip_all(struct bytes text, struct error *err)
{
    struct json_reader *r = open_json(text);
    json_skip(r);
    return close_json(r, err);
}

/* Reads every value with its getter, and writes it again. */
static void copy_value(struct json_reader *r, struct json_writer *w)
{
    struct bytes key;
    double d;

    switch (json_peek(r)) {
    case JSON_OBJECT:
        json_enter_object(r);
        json_begin_object(w);
        while (json_next_key(r, &key)) {
            json_key_bytes(w, key);
            copy_value(r, w);
        }
        json_end_object(w);
        break;
    case JSON_ARRAY:
        json_enter_array(r);
        json_begin_array(w);
        while (json_next_element(r))
            copy_value(r, w);
        json_end_array(w);
        break;
    case JSON_STRING:
        json_string(w, json_get_string(r));
        break;
    case JSON_NUMBER:
        d = json_get_double(r);
        json_double(w, d);
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        json_bool(w, json_get_bool(r));
        break;
    default: /* null, or none: then skipping fails */
        json_skip(r);
        json_null(w);
    }
}

static int copy_all(struct bytes text, struct buf *out, struct error *err)
{
    struct json_reader *r = open_json(text);
    struct json_writer w = {.out = out};
    copy_value(r, &w);
    return close_json(r, err);
}

static const char document[] =
    "{\"a\": [1, -2.5, 3e2, [], {}], \"b\\n\\u00e9\\ud83d\\ude00\\ud83dx\" "
    ":\t\"q\\\"\\\\\\/\\b\\f\\r\\t\","
    "\"\": {\"t\": true, \"f\": false , \"n\":null}, \"long\": 12345678901234567890, "
    "\"text\": \"The quick brown fox jumps over the lazy dog, twice.\"}\r\n";
static const char copied[] =
    "{\"a\":[1,-2.5,300,[],{}],\"b\\n\xc3\xa9\xf0\x9f\x98\x80\xef\xbf\xbdx\":\"q\\\"\\\\/"
    "\\u0008\\u000c\\r\\t\","
    "\"\":{\"t\":true,\"f\":false,\"n\":null},\"long\":1.2345678901234567e+19,"
    "\"text\":\"The quick brown fox jumps over the lazy dog, twice.\"}";

static void reads_and_writes_every_kind_of_value(struct test *t)
{
    struct buf out = {0};
    struct error err = {""};
    CHECK_INT(t, copy_all(BYTES(document), &out, &err), 0);
    CHECK_STR(t, err.text, "");
    CHECK_STR(t, buf_cstr(&out), copied);
    buf_done(&out);
    CHECK_INT(t, skip_all(BYTES(document), &err), 0);
}

/* Blanks in front let the edge of the first chunk fall on every byte of the document. */
static void reads_the_same_wherever_a_chunk_ends(struct test *t)
{
    struct buf text = {0}, out = {0};
    size_t len = sizeof(document) - 1;
    struct error err = {""};

    for (size_t inside = 0; inside <= len; inside++) {
        size_t blanks = 65536 - inside;
        buf_clear(&text);
        memset(buf_reserve(&text, blanks), ' ', blanks);
        text.len = blanks;
        buf_add(&text, document, len);
        buf_clear(&out);
        CHECK_INT(t, copy_all(buf_bytes(&text), &out, &err), 0);
        CHECK_STR(t, buf_cstr(&out), copied);
        CHECK_INT(t, skip_all(buf_bytes(&text), &err), 0);
    }
    buf_done(&text);
    buf_done(&out);
}

static void refuses_a_document_cut_anywhere(struct test *t)
{
    struct buf out = {0};

    for (size_t n = 0; n + 2 < sizeof(document) - 1; n++) {
        struct error err = {""};
        struct bytes text = bytes_head(BYTES(document), n);
        CHECK_INT(t, copy_all(text, &out, &err), -EBADMSG);
        CHECK(t, strncmp(err.text, "test at byte ", 13) == 0);
        CHECK_INT(t, skip_all(text, &err), -EBADMSG);
    }
    buf_done(&out);
}

static void says_what_is_wrong_and_where(struct test *t)
{
    static const struct {
        const char *text;
        const char *why;
    } wrong[] = {
        {"", "test at byte 0: the document ends where a value was expected"},
        {"[1 2]",
         "test at byte 3: a comma or the end of the array was expected and a number was found"},
        {"{\"a\":1]",
         "test at byte 6: a comma or the end of the object was expected and ']' was found"},
        {"[1,]", "test at byte 3: a value was expected and ']' was found"},
        {"[,1]", "test at byte 1: a value was expected and ',' was found"},
        {"{1:2}", "test at byte 1: a key was expected and a number was found"},
        {"{\"a\" 2}", "test at byte 5: a colon was expected and a number was found"},
        {"{\"a\":1,}", "test at byte 7: a key was expected and '}' was found"},
        {"[\x01]", "test at byte 1: a value was expected and byte 0x01 was found"},
        {"\"a\nb\"", "test at byte 2: a control character stands unescaped in a string"},
        {"\"ab", "test at byte 3: a string is cut short"},
        {"\"ab\\", "test at byte 3: an escape in a string is none of JSON's"},
        {"\"\\x41\"", "test at byte 1: an escape in a string is none of JSON's"},
        {"\"\\u12g4\"", "test at byte 1: an escape in a string is none of JSON's"},
        {"01", "test at byte 0: a number is malformed"},
        {"[1.]", "test at byte 1: a number is malformed"},
        {"-", "test at byte 0: a number is malformed"},
        {"1e+", "test at byte 0: a number is malformed"},
        {"1x", "test at byte 0: a number is malformed"},
        {"nul", "test at byte 0: a word is none of true, false and null"},
        {"truex", "test at byte 0: a word is none of true, false and null"},
        {"fulse", "test at byte 0: a word is none of true, false and null"},
        {"{} {}", "test at byte 3: something follows the end of the document"},
    };
    struct buf out = {0};

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct error err = {""};
        CHECK_INT(t, skip_all(bytes_of(wrong[i].text), &err), -EBADMSG);
        CHECK_STR(t, err.text, wrong[i].why);
        CHECK_INT(t, copy_all(bytes_of(wrong[i].text), &out, &err), -EBADMSG);
    }
    struct error err = {""};
    CHECK_INT(t, copy_all(BYTES("[\"\\ud800\\u0041\\z\"]"), &out, &err), -EBADMSG);
    CHECK_STR(t, err.text, "test at byte 14: an escape in a string is none of JSON's");
    CHECK_INT(t, copy_all(BYTES("[1e999]"), &out, &err), -EBADMSG);
    CHECK_STR(t, err.text, "test at byte 6: a number is out of range for a double");
    buf_done(&out);
}

static void limits_how_deep_values_nest(struct test *t)
{
    struct buf text = {0};
    struct error err = {""};

    for (int i = 0; i < JSON_DEPTH_MAX; i++)
        buf_add_byte(&text, '[');
    for (int i = 0; i < JSON_DEPTH_MAX; i++)
        buf_add_byte(&text, ']');
    CHECK_INT(t, skip_all(buf_bytes(&text), &err), 0);
    buf_clear(&text);
    for (int i = 0; i <= JSON_DEPTH_MAX; i++)
        buf_add_str(&text, "{\"a\":");
    CHECK_INT(t, skip_all(buf_bytes(&text), &err), -EBADMSG);
    CHECK_STR(t, err.text, "test at byte 5120: nested deeper than the limit of 1024 levels");
    buf_done(&text);
}

static void reads_integers_to_their_limits(struct test *t)
{
    struct error err = {""};
    struct json_reader *r = open_json(BYTES(
        "[9223372036854775807,-9223372036854775808,\"-12\",\"123456789012345678\",1.9,-1.9e1,0,-0,"
        "999999999999999999,1000000000000000000]"));
    static const int64_t want[] = {
        INT64_MAX, INT64_MIN, -12, 123456789012345678, 1,
        -19,       0,         0,   999999999999999999, 1000000000000000000};
    json_enter_array(r);
    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
        CHECK(t, json_next_element(r));
        CHECK(t, json_get_i64(r) == want[i]);
    }
    CHECK(t, !json_next_element(r));
    CHECK_INT(t, close_json(r, &err), 0);

    r = open_json(BYTES("[18446744073709551615,\"7\",2.5,-0.5,1e19]"));
    static const uint64_t unsigned_want[] = {UINT64_MAX, 7, 2, 0, 10000000000000000000u};
    json_enter_array(r);
    for (size_t i = 0; json_next_element(r); i++)
        CHECK(t, json_get_u64(r) == unsigned_want[i]);
    CHECK_INT(t, close_json(r, &err), 0);
}

static void refuses_integers_that_do_not_fit(struct test *t)
{
    static const char *const too_large[] = {"9223372036854775808", "-9223372036854775809", "1e19",
                                            "\"9223372036854775808\"", "-1e300"};
    static const char *const not_unsigned[] = {"-1", "18446744073709551616", "-1.5", "2e19"};
    static const char *const no_number[] = {"null", "\"\"", "\"12x\"", "\" 1\"",
                                            "[]",   "true", "\"NaN\""};

    for (size_t i = 0; i < sizeof(too_large) / sizeof(too_large[0]); i++) {
        struct error err = {""};
        struct json_reader *r = open_json(bytes_of(too_large[i]));
        CHECK_INT(t, json_get_i64(r), 0);
        CHECK_INT(t, close_json(r, &err), -EBADMSG);
        CHECK(t, strstr(err.text, "a number is out of range for 64 bits") != NULL);
    }
    for (size_t i = 0; i < sizeof(not_unsigned) / sizeof(not_unsigned[0]); i++) {
        struct error err = {""};
        struct json_reader *r = open_json(bytes_of(not_unsigned[i]));
        CHECK_INT(t, json_get_u64(r), 0);
        CHECK_INT(t, close_json(r, &err), -EBADMSG);
        CHECK(t, strstr(err.text, "a number is out of range for 64 bits without a sign") != NULL);
    }
    for (size_t i = 0; i < sizeof(no_number) / sizeof(no_number[0]); i++) {
        struct error err = {""};
        struct json_reader *r = open_json(bytes_of(no_number[i]));
        CHECK_INT(t, json_get_i64(r), 0);
        CHECK(t, json_failed(r));
        CHECK_INT(t, json_get_u64(r), 0);
        CHECK(t, json_get_double(r) == 0);
        CHECK_INT(t, close_json(r, &err), -EBADMSG);
        CHECK(t, strstr(err.text, "a number was expected") != NULL);
    }
}

static void reads_doubles_exactly(struct test *t)
{
    static const char *const texts[] = {
        "0.1",
        "123456.789",
        "-0.000001",
        "3.141592653589793",
        "1e22",
        "123456789012345678",
        "2.2250738585072014e-308",
        "5e-324",
        "-0",
        "0.30000000000000004",
        "\"0.5\"",
        "99999999999999.5",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct error err = {""};
        struct json_reader *r = open_json(bytes_of(texts[i]));
        double got = json_get_double(r), want = strtod(texts[i] + (texts[i][0] == '"'), NULL);
        CHECK(t, memcmp(&got, &want, sizeof(got)) == 0);
        CHECK_INT(t, close_json(r, &err), 0);
        /* The same in an array, where the fast path may take it. */
        struct buf text = {0};
        buf_addf(&text, "[%s,1]", texts[i]);
        r = open_json(buf_bytes(&text));
        json_enter_array(r);
        json_next_element(r);
        got = json_get_double(r);
        CHECK(t, memcmp(&got, &want, sizeof(got)) == 0);
        CHECK(t, json_next_element(r) && json_get_double(r) == 1 && !json_next_element(r));
        CHECK_INT(t, close_json(r, &err), 0);
        buf_done(&text);
    }
}

static void reads_long_arrays_in_runs(struct test *t)
{
    struct buf text = {0};
    struct error err = {""};
    int64_t run[1000], sum = 0, want = 0;
    size_t n, total = 0;

    buf_add_str(&text, "[ ");
    for (int64_t i = 0; i < 100000; i++) {
        int64_t v = i % 7 == 0 ? -i * 1000000007 : i % 11 == 0 ? INT64_MAX - i : i;
        want = (int64_t)((uint64_t)want + (uint64_t)v);
        buf_addf(&text, "%s%lld", i == 0 ? "" : i % 3 ? "," : " ,\n  ", (long long)v);
    }
    buf_add_str(&text, "\n]");
    struct json_reader *r = open_json(buf_bytes(&text));
    json_enter_array(r);
    do {
        n = json_get_i64_run(r, run, 1000);
        for (size_t i = 0; i < n; i++)
            sum = (int64_t)((uint64_t)sum + (uint64_t)run[i]);
        total += n;
    } while (n == 1000);
    CHECK_INT(t, close_json(r, &err), 0);
    CHECK_INT(t, total, 100000);
    CHECK(t, sum == want);
    buf_done(&text);

    r = open_json(BYTES("[1,2,x]"));
    json_enter_array(r);
    CHECK_INT(t, json_get_i64_run(r, run, 1000), 2);
    CHECK_INT(t, close_json(r, &err), -EBADMSG);
    CHECK_STR(t, err.text, "test at byte 5: a number was expected and 'x' was found");
}

static void takes_the_end_of_the_input_for_the_end_of_an_array(struct test *t)
{
    static const struct {
        const char *text;
        int elements;
        bool is_cut;
        int result;
    } arrays[] = {
        {"[1,2]", 2, false, 0},
        {"[1,2", 2, true, 0},
        {"[1,2, \n", 2, true, 0},
        {"[", 0, true, 0},
        {"[]", 0, false, 0},
        {"[1 2", 1, false, -EBADMSG},
        {"[1,2] 3", 2, false, -EBADMSG},
    };
    for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++) {
        struct error err = {""};
        struct json_reader *r = open_json(bytes_of(arrays[i].text));
        bool is_cut = false;
        int n = 0;
        json_enter_array(r);
        while (json_next_element_or_end(r, &is_cut)) {
            CHECK_INT(t, json_get_i64(r), ++n);
        }
        CHECK_INT(t, n, arrays[i].elements);
        CHECK_INT(t, is_cut, arrays[i].is_cut);
        CHECK_INT(t, close_json(r, &err), arrays[i].result);
    }
}

static void keeps_the_first_error_and_ends_every_loop(struct test *t)
{
    struct error err = {""};
    struct json_reader *r = open_json(BYTES("{\"a\": [1, 2], \"b\": \"x\"}"));
    struct bytes key = {0};

    json_enter_object(r);
    CHECK(t, json_next_key(r, &key) && bytes_are(key, "a"));
    json_enter_array(r);
    CHECK(t, json_next_element(r));
    CHECK_INT(t, json_offset(r), 7);
    json_fail(r, "node %d is unknown", 7);
    json_fail(r, "too late");
    CHECK(t, json_failed(r));
    CHECK(t, !json_next_element(r) && !json_next_key(r, &key) && json_peek(r) == JSON_NONE);
    CHECK(t, json_get_string(r).len == 0 && json_get_string_or_empty(r).len == 0);
    CHECK(t, !json_get_bool(r) && json_get_i64_run(r, &(int64_t){0}, 1) == 0);
    json_skip(r);
    json_enter_array(r);
    json_enter_object(r);
    CHECK_INT(t, json_offset(r), 7);
    CHECK_INT(t, close_json(r, &err), -EBADMSG);
    CHECK_STR(t, err.text, "test at byte 7: node 7 is unknown");
}

static void blames_a_place_read_before(struct test *t)
{
    struct error err = {""};
    struct json_reader *r = open_json(BYTES("[1,2]"));
    json_skip(r);
    json_fail_at(r, 3, "%d is not odd", 2);
    json_fail_at(r, 1, "too late");
    CHECK_INT(t, close_json(r, &err), -EBADMSG);
    CHECK_STR(t, err.text, "test at byte 3: 2 is not odd");
}

/* The element is longer than a chunk, and the reader that reads it again is used twice. */
static void hands_out_whole_values_to_be_read_again(struct test *t)
{
    struct buf text = {0};
    struct error err = {""};

    buf_add_str(&text, "[  {\"a\" : [");
    for (int i = 0; i < 30000; i++)
        buf_addf(&text, "%d, ", i);
    buf_add_str(&text, "0]} , \"x\\ny\", nul]");
    struct json_reader *r = open_json(buf_bytes(&text));
    struct json_reader *again = json_reader_new(NULL, &budget);
    json_enter_array(r);
    CHECK(t, json_next_element(r));
    struct bytes raw = json_get_raw(r);
    CHECK(t, bytes_start_with(raw, BYTES("{\"a\" : [0, 1, ")) && raw.data[raw.len - 1] == '}');
    json_reader_set_text(again, raw, 3);
    struct bytes key;
    static int64_t numbers[40000];
    json_enter_object(again);
    CHECK(t, json_next_key(again, &key) && bytes_are(key, "a"));
    json_enter_array(again);
    CHECK_INT(t, json_get_i64_run(again, numbers, 40000), 30001);
    CHECK(t, !json_next_key(again, &key));
    CHECK_INT(t, json_finish(again, "test", &err), 0);

    CHECK(t, json_next_element(r));
    json_reader_set_text(again, json_get_raw(r), json_offset(r));
    uint64_t offset = json_offset(again);
    CHECK_INT(t, json_get_i64(again), 0);
    CHECK_INT(t, json_offset(again), offset);
    CHECK_INT(t, json_result(again, "test", &err), -EBADMSG);
    CHECK(t, strstr(err.text, ": a number was expected and another string was found") != NULL);
    json_reader_set_text(again, (struct bytes){0}, 0);
    CHECK(t, json_peek(again) == JSON_NONE && !json_failed(again));
    json_reader_free(again);

    CHECK(t, json_next_element(r));
    CHECK_INT(t, json_get_raw(r).len, 0);
    CHECK_INT(t, json_get_raw(r).len, 0);
    CHECK_INT(t, close_json(r, &err), -EBADMSG);
    buf_done(&text);
}

static void passes_over_what_is_no_string(struct test *t)
{
    struct error err = {""};
    struct json_reader *r = open_json(BYTES("[null, 7, [\"x\"], \"y\"]"));
    struct bytes got = {0};

    json_enter_array(r);
    for (int i = 0; json_next_element(r); i++) {
        got = json_get_string_or_empty(r);
        CHECK_INT(t, got.len, i == 3);
    }
    CHECK_INT(t, close_json(r, &err), 0);
}

/* A long string must be whole in memory when it is wanted, and need not be when it is skipped. */
static void grows_within_the_budget_for_long_strings_only_when_they_are_read(struct test *t)
{
    struct buf text = {0};
    struct error err = {""};

    buf_add_byte(&text, '"');
    for (int i = 0; i < 400000; i++)
        buf_add_str(&text, i % 1000 ? "x" : "\\u00e9");
    buf_add_byte(&text, '"');
    for (int is_read = 0; is_read <= 1; is_read++) {
        for (size_t limit = 1000; limit <= 2000000; limit += 499750) {
            struct budget b;
            budget_init(&b, limit);
            struct input *in = input_from_bytes(buf_bytes(&text), "x", &b);
            struct json_reader *r = json_reader_new(in, &b);
            if (is_read)
                CHECK_INT(t, json_get_string(r).len, limit > 1000000 ? 400400 : 0);
            else
                json_skip(r);
            bool fits = limit > (is_read ? 1000000 : 1000);
            CHECK_INT(t, json_finish(r, "test", &err), fits ? 0 : -ENOBUFS);
            if (!fits)
                CHECK(t, strstr(err.text, "memory limit of") != NULL);
            json_reader_free(r);
            input_close(in);
            CHECK_INT(t, b.used, 0);
        }
    }
    buf_done(&text);
}

/* What a decoder puts into other tables may spend the budget: the reader must notice. */
static void fails_once_the_budget_is_spent_elsewhere(struct test *t)
{
    struct error err = {""};
    struct json_reader *r = open_json(BYTES("1"));
    CHECK_INT(t, json_get_i64(r), 1);
    budget_take(&budget, SIZE_MAX);
    CHECK_INT(t, json_result(r, "test", &err), -ENOBUFS);
    CHECK_INT(t, close_json(r, &err), -ENOBUFS);
}

static void writes_what_reads_back_the_same(struct test *t)
{
    struct buf out = {0};
    struct json_writer w = {.out = &out};

    json_begin_array(&w);
    json_i64(&w, INT64_MIN);
    json_u64(&w, UINT64_MAX);
    json_i64_string(&w, -5);
    json_u64_string(&w, 5);
    json_double(&w, 0.1);
    json_double(&w, NAN);
    json_bool(&w, true);
    json_null(&w);
    json_cstring(&w, "a\x01\x7f");
    json_string(&w, BYTES("\xff\xc3\xa9\xc0\x80\xed\xa0\x80\xf0\x9f\x98\x80\xf8\xe2\x82"));
    json_begin_object(&w);
    json_key(&w, "k");
    json_begin_object(&w);
    json_end_object(&w);
    json_end_object(&w);
    json_end_array(&w);
    CHECK_STR(
        t, buf_cstr(&out),
        "[-9223372036854775808,18446744073709551615,\"-5\",\"5\",0.1,null,true,null,"
        "\"a\\u0001\x7f\",\"\xef\xbf\xbd\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
        "\xef\xbf\xbd\xf0\x9f\x98\x80\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\",{\"k\":{}}]");
    struct error err = {""};
    CHECK_INT(t, skip_all(buf_bytes(&out), &err), 0);
    buf_done(&out);
}

static const struct test_case cases[] = {
    TEST(reads_and_writes_every_kind_of_value),
    TEST(reads_the_same_wherever_a_chunk_ends),
    TEST(refuses_a_document_cut_anywhere),
    TEST(says_what_is_wrong_and_where),
    TEST(limits_how_deep_values_nest),
    TEST(reads_integers_to_their_limits),
    TEST(refuses_integers_that_do_not_fit),
    TEST(reads_doubles_exactly),
    TEST(reads_long_arrays_in_runs),
    TEST(takes_the_end_of_the_input_for_the_end_of_an_array),
    TEST(keeps_the_first_error_and_ends_every_loop),
    TEST(blames_a_place_read_before),
    TEST(hands_out_whole_values_to_be_read_again),
    TEST(passes_over_what_is_no_string),
    TEST(grows_within_the_budget_for_long_strings_only_when_they_are_read),
    TEST(fails_once_the_budget_is_spent_elsewhere),
    TEST(writes_what_reads_back_the_same),
};
TEST_MAIN(cases)

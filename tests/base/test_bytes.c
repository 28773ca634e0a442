#include <inttypes.h>

#include "base/bytes.h"
#include "base/cleanup.h"
#include "lib/test.h"

static void sizes_are_read_with_their_units(struct test *t)
{
    static const struct {
        const char *text;
        uint64_t want;
    } cases[] = {
        {"0", 0},
        {"123", 123},
        {"7b", 7},
        {"4k", 4096},
        {"4KB", 4096},
        {"64MiB", 64u << 20},
        {"1g", 1u << 30},
        {"2TiB", (uint64_t)2 << 40},
        {"16777215TiB", (uint64_t)16777215 << 40},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        uint64_t got = 1;
        CHECK(t, bytes_to_size(bytes_of(cases[i].text), &got));
        CHECK_INT(t, got, cases[i].want);
    }
}

static void what_is_no_size_is_refused(struct test *t)
{
    static const char *const cases[] = {
        "",
        "k",
        "-1",
        "1.5G",
        "1 k",
        "1kk",
        "1ib",
        "1x",
        "1kix",
        "16777216TiB",
        "99999999999999999999",
    };
    uint64_t got = 42;

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        CHECK(t, !bytes_to_size(bytes_of(cases[i]), &got));
    CHECK_INT(t, got, 42);
}

static void durations_are_read_with_their_units(struct test *t)
{
    int64_t got = 0;

    CHECK(t, bytes_to_duration(BYTES("1h30m"), &got) && got == (int64_t)5400 * 1000000000);
    CHECK(t, bytes_to_duration(BYTES("250ms"), &got) && got == 250000000);
    CHECK(t, bytes_to_duration(BYTES("30d"), &got) && got == (int64_t)30 * 86400 * 1000000000);
    CHECK(t, bytes_to_duration(BYTES("0s"), &got) && got == 0);
    CHECK(t, !bytes_to_duration(BYTES(""), &got));
    CHECK(t, !bytes_to_duration(BYTES("30"), &got));
    CHECK(t, !bytes_to_duration(BYTES("d"), &got));
    CHECK(t, !bytes_to_duration(BYTES("-1d"), &got));
    CHECK(t, !bytes_to_duration(BYTES("300y"), &got));
    CHECK(t, !bytes_to_duration(BYTES("290y290y"), &got));
}

static void the_shorter_of_equal_beginnings_comes_first(struct test *t)
{
    struct bytes a = BYTES("ab"), b = BYTES("abc"), none = {0};

    CHECK(t, bytes_compare(a, b) < 0 && bytes_compare(b, a) > 0 && bytes_compare(a, a) == 0);
    CHECK(t, bytes_compare(none, a) < 0 && bytes_compare(none, none) == 0);
    CHECK(t, bytes_compare(BYTES("a\xff"), a) > 0);
    CHECK(t, bytes_compare_items(&b, &a) > 0);
}

static void distances_count_the_edits_between_names(struct test *t)
{
    char many[100];

    memset(many, 'x', sizeof(many));
    CHECK_INT(t, bytes_distance(BYTES("listen"), BYTES("listen")), 0);
    CHECK_INT(t, bytes_distance(BYTES("lisen"), BYTES("listen")), 1);
    CHECK_INT(t, bytes_distance(BYTES("kitten"), BYTES("sitting")), 3);
    CHECK_INT(t, bytes_distance(BYTES(""), BYTES("abc")), 3);
    CHECK(t, bytes_distance((struct bytes){(const uint8_t *)many, 65}, BYTES("x")) == SIZE_MAX);
}

static const struct test_case cases[] = {
    TEST(sizes_are_read_with_their_units),
    TEST(what_is_no_size_is_refused),
    TEST(durations_are_read_with_their_units),
    TEST(the_shorter_of_equal_beginnings_comes_first),
    TEST(distances_count_the_edits_between_names),
};
TEST_MAIN(cases)

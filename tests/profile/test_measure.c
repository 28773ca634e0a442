#include "lib/test.h"
#include "profile/measure.h"

static void labels_scale_to_the_unit_asked_for(struct test *t)
{
    static const struct {
        int64_t value;
        const char *from, *to, *want;
    } cases[] = {
        {1500, "ms", "auto", "1.50s"},
        {1500, "milliseconds", "minimum", "1.50s"},
        {-1500, "ms", "auto", "-1.50s"},
        {0, "bytes", "auto", "0"},
        {1024, "bytes", "auto", "1kB"},
        {1536, "Bytes", "kb", "1.50kB"},
        {1, "bytes", "MB", "0"},
        {10, "bytes", "seconds", "10B"},
        {10, "ns", "bytes", "0"},
        {7200, "s", "auto", "2hrs"},
        {5, "count", "auto", "5"},
        {5, "count", "count", "5"},
        {5, "count", "widgets", "5widgets"},
        {2500, "milligcu", "auto", "2.50GCU"},
        {3, "a unit with a name far too long to be known", "auto", "3"},
        {INT64_MIN, "count", "auto", "-9223372036854775808"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[MEASURE_TEXT_MAX];
        measure_label(cases[i].value, cases[i].from, cases[i].to, text);
        CHECK_STR(t, text, cases[i].want);
    }
}

static void values_that_round_to_nothing_are_a_plain_zero(struct test *t)
{
    char text[MEASURE_TEXT_MAX];

    measure_label(-1, "ns", "s", text);
    CHECK_STR(t, text, "0");
    measure_label(0, "ns", "s", text);
    CHECK_STR(t, text, "0");
}

static void a_unit_too_long_is_cut(struct test *t)
{
    char text[MEASURE_TEXT_MAX], unit[300];

    memset(unit, 'x', sizeof(unit) - 1);
    unit[sizeof(unit) - 1] = '\0';
    measure_label(1, "count", unit, text);
    CHECK_INT(t, strlen(text), MEASURE_TEXT_MAX - 1);
}

static void percentages_keep_two_digits(struct test *t)
{
    static const struct {
        int64_t value, total;
        const char *want;
    } cases[] = {
        {1, 3, "33.33%"},  {-1, 3, "33.33%"},  {1, 1, "  100%"},        {9996, 10000, "  100%"},
        {1, 0, "    0%"},  {0, 5, "    0%"},   {1, 1000, "  0.1%"},     {123, 100000, " 0.12%"},
        {3, 2, "150.00%"}, {5, 500, " 1.00%"}, {1, 10000000, "1e-05%"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[MEASURE_TEXT_MAX];
        measure_percentage(cases[i].value, cases[i].total, text);
        CHECK_STR(t, text, cases[i].want);
    }
}

static void ratios_exist_within_a_family_only(struct test *t)
{
    double ratio = 0;

    CHECK(t, measure_ratio("ms", "ns", &ratio) && ratio == 1e6);
    CHECK(t, measure_ratio("ns", "ms", &ratio) && ratio == 1e-6);
    CHECK(t, measure_ratio("widgets", "widgets", &ratio) && ratio == 1);
    CHECK(t, !measure_ratio("ms", "bytes", &ratio));
    CHECK(t, !measure_ratio("count", "samples", &ratio));
}

static const struct test_case cases[] = {
    TEST(labels_scale_to_the_unit_asked_for),
    TEST(values_that_round_to_nothing_are_a_plain_zero),
    TEST(a_unit_too_long_is_cut),
    TEST(percentages_keep_two_digits),
    TEST(ratios_exist_within_a_family_only),
};
TEST_MAIN(cases)

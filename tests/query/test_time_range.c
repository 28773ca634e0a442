#include "base/cleanup.h"
#include "lib/test.h"
#include "query/time_range.h"

#define S ((int64_t)1000000000)

static void reads_times_as_people_write_them(struct test *t)
{
    int64_t now = 1767225600 * S; /* 2026-01-01 */
    static const struct {
        const char *text;
        int64_t seconds, ns;
    } cases[] = {
        {"now", 1767225600, 0},
        {" now-1h ", 1767222000, 0},
        {"now-1d12h", 1767096000, 0},
        {"now+30s", 1767225630, 0},
        {"2026-01-01", 1767225600, 0},
        {"2026-01-01T00:00:00Z", 1767225600, 0},
        {"2026-01-01T02:00:00+02:00", 1767225600, 0},
        {"2025-12-31 22:30-01:30", 1767225600, 0},
        {"2026-01-01T00:00:00.25Z", 1767225600, 250000000},
        {"1767225600", 1767225600, 0},
        {"1767225600123", 1767225600, 123000000},
        {"1767225600123456", 1767225600, 123456000},
        {"1767225600123456789", 1767225600, 123456789},
        {"0", 0, 0},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        int64_t got = -1;
        struct error err = {0};
        CHECK_INT(t, time_parse(bytes_of(cases[i].text), now, &got, &err), 0);
        CHECK_INT(t, got, cases[i].seconds * S + cases[i].ns);
    }
}

static void refuses_what_is_no_time(struct test *t)
{
    static const char *const cases[] = {
        "",
        "yesterday",
        "now-",
        "now-1",
        "now*1h",
        "now-1x",
        "2026-13-01",
        "2026-01-32",
        "26-01-01",
        "2026-01-01T25:00",
        "2026-01-01T",
        "2026-01-01T00:00:00+2",
        "2026-01-01T00:00:00.Z",
        "-5",
        "99999999999999999999",
        "1969-01-01",
        "now-99999999999999999999w",
        "2026-01-01T00:00:00+0a:00",
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        int64_t got;
        struct error err = {0};
        if (time_parse(bytes_of(cases[i]), 0, &got, &err) != -22)
            printf("# \"%s\" was taken\n", cases[i]);
        CHECK_INT(t, time_parse(bytes_of(cases[i]), 0, &got, &err), -22);
        CHECK(t, strstr(err.text, "is no time: expected now, now-1h") != NULL);
    }
}

static void reads_durations(struct test *t)
{
    static const struct {
        const char *text;
        int64_t ns;
    } cases[] = {{"250ms", 250000000}, {"30s", 30 * S}, {"1h30m", 5400 * S}, {"2d", 172800 * S},
                 {"1w", 604800 * S},   {"7us", 7000},   {"9ns", 9}};
    int64_t got;
    struct error err = {0};
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        CHECK_INT(t, duration_parse(bytes_of(cases[i].text), &got, NULL), 0);
        CHECK_INT(t, got, cases[i].ns);
    }
    CHECK_INT(t, duration_parse(BYTES("5 minutes"), &got, &err), -22);
    CHECK_STR(t, err.text, "\"5 minutes\" is no duration: expected 30s, 5m, 1h30m, 2d, 1w or 1y");
    CHECK_INT(t, duration_parse(BYTES(""), &got, &err), -22);
}

static void chooses_steps_that_people_like(struct test *t)
{
    CHECK_INT(t, time_step_for(0, 3600 * S, 120) / S, 30);
    CHECK_INT(t, time_step_for(0, 3600 * S, 100) / S, 60);
    CHECK_INT(t, time_step_for(0, 86400 * S, 100) / S, 900);
    CHECK_INT(t, time_step_for(0, 30 * 86400 * S, 10) / S, 4 * 86400);
    CHECK_INT(t, time_step_for(5, 5, 0) / S, 1);
    CHECK(t, time_step_for(INT64_MIN, INT64_MAX, 1) > 0);
}

static void writes_times(struct test *t)
{
    char text[TIME_TEXT_MAX];
    CHECK_STR(t, time_text(1767225600 * S, text), "2026-01-01T00:00:00Z");
    CHECK_STR(t, time_text(1767225600 * S + 250000000, text), "2026-01-01T00:00:00.25Z");
    CHECK_STR(t, time_text(-1, text), "1969-12-31T23:59:59.999999999Z");
    int64_t back;
    CHECK_STR(t, time_text(INT64_MAX, text), "2262-04-11T23:47:16.854775807Z");
    CHECK_INT(t, time_parse(bytes_of(text), 0, &back, NULL), 0);
    CHECK(t, back == INT64_MAX);
    CHECK_INT(t, time_parse(BYTES("2262-04-11T23:47:16.854775808Z"), 0, &back, NULL), -22);
    CHECK_INT(t, time_parse(BYTES("2262-12-31"), 0, &back, NULL), -22);
}

static const struct test_case cases[] = {TEST(reads_times_as_people_write_them),
                                         TEST(refuses_what_is_no_time), TEST(reads_durations),
                                         TEST(chooses_steps_that_people_like), TEST(writes_times)};
TEST_MAIN(cases)

#include "query/time_range.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>

#include "base/cleanup.h"

#define SECOND_NS ((int64_t)1000000000)

static int bad_time(struct bytes text, struct error *err)
{
    return error_set(err, -EINVAL,
                     "\"%.*s\" is no time: expected now, now-1h, 2026-03-01T12:00:00Z or seconds "
                     "since 1970",
                     (int)(text.len < 60 ? text.len : 60), (const char *)text.data);
}

static bool is_digit(struct bytes s, size_t at)
{
    return at < s.len && s.data[at] >= '0' && s.data[at] <= '9';
}

/* The number at s[*at], which moves behind it. False when there is none or it is too large. */
static bool take_number(struct bytes s, size_t *at, int64_t *ret)
{
    int64_t v = 0;
    if (!is_digit(s, *at))
        return false;
    for (; is_digit(s, *at); (*at)++)
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, s.data[*at] - '0', &v))
            return false;
    *ret = v;
    return true;
}

int duration_parse(struct bytes text, int64_t *ret, struct error *err)
{
    if (bytes_to_duration(bytes_trim(text), ret))
        return 0;
    return error_set(err, -EINVAL, "\"%.*s\" is no duration: expected 30s, 5m, 1h30m, 2d, 1w or 1y",
                     (int)(text.len < 60 ? text.len : 60), (const char *)text.data);
}

static bool parse_relative(struct bytes s, int64_t now_ns, int64_t *ret)
{
    struct bytes rest = bytes_from(s, 3);
    int64_t span;
    if (rest.len == 0) {
        *ret = now_ns;
        return true;
    }
    if ((rest.data[0] != '-' && rest.data[0] != '+') ||
        !bytes_to_duration(bytes_from(rest, 1), &span))
        return false;
    return rest.data[0] == '-' ? !__builtin_sub_overflow(now_ns, span, ret)
                               : !__builtin_add_overflow(now_ns, span, ret);
}

static bool parse_since_1970(struct bytes s, int64_t *ret)
{
    int64_t v;
    if (!bytes_to_i64(s, &v) || v < 0)
        return false;
    int64_t scale = s.len >= 18 ? 1 : s.len >= 15 ? 1000 : s.len >= 12 ? 1000000 : SECOND_NS;
    return !__builtin_mul_overflow(v, scale, ret);
}

/* Digits behind the point, as nanoseconds; more than nine are cut. */
static bool take_fraction(struct bytes s, size_t *at, int64_t *ret)
{
    int64_t scale = SECOND_NS / 10;
    *ret = 0;
    if (*at >= s.len || s.data[*at] != '.')
        return true;
    (*at)++;
    if (!is_digit(s, *at))
        return false;
    for (; is_digit(s, *at); (*at)++, scale /= 10)
        *ret += (s.data[*at] - '0') * scale;
    return true;
}

/* "Z", "+02:00", or nothing, which is UTC too: seconds to take off. */
static bool take_offset(struct bytes s, size_t at, int64_t *ret)
{
    int64_t hours, minutes;
    *ret = 0;
    if (at == s.len || (at + 1 == s.len && (s.data[at] == 'Z' || s.data[at] == 'z')))
        return true;
    size_t digits = at + 1;
    if (s.len != at + 6 || s.data[at + 3] != ':' || (s.data[at] != '+' && s.data[at] != '-'))
        return false;
    if (!take_number(s, &digits, &hours) || digits++ != at + 3 ||
        !take_number(s, &digits, &minutes) || hours > 23 || minutes > 59)
        return false;
    *ret = (s.data[at] == '+' ? 1 : -1) * (hours * 3600 + minutes * 60);
    return true;
}

/* A number of exactly n digits. */
static bool take_digits(struct bytes s, size_t *at, size_t n, int *ret)
{
    size_t from = *at;
    int64_t v;
    if (!take_number(s, at, &v) || *at != from + n)
        return false;
    *ret = (int)v;
    return true;
}

static bool take_byte(struct bytes s, size_t *at, const char *any)
{
    if (*at >= s.len || s.data[*at] == 0 || !strchr(any, s.data[*at]))
        return false;
    (*at)++;
    return true;
}

static bool parse_date(struct bytes s, int64_t *ret)
{
    struct tm tm = {0};
    size_t at = 0;
    int64_t fraction = 0, offset = 0;

    if (!take_digits(s, &at, 4, &tm.tm_year) || !take_byte(s, &at, "-") ||
        !take_digits(s, &at, 2, &tm.tm_mon) || !take_byte(s, &at, "-") ||
        !take_digits(s, &at, 2, &tm.tm_mday))
        return false;
    if (at < s.len) {
        if (!take_byte(s, &at, "Tt ") || !take_digits(s, &at, 2, &tm.tm_hour) ||
            !take_byte(s, &at, ":") || !take_digits(s, &at, 2, &tm.tm_min))
            return false;
        if (take_byte(s, &at, ":") && !take_digits(s, &at, 2, &tm.tm_sec))
            return false;
        if (!take_fraction(s, &at, &fraction) || !take_offset(s, at, &offset))
            return false;
    }
    if (tm.tm_year < 1970 || tm.tm_year > 2262 || tm.tm_mon < 1 || tm.tm_mon > 12 ||
        tm.tm_mday < 1 || tm.tm_mday > 31 || tm.tm_hour > 23 || tm.tm_min > 59 || tm.tm_sec > 60)
        return false;
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    /* The last year that fits does not fit whole. */
    return !__builtin_mul_overflow((int64_t)timegm(&tm) - offset, SECOND_NS, ret) &&
           !__builtin_add_overflow(*ret, fraction, ret);
}

int time_parse(struct bytes text, int64_t now_ns, int64_t *ret, struct error *err)
{
    struct bytes s = bytes_trim(text);
    bool ok = bytes_start_with(s, BYTES("now")) ? parse_relative(s, now_ns, ret)
                                                : parse_since_1970(s, ret) || parse_date(s, ret);
    return ok ? 0 : bad_time(text, err);
}

int64_t time_step_for(int64_t from_ns, int64_t to_ns, unsigned wanted)
{
    static const int32_t seconds[] = {1,   2,   5,    10,   15,   30,    60,    120,  300,
                                      600, 900, 1800, 3600, 7200, 10800, 21600, 43200};
    uint64_t range = to_ns > from_ns ? (uint64_t)to_ns - (uint64_t)from_ns : 0;
    uint64_t least = range / (wanted > 0 ? wanted : 1);
    for (size_t i = 0; i < ARRAY_SIZE(seconds); i++)
        if ((uint64_t)(seconds[i] * SECOND_NS) >= least)
            return seconds[i] * SECOND_NS;
    /* Whole days; past a century one step is all there is. */
    int64_t day = 86400 * SECOND_NS;
    uint64_t days = least / (uint64_t)day + 1;
    return (int64_t)(days < 36500 ? days : 36500) * day;
}

const char *time_text(int64_t ns, char text[TIME_TEXT_MAX])
{
    int64_t second = ns / SECOND_NS - (ns % SECOND_NS < 0), fraction = ns - second * SECOND_NS;
    time_t t = (time_t)second;
    struct tm tm;
    gmtime_r(&t, &tm);
    size_t n = strftime(text, TIME_TEXT_MAX, "%Y-%m-%dT%H:%M:%S", &tm);
    if (fraction != 0) {
        n += (size_t)snprintf(text + n, TIME_TEXT_MAX - n, ".%09d", (int)fraction);
        while (text[n - 1] == '0')
            n--;
    }
    memcpy(text + n, "Z", 2);
    return text;
}

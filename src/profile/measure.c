#include "profile/measure.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

struct unit {
    const char *name; /* as printed */
    const char *aliases[3];
    double factor;
};

struct family {
    const struct unit *units;
    size_t n;
    struct unit fallback; /* for targets that the family does not know */
};

static const struct unit memory[] = {
    {"B", {"b", "byte"}, 1},
    {"kB", {"kb", "kbyte", "kilobyte"}, 0x1p10},
    {"MB", {"mb", "mbyte", "megabyte"}, 0x1p20},
    {"GB", {"gb", "gbyte", "gigabyte"}, 0x1p30},
    {"TB", {"tb", "tbyte", "terabyte"}, 0x1p40},
    {"PB", {"pb", "pbyte", "petabyte"}, 0x1p50},
};

static const struct unit duration[] = {
    {"ns", {"ns", "nanosecond"}, 1},    {"us", {"μs", "us", "microsecond"}, 1e3},
    {"ms", {"ms", "millisecond"}, 1e6}, {"s", {"s", "sec", "second"}, 1e9},
    {"hrs", {"hour", "hr"}, 3600e9},
};

static const struct unit gcu[] = {
    {"n*GCU", {"nanogcu"}, 1e-9}, {"u*GCU", {"microgcu"}, 1e-6}, {"m*GCU", {"milligcu"}, 1e-3},
    {"GCU", {"gcu"}, 1},          {"k*GCU", {"kilogcu"}, 1e3},   {"M*GCU", {"megagcu"}, 1e6},
    {"G*GCU", {"gigagcu"}, 1e9},  {"T*GCU", {"teragcu"}, 1e12},  {"P*GCU", {"petagcu"}, 1e15},
};

static const struct family families[] = {
    {memory, ARRAY_SIZE(memory), {.name = "B", .factor = 1}},
    {duration, ARRAY_SIZE(duration), {.name = "s", .factor = 1e9}},
    {gcu, ARRAY_SIZE(gcu), {.name = "GCU", .factor = 1}},
};

/* The unit of a family by any of its names, in any case and with or without a plural s. */
static const struct unit *find_unit(const struct family *f, const char *name)
{
    char plain[16];
    size_t len = strlen(name);

    if (len >= sizeof(plain))
        return NULL;
    for (size_t i = 0; i <= len; i++) {
        bool is_upper = name[i] >= 'A' && name[i] <= 'Z';
        plain[i] = name[i];
        if (is_upper)
            plain[i] = (char)(name[i] - 'A' + 'a');
    }
    if (len > 2 && plain[len - 1] == 's')
        plain[len - 1] = '\0';
    for (size_t i = 0; i < f->n; i++) {
        for (size_t k = 0; k < 3 && f->units[i].aliases[k]; k++) {
            if (strcmp(f->units[i].aliases[k], plain) == 0)
                return &f->units[i];
        }
    }
    return NULL;
}

/* The largest unit of which there is at least one. */
static const struct unit *auto_unit(const struct family *f, double base)
{
    const struct unit *best = NULL;

    for (size_t i = 0; i < f->n; i++) {
        if (base / f->units[i].factor >= 1)
            best = &f->units[i];
    }
    return best ? best : &f->fallback;
}

static bool is_automatic(const char *to)
{
    return strcmp(to, "minimum") == 0 || strcmp(to, "auto") == 0;
}

double measure_scale(int64_t value, const char *from, const char *to, const char **ret_unit)
{
    if (value < 0 && value != INT64_MIN)
        return -measure_scale(-value, from, to, ret_unit);

    for (size_t i = 0; i < ARRAY_SIZE(families); i++) {
        const struct family *f = &families[i];
        const struct unit *have = find_unit(f, from);
        if (!have)
            continue;
        double base = (double)value * have->factor;
        const struct unit *want = is_automatic(to) ? auto_unit(f, base) : find_unit(f, to);
        if (!want)
            want = &f->fallback;
        *ret_unit = want->name;
        return base / want->factor;
    }
    bool is_plain = is_automatic(to) || strcmp(to, "count") == 0 || strcmp(to, "sample") == 0 ||
                    strcmp(to, "unit") == 0;
    *ret_unit = is_plain ? "" : to;
    return (double)value;
}

bool measure_ratio(const char *from, const char *to, double *ret)
{
    if (strcmp(from, to) == 0) {
        *ret = 1;
        return true;
    }
    for (size_t i = 0; i < ARRAY_SIZE(families); i++) {
        const struct unit *a = find_unit(&families[i], from), *b = find_unit(&families[i], to);
        if (a && b) {
            *ret = a->factor / b->factor;
            return true;
        }
    }
    return false;
}

void measure_label(int64_t value, const char *from, const char *to, char ret[MEASURE_TEXT_MAX])
{
    const char *unit = "";
    double scaled = measure_scale(value, from, to, &unit);
    int n = snprintf(ret, MEASURE_TEXT_MAX, "%.2f", scaled);

    if (n > 3 && strcmp(ret + n - 3, ".00") == 0)
        ret[n -= 3] = '\0';
    if (strcmp(ret, "0") == 0 || strcmp(ret, "-0") == 0)
        snprintf(ret, MEASURE_TEXT_MAX, "0");
    else
        snprintf(ret + n, MEASURE_TEXT_MAX - (size_t)n, "%s", unit);
}

void measure_percentage(int64_t value, int64_t total, char ret[MEASURE_TEXT_MAX])
{
    double ratio = total != 0 ? fabs((double)value / (double)total) * 100 : 0;

    if (ratio >= 99.95 && ratio <= 100.05)
        snprintf(ret, MEASURE_TEXT_MAX, "  100%%");
    else if (ratio >= 1)
        snprintf(ret, MEASURE_TEXT_MAX, "%5.2f%%", ratio);
    else
        snprintf(ret, MEASURE_TEXT_MAX, "%5.2g%%", ratio);
}

#include "profile/sample_weight.h"

#include <math.h>

#include "profile/measure.h"

static bool counts_samples(const struct profile *p, uint32_t type)
{
    struct bytes name = dict_text(p->dict, p->types[type].type);
    return (bytes_are(name, "samples") || bytes_are(name, "sample")) &&
           bytes_are(dict_text(p->dict, p->types[type].unit), "count");
}

/* Whether `count` counts every row that has a value: columns of other profiles do not. */
static bool counts_all(const struct profile *p, uint32_t type, uint32_t count)
{
    for (size_t i = 0; i < p->n_samples; i++)
        if (p->values[type][i] != 0 && p->values[count][i] <= 0)
            return false;
    return p->n_samples > 0;
}

static double by_period(const struct profile *p, uint32_t type)
{
    double ratio = 0;
    /* A period of one says that all was counted, or nothing: values are no samples then. */
    if (p->period <= 1 || !measure_ratio(dict_cstr(p->dict, p->period_type.unit),
                                         dict_cstr(p->dict, p->types[type].unit), &ratio))
        return 0;
    return (double)p->period * ratio;
}

double profile_sample_weight(const struct profile *p, uint32_t type)
{
    if (counts_samples(p, type))
        return 1;
    for (uint32_t i = 0; i < p->n_types; i++) {
        double total = fabs((double)profile_total(p, type)), n = (double)profile_total(p, i);
        if (counts_samples(p, i) && counts_all(p, type, i) && total > 0 && n > 0)
            return total / n;
    }
    return by_period(p, type);
}

uint64_t sample_count(int64_t value, double weight)
{
    double n = round(fabs((double)value) / weight);
    return n < 0x1p63 ? (uint64_t)n : INT64_MAX;
}

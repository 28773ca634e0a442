#include "query/significance.h"

#include <math.h>

#include "profile/sample_weight.h"

#define Z_95 1.959964 /* 95 % of a normal distribution is within so many deviations */

struct significance significance_of(const struct merged_pair *pair, const uint32_t type[2])
{
    const struct profile *sides[2] = {pair->before, pair->after};
    struct significance s = {.is_known = true};

    for (int i = 0; i < 2; i++) {
        int64_t total = profile_total(sides[i], type[i]);
        s.weight[i] = profile_sample_weight(sides[i], type[i]);
        s.n[i] = s.weight[i] > 0 ? (double)total / s.weight[i] : 0;
        s.is_known &= s.n[i] > 0;
    }
    return s;
}

bool is_significant(const struct significance *s, const int64_t value[2])
{
    double x[2];

    if (!s->is_known)
        return false;
    for (int i = 0; i < 2; i++)
        x[i] = fmin(fmax((double)value[i] / s->weight[i], 0), s->n[i]);
    if (x[0] + x[1] < SIGNIFICANCE_MIN)
        return false;
    double pooled = (x[0] + x[1]) / (s->n[0] + s->n[1]);
    double deviation = sqrt(pooled * (1 - pooled) * (1 / s->n[0] + 1 / s->n[1]));
    return deviation > 0 && fabs(x[1] / s->n[1] - x[0] / s->n[0]) >= Z_95 * deviation;
}

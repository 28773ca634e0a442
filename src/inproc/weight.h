#pragma once

#include <math.h>
#include <stdint.h>

/*
 * What a sample stands for. It was taken with the chance p = 1 - exp(-value / rate), so dividing by
 * p makes sums right on average, whatever the sizes are. rate 0: it was certain.
 */
static inline double weight_chance(uint64_t value, uint32_t rate)
{
    double v = value > 0 ? (double)value : 1;

    return rate == 0 ? 1 : -expm1(-v / (double)rate);
}

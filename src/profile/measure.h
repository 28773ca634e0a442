#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * Values with units, written the way pprof writes them: "1.25s", "512kB", "37.5%". Three families
 * of units are known (memory, time, GCU), each by several names ("ms", "millisecond", ...);
 * anything else is counted as it is.
 */

/* Room for any text made here; a unit too long for it is cut. */
#define MEASURE_TEXT_MAX 96

/*
 * `value` of unit `from` in unit `to`, which may be "auto" or "minimum": the largest unit in which
 * it is at least one. A target of another family yields the default unit of from's family. The unit
 * arrived at comes back in *ret_unit ("" when not worth saying); it is `to` itself or static.
 */
double measure_scale(int64_t value, const char *from, const char *to, const char **ret_unit);

/* What a value of unit `from` must be multiplied with to be one of `to`. False when the two are not
 * of one family and not the same. */
bool measure_ratio(const char *from, const char *to, double *ret);

/* A scaled value with its unit, two decimals at most: "12.50ms", "3", "0". */
void measure_label(int64_t value, const char *from, const char *to, char ret[MEASURE_TEXT_MAX]);

/* The share of |value| in total: "12.34%", "  100%", " 0.05%". At least six columns. */
void measure_percentage(int64_t value, int64_t total, char ret[MEASURE_TEXT_MAX]);

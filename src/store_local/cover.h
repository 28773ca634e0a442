#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * Which levels of a strip set answer for which times. A strip set is what one file holds of one
 * series (or group): the rows as they came and, where they pay, sums of exactly those rows over
 * aligned buckets. A question is cut into pieces, each answered by one level, so that every row
 * counts exactly once: buckets that lie wholly inside it, rows for the rest.
 *
 * Pure functions of their arguments.
 */
enum cover_level {
    COVER_RAW,
    COVER_MINUTE,
    COVER_HOUR,
    COVER_DAY,
    COVER_FUNCTIONS_HOUR,
    COVER_FUNCTIONS_DAY,
    COVER_LEVELS,
};

/* The length of a level's buckets; 0 for raw rows. */
extern const int64_t cover_width_ns[COVER_LEVELS];

struct cover_ask {
    uint32_t levels; /* bit l: level l may be used. Raw rows always may. */
    int64_t from_ns, to_ns;
    int64_t step_ns;        /* pieces of a level with buckets never mix steps; 0: one step */
    int64_t min_ns, max_ns; /* of the raw rows there are: nothing is outside */
};

struct cover_piece {
    enum cover_level level;
    int64_t from_ns, to_ns; /* rows of that level which start in it, and only those */
};

/* Three widths of buckets, each on both sides of the next wider one, and raw rows at the ends. */
#define COVER_PIECES_MAX 7

/* The pieces in order of time. Returns how many; 0 when there is nothing in the range. */
size_t cover(const struct cover_ask *ask, struct cover_piece ret[COVER_PIECES_MAX]);

/* The largest multiple of width that is not above t, and the smallest not below it. They saturate
 * at the ends of time. */
int64_t cover_floor(int64_t t, int64_t width);
int64_t cover_ceil(int64_t t, int64_t width);

/* A set of times: disjoint ranges in ascending order. */
struct cover_range {
    int64_t from_ns, to_ns;
};

/* Takes [from, to) out of ranges[0..n), which has room for n + 1. Returns how many are left. */
size_t cover_cut(struct cover_range *ranges, size_t n, int64_t from_ns, int64_t to_ns);

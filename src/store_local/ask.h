#pragma once

#include "segment/run.h"
#include "store_local/part.h"
#include "store_local/snapshot.h"

/*
 * What a plan means for a snapshot: the columns and groups of the answer, the steps, and what has
 * been found for each of them. Sums are made in bins: a bin is a cell of the answer, or, where the
 * moments of an instant series are averaged, one series in one cell (they are divided before they
 * are added up).
 *
 * Made and filled by one thread.
 */
#define ASK_AVERAGED ((uint32_t)1 << 31) /* of a bin: the rest is a moment */
#define ASK_NONE     UINT32_MAX

/* Where samples stand that have to be read. */
enum pick_kind {
    PICK_STACKS,    /* payloads: attribute sets and runs, keys are nodes */
    PICK_FUNCTIONS, /* the same, keys are names, flat and cumulative columns */
    PICK_SIDE,      /* one row's side rows */
    PICK_SIDE_LATE, /* the same, of a row that itself is before the range */
};

struct pick {
    uint32_t epoch, bin; /* of the snapshot; of the ask */
    uint32_t series;     /* place in the snapshot: for the columns */
    uint32_t n_samples;
    uint32_t offset, len;
    int64_t start_ns;
    const struct part *part; /* NULL: in memory, at `data` */
    union {
        const struct strip_block *block;
        const uint8_t *data;
    };
    enum pick_kind kind;
};

struct ask_series {
    uint8_t to[PROFILE_TYPES_MAX]; /* type -> column of the answer, or SUMS_SKIP */
    uint8_t first;                 /* the type that is column 0, or SUMS_SKIP */
    uint8_t own;                   /* its first type that is selected: peaks are peaks of it */
    uint32_t group;
    uint32_t moments; /* first of n_steps, for instant series; ASK_NONE: not met yet */
};

struct ask_group {
    const struct bytes *values; /* of the labels that are grouped by */
    uint32_t cells;             /* first of n_steps; ASK_NONE: not met yet */
};

struct ask_cell {
    uint64_t n_profiles;
    int64_t start_ns, duration_ns, period; /* start: of the first row */
    int64_t value, flat;
    bool has_samples; /* with filters: some sample passed them */
};

/* Tells rows of one moment apart in the same way wherever they stand: id, or content hash. */
struct moment_key {
    uint64_t high, low;
};

/* One instant series in one step. */
struct ask_moment {
    uint32_t cell;
    bool has;
    uint64_t n; /* averages: of profiles... */
    int64_t value, flat;
    /* The last one, or the one at the peak. */
    int64_t start_ns, total, peak, duration_ns, period;
    struct moment_key key;
    struct pick pick;
};

struct ask {
    const struct store_plan *plan;
    struct snapshot *snap;
    struct budget *budget;
    struct arena arena;
    int64_t from_ns, to_ns; /* no wider than the data */
    int64_t first_step_ns;
    uint32_t n_steps;
    uint32_t levels;  /* that may be used, by bit */
    bool reads_sides; /* only side rows count */
    bool reads_times; /* side rows move values to their own times */
    bool has_filter;  /* by attributes or trace: row totals say nothing */
    bool wants_picks; /* samples have to be read */

    VEC(struct store_type) columns;
    struct store_type period_type;
    VEC(struct ask_series) series; /* as in the snapshot */
    VEC(struct ask_group) groups;
    struct idset group_index;
    VEC(struct ask_cell) cells;
    VEC(struct ask_moment) moments;
    VEC(struct pick) picks;
    VEC(struct part *) parts; /* that picks refer to */
};

/* -ENOBUFS past the budget, -EINVAL for too many columns. */
int ask_init(struct ask *a, const struct store_plan *plan, struct snapshot *snap,
             struct budget *budget, struct error *err);
void ask_done(struct ask *a); /* zeroed is fine */

/* The step that a time within the range belongs to, and its start. */
uint32_t ask_step(const struct ask *a, int64_t t);
int64_t ask_step_start(const struct ask *a, uint32_t step);

/* The cell of a group and step, the moment of a series and step; ASK_NONE when the budget is
 * spent. */
uint32_t ask_cell(struct ask *a, uint32_t group, uint32_t step);
uint32_t ask_moment(struct ask *a, uint32_t series, uint32_t step);

/* sum / n, rounded to the nearest, halves away from 0. */
int64_t ask_average(int64_t sum, uint64_t n);

#pragma once

#include "base/budget.h"
#include "profile/dict.h"
#include "store_local/part.h"
#include "store_local/row_stream.h"

/*
 * Rollups: the rows of a series (or of all series of a group) in one part, added up per minute,
 * hour and day, and per function. Values, totals, durations and numbers of profiles are sums; a
 * bucket without rows has no row.
 *
 * Sample attributes are cut down to those that questions are asked by (rollup_keeps()); where the
 * set of what is left is not known to the epoch, the full set stays, which is as right and only
 * larger.
 *
 * A level is written only where it pays: at most 1/ROLLUP_PAYS of the samples of the level below it
 * (functions per hour: of the raw rows). A strip whose sums would take more memory than
 * ROLLUP_BYTES_MAX, or that has more than ROLLUP_SETS_MAX attribute sets, gets none: readers then
 * use raw rows.
 */
#define ROLLUP_PAYS      4
#define ROLLUP_SETS_MAX  64
#define ROLLUP_BYTES_MAX ((size_t)96 << 20)

/* Streams that keep their blocks between buckets; with more, minutes are not added up. */
#define ROLLUP_STREAMS_MAX 256

/* Whether rollups keep sample attributes of this name: a filter by another one needs raw rows. */
bool rollup_keeps(struct bytes attribute);

/* For each attribute set of a dictionary, the one that stands for it in rollups. NULL without
 * memory; to be freed. */
uint32_t *rollup_projection(const struct dict *d);

struct rollup_ask {
    const struct dict *dict; /* the epoch's */
    const uint32_t *projection;
    struct row_stream *streams; /* at their beginnings; of ROWS_TOTALS | ROWS_WINDOW */
    size_t n_streams;
    uint32_t series; /* the strips' */
    unsigned n_types;
    uint64_t raw_samples;
    bool has_days;      /* levels of days are wanted too */
    bool has_functions; /* levels of functions are wanted too */
};

/* Adds up and writes the strips of levels 1 to 5 that pay. -EBADMSG: a payload is damaged;
 * ask->streams[*ret_bad] is the one. */
int rollup_write(const struct rollup_ask *ask, struct part_writer *w, size_t *ret_bad,
                 struct error *err);

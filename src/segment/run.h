#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "segment/scaled.h"

/*
 * A run: rows of (key, value...), keys strictly ascending, in about a byte per row. The samples of
 * one profile (key = stack node), a rollup, or the functions of a profile. Encoded once when data
 * arrives and from then on copied unchanged: WAL, memory, segment file.
 *
 *     varint n_cols, varint n                   nothing follows when n is 0
 *     varint first key
 *     bitpack of the distances between keys less 1 (0 for the first)
 *     columns   u8 flags: as in scaled.h; 4 a multiple of column (flags >> 3)
 *               multiple: zigzag varint factor; otherwise: scaled values
 *
 * All arithmetic on values wraps, so every int64_t survives.
 */
#define RUN_COLS_MAX 128
#define RUN_ROWS_MAX ((size_t)1 << 24)

/* A run opened for reading; borrows the bytes it was opened from. */
struct run {
    struct bytes encoded; /* all of the run, for copying */
    size_t n;
    unsigned n_cols;
    uint32_t first_key;
    struct bitpack steps; /* between keys, less 1 */
    struct scaled cols[RUN_COLS_MAX];
};

/*
 * Appends a run to `out`; values[c][i] is column c of row i. -EINVAL when keys do not ascend or
 * there are more than RUN_COLS_MAX columns, -E2BIG above RUN_ROWS_MAX rows, -ENOBUFS when the
 * budget of `out` is spent (8 bytes per row are needed while this runs). `out` has whole runs at
 * any time.
 */
int run_encode(const uint32_t *keys, const int64_t *const *values, size_t n, unsigned n_cols,
               struct buf *out);

/*
 * Takes the run at the front of *in off it. -EBADMSG when it is cut short or malformed; *in is then
 * untouched. Everything below is then safe, whatever the bytes are: damage shows as wrong numbers
 * or a refusal. All of *in, also what follows the run, must stay unchanged while the run is in use,
 * since reading may look at up to 8 bytes behind it.
 */
int run_open(struct bytes *in, struct run *ret);

/*
 * sums[key] += value for every row. False when a key is n_sums or more, or the keys are damaged:
 * some rows may have been added by then.
 */
bool run_add(const struct run *r, unsigned col, int64_t *sums, size_t n_sums);

/* The same, also setting bit `key` of `marks` (NULL: none), which has n_sums bits. */
bool run_add_marked(const struct run *r, unsigned col, int64_t *sums, size_t n_sums,
                    uint64_t *marks);

/* Every column c into sums[c], unless that is NULL; marks may be NULL too. */
bool run_add_all(const struct run *r, int64_t *const *sums, size_t n_sums, uint64_t *marks);

/* Into arrays of r->n. False when the keys are damaged. */
bool run_keys(const struct run *r, uint32_t *ret);
void run_values(const struct run *r, unsigned col, int64_t *ret);

/* The total of a column. */
int64_t run_sum(const struct run *r, unsigned col);

/*
 * The total of the rows whose key has its bit set in a bitmap of n_bits; keys from n_bits on do not
 * count. False when the keys are damaged.
 */
bool run_sum_masked(const struct run *r, unsigned col, const uint64_t *bitmap, size_t n_bits,
                    int64_t *ret);

#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/budget.h"
#include "base/vec.h"
#include "segment/run.h"

/*
 * What one thread adds samples up in: per column one number for every key (stack) of an epoch.
 * Pages that no sample touches cost nothing. Many sums are made one after the other with the same
 * memory: taking them out leaves zeros behind.
 */
struct sums {
    struct budget *budget;
    size_t n_keys;
    unsigned n_cols;
    int64_t **cols;
    uint64_t *marks; /* a bit per key that was added to; only used when few are */
    size_t charged;
    bool is_marked;
};

/* False when the budget is spent. */
bool sums_init(struct sums *s, struct budget *budget, size_t n_keys, unsigned n_cols);
void sums_done(struct sums *s);

/*
 * Says how many rows are coming: for few of them it is remembered which keys they touch, for many
 * that would cost more than looking at all keys afterwards. Call while all sums are zero.
 */
void sums_expect(struct sums *s, uint64_t n_rows);

/* Adds the columns of a run: column c of the run to column to[c], or nowhere where that is
 * SUMS_SKIP; `to` has n_to elements, columns beyond are skipped. False when the run is damaged. */
#define SUMS_SKIP UINT8_MAX
bool sums_add_run(struct sums *s, const struct run *run, const uint8_t *to, size_t n_to);

/* Adds one number; out of bounds: false. */
bool sums_add(struct sums *s, uint32_t key, unsigned col, int64_t value);

/* Keys whose sums are not all zero, ascending, with their sums, col by col: values[c * n + i]. */
struct sums_taken {
    size_t n;
    uint32_t *keys;
    int64_t *values;
    unsigned n_cols;
    size_t charged;
};

/* Takes all sums out and leaves zeros. False when the budget is spent; zeros are left then too. */
bool sums_take(struct sums *s, struct sums_taken *ret);
void sums_taken_done(struct budget *b, struct sums_taken *taken);

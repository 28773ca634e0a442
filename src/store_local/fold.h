#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "profile/dict.h"
#include "store_local/sums.h"

/*
 * From stacks to functions. A function is a name (string id of the epoch); frames without one share
 * id 0. Its flat value is what was measured in it (the innermost line of a stack's leaf), its
 * cumulative value what was measured in all stacks that have it anywhere, once each however often
 * it recurs.
 */
struct fold {
    const struct dict *dict;
    struct budget *budget;
    uint32_t *stamps; /* per string: the stack that met it last */
    uint32_t stamp;
    size_t charged;
};

/* False when the budget is spent. */
bool fold_init(struct fold *f, struct budget *budget, const struct dict *dict);
void fold_done(struct fold *f);

/* Adds stacks with column `col` of their sums to `to`, whose keys are strings of the dictionary and
 * whose two columns are flat and cumulative. */
void fold_stacks(struct fold *f, const struct sums_taken *stacks, unsigned col, struct sums *to);

/* Which stacks have a function named `name` as their leaf, and which have it anywhere. Both bitmaps
 * have a bit per node, zero at the start. */
void fold_find(const struct dict *dict, uint32_t name, uint64_t *flat, uint64_t *cum);

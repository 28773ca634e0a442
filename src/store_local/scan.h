#pragma once

#include "store_local/ask.h"
#include "store_local/sums.h"

/*
 * Reads the samples that were picked and adds them up: per epoch and bin one list of keys with
 * their sums (stacks, or names of functions), or for a question about numbers, numbers. Spread
 * over threads by the number of samples; each has its own sums.
 */
struct partial {
    uint32_t bin, epoch;
    struct sums_taken taken; /* stacks: the answer's columns; functions: flat, cumulative */
};

struct scan_number {
    int64_t value, flat;
    bool has_samples;
};

/* What one thread did. */
struct scan_share {
    struct budget budget;
    size_t first, end; /* picks */
    VEC(struct partial) partials;
    struct scan_number *cells, *moments; /* of questions about numbers; NULL: none */
    uint64_t samples_read, blocks_read;
    bool is_incomplete;
    struct error trouble;
    int result;
    struct error err;
};

struct scan {
    struct ask *a;
    struct scan_epoch *epochs; /* per epoch of the snapshot */
    struct scan_share *shares;
    size_t n_shares;
};

/* 0, -ECANCELED, or -ENOBUFS past the budget of the ask. What cannot be read is told in `answer`.
 * Adds numbers to the cells and moments of the ask. */
int scan_run(struct scan *s, struct ask *a, struct store_answer *answer, struct error *err);
void scan_done(struct scan *s); /* zeroed is fine */

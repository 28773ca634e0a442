#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/bytes.h"

/*
 * The floors that benches compare with: the least work that any program must do for the same
 * result. Nothing here checks or shares anything; buffers are kept from run to run.
 */

/* Walks a pprof message field by field into plain arrays. False when it is malformed. */
struct pprof_arrays {
    size_t samples, locations, lines, functions, strings, labels, refs, values;
};
bool floor_walk_pprof(struct bytes message, struct pprof_arrays *ret);

/* The same for an OTLP profiles message. */
struct otlp_arrays {
    size_t samples, stacks, locations, lines, functions, strings, attributes, refs, values;
};
bool floor_walk_otlp(struct bytes message, struct otlp_arrays *ret);

/*
 * A pprof message of n samples that looks like a large service: stacks grown from one random call
 * tree, a skewed choice of which is sampled, labels on a fifth of the samples. The same on every
 * run.
 */
void synth_pprof(size_t n_samples, struct buf *out);

#pragma once

#include <stdint.h>

#include "base/vec.h"

/*
 * What was mapped where, in every process and at every moment: a persistent tree of address ranges.
 * A state of an address space is a root; adding a range yields a new root and leaves the old one
 * valid, so that a fork costs nothing and a root with an address is a key to cache by. Roots are
 * numbers; 0 is the empty address space.
 *
 * Ranges never overlap: adding one cuts or removes what was there, as mmap() does. All operations
 * take logarithmic time, whatever the order of ranges.
 */
struct perf_range {
    uint64_t start, end; /* [start, end) */
    uint32_t map;        /* the caller's number for what is mapped */
};

struct perf_map_node {
    struct perf_range range;
    uint32_t left, right;
    uint32_t priority; /* no child has a higher one */
};

struct perf_maps {
    struct budget *budget;
    VEC(struct perf_map_node) nodes; /* node 0 is none */
};

void perf_maps_init(struct perf_maps *m, struct budget *budget);
void perf_maps_done(struct perf_maps *m);

/* The address space `root` with one more range. An empty range changes nothing. When the budget is
 * spent the result is some valid root. */
uint32_t perf_maps_add(struct perf_maps *m, uint32_t root, struct perf_range range);

/* The range that holds an address, or NULL. Valid until the next perf_maps_add(). */
const struct perf_range *perf_maps_find(const struct perf_maps *m, uint32_t root, uint64_t address);

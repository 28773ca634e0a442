#pragma once

#include <stdint.h>

/*
 * Numbers that look random and follow from a seed (xoshiro256**), the same on every machine. Not
 * for secrets. Belongs to one thread.
 */
struct random {
    uint64_t state[4];
};

void random_init(struct random *r, uint64_t seed);

/* A seed nobody can guess, from the kernel. */
uint64_t random_seed_os(void);

uint64_t random_u64(struct random *r);

/* One of 0 ... n - 1, each as likely; 0 when n is 0. */
uint64_t random_below(struct random *r, uint64_t n);

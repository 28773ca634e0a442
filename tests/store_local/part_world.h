#pragma once

#include <errno.h>
#include <pthread.h>

#include "base/clock.h"
#include "base/fs.h"
#include "lib/sim_fs.h"
#include "lib/test.h"
#include "segment/run.h"
#include "segment/varint.h"
#include "store_local/part.h"
#include "store_local/version.h"

/*
 * As much of a store as segments need: a disk and a lock. Rows are made from a number, so that what
 * was written can be told from what is read.
 */
#define WORLD_TYPES 2

struct world {
    struct sim_fs *sim;
    struct local local;
};

static inline void world_init(struct world *w)
{
    *w = (struct world){.sim = sim_fs_new(1)};
    w->local.fs = sim_fs_fs(w->sim);
    w->local.clock = clock_real();
    w->local.next_id = 1;
    pthread_mutex_init(&w->local.lock, NULL);
    fs_mkdir(w->local.fs, "seg", NULL);
    fs_mkdir(w->local.fs, "dict", NULL);
}

static inline void world_done(struct world *w)
{
    pthread_mutex_destroy(&w->local.lock);
    sim_fs_free(w->sim);
}

static inline uint64_t world_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* A payload of samples, one attribute set after the other; returns how many samples. */
static inline uint32_t world_payload(struct buf *out, uint64_t *random, uint32_t n_nodes,
                                     uint32_t n_sets, int64_t totals[WORLD_TYPES])
{
    uint32_t keys[256], n_samples = 0;
    int64_t a[256], b[256];
    const int64_t *values[WORLD_TYPES] = {a, b};

    totals[0] = totals[1] = 0;
    for (uint32_t set = 0; set < n_sets; set++) {
        uint32_t n = 0;
        for (uint32_t node = 1; node < n_nodes && n < 256; node++) {
            if (world_random(random) % 2 == 0)
                continue;
            keys[n] = node;
            a[n] = 1 + (int64_t)(world_random(random) % 5);
            b[n] = a[n] * 10000000;
            totals[0] += a[n];
            totals[1] += b[n];
            n++;
        }
        add_varint(out, set);
        run_encode(keys, values, n, WORLD_TYPES, out);
        n_samples += n;
    }
    return n_samples;
}

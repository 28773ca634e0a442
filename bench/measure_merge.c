/*
 * Adding up 1,000 profiles of 500 samples that share a dictionary, against the bare loop over the
 * same columns: sum by node, then one backward pass for the totals.
 */
#include <stdio.h>
#include <stdlib.h>

#include "floor.h"
#include "formats/formats.h"
#include "measure.h"
#include "profile/merge.h"

#define N_PROFILES 1000
#define N_SAMPLES  500
#define RUNS       25

static uint64_t state = 88172645463325252u;

static uint64_t random64(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

struct work {
    struct dict *dict;
    struct profile *profiles[N_PROFILES];
    uint32_t *nodes; /* the same samples as plain columns */
    int64_t *values;
    int64_t *self, *total;
};

/* A few stacks often and many rarely, as programs have them. */
static uint32_t pick(const struct profile *pool)
{
    uint64_t n = pool->n_samples, r = random64();

    for (int i = 0; i < 3; i++)
        n = (r >> (i * 20) & 0xfffff) * n >> 20 | 1;
    return pool->node[n * 2654435761u % pool->n_samples];
}

static void make_profiles(struct work *w, const struct profile *pool)
{
    for (size_t i = 0; i < N_PROFILES; i++) {
        struct profile *p = w->profiles[i] = profile_new(w->dict);
        profile_add_ctype(p, "cpu", "nanoseconds");
        for (size_t k = 0; k < N_SAMPLES; k++) {
            size_t at = i * N_SAMPLES + k;
            w->nodes[at] = pick(pool);
            w->values[at] = 1 + (int64_t)(random64() % 50);
            profile_add_value(p, w->nodes[at], w->values[at]);
        }
    }
}

static int64_t floor_merge(struct work *w)
{
    size_t n = dict_n_nodes(w->dict);

    memset(w->self, 0, n * sizeof(*w->self));
    memset(w->total, 0, n * sizeof(*w->total));
    for (size_t i = 0; i < (size_t)N_PROFILES * N_SAMPLES; i++)
        w->self[w->nodes[i]] += w->values[i];
    for (size_t i = n; i-- > 1;) {
        w->total[i] += w->self[i];
        if (w->total[i])
            w->total[w->dict->node_parent.data[i]] += w->total[i];
    }
    return w->total[0] + w->self[0];
}

static int64_t our_merge(struct work *w)
{
    struct profile *merged =
        profile_merge(w->dict, w->profiles, N_PROFILES, (struct merge_options){0});
    if (!merged)
        measure_die("merge", "out of memory");
    profile_totals(merged, 0, w->total);
    profile_free(merged);
    return w->total[0];
}

int measure_merge(struct profile_set *set)
{
    size_t n = dict_n_nodes(set->dict), n_rows = (size_t)N_PROFILES * N_SAMPLES;
    struct work w = {.dict = set->dict,
                     .nodes = calloc(n_rows, sizeof(*w.nodes)),
                     .values = calloc(n_rows, sizeof(*w.values)),
                     .self = calloc(n, sizeof(*w.self)),
                     .total = calloc(n, sizeof(*w.total))};
    double floors[RUNS], ours[RUNS];

    if (!w.nodes || !w.values || !w.self || !w.total)
        measure_die("merge", "out of memory");
    make_profiles(&w, set->profiles.data[0]);
    for (size_t i = 0; i < RUNS; i++) {
        double t0 = measure_now();
        int64_t want = floor_merge(&w);
        double t1 = measure_now();
        int64_t got = our_merge(&w);
        double t2 = measure_now();
        if (got != want)
            measure_die("merge", "the totals differ");
        floors[i] = t1 - t0;
        ours[i] = t2 - t1;
    }
    double floor_time = measure_median(floors, RUNS), our_time = measure_median(ours, RUNS);
    printf("%d profiles of %d samples, %zu nodes: floor %.3f ms, ours %.3f ms\n", N_PROFILES,
           N_SAMPLES, n, floor_time * 1e3, our_time * 1e3);
    printf("merge_vs_floor: %.3f ratio\n", floor_time / our_time);
    for (size_t i = 0; i < N_PROFILES; i++)
        profile_free(w.profiles[i]);
    free(w.nodes);
    free(w.values);
    free(w.self);
    free(w.total);
    return 0;
}

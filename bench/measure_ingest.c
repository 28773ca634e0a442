/*
 * What reading set R costs before anything is stored: each profile is unpacked and decoded into
 * one dictionary that stays, on one core.
 *
 *     measure_ingest DIR [PODS WINDOWS]
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "formats/formats.h"
#include "store_data.h"
#include "wire/inflate.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void die(const char *what, const struct error *err)
{
    fprintf(stderr, "measure_ingest: %s: %s\n", what, err->text);
    exit(1);
}

/* Decodes one profile into the set's dictionary and drops it again. */
static size_t decode(struct profile_set *set, struct bytes packed)
{
    struct error err;
    CLEANUP(input_closep) struct input *in = input_from_bytes(packed, "R", set->budget);
    if (format_read(in, &format_pprof, set, NULL, &err) < 0)
        die("decode", &err);
    size_t n = set->profiles.data[0]->n_samples;
    profile_set_truncate(set, 0);
    return n;
}

static double inflate_all(const struct data_r *r, struct budget *b)
{
    double start = now();

    for (size_t i = 0; i < r->n; i++) {
        struct unpacked u;
        struct error err;
        if (unpack(CODEC_GZIP, r->profiles[i].packed, b, &u, &err) < 0)
            die("unpack", &err);
        unpacked_done(b, &u);
    }
    return now() - start;
}

int main(int argc, char **argv)
{
    struct budget budget;
    struct error err;
    struct data_r *opened;

    if (argc != 2 && argc != 4) {
        fprintf(stderr, "usage: measure_ingest DIR [PODS WINDOWS]\n");
        return 2;
    }
    uint32_t pods = argc == 4 ? (uint32_t)atoi(argv[2]) : DATA_R_PODS;
    uint32_t windows = argc == 4 ? (uint32_t)atoi(argv[3]) : DATA_R_WINDOWS;
    if (data_r_open(argv[1], pods, windows, &opened, &err) < 0)
        die("set R", &err);
    CLEANUP(data_r_closep) struct data_r *r = opened;
    printf("set R%s: %zu profiles, %zu samples, %.1f kB plain and %.1f kB packed each\n",
           r->is_synthetic ? " (made up: no corpus)" : "", r->n, r->n_samples,
           (double)r->plain_bytes / (double)r->n / 1e3,
           (double)r->packed_bytes / (double)r->n / 1e3);

    budget_init(&budget, SIZE_MAX / 2);
    CLEANUP(profile_set_freep) struct profile_set *set = profile_set_new(&budget);
    size_t samples = 0;
    double start = now();
    for (size_t i = 0; i < r->n; i++)
        samples += decode(set, r->profiles[i].packed);
    double took = now() - start, inflated = inflate_all(r, &budget);
    if (samples != r->n_samples)
        die("decode", &(struct error){"sample counts differ"});
    printf("r_decode_us: %.0f us per profile, of which %.0f us unpacking\n",
           took / (double)r->n * 1e6, inflated / (double)r->n * 1e6);
    printf("r_decode_s: %.3f s in all\n", took);
    return 0;
}

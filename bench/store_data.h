#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "profile/profile.h"

/*
 * The data that `make bench-store` measures with, the same on every run and every machine that has
 * the same corpus. Without a corpus (VESTA_CORPUS, else ../shared/corpus) the stacks are made up,
 * of the same shape, and is_synthetic says so.
 */
#define DATA_WINDOW_NS INT64_C(10000000000)
/* Start of all data: a whole hour and not a whole day, some time in the past. */
#define DATA_START_NS  (INT64_C(1750000000) / 3600 * 3600 * 1000000000)

/* A small generator of random numbers: equal seeds, equal data. */
struct data_random {
    uint64_t state;
};
uint64_t data_random64(struct data_random *r);
/* 0..n-1 */
uint32_t data_random_below(struct data_random *r, uint32_t n);
/* 1, 2, 3... each half as likely as the one before. */
uint32_t data_random_geometric(struct data_random *r);

/*
 * Set R: one Go CPU profile replayed by pods, a profile per pod and window of 10 s. Each stack is
 * in a profile with p = 0.5, with a geometric count and the count times the period; a profile is
 * the gzipped pprof file that a profiler would have sent, with only what it refers to.
 */
struct data_r_profile {
    uint32_t pod;
    uint32_t n_samples;
    int64_t time_ns;
    struct bytes packed;
};

struct data_r {
    struct data_r_profile *profiles; /* by time, then pod */
    size_t n;
    size_t n_samples;
    size_t plain_bytes, packed_bytes;
    bool is_synthetic;
    uint8_t *content;
};

#define DATA_R_PODS    10
#define DATA_R_WINDOWS 360

/*
 * The set of pods x windows profiles, read from a file in `dir`, which is made first where there is
 * none. A smaller set is the beginning of a larger one.
 */
int data_r_open(const char *dir, uint32_t pods, uint32_t windows, struct data_r **ret,
                struct error *err);
void data_r_close(struct data_r *r); /* NULL is fine */
DEFINE_CLEANUP(struct data_r *, data_r_close)

/* Where the corpus is, and a file in it; the caller frees it. */
char *data_corpus_path(const char *name);

/* Reads a pprof file into a set; a missing file is -ENOENT. */
int data_read_pprof(const char *path, struct profile_set *set, struct error *err);

/* Stacks like those of the file of set R, for where there is no corpus. */
void data_make_profile(struct profile_set *set, uint64_t seed);

#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "profile/profile.h"
#include "store/selector.h"

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
/* The hour that is asked for: aligned to nothing, so without the first window. */
#define DATA_R_FROM_NS (DATA_START_NS + INT64_C(3000000000))
#define DATA_R_TO_NS   (DATA_R_FROM_NS + INT64_C(3600000000000))

/*
 * The set of pods x windows profiles, read from a file in `dir`, which is made first where there is
 * none. A smaller set is the beginning of a larger one.
 */
int data_r_open(const char *dir, uint32_t pods, uint32_t windows, struct data_r **ret,
                struct error *err);
void data_r_close(struct data_r *r); /* NULL is fine */
DEFINE_CLEANUP(struct data_r *, data_r_close)

/*
 * Set L: a day of 200 services, scaled so that it fits a bench of minutes, in order of time. The
 * first service is whole: 20 pods, a profile each in every window of 10 s. The others have one pod
 * and windows of 60 s. Stacks come from many profiles of the corpus; which of them a window shows
 * is skewed, as real ones are.
 *
 * Three times a day each service is deployed: a new build id (so that every address is another
 * place), some functions renamed, some lines moved, new pods. A fifth of the services are compiled
 * at run time: half of their code has new addresses every hour. One sample in a hundred has a link
 * to a span.
 */
struct data_l_options {
    uint32_t services;
    uint32_t hours;
    uint32_t pods;         /* of the first service */
    uint32_t first_mean;   /* samples in a profile of the first service, on average */
    uint32_t others_mean;  /* and of the others */
    uint32_t first_stacks; /* different stacks of the first service, at most */
    uint32_t others_stacks;
};
/* About 51 million samples in 459,000 profiles. */
#define DATA_L_DEFAULTS                                                                            \
    ((struct data_l_options){.services = 200,                                                      \
                             .hours = 24,                                                          \
                             .pods = 20,                                                           \
                             .first_mean = 100,                                                    \
                             .others_mean = 120,                                                   \
                             .first_stacks = 2000,                                                 \
                             .others_stacks = 260})

/* One line for people: what the set is and how it was scaled. */
#define DATA_L_TEXT_MAX 256
void data_l_describe(const struct data_l_options *o, bool is_synthetic, char text[DATA_L_TEXT_MAX]);

struct data_l;
int data_l_new(struct data_l_options options, struct data_l **ret, struct error *err);
void data_l_free(struct data_l *l); /* NULL is fine */
DEFINE_CLEANUP(struct data_l *, data_l_free)
bool data_l_is_synthetic(const struct data_l *l);

#define DATA_L_LABELS 3
struct data_l_profile {
    uint32_t service;
    struct label labels[DATA_L_LABELS]; /* normalized: pod, service.name, service.version */
    struct profile *profile;            /* the last of the set's; it has a profile_id */
};

/*
 * The next profile, added to `set`. Its stacks are interned there once and remembered as long as
 * `generation` is the same: change it when the set has another dictionary. The labels live until
 * the next call. Returns 1, 0 at the end, or -ENOBUFS when the set's budget is spent.
 */
int data_l_next(struct data_l *l, struct profile_set *set, uint64_t generation,
                struct data_l_profile *ret);

/* Where the corpus is, and a file in it; the caller frees it. */
char *data_corpus_path(const char *name);

/* Reads a pprof file into a set; a missing file is -ENOENT. */
int data_read_pprof(const char *path, struct profile_set *set, struct error *err);

/* Stacks like those of the file of set R, for where there is no corpus. */
void data_make_profile(struct profile_set *set, uint64_t seed);

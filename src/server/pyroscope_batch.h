#pragma once

#include "server/ingest.h"

/*
 * What a request of Pyroscope's agents holds on its way to ingest_set(): profiles in the worker's
 * set, and what each of them has of its own.
 */
struct sample_config {
    struct bytes type, display_name;
    bool is_average;    /* found at a moment */
    bool is_cumulative; /* counted since the process began */
};

#define SAMPLE_CONFIGS_MAX PROFILE_TYPES_MAX

struct sample_configs {
    struct sample_config all[SAMPLE_CONFIGS_MAX];
    size_t n;
};

/* The form field sample_type_config: {"alloc_space":{"units":"bytes","cumulative":true},...}. Texts
 * live in the call's arena. -EBADMSG with the place. */
int sample_configs_parse(struct call *c, struct bytes json, struct sample_configs *ret,
                         struct error *err);

/* NULL when nothing is said of the type. */
const struct sample_config *sample_config_of(const struct sample_configs *configs,
                                             struct bytes type);

struct batch {
    struct call *c;
    struct profile_set *set;
    VEC(struct ingest_profile) each; /* charged to the call */
};

/* What is known of profiles that were decoded. */
struct batch_about {
    const struct label *labels; /* of each; live as long as the call */
    size_t n_labels;
    struct bytes kind;                    /* Pyroscope's name for it; empty: not known */
    const struct sample_configs *configs; /* or NULL */
    bool has_before; /* what counts since the process began had the profile before taken off */
    bool splits;     /* live heap and allocations since last time become two profiles */
    bool is_instant;
    bool has_id;
    uint8_t id[16];
};

void batch_init(struct batch *b, struct call *c);
void batch_done(struct batch *b);

/* Makes the profiles of the set from index `first` on what is stored: links for labels that name
 * spans, times that can be, names, moments apart from counts. -ENOBUFS. */
int batch_add(struct batch *b, size_t first, const struct batch_about *about, struct error *err);

/*
 * Stores all of it and counts it as `format`. -EINVAL with the reason when nothing was stored and
 * something was rejected; else as ingest_set(). No profile at all is fine.
 */
int batch_store(struct batch *b, const struct ingest_options *o, struct error *err);

#pragma once

#include "base/arena.h"
#include "base/bytes.h"
#include "base/error.h"
#include "profile/profile.h"
#include "store/selector.h"

/*
 * The name of /ingest: an application and labels, app{key=value,key=value}. With formats that say
 * nothing of what was measured, the application's last part may: app.alloc_space.
 */
#define PYROSCOPE_LABELS_MAX 256

struct pyroscope_name {
    struct bytes app;
    struct label labels[PYROSCOPE_LABELS_MAX]; /* borrow from the name */
    size_t n_labels;
};

/* -EINVAL saying what is wrong. */
int pyroscope_name_parse(struct bytes name, struct pyroscope_name *ret, struct error *err);

/* What a count means. */
struct pyroscope_measure {
    const char *suffix; /* of the application */
    const char *units;  /* the parameter of that name, where there is no suffix; or NULL */
    const char *type, *unit;
    const char *kind; /* Pyroscope's name for it */
    bool is_time;     /* samples; times the period they are nanoseconds */
    bool is_instant;
};

/* By the suffix, which is taken off *app, else by `units`, else CPU samples. Never NULL. */
const struct pyroscope_measure *pyroscope_measure_of(struct bytes *app, struct bytes units);

/*
 * Gives the only column of p, counted as "samples", its meaning. `rate` is in samples a second; 0
 * leaves samples what they are. -EINVAL when a value becomes too large.
 */
int pyroscope_measure_apply(const struct pyroscope_measure *m, uint32_t rate, struct profile *p,
                            struct error *err);

/* The language of an agent, "go" for "gospy", as telemetry.sdk.language has it; NULL when not
 * known. */
const char *pyroscope_language(struct bytes spy);

#pragma once

#include "base/error.h"
#include "cli/options.h"
#include "formats/format.h"
#include "profile/profile.h"

/*
 * Sources become one profile: files, "-" and http(s) URLs are read into one set, symbolized where
 * names are missing and the binary is at hand, merged, and the bases subtracted. With --data the
 * sources are selections of a store (cli/selection.h).
 */
struct loaded {
    bool always_merge; /* set before loading: join equal rows even of a single profile */
    bool to_addresses; /* set before loading: what comes out holds addresses for a later look-up */
    struct budget budget;
    struct profile_set *set;     /* everything as it was read */
    const struct format *format; /* of the first source */
    const char *program;         /* given before the sources, or NULL */
    struct store *store;         /* with --data: what selections are asked of */
    const char *stranger;        /* a source that counts nothing that those before it do, or NULL */
    struct profile *profile;     /* the sources merged; after load_profile() minus the base */
    struct profile *base;        /* the bases merged, or NULL */
};

/* Reads the sources into l->set, nothing more. l must be zero; load_done() in any case. */
int load_set(struct loaded *l, const struct options *o, const char *const *sources, size_t n,
             struct error *err);

/* Names for what load_set() read, as -symbolize says. When it does not, a profile that goes from a
 * format that holds addresses to another such one stays as it is. */
int load_names(struct loaded *l, const struct options *o, struct error *err);

/* Both, then sources and bases merged, each for itself. */
int load_parts(struct loaded *l, const struct options *o, const char *const *sources, size_t n,
               struct error *err);

/* The same, then the base subtracted. */
int load_profile(struct loaded *l, const struct options *o, const char *const *sources, size_t n,
                 struct error *err);

void load_done(struct loaded *l);

/* pprof and OTLP: they hold addresses and build ids, so that names can be looked up at any time. */
bool load_holds_addresses(const struct format *f);

/* True when this argument can be read: a file that exists, "-", or a URL. */
bool load_is_source(const char *argument);

#pragma once

#include "base/arena.h"
#include "config/server_config.h"
#include "profile/profile.h"
#include "store/selector.h"

/*
 * What a series is called by: the labels that a request gives and those attributes of a resource
 * that tell services, versions and instances apart. Names that mean the same become one
 * (server/ingest.h: ingest_label_name()).
 */
struct metadata {
    const struct server_config *config;

    /* What the request gives for all of its profiles: wins over the resource. */
    const struct label *given;
    size_t n_given;

    /* What it gives for the profile at hand alone: wins over both. */
    const struct label *own;
    size_t n_own;
};

/*
 * The labels of a profile, normalized; what is not borrowed from the dictionary or the request lies
 * in `arena`. A service that is not named is "unknown_service". -EINVAL names the limit that was
 * passed, -ENOBUFS the arena's.
 */
int metadata_labels(const struct metadata *m, const struct profile *p, struct arena *arena,
                    struct label **ret, size_t *ret_n, struct error *err);

/* Tells resources apart that may have the same labels: the same for equal attributes, on every
 * machine. 0 for none. */
uint64_t metadata_sender(const struct dict *d, uint32_t resource_attrs);

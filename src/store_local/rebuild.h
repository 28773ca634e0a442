#pragma once

#include "profile/profile.h"
#include "profile/translate.h"
#include "store_local/local_internal.h"
#include "store_local/side.h"

/*
 * Makes profiles of what rows hold, one after the other, over a dictionary that is used again until
 * it has grown too large. For one thread.
 */
struct rebuild_source {
    const struct dict *view;
    struct translate translate;
};

struct rebuild {
    struct budget budget;
    struct profile_set *set;
    VEC(struct rebuild_source) sources;
    /* The samples of the row, by attribute set and node. */
    VEC(uint64_t) keys;   /* attrs << 32 | node */
    VEC(int64_t) values;  /* sample by sample */
    VEC(bool) is_touched; /* side rows were taken out of it */
    VEC(uint32_t) nodes;
    VEC(int64_t) column;
    struct side_vecs side;
};

void rebuild_init(struct rebuild *r, size_t memory_limit);
void rebuild_done(struct rebuild *r);

struct rebuild_row {
    const struct dict *view; /* of its epoch; must outlive the rebuild */
    const struct series *series;
    int64_t start_ns, duration_ns, period;
    const uint8_t *id;          /* 16 bytes, or NULL */
    struct bytes payload, side; /* may be read up to 8 bytes behind */
};

/* The profile is valid until the next call. -EBADMSG when samples are damaged, -ENOBUFS past the
 * memory limit. */
int rebuild_profile(struct rebuild *r, const struct rebuild_row *row, const struct profile **ret,
                    struct error *err);

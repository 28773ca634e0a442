#pragma once

#include "profile/profile.h"
#include "store_local/local_internal.h"
#include "store_local/side.h"

/*
 * What a source's ids are in an epoch. A profile of a process repeats nearly all names and stacks
 * of the one before: each is translated once and then found by one probe of a table. Belongs to one
 * source; the epochs it adds to need the lock.
 *
 * Position-independent binaries are loaded somewhere else in every process. So that pods and
 * restarts share their stacks, a mapping of a file between 4 GiB and the kernel is kept as if the
 * file had been loaded at 4 GiB: start = 4 GiB + offset, and its locations move along. What is
 * linked to a fixed address, the kernel, and memory without a file (JIT code) keep their addresses.
 */
struct source_map;

struct source_map *source_map_new(size_t memory_limit);
void source_map_free(struct source_map *m); /* NULL is fine */

/*
 * Keeps *total, the memory of all sources of a store, up to date: this one has its map and a set of
 * set_bytes now, or is no more. Needs the lock.
 */
void source_map_count(struct source_map *m, size_t set_bytes, size_t *total);
void source_map_forget(struct source_map *m, size_t *total);

/* Whether that much less is in use than was counted that it is worth the lock. */
bool source_map_has_shrunk(const struct source_map *m, size_t set_bytes);

/* Drops what was translated when the source's dictionary is another one. */
void source_map_follow(struct source_map *m, const struct store_source *source);

/* Samples as an epoch knows them: rows with different (attrs, node), ascending, rows of zeros left
 * out. Valid until the next run. */
struct translated {
    size_t n;
    unsigned n_types;
    const uint32_t *attrs, *nodes;
    const int64_t *values[PROFILE_TYPES_MAX];
    int64_t totals[PROFILE_TYPES_MAX];
    uint64_t content_hash; /* agrees across epochs and processes */
    struct side_rows side;
};

/*
 * Translates a profile over the source's dictionary, whose generation says whether it is still the
 * one that was seen last. Adds to the epoch what it lacks, rewritten as the source says. -ENOBUFS
 * when the epoch or the translation is out of memory: the epoch may have grown but is sound.
 */
int source_map_run(struct source_map *m, const struct store_source *source, struct epoch *e,
                   const struct profile *p, struct translated *ret, struct error *err);

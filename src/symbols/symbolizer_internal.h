#pragma once

#include "base/vec.h"
#include "symbols/binary.h"
#include "symbols/lookup.h"
#include "symbols/symbolizer.h"

/* Shared by symbolizer.c, which knows profiles, and symbol_sources.c, which knows where names are.
 */

/* The locations of one mapping to look up, ascending by address. */
struct symbol_group {
    struct mapping mapping;
    const char *file, *build_id;
    bool is_main; /* the mapping of the program itself */
    int64_t pid;  /* of the profiled process, or 0 */
    struct lookup *lookups;
    const uint64_t *addresses; /* as the profile has them; lookups[i] is for addresses[i] */
    size_t n;
    size_t n_cached; /* set by the source */
};

/* What groups share in one run. */
struct symbol_sources {
    const struct symbolizer_options *options;
    const char *search_path;
    struct binary_options binary_options;
    struct profile_set *set; /* for notes */

    /* The last binary looked for: frames are borrowed from it, and mappings of one file come one
     * after the other. NULL when it was not found. */
    struct binary *binary;
    const char *file, *build_id; /* what it was looked for by */
    bool was_main;
    size_t searches; /* for binaries, in all */
    size_t failures; /* of them */
    struct symbol_cache *cache;
    struct kernel_names *kernel;
    struct jit_names *jit;
};

/* Fills in the frames of a group, valid until the next call. False when there is no source. */
bool symbol_sources_lookup(struct symbol_sources *s, struct symbol_group *g);
void symbol_sources_done(struct symbol_sources *s);

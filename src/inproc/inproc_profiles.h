#pragma once

#include "inproc/inproc_window.h"
#include "profile/profile.h"

/*
 * A window becomes profiles, one for each kind that has something to say:
 *
 *     alloc    alloc_objects/count, alloc_space/bytes          memory.kind = malloc | mmap
 *     heap     inuse_objects/count, inuse_space/bytes          the same, and leak.suspect = "true",
 *                                                              leak.growth_bytes_per_second
 *     lock     contentions/count, delay/nanoseconds            lock.kind, lock.holder
 *     threads  threads_created/count
 *     custom   TYPE/UNIT, as the program said
 *
 * Locations have addresses and mappings (path, build id), no names: symbolize() gives them some.
 * Then inproc_profiles_named() must follow, which writes down who held locks. Stacks whose outer
 * part is missing say so in an outermost frame.
 */
struct inproc_profiles_options {
    uint32_t resource_attrs; /* of the set's dictionary */
    const char *scope_name;
    int64_t start_unix_ns, end_unix_ns;
    /* Who names addresses by other means: a location of the set's dictionary; NULL: they get their
     * mappings, and names later. And what becomes of texts of the process (labels, thread names,
     * names of its own samples): a string of the dictionary; NULL: they stay as they are. */
    uint32_t (*location)(void *arg, uint64_t address);
    uint32_t (*text)(void *arg, struct bytes text);
    void *arg;
    uint32_t pid;       /* for the names of code made at run time; 0: not known */
    bool with_suspects; /* also a profile of kind "suspects", for lists: leak_space/bytes,
                           leak_objects/count, leak_growth/bytes (a second) */
};

/* What the budget of the set does not allow is missing: ask budget_failed(). */
void inproc_profiles_add(const struct inproc_window *w, const struct inproc_profiles_options *o,
                         struct profile_set *set);

/* Call it once, after symbolize() or in its stead. */
void inproc_profiles_named(struct profile_set *set);

/* What a profile of the set is: "alloc", "heap", "lock", "threads", "suspects" or "custom". */
const char *inproc_profile_kind(const struct profile *p);

/* The words for a kind of lock or memory, as in the attributes; NULL when there are none. */
const char *inproc_what_name(enum preload_what what);

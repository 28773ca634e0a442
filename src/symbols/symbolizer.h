#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "profile/profile.h"
#include "symbols/demangle.h"

/*
 * Names for profiles that came with addresses only: finds the binary of each mapping, looks all of
 * its addresses up in one pass, and gives the locations their lines. Also demangles functions that
 * came with the linker's names.
 *
 * One bad binary never spoils the rest: what could not be had is a note of the set, and its
 * locations stay as they are ("binary+0xaddress" in reports).
 */
struct symbolizer_options {
    bool off;   /* look nothing up */
    bool force; /* look up what has names already, and demangle again */
    enum demangle_mode demangle;
    const char *binary;      /* the main program, when given by hand, or NULL */
    const char *search_path; /* colon-separated folders with binaries and debug files, or NULL:
                                $PPROF_BINARY_PATH, else ~/pprof/binaries */
    const char *cache_dir;   /* where results are kept, or NULL: nowhere */
    bool only_by_build_id;   /* files of the search path whose build id is the mapping's, and
                                nothing of this machine: for profiles that others sent */
    const char *kallsyms;    /* NULL: /proc/kallsyms, if the profile is of this kernel */
    size_t max_memory;       /* per binary; 0: BINARY_MEMORY_DEFAULT */
};

/*
 * Reads pprof's -symbolize=MODE: none, local, fastlocal, remote, force, demangle=MODE; several
 * separated by ":" or ",". NULL and "" change nothing. -EINVAL with the word that is none of these.
 */
int symbolizer_options_parse(struct symbolizer_options *o, const char *mode, struct error *err);

/* $XDG_CACHE_HOME/vesta/symbols or ~/.cache/vesta/symbols, in `to`; NULL when neither is known. */
const char *symbolizer_default_cache(char *to, size_t size);

struct symbolize_stats {
    size_t mappings;  /* that had addresses to look up */
    size_t found;     /* of them, those whose binary was found */
    size_t locations; /* looked up */
    size_t named;     /* of them, those that have a name now */
    size_t cached;    /* of them, those that came from the cache */
    size_t demangled; /* functions whose name was made readable */
};

/*
 * Symbolizes all profiles of the set, which get new stacks over new locations; values stay. Returns
 * 0 also when nothing could be found; -ENOBUFS when the set's budget is spent. `ret_stats` may be
 * NULL.
 */
int symbolize(struct profile_set *set, const struct symbolizer_options *o,
              struct symbolize_stats *ret_stats, struct error *err);

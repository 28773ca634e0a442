#pragma once

#include "base/bytes.h"
#include "base/error.h"
#include "symbols/binary.h"

/*
 * Finds the file of a mapping on this machine, in the order that pprof looks: the folders of the
 * search path (by build id and by name, in the layouts of pprof, perf and debuginfod), then the
 * mapping's own path, then the debug file that the system has for the build id.
 */
struct binary_query {
    const char *file;        /* the mapping's, may be "" */
    const char *build_id;    /* the mapping's, may be "" */
    const char *override;    /* a program given by hand for this mapping, or NULL */
    const char *search_path; /* colon-separated, or NULL */
    bool only_by_build_id;   /* only the search path, and nothing by name */
    const struct binary_options *options;
};

/* -ENOENT when there is no such file, -ESTALE when there is one with another build id. */
int binary_find(const struct binary_query *query, struct binary **ret, struct error *err);

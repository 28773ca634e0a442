#pragma once

#include "debuginfo/debug_files.h"

/*
 * Asks debuginfod servers for files that are missing, one at a time, on a thread of its own, and
 * keeps what they send for everybody. A build id that nobody has is not asked for again for an
 * hour; the list of what is wanted has an end. URLs are the operator's: they may still not lead to
 * private addresses, by themselves or by redirects, unless that was allowed.
 */
struct debuginfod;

struct debuginfod_options {
    const char *const *urls;
    size_t n_urls;
    bool allow_private;
    uint64_t file_max;
    struct debug_files *files;
    void (*log)(void *ctx, int level, const char *text);
    void *log_ctx;
};

int debuginfod_start(const struct debuginfod_options *o, struct debuginfod **ret,
                     struct error *err);
void debuginfod_stop(struct debuginfod *d); /* NULL is fine */

/* Says that a file of this build id would help. Returns at once. */
void debuginfod_want(struct debuginfod *d, struct bytes build_id);

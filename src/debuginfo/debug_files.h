#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "wire/input.h"

/*
 * Debug files that were uploaded or fetched, by owner and build id: DIR/OWNER/BUILD_ID/debuginfo,
 * where `symbolize()` finds them with DIR/OWNER in its search path. A file is kept only when it is
 * an ELF file with the build id it is said to have. The first one stays until a better one comes:
 * one with lines beats one with names beats one with neither. Nothing is executed or served.
 *
 * Any thread may call anything.
 */
struct debug_files;

#define DEBUG_FILES_SHARED "shared" /* the owner of what was fetched: for everybody */

/* `max_bytes` is of all files together; 0: no limit. Makes the directory. */
int debug_files_open(const char *dir, uint64_t max_bytes, struct debug_files **ret,
                     struct error *err);
void debug_files_close(struct debug_files *f); /* NULL is fine */
DEFINE_CLEANUP(struct debug_files *, debug_files_close)

/* Lower-case hex, 8 to 128 digits: nothing that a path could be made of. */
bool build_id_is_sound(struct bytes id);

enum debug_quality { DEBUG_NONE, DEBUG_SEGMENTS, DEBUG_NAMES, DEBUG_LINES };

/* What there is for a build id, of this owner or shared. */
enum debug_quality debug_files_quality(struct debug_files *f, struct bytes owner,
                                       struct bytes build_id);

/*
 * Takes a file over from `in`. 0, or -EINVAL (a build id that is none), -EBADMSG (no ELF file, or
 * of another build id: both are named), -EEXIST (what is there is as good), -ENOBUFS (over
 * max_bytes, or over file_max), -ENOSPC, -EIO.
 */
int debug_files_put(struct debug_files *f, struct bytes owner, struct bytes build_id,
                    struct input *in, uint64_t file_max, struct error *err);

/* -ENOENT when there is none. */
int debug_files_delete(struct debug_files *f, struct bytes owner, struct bytes build_id,
                       struct error *err);

struct debug_file_row {
    const char *build_id;
    uint64_t bytes;
    int64_t time_ns;
    enum debug_quality quality;
};
typedef int (*debug_file_fn)(void *ctx, const struct debug_file_row *row);
int debug_files_list(struct debug_files *f, struct bytes owner, debug_file_fn sink, void *ctx,
                     struct error *err);

/* "DIR/OWNER:DIR/shared", for symbolize(). */
void debug_files_search_path(const struct debug_files *f, struct bytes owner, struct buf *out);

uint64_t debug_files_bytes(struct debug_files *f);

/* How often a file came or went since they were opened: what was looked up before may be better
 * now. */
uint64_t debug_files_changes(struct debug_files *f);

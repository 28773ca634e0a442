#pragma once

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "wire/input.h"

/*
 * Sources that were uploaded, in sets: what one revision of one service was built from. A set is
 * one file, DIR/TENANT/HASH.src: a head that says whose it is, then the files one after the other,
 * each with its name and its text; of two with one name the later counts. When all sets together
 * pass the limit, those that were written longest ago go.
 *
 * Any thread may call anything.
 */
struct sources;

#define SOURCE_FILE_MAX  ((uint64_t)2 << 20)
#define SOURCE_FILES_MAX 100000 /* of a set */

/* Makes the directory. */
int sources_open(const char *dir, struct sources **ret, struct error *err);
void sources_close(struct sources *s); /* NULL is fine */
DEFINE_CLEANUP(struct sources *, sources_close)

struct source_key {
    struct bytes tenant, service, revision;
    bool is_commit; /* what the revision is; else a version */
};

/* What became of an upload. */
struct source_stored {
    size_t stored, skipped; /* binary, too large, or with a name that cannot be */
    uint64_t bytes;         /* of the set as it is now */
    struct error why;       /* of the first that was skipped */
};

/* Text without NUL bytes, of at most SOURCE_FILE_MAX. */
bool source_is_text(struct bytes content);

/* One file more for a set. -EINVAL for a name or content that cannot be, -EFBIG over `max_bytes`
 * (of all sets), -ENOSPC, -EIO. */
int sources_put_file(struct sources *s, const struct source_key *key, struct bytes name,
                     struct bytes content, uint64_t max_bytes, struct source_stored *ret,
                     struct error *err);

/* A whole set, from a tar, in the place of the one that was there. -EBADMSG when it is no tar. */
int sources_put_tar(struct sources *s, const struct source_key *key, struct input *in,
                    uint64_t max_bytes, struct source_stored *ret, struct error *err);

/* The file that fits a path best (source_path.h). -ENOENT when none does. */
int sources_find(struct sources *s, const struct source_key *key, struct bytes path,
                 struct buf *ret_name, struct buf *ret_text, struct error *err);

struct source_set {
    char service[256], revision[256];
    bool is_commit;
    uint64_t bytes;
    int64_t time_ns; /* when it was last written */
};
/* Sets of a tenant, in no order. */
typedef int (*source_set_fn)(void *ctx, const struct source_set *set);
int sources_list(struct sources *s, struct bytes tenant, source_set_fn sink, void *ctx);

/* -ENOENT when there is none. */
int sources_delete(struct sources *s, const struct source_key *key, struct error *err);

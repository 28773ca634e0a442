#pragma once

#include "segment/manifest_file.h"
#include "store_local/local_internal.h"
#include "store_local/local_ops.h"

/*
 * A look at a data directory from outside: a store that was never opened, over a file system that
 * belongs to somebody else. Reads straight from disk, without a cache, and writes nothing.
 */
struct local *scout_new(struct fs *fs, const struct clock *clock);
void scout_free(struct local *l); /* leaves the fs alone; NULL is fine */
DEFINE_CLEANUP(struct local *, scout_free)

/* Reads the manifest as it is now into l->version. */
int scout_manifest(struct local *l, struct manifest_report *ret, struct error *err);

/* Whether a file of this name, in its directory, is one that the version names. */
bool scout_is_named(const struct version *v, const char *name);

/* The numbers of the WALs in wal/ that are in no segment, ascending, in *ret, which is freed with
 * vec_done(&l->budget). */
struct scout_ids {
    VEC(uint64_t) ids;
};
int scout_wals(struct local *l, struct scout_ids *ret, struct error *err);

#pragma once

#include "store_local/local_internal.h"

/*
 * A consistent copy of a store: what one manifest names, and what the WALs hold beyond it. Taken
 * from the directory alone, so it makes no difference whether this process writes there, another
 * one, or none. It holds all that was acknowledged before it began, and a prefix of what came
 * while it ran.
 *
 * Files that are merged away meanwhile make it begin again with the newer manifest, keeping what it
 * has. The manifest is written last: a copy that was broken off is no store.
 *
 * The catalog (catalog.db) is not the store's and not in it.
 */
int backup_copy(struct fs *from, const struct clock *clock, struct fs *to, struct error *err);

/* store_backup(): into a directory that is empty or not there. */
int local_backup(struct store *s, const char *to_dir, struct error *err);

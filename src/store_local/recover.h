#pragma once

#include "store_local/local_internal.h"

/*
 * What opening does between taking the lock and taking appends, in this order: the manifest, the
 * series it names, then every WAL that is not in segments, through the same link as when it was
 * written. Says through local_log() what was found, dropped or lost.
 */

/* Reads the manifest into local->version, or makes a new store. */
int recover_manifest(struct local *l, struct error *err);

/* Tenants, series and epochs of the version. */
int recover_tables(struct local *l, struct error *err);

/* What is in WALs and in no segment. */
int recover_wals(struct local *l, struct error *err);

/* Writes what was replayed as segments, and the manifest anew: only then is it known to be on disk.
 * When that cannot be done now the store opens, and refuses writes until it is. */
int recover_settle(struct local *l, struct error *err);

/* The same once more, when it could not be done before; 1 when something was flushed. With
 * upkeep_lock held. */
int recover_write_again(struct local *l, struct error *err);

/* Deletes files that nothing names. */
void recover_clean(struct local *l);

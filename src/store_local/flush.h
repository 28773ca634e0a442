#pragma once

#include "store_local/local_internal.h"

/*
 * From memory to segments: freezes the memtable, writes what dictionaries and series tables gained,
 * then its rows as segments of tier 0, then the manifest; then the memtable and its WALs go.
 * Crashing anywhere before the manifest leaves what was there; files it does not name are garbage.
 *
 * With upkeep_lock held and the lock not. 1 when something was flushed, 0 when there was nothing.
 * After a failure everything is still in memory and in the WAL: -ENOSPC may be tried again.
 */
int local_flush(struct local *l, struct error *err);

/* Of one flush and tenant, for hours; beyond, the older rows go into files of days. */
#define FLUSH_WINDOWS_MAX 32

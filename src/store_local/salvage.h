#pragma once

#include "store_local/local_internal.h"

/*
 * What can still be read of a damaged segment, as a new one of tier 0: rows whose blocks hold
 * against their checksums and whose names are known; sums are left to the next merging. `s` is what
 * the file says of itself. *ret is NULL when nothing is left; *ret_lost counts rows (or spans) that
 * are. Names and series are those of l. A negative result is that of writing.
 */
int salvage(struct local *l, struct segment *s, struct segment **ret, uint64_t *ret_lost,
            struct error *err);

/* Whether an error is of this process (memory, open files), not of what it reads: nothing is given
 * up as lost for it. */
bool is_own_trouble(int r);

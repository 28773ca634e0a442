#pragma once

#include "store/store.h"

/*
 * Single profiles: store_ops.profiles of the embedded store.
 *
 * A file or block that cannot be read does not stop it: everything else is found, and then the
 * result is -EBADMSG with what was wrong first.
 */

/* From memory, then from segments, the newest first; with samples, each profile as it came: rows
 * with links and times apart from the others. */
int local_profiles(struct store *s, const struct store_find *find, store_found_fn sink, void *ctx,
                   struct error *err);

#pragma once

#include "store_local/local_internal.h"

/* A profile that starts then became visible. With the lock held. */
void local_changed(struct local *l, int64_t start_ns);

/* store_changes(). */
uint64_t local_changes(struct store *s, const struct store_scope *scope);

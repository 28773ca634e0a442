#pragma once

#include "store_local/commit.h"
#include "store_local/local_internal.h"

/*
 * Taking profiles: what may come in, and how it becomes records. The limits are part of the store's
 * contract, so their texts name them.
 */
#define APPEND_LABELS_MAX      64
#define APPEND_LABEL_NAME_MAX  256
#define APPEND_LABEL_VALUE_MAX 2048
#define APPEND_BYTES_MAX       ((size_t)48 << 20) /* of the samples of one profile, encoded */

/* store_append() */
int local_append(struct store_source *source, struct bytes tenant, const struct store_incoming *in,
                 size_t n, struct store_outcome *ret, struct error *err);
int local_source_attach(struct store_source *source, struct error *err);
void local_source_detach(struct store_source *source);
void local_source_was_reset(struct store_source *source);

/*
 * Whether something may be written now: -EROFS, -ENOSPC, or -EAGAIN when memory is short and stays
 * so for a second, for which it waits, releasing the lock. With the lock held.
 */
int local_may_write(struct local *l, struct error *err);

/* The tenant of this name, made when it is not there; -EINVAL for a name that may not be. With the
 * lock held. */
int local_need_tenant(struct local *l, struct bytes name, struct tenant **ret, struct error *err);

/* Adds the tenant's record to an item unless it was logged. Between this and commit_run() the lock
 * must not be released: what counts as logged must be in the queue. */
void local_log_tenant(struct tenant *t, struct commit_item *item);

/* Checks a label set: -EINVAL saying what is wrong. It must be sorted by name. */
int append_check_labels(const struct label *labels, size_t n, struct error *err);

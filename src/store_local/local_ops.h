#pragma once

#include "store_local/local_internal.h"

/* A store that nothing was read into yet; takes options->fs over. For local_open(), and for
 * those who look at a directory without opening it. */
struct local *local_new(const struct local_options *options);
void local_free(struct local *l); /* without flushing; NULL is fine */
DEFINE_CLEANUP(struct local *, local_free)

/* Makes this process the one that writes. -EBUSY when there is another. */
int local_take_lock(struct local *l, struct error *err);

/* Operations of the store that have no header of their own. */
void local_close(struct store *s);
int local_set_policy(struct store *s, struct bytes tenant, const struct store_policy *policy,
                     struct error *err);
void local_get_policy(struct store *s, struct bytes tenant, struct store_policy *ret);
int local_upkeep(struct store *s, enum store_upkeep what, struct error *err);
void local_stat(struct store *s, struct store_stat *ret);

/* The thread that does the upkeep; local_start_background() when it is wanted. */
int local_start_background(struct local *l, struct error *err);
void local_stop_background(struct local *l);

extern const struct store_ops local_ops;

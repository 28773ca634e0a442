#pragma once

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "config/server_config.h"
#include "store/store.h"

/*
 * Masking: what must not be kept is replaced before it is stored (base/mask_rules.h). Paths are
 * files of functions and mappings; labels are values of labels, of attributes of samples, and of
 * spans, and names of spans.
 */
struct mask;

/* -EINVAL names the rule and what is wrong with it. */
int mask_new(const struct server_config *config, struct mask **ret, struct error *err);
void mask_free(struct mask *m); /* NULL is fine */
DEFINE_CLEANUP(struct mask *, mask_free)

/* Other rules from now on, also for names that were seen before; the old ones stay on failure. */
int mask_reload(struct mask *m, const struct server_config *config, struct error *err);

/* Any thread: the masked text to `out`. False when nothing was masked: `out` is then as it was. For
 * what leaves the server; takes turns. */
bool mask_text(struct mask *m, enum store_role role, struct bytes text, struct buf *out);

/*
 * What one worker knows: rules of its own (matching is not shared) and which strings of its
 * source's dictionary have been looked at. Belongs to one thread. The mask must outlive it.
 */
struct mask_memory;
struct mask_memory *mask_memory_new(struct mask *m);
void mask_memory_free(struct mask_memory *m); /* NULL is fine */

/* Looks at what the source's dictionary has gained and tells the source what to keep instead. The
 * number of texts that were masked goes to *ret. -ENOBUFS when there is no memory for it. */
int mask_source(struct mask_memory *m, struct store_source *source, size_t *ret, struct error *err);

/* Gives back what the tables of this source take: after a request that needed much. */
void mask_forget(struct mask_memory *m, struct store_source *source);

/* One value, label rules: itself, or a masked one in `arena`; "***" when there is no room. */
struct bytes mask_value(struct mask_memory *m, struct bytes value, struct arena *arena);

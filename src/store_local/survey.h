#pragma once

#include "store/store.h"

/*
 * What is known without reading samples: store_ops.series and estimate of the embedded
 * store. A file that cannot be read does not stop them: everything else is found, and then the
 * result is -EBADMSG with what was wrong first.
 */

/* The series with rows in the range: from indexes, and the starts of few rows. */
int local_series(struct store *s, const struct store_scope *scope, store_series_fn sink, void *ctx,
                 struct error *err);

/* At most what would be read: whole blocks, and no sums over groups. */
int local_estimate(struct store *s, const struct store_plan *plan, struct store_estimate *ret,
                   struct error *err);

#pragma once

#include "base/buf.h"
#include "base/bytes.h"
#include "base/error.h"
#include "store/store.h"

/*
 * What Pyroscope calls a profile type:
 *
 *     <name>:<sample type>:<sample unit>:<period type>:<period unit>
 *     process_cpu:cpu:nanoseconds:cpu:nanoseconds
 *
 * All but the name is in our series. The name (Pyroscope's label __name__) follows from the types
 * nearly always; where it does not (Go's block profiles look like its mutex profiles), ingest keeps
 * it as a label of the series, LABEL_PROFILE_KIND.
 */
#define LABEL_PROFILE_KIND "profile.kind"

struct pyroscope_type {
    struct bytes name; /* letters, digits and '_' */
    struct bytes type, unit, period_type, period_unit;
};

/* Appends the name that follows from the other four. */
void pyroscope_type_name(const struct pyroscope_type *t, struct buf *out);

/* Appends the name, or the whole id, of type i of a series. */
void pyroscope_series_name(const struct store_series *s, size_t i, struct buf *out);
void pyroscope_series_id(const struct store_series *s, size_t i, struct buf *out);

/* Takes an id apart; the parts borrow from it. -EINVAL when it is none. */
int pyroscope_type_parse(struct bytes id, struct pyroscope_type *ret, struct error *err);

/* Appends what selects the series of a parsed id by name, for a selector: profile.kind=~"|mutex".
 * Type, unit and period are not part of it. */
void pyroscope_type_matcher(const struct pyroscope_type *t, struct buf *out);

/* Appends `name` as a name may be: what is not a letter or digit is '_'. */
void pyroscope_name_clean(struct bytes name, struct buf *out);

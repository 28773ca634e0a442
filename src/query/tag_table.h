#pragma once

#include "base/error.h"
#include "profile/tag_totals.h"

/*
 * Attributes of samples (labels, tags) with what each of their values spends. Every attribute adds
 * up: total + not_set is the whole column, and its values (those left out are `other`) are total +
 * repeated. `repeated` is not 0 only where samples have several values of one attribute: such a
 * sample counts for each of them, as it does for filters.
 */
struct tag_row {
    uint32_t name; /* string */
    int64_t total; /* of samples that have it */
    int64_t not_set, other, repeated;
    size_t n_all;                   /* values */
    const struct tag_total *values; /* the largest first */
    size_t n_values;                /* that are not in `other` */
};

struct tag_table {
    struct budget *budget;
    const struct dict *dict;
    struct label_units units;
    struct tag_totals totals;
    int64_t total;            /* of the column */
    size_t n_all;             /* attributes before the limit */
    VEC(struct tag_row) rows; /* by name */
};

struct tag_table_options {
    uint32_t type;     /* the column */
    const char *name;  /* only this attribute; NULL: all */
    size_t values_max; /* of each attribute; 0: all */
    size_t rows_max;   /* 0: all */
};

/* Samples must have their labels. Returns 0, -EINVAL for a column that is not there, or -ENOBUFS;
 * tag_table_done() is due either way. */
int tag_table_build(const struct profile *p, const struct tag_table_options *o,
                    struct tag_table *ret, struct error *err);
void tag_table_done(struct tag_table *t);

/* Filters (profile/tag_filter.h) for samples that have this value, and for those that have any.
 * False, and nothing written, where the notation has no words for it. */
bool tag_table_value_filter(const struct tag_table *t, const struct tag_total *value,
                            struct buf *out);
bool tag_table_any_filter(const struct tag_table *t, const struct tag_row *row, struct buf *out);

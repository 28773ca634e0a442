#pragma once

#include "profile/profile.h"

/* What the files of merging share: merge.c adds rows up, merge_header.c everything around them,
 * merge_mapping.c makes one binary at different addresses one mapping. */

/* Types, times, comments... of the inputs combined into `out`. False when the budget is spent. */
bool merge_headers(struct profile *out, struct profile *const *in, size_t n);

/* The column of `out` that holds a type, and what its values must be multiplied with. */
uint32_t merge_find_type(const struct profile *out, struct value_type type, double *ret_scale);

/* v times a ratio, rounded to the nearest whole number. */
int64_t merge_scale(int64_t v, double ratio);

/* The resource attributes that all inputs have. */
uint32_t merge_shared_attrs(struct dict *d, struct profile *const *in, size_t n);
uint32_t merge_attrs_without(struct dict *d, uint32_t set, uint32_t taken);
uint32_t merge_attrs_union(struct dict *d, uint32_t a, uint32_t b);

/*
 * Moves the locations of `out` (the inputs added up) to one mapping per binary. *ret_changed says
 * whether there was anything to move: rows may then be equal that were not. False when the budget
 * is spent.
 */
bool merge_unify_mappings(struct profile *out, bool *ret_changed);

#pragma once

#include "profile/labels.h"
#include "profile/profile.h"

/*
 * Totals per label value: what the `tags` report prints. A sample with several labels counts for
 * each of them. Numbers that look the same in `unit` are one.
 */
struct tag_total {
    uint32_t key;  /* string */
    uint32_t text; /* string: the value as printed */
    int64_t value;
};

struct tag_totals {
    struct budget *budget;
    /* By key name, then by size of the value (largest first), then by text. */
    VEC(struct tag_total) all;
};

/* False when the budget is spent; tag_totals_done() is due either way. */
bool tag_totals_build(const struct profile *p, uint32_t type, const struct label_units *units,
                      const char *unit, struct tag_totals *ret);
void tag_totals_done(struct tag_totals *t);

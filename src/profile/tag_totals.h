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
    bool has_text, has_number; /* what labels it stands for */
    int64_t least, most;       /* of its numbers, in the key's unit */
};

/* A key, with its values all.data[first ... first + n). */
struct tag_key {
    uint32_t key;  /* string */
    int64_t total; /* of samples that have it, each counted once however many values it has */
    size_t first, n;
    uint32_t last_set; /* for building */
};

struct tag_totals {
    struct budget *budget;
    /* By key name, then by size of the value (largest first), then by text. */
    VEC(struct tag_total) all;
    VEC(struct tag_key) keys; /* by name */
};

/* False when the budget is spent; tag_totals_done() is due either way. */
bool tag_totals_build(const struct profile *p, uint32_t type, const struct label_units *units,
                      const char *unit, struct tag_totals *ret);
void tag_totals_done(struct tag_totals *t);

#pragma once

#include "base/buf.h"
#include "profile/profile.h"

/*
 * Attributes of samples as pprof's users know them: labels (tags) that are either text or numbers
 * with a unit. Whole numbers are numbers; everything else is text.
 */
static inline bool label_is_number(const struct attribute *a)
{
    return a->kind == ATTRIBUTE_INT;
}

/* Appends the value of a label that is not a number. */
void label_add_text(const struct dict *d, const struct attribute *a, struct buf *out);

/*
 * The unit of each numeric label key: the first that a sample gives, else what the key suggests.
 * unit.data[key] is a string, or 0 when the key is not that of a number.
 */
struct label_units {
    struct budget *budget;
    VEC(uint32_t) unit; /* per string */
};

/* When a key has several units, one line about it goes to `warnings` (NULL is fine). False when the
 * budget is spent. label_units_done() is due either way. */
bool label_units_build(const struct profile *p, struct label_units *ret, struct buf *warnings);
void label_units_done(struct label_units *u);

static inline uint32_t label_unit(const struct label_units *u, uint32_t key)
{
    return key < u->unit.len ? u->unit.data[key] : 0;
}

/* "key:value" of all text labels of a set but the one with key `but`, sorted, joined by a backslash
 * and an n. */
void label_join(const struct dict *d, uint32_t set, uint32_t but, struct buf *out);

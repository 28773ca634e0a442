#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "profile/dict.h"

/*
 * Carries elements of one dictionary over into another: only those that are asked for and what they
 * refer to, each once. What an answer names is usually a small part of what an epoch knows.
 *
 * Maps are zeroed pages that cost memory only where they are touched; they are charged to the
 * budget of `to`. Past its limit everything translates to 0 and the budget stays failed.
 */
struct translate {
    const struct dict *from;
    struct dict *to;
    uint32_t *strings, *functions, *mappings, *locations, *attributes, *attr_sets, *nodes;
    size_t charged;
    VEC(uint32_t) path, frames;
    VEC(struct line) lines;
    VEC(uint32_t) ids;
};

/* Both dictionaries must outlive it; `from` must not lose elements, and those that it gains are not
 * seen. False when the budget is spent: it can then be used all the same. */
bool translate_init(struct translate *t, const struct dict *from, struct dict *to);
void translate_done(struct translate *t);

/* Ids that `from` does not have, and 0, become 0. */
uint32_t translate_string(struct translate *t, uint32_t id);
uint32_t translate_function(struct translate *t, uint32_t id);
uint32_t translate_mapping(struct translate *t, uint32_t id);
uint32_t translate_location(struct translate *t, uint32_t id);
uint32_t translate_attrs(struct translate *t, uint32_t id);
uint32_t translate_node(struct translate *t, uint32_t id);

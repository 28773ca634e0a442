#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/budget.h"

/*
 * The index behind an interned table: finds the id of an element by its hash. The elements live in
 * the caller's columns; a slot holds the high half of the hash (which also chooses the slot, so
 * that growing needs no rehash) and the id: a probe rarely touches a column for nothing.
 *
 *     IDSET_FIND(&set, hash, id, equal(table[id], wanted))  -> id, or IDSET_NONE
 *     idset_add(budget, &set, hash, id)                      the element was not there
 */
struct idset {
    uint64_t *slots; /* hash high half << 32 | id + 1; 0 is free */
    size_t mask;     /* slot count - 1, or 0 while there are none */
    size_t len;
};

#define IDSET_NONE UINT32_MAX

#define IDSET_FIND(set, hash_value, id, is_equal)                                                  \
    ({                                                                                             \
        const struct idset *set_ = (set);                                                          \
        uint64_t hash_ = (hash_value), slot_;                                                      \
        size_t at_ = (hash_ >> 32) & set_->mask;                                                   \
        uint32_t found_ = IDSET_NONE;                                                              \
        for (; set_->slots && (slot_ = set_->slots[at_]) != 0; at_ = (at_ + 1) & set_->mask) {     \
            uint32_t id = (uint32_t)slot_ - 1;                                                     \
            if ((slot_ ^ hash_) >> 32 == 0 && (is_equal)) {                                        \
                found_ = id;                                                                       \
                break;                                                                             \
            }                                                                                      \
        }                                                                                          \
        found_;                                                                                    \
    })

/* False when the budget is spent; the set is then as it was. */
bool idset_add(struct budget *b, struct idset *set, uint64_t hash, uint32_t id);
/* Room for n elements in all, so that adding them moves nothing. */
bool idset_reserve(struct budget *b, struct idset *set, size_t n);
void idset_done(struct budget *b, struct idset *set);

#include "base/idset.h"

#include <string.h>

#define SLOTS_MIN 64

static void place(struct idset *set, uint64_t slot)
{
    size_t at = (slot >> 32) & set->mask;
    while (set->slots[at])
        at = (at + 1) & set->mask;
    set->slots[at] = slot;
}

static bool grow(struct budget *b, struct idset *set, size_t new_n)
{
    size_t old_n = set->slots ? set->mask + 1 : 0;
    struct idset bigger = {.mask = new_n - 1, .len = set->len};
    void *slots = NULL;

    if (!budget_resize(b, &slots, 0, new_n * sizeof(uint64_t)))
        return false;
    bigger.slots = slots;
    memset(bigger.slots, 0, new_n * sizeof(uint64_t));
    for (size_t i = 0; i < old_n; i++) {
        if (set->slots[i])
            place(&bigger, set->slots[i]);
    }
    idset_done(b, set);
    *set = bigger;
    return true;
}

bool idset_add(struct budget *b, struct idset *set, uint64_t hash, uint32_t id)
{
    if (!set->slots || set->len * 4 >= (set->mask + 1) * 3) {
        if (!grow(b, set, set->slots ? (set->mask + 1) * 2 : SLOTS_MIN))
            return false;
    }
    place(set, (hash >> 32 << 32) | (id + 1));
    set->len++;
    return true;
}

bool idset_reserve(struct budget *b, struct idset *set, size_t n)
{
    size_t have = set->slots ? set->mask + 1 : 0, want = SLOTS_MIN;

    while (want / 4 * 3 <= n && want <= SIZE_MAX / 2 / sizeof(uint64_t))
        want *= 2;
    return want <= have || grow(b, set, want);
}

void idset_done(struct budget *b, struct idset *set)
{
    if (set->slots)
        budget_drop(b, set->slots, (set->mask + 1) * sizeof(uint64_t));
    *set = (struct idset){0};
}

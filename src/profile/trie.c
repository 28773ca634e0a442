/*
 * The stack trie of a dictionary: who called whom, each distinct stack one node.
 *
 * The index is an open-addressed table keyed by (parent, location). A stack of n frames costs n
 * dependent look-ups, which is what decoding a profile mostly costs; formats that repeat stacks
 * should remember the node they got for one.
 */
#include "base/hash.h"
#include "profile/dict.h"

#define SLOTS_MIN 256

static size_t slot_of(uint64_t key, size_t mask)
{
    /* The caller's column is input, but a flood of collisions only slows its own decoding, within
     * the budget: a cheap multiplication is enough. */
    uint64_t h = (key ^ hash_seed) * 0x9E3779B97F4A7C15u;
    return (h >> 32 ^ h >> 12) & mask;
}

static bool grow(struct dict *d)
{
    size_t old_n = d->trie_slots ? d->trie_mask + 1 : 0;
    size_t new_n = old_n ? old_n * 2 : SLOTS_MIN;
    void *p = NULL;

    if (!budget_resize(d->budget, &p, 0, new_n * sizeof(struct trie_slot)))
        return false;
    struct trie_slot *slots = p;
    memset(slots, 0, new_n * sizeof(*slots));
    for (size_t i = 0; i < old_n; i++) {
        struct trie_slot s = d->trie_slots[i];
        if (!s.key)
            continue;
        size_t at = slot_of(s.key, new_n - 1);
        while (slots[at].key)
            at = (at + 1) & (new_n - 1);
        slots[at] = s;
    }
    if (d->trie_slots)
        budget_free(d->budget, d->trie_slots, old_n * sizeof(*slots));
    d->trie_slots = slots;
    d->trie_mask = new_n - 1;
    return true;
}

uint32_t dict_node(struct dict *d, uint32_t parent, uint32_t location)
{
    uint64_t key = (uint64_t)parent << 32 | location;
    size_t n = d->node_parent.len;

    if (location == 0)
        return parent;
    if (n * 4 >= (d->trie_slots ? d->trie_mask + 1 : 0) * 3 && !grow(d))
        return 0;
    size_t at = slot_of(key, d->trie_mask);
    for (; d->trie_slots[at].key; at = (at + 1) & d->trie_mask) {
        if (d->trie_slots[at].key == key)
            return d->trie_slots[at].node;
    }
    if (n >= UINT32_MAX - 1 || !vec_reserve(d->budget, &d->node_parent, 1) ||
        !vec_reserve(d->budget, &d->node_location, 1)) {
        d->budget->failed = true;
        return 0;
    }
    d->node_parent.data[d->node_parent.len++] = parent;
    d->node_location.data[d->node_location.len++] = location;
    d->trie_slots[at] = (struct trie_slot){key, (uint32_t)n};
    return (uint32_t)n;
}

uint32_t dict_stack(struct dict *d, const uint32_t *leaf_first, size_t n)
{
    uint32_t node = 0;

    while (n-- > 0)
        node = dict_node(d, node, leaf_first[n]);
    return node;
}

uint32_t dict_frame(struct dict *d, uint32_t parent, struct function f, int64_t line, int64_t column,
                    uint32_t type)
{
    struct line l = {.function = dict_function(d, f), .line = line, .column = column};
    return dict_node(d, parent, dict_location(d, (struct location){.type = type}, &l, 1));
}

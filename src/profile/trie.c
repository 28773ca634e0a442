/*
 * The stack trie of a dictionary: who called whom, each distinct stack one node.
 *
 * Nodes are numbered as they come, so the frames of a new stack get ids in a row: the first child
 * of node n is nearly always n + 1. That child is found by looking at the columns there, which the
 * walk down a stack reads one after the other anyway, and is in no table. Only the other children
 * are: an open-addressed table keyed by (parent, location) holds one entry per place where stacks
 * part, not one per frame.
 */
#include "base/hash.h"
#include "profile/dict.h"

#define SLOTS_MIN 64

static inline size_t slot_of(uint32_t parent, uint32_t location, size_t mask)
{
    /* The caller's column is input, but a flood of collisions only slows its own decoding, within
     * the budget: a cheap multiplication is enough. */
    uint64_t key = (uint64_t)parent << 32 | location;
    uint64_t h = (key ^ hash_seed) * 0x9E3779B97F4A7C15u;
    return (h >> 32 ^ h >> 12) & mask;
}

static void place(struct trie_slot *slots, size_t mask, struct trie_slot s)
{
    size_t at = slot_of(s.parent, s.location, mask);

    while (slots[at].location)
        at = (at + 1) & mask;
    slots[at] = s;
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
        if (d->trie_slots[i].location)
            place(slots, new_n - 1, d->trie_slots[i]);
    }
    if (d->trie_slots)
        budget_drop(d->budget, d->trie_slots, old_n * sizeof(*slots));
    d->trie_slots = slots;
    d->trie_mask = new_n - 1;
    return true;
}

/* The child of parent at location, or 0. */
static inline uint32_t find(const struct dict *d, uint32_t parent, uint32_t location)
{
    size_t next = (size_t)parent + 1;

    if (next < d->node_parent.len && d->node_location.data[next] == location &&
        d->node_parent.data[next] == parent)
        return parent + 1;
    if (!d->trie_slots)
        return 0;
    for (size_t at = slot_of(parent, location, d->trie_mask);; at = (at + 1) & d->trie_mask) {
        const struct trie_slot *s = &d->trie_slots[at];
        if (s->location == location && s->parent == parent)
            return s->node;
        if (s->location == 0)
            return 0;
    }
}

/* Room for n more nodes and for one more entry of the table. */
static bool make_room(struct dict *d, size_t n)
{
    if (n > UINT32_MAX - 1 - d->node_parent.len) {
        d->budget->failed = true;
        return false;
    }
    if (d->trie_used * 4 >= (d->trie_slots ? d->trie_mask + 1 : 0) * 3 && !grow(d))
        return false;
    return vec_reserve(d->budget, &d->node_parent, n) &&
           vec_reserve(d->budget, &d->node_location, n);
}

/*
 * Adds a branch of new nodes below parent, outermost first: its first node is in the table unless
 * it stands next to its parent, the others stand next to each other. 0 when the budget is spent.
 */
static uint32_t add_branch(struct dict *d, uint32_t parent, const uint32_t *leaf_first, size_t n,
                           uint32_t *path)
{
    if (!make_room(d, n))
        return 0;
    uint32_t node = (uint32_t)d->node_parent.len;
    if (parent + 1 != node) {
        place(d->trie_slots, d->trie_mask, (struct trie_slot){parent, leaf_first[n - 1], node});
        d->trie_used++;
    }
    uint32_t *parents = d->node_parent.data + node, *locations = d->node_location.data + node;
    for (size_t i = 0; i < n; i++) {
        parents[i] = i ? node + (uint32_t)i - 1 : parent;
        locations[i] = leaf_first[n - 1 - i];
        if (path)
            path[i] = node + (uint32_t)i;
    }
    d->node_parent.len += n;
    d->node_location.len += n;
    return node + (uint32_t)n - 1;
}

uint32_t dict_node(struct dict *d, uint32_t parent, uint32_t location)
{
    if (location == 0)
        return parent;
    uint32_t node = find(d, parent, location);
    return node ? node : add_branch(d, parent, &location, 1, NULL);
}

uint32_t dict_path(struct dict *d, uint32_t from, const uint32_t *leaf_first, size_t n,
                   uint32_t *path)
{
    uint32_t node = from;

    while (n > 0) {
        uint32_t child = find(d, node, leaf_first[n - 1]);
        if (child == 0)
            return add_branch(d, node, leaf_first, n, path);
        node = child;
        if (path)
            *path++ = node;
        n--;
    }
    return node;
}

uint32_t dict_stack(struct dict *d, const uint32_t *leaf_first, size_t n)
{
    uint32_t node = 0;

    while (n-- > 0)
        node = dict_node(d, node, leaf_first[n]);
    return node;
}

uint32_t dict_frame(struct dict *d, uint32_t parent, struct function f, int64_t line,
                    int64_t column, uint32_t type)
{
    struct line l = {.function = dict_function(d, f), .line = line, .column = column};
    return dict_node(d, parent, dict_location(d, (struct location){.type = type}, &l, 1));
}

/*
 * A treap: a binary tree ordered by address whose random priorities keep it balanced. Nodes are
 * never changed once another root may see them; the paths that change are copied.
 *
 * Recursion is as deep as the tree, which is logarithmic: priorities come from the process's hash
 * seed, so input cannot choose them.
 */
#include "formats/perf_maps.h"

#include "base/hash.h"

struct pair {
    uint32_t left, right;
};

void perf_maps_init(struct perf_maps *m, struct budget *budget)
{
    *m = (struct perf_maps){.budget = budget};
    vec_push(budget, &m->nodes, (struct perf_map_node){0});
}

void perf_maps_done(struct perf_maps *m)
{
    vec_done(m->budget, &m->nodes);
}

static uint32_t new_node(struct perf_maps *m, struct perf_map_node n)
{
    uint32_t id = (uint32_t)m->nodes.len;

    if (m->nodes.len >= UINT32_MAX || !vec_push(m->budget, &m->nodes, n))
        return 0;
    return id;
}

/* A new node for a range, between nothing. */
static uint32_t leaf(struct perf_maps *m, struct perf_range range)
{
    struct perf_map_node n = {.range = range};

    if (range.start >= range.end)
        return 0;
    n.priority = (uint32_t)(hash_mix(m->nodes.len, range.start) >> 32);
    return new_node(m, n);
}

/* A tree of two, all of whose addresses in `a` are below those in `b`. */
static uint32_t join(struct perf_maps *m, uint32_t a, uint32_t b)
{
    if (!a || !b)
        return a ? a : b;
    struct perf_map_node n;
    if (m->nodes.data[a].priority >= m->nodes.data[b].priority) {
        n = m->nodes.data[a];
        n.right = join(m, n.right, b);
    } else {
        n = m->nodes.data[b];
        n.left = join(m, a, n.left);
    }
    return new_node(m, n);
}

/* Cuts a tree at an address: what lies below it and what does not. A range across it is cut. */
static struct pair split(struct perf_maps *m, uint32_t root, uint64_t at)
{
    if (!root)
        return (struct pair){0, 0};
    struct perf_map_node n = m->nodes.data[root];
    struct pair inner;
    if (n.range.end <= at) {
        inner = split(m, n.right, at);
        n.right = inner.left;
        return (struct pair){new_node(m, n), inner.right};
    }
    if (n.range.start >= at) {
        inner = split(m, n.left, at);
        n.left = inner.right;
        return (struct pair){inner.left, new_node(m, n)};
    }
    struct perf_range low = n.range, high = n.range;
    low.end = at;
    high.start = at;
    return (struct pair){join(m, n.left, leaf(m, low)), join(m, leaf(m, high), n.right)};
}

uint32_t perf_maps_add(struct perf_maps *m, uint32_t root, struct perf_range range)
{
    if (range.start >= range.end || m->nodes.len == 0)
        return root;
    struct pair low = split(m, root, range.start);
    struct pair high = split(m, low.right, range.end);

    return join(m, join(m, low.left, leaf(m, range)), high.right);
}

const struct perf_range *perf_maps_find(const struct perf_maps *m, uint32_t root, uint64_t address)
{
    while (root) {
        const struct perf_map_node *n = &m->nodes.data[root];
        if (address < n->range.start)
            root = n->left;
        else if (address >= n->range.end)
            root = n->right;
        else
            return &n->range;
    }
    return NULL;
}

/*
 * Dominators of a heap, after Lengauer and Tarjan, "A fast algorithm for finding dominators in a
 * flowgraph" (1979), the variant with path compression, all loops.
 *
 * Which references count, as in memlab:
 * - not an object's reference to itself, and no shortcut except from the root, where shortcuts lead
 *   to the program's global objects;
 * - not one from an object that the page does not own to one that it does: the debugger's own
 *   references would blur the picture. Owned is what can be reached from the root's children by
 *   references that are not weak, the root's shortcuts and the detached documents left aside.
 *   (DevTools starts from just those two instead, so it shows other sizes for the engine's own
 *   roots.)
 * - An object that nothing refers to, weak references and shortcuts aside, is held by the root.
 *   What can still not be reached is garbage that refers to itself in circles: each such object is
 *   the root's, and holds nothing.
 */
#include <assert.h>
#include <string.h>

#include "formats/heap_graph.h"

#define NONE UINT32_MAX

enum { OWNED = 1, REFERRED = 2 };

/* Vertices are numbered in the order of a depth-first search; the root is 0. */
struct search {
    const struct heap_graph *g;
    struct budget *b;
    uint32_t n_nodes;
    uint32_t n; /* vertices numbered so far */
    VEC(uint8_t) flags;
    VEC(uint32_t) number;         /* per node */
    VEC(uint32_t) vertex;         /* per number: the node */
    VEC(uint32_t) parent;         /* per number; compressed towards the root once linked */
    VEC(uint32_t) semi;           /* per number */
    VEC(uint32_t) label;          /* per number */
    VEC(uint32_t) dom;            /* per number; before that, the next in its bucket */
    VEC(uint32_t) bucket;         /* per number; while searching, the next edge to follow */
    VEC(uint32_t) first_retainer; /* per node, + 1 */
    VEC(uint32_t) retainers;
    VEC(uint32_t) path;
    uint32_t linked_from; /* this and higher numbers are in the forest */
};

static void search_done(struct search *s)
{
    vec_done(s->b, &s->flags);
    vec_done(s->b, &s->number);
    vec_done(s->b, &s->vertex);
    vec_done(s->b, &s->parent);
    vec_done(s->b, &s->semi);
    vec_done(s->b, &s->label);
    vec_done(s->b, &s->dom);
    vec_done(s->b, &s->bucket);
    vec_done(s->b, &s->first_retainer);
    vec_done(s->b, &s->retainers);
    vec_done(s->b, &s->path);
}

static uint32_t target(uint32_t edge)
{
    return edge & ~HEAP_SHORTCUT;
}

/* Does this edge keep its target alive? */
static bool counts(const struct search *s, uint32_t from, uint32_t edge)
{
    uint32_t to = target(edge);

    if (from == to)
        return false;
    if (from == 0)
        return true;
    return !(edge & HEAP_SHORTCUT) && (s->flags.data[from] & OWNED || !(s->flags.data[to] & OWNED));
}

/* Marks what the page owns. The path vec is the list of nodes still to visit. */
static bool mark_owned(struct search *s, uint32_t dom_trees)
{
    const uint32_t *first = s->g->first_edge.data, *edges = s->g->edges.data;

    for (uint32_t e = first[0]; e < first[1]; e++) {
        uint32_t to = target(edges[e]);
        if (edges[e] & HEAP_SHORTCUT || (to == dom_trees && dom_trees != 0) ||
            s->flags.data[to] & OWNED)
            continue;
        s->flags.data[to] |= OWNED;
        if (!vec_push(s->b, &s->path, to))
            return false;
    }
    while (s->path.len > 0) {
        uint32_t from = s->path.data[--s->path.len];
        for (uint32_t e = first[from]; e < first[from + 1]; e++) {
            uint32_t to = target(edges[e]);
            if (s->flags.data[to] & OWNED)
                continue;
            s->flags.data[to] |= OWNED;
            if (!vec_push(s->b, &s->path, to))
                return false;
        }
    }
    return true;
}

/* The edges that count, by target. */
static bool turn_edges(struct search *s)
{
    const uint32_t *first = s->g->first_edge.data, *edges = s->g->edges.data;
    uint32_t total = 0;

    if (!vec_resize(s->b, &s->first_retainer, (size_t)s->n_nodes + 1))
        return false;
    uint32_t *start = s->first_retainer.data;
    for (uint32_t from = 0; from < s->n_nodes; from++) {
        for (uint32_t e = first[from]; e < first[from + 1]; e++) {
            uint32_t to = target(edges[e]);
            if (!(edges[e] & HEAP_SHORTCUT))
                s->flags.data[to] |= REFERRED;
            if (counts(s, from, edges[e]))
                start[to]++, total++;
        }
    }
    if (!vec_resize(s->b, &s->retainers, total))
        return false;
    /* Sums, so that start[i] is the end of i's run; filling from behind makes it the start. */
    for (uint32_t i = 0, sum = 0; i <= s->n_nodes; i++)
        start[i] = sum += start[i];
    for (uint32_t from = s->n_nodes; from-- > 0;) {
        for (uint32_t e = first[from + 1]; e-- > first[from];) {
            if (counts(s, from, edges[e]))
                s->retainers.data[--start[target(edges[e])]] = from;
        }
    }
    return true;
}

static uint32_t give_number(struct search *s, uint32_t node, uint32_t parent)
{
    uint32_t v = s->n++;

    s->number.data[node] = v;
    s->vertex.data[v] = node;
    s->parent.data[v] = parent;
    s->bucket.data[v] = s->g->first_edge.data[node];
    return v;
}

/* The next edge of v that leads to a node without a number, or NONE. */
static uint32_t next_unseen(struct search *s, uint32_t v)
{
    uint32_t node = s->vertex.data[v], end = s->g->first_edge.data[node + 1];

    while (s->bucket.data[v] < end) {
        uint32_t edge = s->g->edges.data[s->bucket.data[v]++];
        if (counts(s, node, edge) && s->number.data[target(edge)] == NONE)
            return target(edge);
    }
    return NONE;
}

static void search_from(struct search *s, uint32_t node)
{
    uint32_t start = give_number(s, node, 0), v = start;

    for (;;) {
        uint32_t next = next_unseen(s, v);
        if (next != NONE)
            v = give_number(s, next, v);
        else if (v == start)
            return;
        else
            v = s->parent.data[v];
    }
}

/* Points all of v's path at its end, carrying along the smallest semidominator met. */
static bool compress(struct search *s, uint32_t v)
{
    uint32_t *parent = s->parent.data, *label = s->label.data;
    const uint32_t *semi = s->semi.data;

    while (parent[v] >= s->linked_from) {
        if (!vec_push(s->b, &s->path, v))
            return false;
        v = parent[v];
    }
    while (s->path.len > 0) {
        uint32_t w = s->path.data[--s->path.len], above = parent[w];
        if (semi[label[above]] < semi[label[w]])
            label[w] = label[above];
        parent[w] = parent[above];
    }
    return true;
}

/* The vertex of the smallest semidominator on v's path in the forest. */
static bool eval(struct search *s, uint32_t v, uint32_t *ret)
{
    if (v >= s->linked_from && !compress(s, v))
        return false;
    *ret = s->label.data[v];
    return true;
}

static bool find_semi(struct search *s, uint32_t w)
{
    uint32_t node = s->vertex.data[w], u;
    bool is_held = false;

    for (uint32_t e = s->first_retainer.data[node]; e < s->first_retainer.data[node + 1]; e++) {
        uint32_t v = s->number.data[s->retainers.data[e]];
        if (v == NONE)
            continue;
        if (!eval(s, v, &u))
            return false;
        is_held = true;
        if (s->semi.data[u] < s->semi.data[w])
            s->semi.data[w] = s->semi.data[u];
    }
    if (!is_held)
        s->semi.data[w] = 0;
    return true;
}

static bool find_dominators(struct search *s)
{
    for (uint32_t i = 0; i < s->n; i++) {
        s->semi.data[i] = s->label.data[i] = i;
        s->bucket.data[i] = NONE;
    }
    for (uint32_t w = s->n; w-- > 1;) {
        uint32_t parent = s->parent.data[w], u;
        s->linked_from = w + 1;
        if (!find_semi(s, w))
            return false;
        s->dom.data[w] = s->bucket.data[s->semi.data[w]];
        s->bucket.data[s->semi.data[w]] = w;
        s->linked_from = w;
        for (uint32_t v = s->bucket.data[parent], next; v != NONE; v = next) {
            next = s->dom.data[v];
            if (!eval(s, v, &u))
                return false;
            s->dom.data[v] = s->semi.data[u] < s->semi.data[v] ? u : parent;
        }
        s->bucket.data[parent] = NONE;
    }
    for (uint32_t w = 1; w < s->n; w++) {
        if (s->dom.data[w] != s->semi.data[w])
            s->dom.data[w] = s->dom.data[s->dom.data[w]];
    }
    return true;
}

static bool search_init(struct search *s)
{
    size_t n = s->n_nodes;

    if (!vec_resize(s->b, &s->flags, n) || !vec_resize(s->b, &s->number, n) ||
        !vec_resize(s->b, &s->vertex, n) || !vec_resize(s->b, &s->parent, n) ||
        !vec_resize(s->b, &s->semi, n) || !vec_resize(s->b, &s->label, n) ||
        !vec_resize(s->b, &s->dom, n) || !vec_resize(s->b, &s->bucket, n))
        return false;
    assert(s->number.data); /* there is a root */
    memset(s->number.data, 0xff, n * sizeof(*s->number.data));
    return true;
}

static bool run(struct search *s, uint32_t dom_trees)
{
    if (!search_init(s) || !mark_owned(s, dom_trees) || !turn_edges(s))
        return false;
    search_from(s, 0);
    for (uint32_t i = 0; i < s->n_nodes; i++) {
        if (s->number.data[i] == NONE && !(s->flags.data[i] & REFERRED))
            search_from(s, i);
    }
    if (!find_dominators(s))
        return false;
    /* From numbers to nodes, in place of `number`; then what could not be reached. */
    s->dom.data[0] = 0;
    for (uint32_t i = 0; i < s->n_nodes; i++) {
        uint32_t v = s->number.data[i];
        if (v == NONE)
            s->vertex.data[s->n++] = i;
        s->number.data[i] = v == NONE ? 0 : s->vertex.data[s->dom.data[v]];
    }
    return true;
}

bool heap_dominators_find(const struct heap_graph *g, uint32_t dom_trees, struct budget *b,
                          struct heap_dominators *ret)
{
    struct search s = {.g = g, .b = b, .n_nodes = (uint32_t)g->first_edge.len - 1};
    bool ok = run(&s, dom_trees);

    if (ok) {
        memcpy(&ret->of, &s.number, sizeof(s.number));
        memcpy(&ret->order, &s.vertex, sizeof(s.vertex));
        memset(&s.number, 0, sizeof(s.number));
        memset(&s.vertex, 0, sizeof(s.vertex));
    }
    search_done(&s);
    return ok;
}

void heap_dominators_done(struct budget *b, struct heap_dominators *d)
{
    vec_done(b, &d->of);
    vec_done(b, &d->order);
}

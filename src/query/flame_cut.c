#include "query/flame_cut.h"

#include <errno.h>
#include <stdlib.h>

static uint64_t magnitude(int64_t v)
{
    return v < 0 ? -(uint64_t)v : (uint64_t)v;
}

/* Wrapping like the machine: sums of what comes from outside may. */
static int64_t plus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

/* What decides who stays: a node's own total, or that of a heavier node below it, as differences
 * have where growth and shrinking cancel. So no node is heavier than its parent. */
static void weigh(const struct flame_cut *f, uint32_t root, uint64_t *weight)
{
    const struct tree *t = &f->tree;
    for (size_t i = 0; i < tree_len(t); i++)
        weight[i] = magnitude(t->total.data[i]);
    for (size_t i = 0; i < f->base.total.len; i++)
        if (weight[i] < magnitude(f->base.total.data[i]))
            weight[i] = magnitude(f->base.total.data[i]);
    for (size_t i = tree_len(t); i-- > root + 1;) {
        uint32_t up = t->parent.data[i];
        if (weight[up] < weight[i])
            weight[up] = weight[i];
    }
}

/* Marks what lies below `root`, itself included. Returns how many there are. */
static size_t mark_below(const struct tree *t, uint32_t root, bool *is_below)
{
    size_t n = 1;
    memset(is_below, 0, tree_len(t) * sizeof(*is_below));
    is_below[root] = true;
    for (size_t i = root + 1; i < tree_len(t); i++) {
        is_below[i] = is_below[t->parent.data[i]];
        n += is_below[i];
    }
    return n;
}

/* The smallest weight that still fits, and how many of exactly that weight do. */
struct threshold {
    uint64_t weight;
    size_t ties;
};

/* The weight of the max-th heaviest, digit by digit from the highest: eight passes, where sorting a
 * million takes twenty. */
static struct threshold find_threshold(size_t n, const uint64_t *weight, const bool *is_below,
                                       size_t max)
{
    struct threshold t = {.ties = max};
    for (int shift = 56; shift >= 0; shift -= 8) {
        size_t count[256] = {0};
        unsigned digit = 255;
        for (size_t i = 0; i < n; i++) {
            bool is_prefix = shift == 56 || weight[i] >> (shift + 8) == t.weight >> (shift + 8);
            if (is_below[i] && is_prefix)
                count[weight[i] >> shift & 255]++;
        }
        for (; digit > 0 && count[digit] < t.ties; digit--)
            t.ties -= count[digit];
        t.weight |= (uint64_t)digit << shift;
    }
    return t;
}

/* Parents come first and are never lighter, so keeping by weight keeps trees whole; among equals
 * the first ones found have their parents kept. */
static void cut(const struct tree *t, const uint64_t *weight, struct threshold threshold,
                uint32_t root, bool *keep)
{
    for (size_t i = root; i < tree_len(t); i++) {
        bool wanted = keep[i] && (i == root || keep[t->parent.data[i]]);
        if (wanted && weight[i] == threshold.weight) {
            wanted = threshold.ties > 0;
            threshold.ties -= wanted;
        }
        keep[i] = wanted && weight[i] >= threshold.weight;
    }
}

#define FETCH_AHEAD 12

struct child {
    uint32_t node;
    uint64_t weight;
};

static int by_weight(const void *a, const void *b)
{
    const struct child *x = a, *y = b;
    if (x->weight != y->weight)
        return x->weight < y->weight ? 1 : -1;
    return (x->node > y->node) - (x->node < y->node);
}

struct builder {
    struct budget *budget;
    struct flame_cut *out;
    const uint64_t *weight;
    const bool *keep;
    bool keeps_all; /* nothing below the root was cut */
    VEC(struct child) children;
    VEC(uint32_t) stack; /* tree node, then index of its parent, of what is still to be added */
};

/* The kept children of a node, the heaviest first, and what the others weigh. */
static bool find_children(struct builder *b, uint32_t node, struct flame_cut_hidden *ret_hidden)
{
    struct flame_cut *f = b->out;
    const struct tree *t = &f->tree;
    struct flame_cut_hidden hidden = {0};

    vec_clear(&b->children);
    for (uint32_t c = t->first_child.data[node]; c != 0; c = t->next_sibling.data[c]) {
        if (b->keeps_all || b->keep[c]) {
            if (!vec_push(b->budget, &b->children, (struct child){c, b->weight[c]}))
                return false;
        } else {
            hidden.n++;
            hidden.weight = plus(hidden.weight, t->total.data[c]);
            if (f->base.total.len > 0)
                hidden.base_weight = plus(hidden.base_weight, f->base.total.data[c]);
        }
    }
    if (b->children.len > 1)
        qsort(b->children.data, b->children.len, sizeof(*b->children.data), by_weight);
    f->cut = plus(f->cut, hidden.weight);
    *ret_hidden = hidden;
    return true;
}

/* Adds one node and puts its kept children on the stack, lightest first. */
static bool add_node(struct builder *b, uint32_t node, uint32_t parent)
{
    struct flame_cut *f = b->out;
    struct flame_cut_hidden hidden;
    struct tree *t = &f->tree;
    uint32_t at = (uint32_t)f->nodes.len;
    struct flame_cut_node n = {.parent = parent,
                               .tree_node = node,
                               .depth = at > 0 ? f->nodes.data[parent].depth + 1 : 0,
                               .self = t->self.data[node],
                               .total = t->total.data[node]};
    if (f->base.self.len > 0) {
        n.base_self = f->base.self.data[node];
        n.base_total = f->base.total.data[node];
    }
    if (!find_children(b, node, &hidden))
        return false;
    n.n_hidden = hidden.n;
    n.hidden = hidden.weight;
    n.base_hidden = hidden.base_weight;
    if (n.depth > f->max_depth)
        f->max_depth = n.depth;
    if (!vec_push(b->budget, &f->nodes, n))
        return false;
    for (size_t i = b->children.len; i-- > 0;)
        if (!vec_push(b->budget, &b->stack, b->children.data[i].node) ||
            !vec_push(b->budget, &b->stack, at))
            return false;
    return true;
}

static bool add_all(struct builder *b, uint32_t root)
{
    bool ok = add_node(b, root, 0);
    while (ok && b->stack.len > 0) {
        uint32_t parent = b->stack.data[--b->stack.len], node = b->stack.data[--b->stack.len];
        ok = add_node(b, node, parent);
    }
    vec_done(b->budget, &b->children);
    vec_done(b->budget, &b->stack);
    return ok;
}

/* Adds what lies below one node to the order, which is the queue, too. */
static bool add_level(struct builder *b, size_t place)
{
    struct flame_cut_levels *l = &b->out->levels;
    struct flame_cut_hidden hidden;

    if (!find_children(b, l->order.data[place], &hidden) ||
        !vec_push(b->budget, &l->children, (uint32_t)b->children.len))
        return false;
    hidden.place = (uint32_t)place;
    if (hidden.n > 0 && !vec_push(b->budget, &l->hidden, hidden))
        return false;
    for (size_t i = 0; i < b->children.len; i++)
        if (!vec_push(b->budget, &l->order, b->children.data[i].node))
            return false;
    return true;
}

/* Children of a node lie anywhere: what will be read soon is fetched while others are looked at.
 * Trees of a million nodes do not fit the processor's caches. */
static void fetch_soon(const struct builder *b, size_t place)
{
    const struct flame_cut_levels *l = &b->out->levels;
    const struct tree *t = &b->out->tree;

    if (place + 2 * FETCH_AHEAD < l->order.len)
        __builtin_prefetch(&t->first_child.data[l->order.data[place + 2 * FETCH_AHEAD]]);
    if (place + FETCH_AHEAD < l->order.len) {
        uint32_t first = t->first_child.data[l->order.data[place + FETCH_AHEAD]];
        __builtin_prefetch(&t->next_sibling.data[first]);
        __builtin_prefetch(&b->weight[first]);
    }
}

static bool add_levels(struct builder *b, uint32_t root, size_t n)
{
    struct flame_cut_levels *l = &b->out->levels;
    bool ok = vec_reserve(b->budget, &l->order, n) && vec_reserve(b->budget, &l->children, n) &&
              vec_push(b->budget, &l->order, root);
    for (size_t i = 0, end = 1; ok && i < l->order.len; i++) {
        if (i == end) {
            b->out->max_depth++;
            end = l->order.len;
        }
        fetch_soon(b, i);
        ok = add_level(b, i);
    }
    vec_done(b->budget, &b->children);
    return ok;
}

static int find_under(struct tree *t, const struct flame_cut_options *o, uint32_t *ret,
                      struct error *err)
{
    uint32_t at = 0;
    for (size_t i = 0; i < o->n_under; i++) {
        uint32_t c = t->first_child.data[at];
        while (c != 0 && strcmp(tree_name(t, c), o->under[i]) != 0)
            c = t->next_sibling.data[c];
        if (c == 0)
            return error_set(err, -ENOENT, "no frame \"%.200s\" at depth %zu of that path",
                             o->under[i], i + 1);
        at = c;
    }
    *ret = at;
    return 0;
}

static bool choose(struct flame_cut *f, const struct flame_cut_options *o, uint32_t root,
                   uint64_t *weight, bool *keep)
{
    struct tree *t = &f->tree;
    struct budget *budget = t->frames.dict->budget;

    weigh(f, root, weight);
    size_t n = mark_below(t, root, keep);
    bool cuts = o->max_nodes > 0 && n > o->max_nodes;
    if (cuts)
        cut(t, weight, find_threshold(tree_len(t), weight, keep, o->max_nodes), root, keep);
    struct builder b = {
        .budget = budget, .out = f, .weight = weight, .keep = keep, .keeps_all = !cuts};
    size_t n_kept = cuts ? o->max_nodes : n;
    if (!(o->is_level_order ? add_levels(&b, root, n_kept) : add_all(&b, root)))
        return false;
    f->n_cut = n - (o->is_level_order ? f->levels.order.len : f->nodes.len);
    return true;
}

static int build_trees(const struct profile *p, const struct flame_cut_options *o,
                       struct flame_cut *f, struct error *err)
{
    int r = o->compares ? tree_build_both(p, (uint32_t[]){o->type, o->base_type}, o->frames,
                                          &f->tree, &f->base, err)
                        : tree_build(p, o->type, o->frames, &f->tree, err);
    if (r < 0 || !o->invert)
        return r;
    return o->compares ? tree_invert_both(&f->tree, &f->base, err) : tree_invert(&f->tree, err);
}

int flame_cut_build(const struct profile *p, const struct flame_cut_options *o,
                    struct flame_cut *ret, struct error *err)
{
    struct budget *budget = p->dict->budget;
    uint32_t root = 0;

    *ret = (struct flame_cut){0};
    uint32_t largest = o->compares && o->base_type > o->type ? o->base_type : o->type;
    if (largest >= p->n_types)
        return error_set(err, -EINVAL, "there is no sample type %u: the profile has %u", largest,
                         p->n_types);
    int r = build_trees(p, o, ret, err);
    if (r == 0)
        r = find_under(&ret->tree, o, &root, err);
    if (r < 0)
        return r;

    size_t n = tree_len(&ret->tree);
    uint64_t *weight = NULL;
    bool *keep = NULL;
    bool ok = budget_resize(budget, (void **)&weight, 0, n * sizeof(*weight)) &&
              budget_resize(budget, (void **)&keep, 0, n * sizeof(*keep)) &&
              choose(ret, o, root, weight, keep);
    if (weight)
        budget_free(budget, weight, n * sizeof(*weight));
    if (keep)
        budget_free(budget, keep, n * sizeof(*keep));
    return ok ? 0 : budget_error(budget, err);
}

void flame_cut_done(struct flame_cut *f)
{
    struct budget *b = f->tree.frames.dict ? f->tree.frames.dict->budget : NULL;
    if (b) {
        vec_done(b, &f->nodes);
        vec_done(b, &f->levels.order);
        vec_done(b, &f->levels.children);
        vec_done(b, &f->levels.hidden);
    }
    tree_done(&f->tree);
    tree_done(&f->base);
}

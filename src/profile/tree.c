#include "profile/tree.h"

#include <stdlib.h>

#include "base/hash.h"

#define NOT_IN_TREE UINT32_MAX

static uint32_t add_node(struct tree *t, uint32_t parent, uint32_t frame)
{
    struct budget *b = t->frames.dict->budget;
    size_t n = t->parent.len;

    if (n >= UINT32_MAX - 1 || !vec_push(b, &t->parent, parent) || !vec_push(b, &t->frame, frame) ||
        !vec_push(b, &t->self, 0) || !vec_push(b, &t->total, 0)) {
        b->failed = true;
        return 0;
    }
    return (uint32_t)n;
}

static uint32_t child(struct tree *t, struct idset *index, uint32_t parent, uint32_t frame)
{
    uint64_t hash = hash_mix((uint64_t)parent << 32 | frame, 1);
    uint32_t id =
        IDSET_FIND(index, hash, i, t->parent.data[i] == parent && t->frame.data[i] == frame);

    if (id != IDSET_NONE)
        return id;
    id = add_node(t, parent, frame);
    if (id != 0)
        (void)idset_add(t->frames.dict->budget, index, hash, id);
    return id;
}

/* Marks the stacks that samples use, and all above them. */
static void mark_used(const struct profile *p, uint32_t *map)
{
    const uint32_t *parent = p->dict->node_parent.data;

    for (size_t i = 0; i < p->n_samples; i++) {
        for (uint32_t n = p->node[i]; map[n] == NOT_IN_TREE; n = parent[n])
            map[n] = 0;
    }
}

/* Makes the tree's nodes and has map say which of them each stack is. */
static bool add_stacks(struct tree *t, struct dict *d, size_t n_nodes, uint32_t *map)
{
    struct idset index = {0};
    bool ok = true;

    for (uint32_t n = 1; ok && n < n_nodes; n++) {
        if (map[n] == NOT_IN_TREE)
            continue;
        uint32_t at = map[d->node_parent.data[n]], count;
        size_t first = frames_of(&t->frames, d->node_location.data[n], &count);
        while (count-- > 0)
            at = child(t, &index, at, t->frames.ids.data[first + count]);
        map[n] = at;
        ok = !budget_failed(d->budget);
    }
    idset_done(d->budget, &index);
    return ok;
}

static void add_totals(struct tree *t)
{
    for (size_t n = t->parent.len; n-- > 0;) {
        t->total.data[n] = (int64_t)((uint64_t)t->total.data[n] + (uint64_t)t->self.data[n]);
        if (n > 0) {
            int64_t *up = &t->total.data[t->parent.data[n]];
            *up = (int64_t)((uint64_t)*up + (uint64_t)t->total.data[n]);
        }
    }
}

static void add_values(struct tree *t, const struct profile *p, uint32_t type, const uint32_t *map)
{
    for (size_t i = 0; i < p->n_samples; i++) {
        int64_t *self = &t->self.data[map[p->node[i]]];
        *self = (int64_t)((uint64_t)*self + (uint64_t)p->values[type][i]);
    }
    add_totals(t);
}

struct named {
    const char *name;
    uint32_t node;
};

static int compare_named(const void *a, const void *b)
{
    const struct named *x = a, *y = b;
    int c = strcmp(x->name, y->name);
    return c ? c : (x->node > y->node) - (x->node < y->node);
}

/* All nodes in the order of their names, then each in front of its siblings, last first. */
static bool link_children(struct tree *t)
{
    struct budget *b = t->frames.dict->budget;
    size_t n = t->parent.len;
    VEC(struct named) order = {0};
    VEC(uint32_t) depth = {0};
    bool ok = vec_resize(b, &t->first_child, n) && vec_resize(b, &t->next_sibling, n) &&
              vec_resize(b, &order, n) && vec_resize(b, &depth, n);

    for (uint32_t i = 0; ok && i < n; i++)
        order.data[i] = (struct named){i ? frames_name(&t->frames, t->frame.data[i]) : "", i};
    if (ok) {
        qsort(order.data, n, sizeof(*order.data), compare_named);
        for (size_t i = n; i-- > 0;) {
            uint32_t node = order.data[i].node, up = t->parent.data[node];
            if (node == 0)
                continue;
            t->next_sibling.data[node] = t->first_child.data[up];
            t->first_child.data[up] = node;
        }
        for (size_t i = 1; i < n; i++) {
            depth.data[i] = depth.data[t->parent.data[i]] + 1;
            if (depth.data[i] > t->max_depth)
                t->max_depth = depth.data[i];
        }
    }
    vec_done(b, &order);
    vec_done(b, &depth);
    return ok && !budget_failed(b);
}

int tree_build(const struct profile *p, uint32_t type, struct frame_options options,
               struct tree *ret, struct error *err)
{
    struct dict *d = p->dict;
    size_t n_nodes = dict_n_nodes(d);
    VEC(uint32_t) map = {0};

    *ret = (struct tree){0};
    frames_init(&ret->frames, d, options);
    (void)add_node(ret, 0, 0);
    bool ok = !budget_failed(d->budget) && vec_resize(d->budget, &map, n_nodes);
    if (ok) {
        memset(map.data, 0xff, n_nodes * sizeof(uint32_t));
        map.data[0] = 0;
        mark_used(p, map.data);
        ok = add_stacks(ret, d, n_nodes, map.data);
    }
    if (ok)
        add_values(ret, p, type, map.data);
    vec_done(d->budget, &map);
    ok = ok && link_children(ret);
    return ok ? 0 : budget_error(d->budget, err);
}

static void columns_done(struct tree *t)
{
    struct budget *b = t->frames.dict->budget;

    vec_done(b, &t->parent);
    vec_done(b, &t->frame);
    vec_done(b, &t->self);
    vec_done(b, &t->total);
    vec_done(b, &t->first_child);
    vec_done(b, &t->next_sibling);
}

static void add_self(struct tree *t, uint32_t at, int64_t v)
{
    t->self.data[at] = (int64_t)((uint64_t)t->self.data[at] + (uint64_t)v);
}

/* Nodes where either tree has a value of its own. The shape of `t` grows; `other`, when there is
 * one, gets only values. */
static void invert_values(const struct tree *was, const struct tree *other_was, struct tree *t,
                          struct tree *other)
{
    struct budget *b = t->frames.dict->budget;
    struct idset index = {0};

    for (uint32_t n = 0; n < was->parent.len && !budget_failed(b); n++) {
        uint32_t at = 0;
        if (was->self.data[n] == 0 && (!other || other_was->self.data[n] == 0))
            continue;
        for (uint32_t up = n; up != 0; up = was->parent.data[up])
            at = child(t, &index, at, was->frame.data[up]);
        if (budget_failed(b) || (other && !vec_resize(b, &other->self, t->parent.len)))
            break;
        add_self(t, at, was->self.data[n]);
        if (other)
            add_self(other, at, other_was->self.data[n]);
    }
    idset_done(b, &index);
}

/* Takes the columns out of a tree, leaving its frames. */
static struct tree take_columns(struct tree *t)
{
    struct tree was = *t;
    *t = (struct tree){.frames = was.frames};
    was.frames = (struct frames){.dict = was.frames.dict};
    return was;
}

/* `other` has values; its shape becomes that of t. */
static bool copy_shape(const struct tree *t, struct tree *other)
{
    struct budget *b = t->frames.dict->budget;
    size_t n = t->parent.len;

    return vec_append(b, &other->parent, t->parent.data, n) &&
           vec_append(b, &other->frame, t->frame.data, n) && vec_resize(b, &other->self, n) &&
           vec_resize(b, &other->total, n);
}

static bool invert(struct tree *t, struct tree *other)
{
    struct budget *b = t->frames.dict->budget;
    struct tree was = take_columns(t), other_was = {.frames = {.dict = t->frames.dict}};
    if (other)
        other_was = take_columns(other);

    (void)add_node(t, 0, 0);
    invert_values(&was, &other_was, t, other);
    columns_done(&was);
    columns_done(&other_was);
    if (budget_failed(b) || (other && !copy_shape(t, other)))
        return false;
    add_totals(t);
    if (other)
        add_totals(other);
    return link_children(t) && (!other || link_children(other));
}

int tree_invert(struct tree *t, struct error *err)
{
    return invert(t, NULL) ? 0 : budget_error(t->frames.dict->budget, err);
}

int tree_invert_both(struct tree *t, struct tree *other, struct error *err)
{
    return invert(t, other) ? 0 : budget_error(t->frames.dict->budget, err);
}

void tree_done(struct tree *t)
{
    if (!t->frames.dict)
        return;
    columns_done(t);
    frames_done(&t->frames);
}

const char *tree_name(struct tree *t, uint32_t node)
{
    return node == 0 ? "root" : frames_name(&t->frames, t->frame.data[node]);
}

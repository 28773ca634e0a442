#include "profile/tree.h"

#include <stdlib.h>

#include "base/hash.h"

#define NOT_IN_TREE UINT32_MAX

/* Values follow once all nodes are there. */
static uint32_t add_node(struct tree *t, uint32_t parent, uint32_t frame)
{
    struct budget *b = t->frames.dict->budget;
    size_t n = t->parent.len;

    if (n >= UINT32_MAX - 1 || !vec_push(b, &t->parent, parent) || !vec_push(b, &t->frame, frame)) {
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

/* Marks the stacks that samples use, and all above them. Returns how many there are. */
static size_t mark_used(const struct profile *p, uint32_t *map)
{
    const uint32_t *parent = p->dict->node_parent.data;
    size_t count = 0;

    for (size_t i = 0; i < p->n_samples; i++) {
        for (uint32_t n = p->node[i]; map[n] == NOT_IN_TREE; n = parent[n]) {
            map[n] = 0;
            count++;
        }
    }
    return count;
}

/* Nodes are about as many as stacks unless frames are coarse: tables then grow once. Only a wish:
 * nothing is taken that would be a large part of what is left. */
static bool reserve(struct tree *t, struct idset *index, size_t n)
{
    struct budget *b = t->frames.dict->budget;

    if (n > (b->limit - b->used) / 3 / (2 * sizeof(uint32_t) + 2 * sizeof(uint64_t)))
        return true;
    return vec_reserve(b, &t->parent, n) && vec_reserve(b, &t->frame, n) &&
           idset_reserve(b, index, n);
}

/* Room for the values of all nodes of `t`. */
static bool size_values(const struct tree *t, struct tree *values)
{
    struct budget *b = t->frames.dict->budget;
    size_t n = t->parent.len;

    return vec_resize(b, &values->self, n) && vec_resize(b, &values->total, n);
}

/* Makes the tree's nodes and has map say which of them each stack is. */
static bool add_stacks(struct tree *t, struct dict *d, size_t n_used, uint32_t *map)
{
    struct idset index = {0};
    size_t n_nodes = dict_n_nodes(d);
    bool collapses = t->frames.options.collapse_recursion;
    bool ok = reserve(t, &index, n_used);

    for (uint32_t n = 1; ok && n < n_nodes; n++) {
        if (map[n] == NOT_IN_TREE)
            continue;
        uint32_t at = map[d->node_parent.data[n]], count;
        size_t first = frames_of(&t->frames, d->node_location.data[n], &count);
        while (count-- > 0) {
            uint32_t frame = t->frames.ids.data[first + count];
            if (!collapses || frame != t->frame.data[at])
                at = child(t, &index, at, frame);
        }
        map[n] = at;
        ok = !budget_failed(d->budget);
    }
    idset_done(d->budget, &index);
    return ok && size_values(t, t);
}

/* Totals of values for the nodes of a shape, often their own. */
static void add_totals(const struct tree *shape, struct tree *values)
{
    for (size_t n = shape->parent.len; n-- > 0;) {
        int64_t *total = values->total.data;
        total[n] = (int64_t)((uint64_t)total[n] + (uint64_t)values->self.data[n]);
        if (n > 0) {
            int64_t *up = &total[shape->parent.data[n]];
            *up = (int64_t)((uint64_t)*up + (uint64_t)total[n]);
        }
    }
}

static void add_values(const struct tree *shape, struct tree *values, const int64_t *column,
                       const struct profile *p, const uint32_t *map)
{
    for (size_t i = 0; i < p->n_samples; i++) {
        int64_t *self = &values->self.data[map[p->node[i]]];
        *self = (int64_t)((uint64_t)*self + (uint64_t)column[i]);
    }
    add_totals(shape, values);
}

struct named {
    const char *name;
    uint32_t frame;
};

static int compare_named(const void *a, const void *b)
{
    const struct named *x = a, *y = b;
    int c = strcmp(x->name, y->name);
    return c ? c : (x->frame > y->frame) - (x->frame < y->frame);
}

/* The place of each frame's name among all names; equal names share one. Frames are few where
 * nodes are many: names are compared here and nowhere else. Returns how many places there are, 0
 * when the budget is spent. */
static size_t rank_names(struct tree *t, uint32_t *rank)
{
    struct budget *b = t->frames.dict->budget;
    size_t n = t->frames.all.len, n_ranks = 0;
    VEC(struct named) order = {0};

    if (vec_resize(b, &order, n)) {
        for (uint32_t i = 0; i < n; i++)
            order.data[i] = (struct named){i ? frames_name(&t->frames, i) : "", i};
        qsort(order.data, n, sizeof(*order.data), compare_named);
        for (size_t i = 0; i < n; i++) {
            bool is_new = i == 0 || strcmp(order.data[i].name, order.data[i - 1].name) != 0;
            n_ranks += is_new;
            rank[order.data[i].frame] = (uint32_t)n_ranks - 1;
        }
    }
    vec_done(b, &order);
    return n_ranks;
}

/* Nodes in the order of their names, those of one name as they are: `next` has a place for each
 * name and one more. */
static void order_by_rank(const struct tree *t, const uint32_t *rank, uint32_t *next,
                          size_t n_ranks, uint32_t *order)
{
    const uint32_t *frame = t->frame.data;
    for (size_t i = 0; i < t->parent.len; i++)
        next[rank[frame[i]] + 1]++;
    for (size_t i = 1; i <= n_ranks; i++)
        next[i] += next[i - 1];
    for (uint32_t i = 0; i < t->parent.len; i++)
        order[next[rank[frame[i]]]++] = i;
}

static void measure_depth(struct tree *t, uint32_t *depth)
{
    for (size_t i = 1; i < t->parent.len; i++) {
        depth[i] = depth[t->parent.data[i]] + 1;
        if (depth[i] > t->max_depth)
            t->max_depth = depth[i];
    }
}

/* All nodes in the order of their names, then each in front of its siblings, last first. */
static bool link_children(struct tree *t)
{
    struct budget *b = t->frames.dict->budget;
    size_t n = t->parent.len, n_frames = t->frames.all.len;
    VEC(uint32_t) rank = {0};
    VEC(uint32_t) next = {0};
    VEC(uint32_t) order = {0};
    VEC(uint32_t) depth = {0};
    bool ok = vec_resize(b, &t->first_child, n) && vec_resize(b, &t->next_sibling, n) &&
              vec_resize(b, &order, n) && vec_resize(b, &depth, n) &&
              vec_resize(b, &rank, n_frames) && vec_resize(b, &next, n_frames + 1);
    size_t n_ranks = ok ? rank_names(t, rank.data) : 0;

    if (n_ranks > 0) {
        order_by_rank(t, rank.data, next.data, n_ranks, order.data);
        for (size_t i = n; i-- > 0;) {
            uint32_t node = order.data[i], up = t->parent.data[node];
            if (node == 0)
                continue;
            t->next_sibling.data[node] = t->first_child.data[up];
            t->first_child.data[up] = node;
        }
        measure_depth(t, depth.data);
    }
    vec_done(b, &rank);
    vec_done(b, &next);
    vec_done(b, &order);
    vec_done(b, &depth);
    return n_ranks > 0 && !budget_failed(b);
}

static int build(const struct profile *p, const uint32_t *types, struct tree *ret,
                 struct tree *values, struct error *err)
{
    struct dict *d = p->dict;
    size_t n_nodes = dict_n_nodes(d);
    VEC(uint32_t) map = {0};

    (void)add_node(ret, 0, 0);
    bool ok = !budget_failed(d->budget) && vec_resize(d->budget, &map, n_nodes);
    if (ok) {
        memset(map.data, 0xff, n_nodes * sizeof(uint32_t));
        map.data[0] = 0;
        ok = add_stacks(ret, d, mark_used(p, map.data), map.data);
    }
    if (ok)
        add_values(ret, ret, p->values[types[0]], p, map.data);
    if (ok && values) {
        ok = size_values(ret, values);
        if (ok)
            add_values(ret, values, p->values[types[1]], p, map.data);
    }
    vec_done(d->budget, &map);
    ok = ok && link_children(ret);
    return ok ? 0 : budget_error(d->budget, err);
}

int tree_build(const struct profile *p, uint32_t type, struct frame_options options,
               struct tree *ret, struct error *err)
{
    *ret = (struct tree){0};
    frames_init(&ret->frames, p->dict, options);
    return build(p, &type, ret, NULL, err);
}

int tree_build_both(const struct profile *p, const uint32_t types[2], struct frame_options options,
                    struct tree *ret, struct tree *values, struct error *err)
{
    *ret = *values = (struct tree){0};
    frames_init(&ret->frames, p->dict, options);
    frames_init(&values->frames, p->dict, options);
    return build(p, types, ret, values, err);
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
        if (budget_failed(b) || !vec_resize(b, &t->self, t->parent.len) ||
            (other && !vec_resize(b, &other->self, t->parent.len)))
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

static bool copy_shape(const struct tree *t, struct tree *other)
{
    struct budget *b = t->frames.dict->budget;
    size_t n = t->parent.len;

    return vec_append(b, &other->parent, t->parent.data, n) &&
           vec_append(b, &other->frame, t->frame.data, n);
}

static bool invert(struct tree *t, struct tree *other)
{
    struct budget *b = t->frames.dict->budget;
    struct tree was = take_columns(t), other_was = {.frames = {.dict = t->frames.dict}};
    bool has_shape = other && other->parent.len > 0;
    if (other)
        other_was = take_columns(other);

    (void)add_node(t, 0, 0);
    invert_values(&was, &other_was, t, other);
    columns_done(&was);
    columns_done(&other_was);
    if (budget_failed(b) || !size_values(t, t) || (other && !size_values(t, other)) ||
        (has_shape && !copy_shape(t, other)))
        return false;
    add_totals(t, t);
    if (other)
        add_totals(t, other);
    return link_children(t) && (!has_shape || link_children(other));
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

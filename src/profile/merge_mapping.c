/*
 * One binary loaded at different addresses is one mapping: without this, address space
 * randomization would make every process's stacks its own.
 */
#include "base/hash.h"
#include "profile/merge_internal.h"
#include "profile/remap.h"

#define PAGE 0x1000u

struct unify {
    struct dict *dict;
    struct budget *budget;
    struct idset index;  /* mappings by key */
    VEC(uint32_t) canon; /* per mapping: the one that stands for it, or 0 while not seen */
    VEC(bool) seen_node;
    bool changed;
};

static uint64_t size_in_pages(const struct mapping *m)
{
    uint64_t size = m->limit - m->start;
    return (size + PAGE - 1) / PAGE;
}

static uint32_t identity(const struct mapping *m)
{
    return m->build_id ? m->build_id : m->file;
}

static bool is_same_binary(const struct mapping *a, const struct mapping *b)
{
    return size_in_pages(a) == size_in_pages(b) && a->offset == b->offset &&
           identity(a) == identity(b);
}

static void see_mapping(struct unify *u, uint32_t id)
{
    const struct mapping *all = u->dict->mappings.data;

    if (id == 0 || u->canon.data[id] != 0)
        return;
    uint64_t hash = hash_mix(hash_mix(size_in_pages(&all[id]), all[id].offset), identity(&all[id]));
    uint32_t found = IDSET_FIND(&u->index, hash, i, is_same_binary(&all[i], &all[id]));
    if (found == IDSET_NONE) {
        (void)idset_add(u->budget, &u->index, hash, id);
        found = id;
    }
    u->canon.data[id] = found;
    u->changed |= found != id;
}

/* Mappings in the order in which rows meet them, innermost frame first; the main one before all. */
static void see_rows(struct unify *u, const struct profile *p)
{
    const struct dict *d = u->dict;

    for (size_t i = 0; i < p->n_samples; i++) {
        for (uint32_t n = p->node[i]; !u->seen_node.data[n]; n = d->node_parent.data[n]) {
            u->seen_node.data[n] = true;
            see_mapping(u, d->locations.data[d->node_location.data[n]].mapping);
        }
    }
}

static uint32_t move_location(struct unify *u, uint32_t id)
{
    struct dict *d = u->dict;
    struct location l = d->locations.data[id];
    uint32_t to = u->canon.data[l.mapping];

    if (l.mapping == 0 || to == 0 || to == l.mapping)
        return id;
    l.address += d->mappings.data[to].start - d->mappings.data[l.mapping].start;
    l.mapping = to;
    /* dict_location may move the table that the lines stand in. */
    VEC(struct line) lines = {0};
    uint32_t ret = 0;
    if (vec_append(u->budget, &lines, d->lines.data + l.first_line, l.n_lines))
        ret = dict_location(d, l, lines.data, lines.len);
    vec_done(u->budget, &lines);
    return ret;
}

static void replace_mappings(struct unify *u, struct profile *out)
{
    size_t kept = 0;

    out->default_mapping = u->canon.data[out->default_mapping] ? u->canon.data[out->default_mapping]
                                                               : out->default_mapping;
    for (size_t i = 0; i < out->mappings.len; i++) {
        uint32_t id = out->mappings.data[i];
        if (u->canon.data[id] == 0 || u->canon.data[id] == id)
            out->mappings.data[kept++] = id;
    }
    out->mappings.len = kept;
}

static bool move_rows(struct unify *u, struct profile *out)
{
    size_t n = u->dict->locations.len;
    VEC(uint32_t) to = {0};
    bool ok = vec_resize(u->budget, &to, n);

    for (uint32_t i = 1; ok && i < n; i++) {
        to.data[i] = move_location(u, i);
        ok = to.data[i] != 0;
    }
    ok = ok && profile_remap_locations(out, to.data);
    vec_done(u->budget, &to);
    if (ok)
        replace_mappings(u, out);
    return ok;
}

/* Whether any two mappings of the dictionary could be one; else there is nothing to look for. */
static bool has_candidates(const struct dict *d)
{
    return d->mappings.len > 2;
}

bool merge_unify_mappings(struct profile *out, bool *ret_changed)
{
    struct dict *d = out->dict;
    struct unify u = {.dict = d, .budget = d->budget};

    if (!has_candidates(d))
        return true;
    bool ok = vec_resize(u.budget, &u.canon, d->mappings.len) &&
              vec_resize(u.budget, &u.seen_node, dict_n_nodes(d));
    if (ok) {
        u.seen_node.data[0] = true;
        if (out->mappings.len > 0)
            see_mapping(&u, out->mappings.data[0]);
        see_rows(&u, out);
        ok = !budget_failed(u.budget) && (!u.changed || move_rows(&u, out));
    }
    vec_done(u.budget, &u.canon);
    vec_done(u.budget, &u.seen_node);
    idset_done(u.budget, &u.index);
    *ret_changed = u.changed;
    return ok;
}

#include "profile/remap.h"

#define UNMAPPED UINT32_MAX
#define WANTED   (UINT32_MAX - 1)

/* Marks the nodes that samples use, and all above them. */
static void mark_used(const struct profile *p, uint32_t *map)
{
    const uint32_t *parent = p->dict->node_parent.data;

    for (size_t i = 0; i < p->n_samples; i++) {
        for (uint32_t n = p->node[i]; map[n] == UNMAPPED; n = parent[n])
            map[n] = WANTED;
    }
}

bool profile_remap_locations(struct profile *p, const uint32_t *to)
{
    struct dict *d = p->dict;
    size_t n_nodes = dict_n_nodes(d);
    VEC(uint32_t) map = {0};

    if (!vec_resize(d->budget, &map, n_nodes))
        return false;
    memset(map.data, 0xff, n_nodes * sizeof(uint32_t));
    map.data[0] = 0;
    mark_used(p, map.data);
    /* Parents come first, so each node finds its parent already replaced. */
    for (uint32_t n = 1; n < n_nodes && !budget_failed(d->budget); n++) {
        if (map.data[n] == WANTED)
            map.data[n] =
                dict_node(d, map.data[d->node_parent.data[n]], to[d->node_location.data[n]]);
    }
    bool ok = !budget_failed(d->budget);
    for (size_t i = 0; ok && i < p->n_samples; i++)
        p->node[i] = map.data[p->node[i]];
    vec_done(d->budget, &map);
    return ok;
}

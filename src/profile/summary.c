#include "profile/summary.h"

static void add_types(struct profile_summary *s, const struct profile *p)
{
    for (uint32_t t = 0; t < p->n_types; t++) {
        uint32_t at = 0;
        while (at < s->n_types &&
               (s->types[at].type != p->types[t].type || s->types[at].unit != p->types[t].unit))
            at++;
        if (at == PROFILE_TYPES_MAX)
            return;
        if (at == s->n_types)
            s->types[s->n_types++] = p->types[t];
        s->totals[at] += (uint64_t)profile_total(p, t);
    }
}

static void add_label_keys(struct profile_summary *s, const struct profile *p, struct budget *b)
{
    const struct dict *d = p->dict;
    VEC(uint8_t) seen = {0};

    if (!p->attrs || !vec_resize(b, &seen, d->attr_sets.len))
        return;
    for (size_t i = 0; i < p->n_samples; i++) {
        if (seen.data[p->attrs[i]]++)
            continue;
        seen.data[p->attrs[i]] = 1;
        struct attrs set = d->attr_sets.data[p->attrs[i]];
        for (uint32_t a = 0; a < set.n; a++) {
            uint32_t key = d->attributes.data[d->attr_ids.data[set.first + a]].key;
            size_t k = 0;
            while (k < s->label_keys.len && s->label_keys.data[k] != key)
                k++;
            if (k == s->label_keys.len && !vec_push(b, &s->label_keys, key))
                break;
        }
    }
    vec_done(b, &seen);
}

/* Depth of every node at once: a parent's is known before its children's. */
static void add_depths(struct profile_summary *s, const struct profile_set *set)
{
    const struct dict *d = set->dict;
    size_t n = dict_n_nodes(d);
    VEC(uint32_t) depth = {0}, frames = {0};
    VEC(uint8_t) seen = {0};

    if (vec_resize(set->budget, &depth, n) && vec_resize(set->budget, &frames, n) &&
        vec_resize(set->budget, &seen, n)) {
        for (size_t i = 1; i < n; i++) {
            uint32_t lines = d->locations.data[d->node_location.data[i]].n_lines;
            depth.data[i] = depth.data[d->node_parent.data[i]] + 1;
            frames.data[i] = frames.data[d->node_parent.data[i]] + (lines ? lines : 1);
        }
        for (size_t i = 0; i < set->profiles.len; i++) {
            const struct profile *p = set->profiles.data[i];
            for (size_t k = 0; k < p->n_samples; k++) {
                s->stacks += !seen.data[p->node[k]];
                seen.data[p->node[k]] = 1;
                if (depth.data[p->node[k]] > s->max_depth)
                    s->max_depth = depth.data[p->node[k]];
                if (frames.data[p->node[k]] > s->max_frames)
                    s->max_frames = frames.data[p->node[k]];
            }
        }
    }
    vec_done(set->budget, &depth);
    vec_done(set->budget, &frames);
    vec_done(set->budget, &seen);
}

void profile_summarize(const struct profile_set *set, struct profile_summary *ret)
{
    *ret = (struct profile_summary){0};
    for (size_t i = 0; i < set->profiles.len; i++) {
        const struct profile *p = set->profiles.data[i];
        ret->samples += p->n_samples;
        ret->has_times |= p->time_ns != NULL;
        ret->has_links |= p->link != NULL;
        add_types(ret, p);
        add_label_keys(ret, p, set->budget);
        if (p->time_unix_ns && (!ret->time_unix_ns || p->time_unix_ns < ret->time_unix_ns))
            ret->time_unix_ns = p->time_unix_ns;
        if (p->duration_ns > ret->duration_ns)
            ret->duration_ns = p->duration_ns;
    }
    add_depths(ret, set);
}

void profile_summary_done(const struct profile_set *set, struct profile_summary *s)
{
    vec_done(set->budget, &s->label_keys);
}

bool profile_has_new_resource(const struct profile_set *set, size_t i)
{
    const struct profile *p = set->profiles.data[i];

    return p->resource_attrs &&
           (i == 0 || p->resource_index != set->profiles.data[i - 1]->resource_index);
}

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

/* What was looked at already: attribute sets, and keys (strings). */
struct seen_labels {
    VEC(uint8_t) sets, keys;
};

static void add_label_keys(struct profile_summary *s, const struct profile *p,
                           struct seen_labels *seen, struct budget *b)
{
    const struct dict *d = p->dict;

    for (size_t i = 0; p->attrs && i < p->n_samples; i++) {
        struct attrs set = d->attr_sets.data[p->attrs[i]];
        if (seen->sets.data[p->attrs[i]])
            continue;
        seen->sets.data[p->attrs[i]] = 1;
        for (uint32_t a = 0; a < set.n; a++) {
            uint32_t key = d->attributes.data[d->attr_ids.data[set.first + a]].key;
            if (!seen->keys.data[key] && !vec_push(b, &s->label_keys, key))
                return;
            seen->keys.data[key] = 1;
        }
    }
}

/* One pass over all profiles, of which there may be very many. */
static void add_labels(struct profile_summary *s, const struct profile_set *set)
{
    struct seen_labels seen = {0};
    struct budget *b = set->budget;

    if (vec_resize(b, &seen.sets, set->dict->attr_sets.len) &&
        vec_resize(b, &seen.keys, set->dict->strings.len)) {
        for (size_t i = 0; i < set->profiles.len; i++)
            add_label_keys(s, set->profiles.data[i], &seen, b);
    }
    vec_done(b, &seen.sets);
    vec_done(b, &seen.keys);
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
        if (p->time_unix_ns && (!ret->time_unix_ns || p->time_unix_ns < ret->time_unix_ns))
            ret->time_unix_ns = p->time_unix_ns;
        if (p->duration_ns > ret->duration_ns)
            ret->duration_ns = p->duration_ns;
    }
    add_labels(ret, set);
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

/* Labels of samples at the nodes of a graph: what pictures hang under a node. */
#include "base/hash.h"
#include "profile/diff.h"
#include "profile/graph_internal.h"
#include "profile/labels.h"
#include "profile/measure.h"

struct tagging {
    struct graph *g;
    struct dict *dict;
    const struct graph_options *o;
    uint32_t bytes_key, base_key; /* strings */
    VEC(uint32_t) labels;         /* per attribute set: its joined labels, + 1; 0 is not known */
    VEC(uint32_t) seen;           /* per node: the sample that saw it last, + 1 */
    VEC(uint32_t) path;           /* locations of the stack at hand, innermost first */
};

static uint32_t labels_of(struct tagging *t, uint32_t set)
{
    if (set >= t->labels.len && !vec_resize(t->g->budget, &t->labels, t->dict->attr_sets.len))
        return 0;
    if (t->labels.data[set] == 0) {
        struct buf text = {0};
        label_join(t->dict, set, t->base_key, &text);
        t->labels.data[set] = dict_string(t->dict, buf_bytes(&text)) + 1;
        buf_done(&text);
    }
    return t->labels.data[set] - 1;
}

static bool tag_equal(const struct graph_tag *a, const struct graph_tag *b)
{
    return a->node == b->node && a->labels == b->labels && a->number == b->number;
}

static struct graph_tag *find_tag(struct graph *g, struct graph_tag wanted)
{
    uint64_t hash = hash_mix((uint64_t)wanted.node << 32 | wanted.labels, wanted.number);
    uint32_t id = IDSET_FIND(&g->tag_index, hash, i, tag_equal(&g->tags.data[i], &wanted));

    if (id != IDSET_NONE)
        return &g->tags.data[id];
    id = (uint32_t)g->tags.len;
    if (g->tags.len >= UINT32_MAX - 1 || !vec_push(g->budget, &g->tags, wanted) ||
        !idset_add(g->budget, &g->tag_index, hash, id)) {
        g->budget->failed = true;
        return NULL;
    }
    return &g->tags.data[id];
}

struct weight {
    int64_t value, divisor;
    bool is_flat;
};

static void add_tag(struct graph *g, struct graph_tag wanted, struct weight w)
{
    struct graph_tag *t = find_tag(g, wanted);

    if (!t)
        return;
    graph_add(w.is_flat ? &t->flat : &t->cum, w.value);
    graph_add(w.is_flat ? &t->flat_div : &t->cum_div, w.divisor);
}

/* Counts a sample's labels at one node. */
static void tag_node(struct tagging *t, uint32_t node, uint32_t set, struct weight w)
{
    struct dict *d = t->dict;
    struct attrs s = d->attr_sets.data[set];
    uint32_t labels = labels_of(t, set);

    if (labels != 0)
        add_tag(t->g, (struct graph_tag){.node = node, .labels = labels}, w);
    for (uint32_t i = 0; i < s.n && t->bytes_key; i++) {
        struct attribute a = d->attributes.data[d->attr_ids.data[s.first + i]];
        if (a.key != t->bytes_key || !label_is_number(&a))
            continue;
        uint32_t unit = t->o->label_units ? t->o->label_units[a.key] : a.unit;
        char text[MEASURE_TEXT_MAX];
        measure_label(a.number, dict_cstr(d, unit), t->o->unit, text);
        struct graph_tag tag = {.node = node, .labels = labels, .unit = unit, .value = a.number};
        tag.number = dict_cstring(d, text);
        add_tag(t->g, tag, w);
    }
}

static bool tag_sample(struct tagging *t, uint32_t stack, uint32_t set, struct weight w,
                       uint32_t serial)
{
    struct graph *g = t->g;
    const struct dict *d = t->dict;
    uint32_t node = 0;
    bool is_residual = false;

    vec_clear(&t->path);
    for (uint32_t n = stack; n != 0; n = d->node_parent.data[n]) {
        if (!vec_push(g->budget, &t->path, d->node_location.data[n]))
            return false;
    }
    for (size_t k = t->path.len; k-- > 0;) {
        uint32_t n;
        size_t first = frames_of(g->frames, t->path.data[k], &n);
        for (uint32_t i = n; i-- > 0;) {
            uint32_t at = graph_node_of(g, node, g->frames->ids.data[first + i], t->o->kept);
            is_residual = at == 0;
            if (at == 0)
                continue;
            if (t->seen.data[at] != serial)
                tag_node(t, at, set, w);
            t->seen.data[at] = serial;
            node = at;
        }
    }
    w.is_flat = true;
    if (node != 0 && !is_residual)
        tag_node(t, node, set, w);
    return !budget_failed(g->budget);
}

bool graph_add_tags(struct graph *g, const struct profile *p, const struct graph_options *o)
{
    struct tagging t = {.g = g, .dict = p->dict, .o = o};
    t.bytes_key = dict_find_string(p->dict, BYTES("bytes"));
    t.base_key = dict_find_string(p->dict, BYTES(DIFF_BASE_KEY));
    bool ok = vec_resize(g->budget, &t.seen, g->nodes.len);

    for (size_t i = 0; ok && p->attrs && i < p->n_samples; i++) {
        struct weight w = {.value = p->values[o->type][i],
                           .divisor = o->mean ? p->values[0][i] : 0};
        if (p->attrs[i] != 0 && (w.value != 0 || w.divisor != 0))
            ok = tag_sample(&t, p->node[i], p->attrs[i], w, (uint32_t)i + 1);
    }
    vec_done(g->budget, &t.labels);
    vec_done(g->budget, &t.seen);
    vec_done(g->budget, &t.path);
    return ok;
}

/* Labels as frames: tagroot and tagleaf. */
#include "profile/measure.h"
#include "profile/tag_filter.h"

struct tag_keys {
    VEC(uint32_t) ids; /* strings, in the order given */
    bool matched;
};

struct tag_frames {
    struct dict *dict;
    const char *unit;
    struct tag_keys roots, leaves;
    VEC(uint32_t) root_node; /* per attribute set: the stack of its root frames, + 1 */
    VEC(uint32_t) moved;     /* locations of the stack at hand */
};

static bool parse_keys(struct dict *d, const char *list, struct tag_keys *ret)
{
    struct bytes rest = list ? bytes_of(list) : (struct bytes){0};

    while (rest.len > 0) {
        const uint8_t *comma = bytes_find_byte(rest, ',');
        struct bytes key = comma ? bytes_head(rest, (size_t)(comma - rest.data)) : rest;
        if (key.len > 0 && !vec_push(d->budget, &ret->ids, dict_string(d, key)))
            return false;
        rest = bytes_from(rest, key.len + 1);
    }
    return true;
}

static void add_value(const struct tag_frames *t, const struct attribute *a, struct buf *name)
{
    char text[MEASURE_TEXT_MAX];

    if (name->len > 0)
        buf_add_byte(name, ',');
    if (!label_is_number(a)) {
        label_add_text(t->dict, a, name);
        return;
    }
    measure_label(a->number, dict_cstr(t->dict, a->unit), a->unit ? t->unit : "", text);
    buf_add_str(name, text);
}

/* The location named after the values that a set has for a key: text first, then numbers. */
static uint32_t label_location(struct tag_frames *t, struct tag_keys *keys, uint32_t set,
                               uint32_t key)
{
    struct dict *d = t->dict;
    struct attrs s = d->attr_sets.data[set];
    struct buf name = {0};

    for (int numbers = 0; numbers < 2; numbers++) {
        for (uint32_t i = 0; i < s.n; i++) {
            const struct attribute *a = &d->attributes.data[d->attr_ids.data[s.first + i]];
            if (a->key != key || label_is_number(a) != (numbers == 1))
                continue;
            keys->matched = true;
            add_value(t, a, &name);
        }
    }
    struct function f = {.name = dict_string(d, buf_bytes(&name)), .file = key};
    struct line line = {.function = dict_function(d, f)};
    buf_done(&name);
    return dict_location(d, (struct location){0}, &line, 1);
}

static uint32_t root_of(struct tag_frames *t, uint32_t set)
{
    uint32_t node = 0;

    if (set < t->root_node.len && t->root_node.data[set] != 0)
        return t->root_node.data[set] - 1;
    for (size_t i = 0; i < t->roots.ids.len; i++)
        node = dict_node(t->dict, node, label_location(t, &t->roots, set, t->roots.ids.data[i]));
    if (set < t->root_node.len)
        t->root_node.data[set] = node + 1;
    return node;
}

static uint32_t framed_stack(struct tag_frames *t, uint32_t stack, uint32_t set)
{
    struct dict *d = t->dict;
    uint32_t node = stack;

    if (t->roots.ids.len > 0) {
        vec_clear(&t->moved);
        for (uint32_t n = stack; n != 0; n = d->node_parent.data[n])
            (void)vec_push(d->budget, &t->moved, d->node_location.data[n]);
        node = root_of(t, set);
        for (size_t i = t->moved.len; i-- > 0;)
            node = dict_node(d, node, t->moved.data[i]);
    }
    for (size_t i = 0; i < t->leaves.ids.len; i++)
        node = dict_node(d, node, label_location(t, &t->leaves, set, t->leaves.ids.data[i]));
    return node;
}

bool profile_add_tag_frames(struct profile *p, const char *roots, const char *leaves,
                            const char *unit, bool *ret_root, bool *ret_leaf)
{
    struct dict *d = p->dict;
    struct tag_frames t = {.dict = d, .unit = unit};
    bool ok = parse_keys(d, roots, &t.roots) && parse_keys(d, leaves, &t.leaves) &&
              vec_resize(d->budget, &t.root_node, d->attr_sets.len);

    for (size_t i = 0; ok && i < p->n_samples && t.roots.ids.len + t.leaves.ids.len > 0; i++) {
        p->node[i] = framed_stack(&t, p->node[i], profile_attrs(p, i));
        ok = !budget_failed(d->budget);
    }
    vec_done(d->budget, &t.roots.ids);
    vec_done(d->budget, &t.leaves.ids);
    vec_done(d->budget, &t.root_node);
    vec_done(d->budget, &t.moved);
    *ret_root = t.roots.matched;
    *ret_leaf = t.leaves.matched;
    return ok;
}

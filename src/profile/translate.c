#include "profile/translate.h"

#include <stdlib.h>
#include <string.h>

#include "base/must.h"

/* Where each map begins in the one block that holds them all. */
static size_t lay_out(struct translate *t, uint32_t *block)
{
    const struct dict *d = t->from;
    size_t at = 0;
    struct {
        uint32_t **map;
        size_t n;
    } maps[] = {
        {&t->nodes, d->node_parent.len},   {&t->locations, d->locations.len},
        {&t->strings, d->strings.len},     {&t->functions, d->functions.len},
        {&t->mappings, d->mappings.len},   {&t->attributes, d->attributes.len},
        {&t->attr_sets, d->attr_sets.len},
    };

    for (size_t i = 0; i < sizeof(maps) / sizeof(maps[0]); i++) {
        if (block)
            *maps[i].map = block + at;
        at += maps[i].n;
    }
    return at * sizeof(uint32_t);
}

bool translate_init(struct translate *t, const struct dict *from, struct dict *to)
{
    *t = (struct translate){.from = from, .to = to};
    size_t size = lay_out(t, NULL);

    if (!budget_take(to->budget, size))
        return false;
    t->charged = size;
    uint32_t *block = must_calloc(1, size);
    lay_out(t, block);
    return true;
}

void translate_done(struct translate *t)
{
    struct budget *b = t->to->budget;

    vec_done(b, &t->path);
    vec_done(b, &t->frames);
    vec_done(b, &t->lines);
    vec_done(b, &t->ids);
    free(t->nodes);
    budget_give(b, t->charged);
    *t = (struct translate){.from = t->from, .to = t->to};
}

uint32_t translate_string(struct translate *t, uint32_t id)
{
    if (!t->nodes || id == 0 || id >= t->from->strings.len)
        return 0;
    if (!t->strings[id])
        t->strings[id] = dict_string(t->to, dict_text(t->from, id));
    return t->strings[id];
}

uint32_t translate_function(struct translate *t, uint32_t id)
{
    if (!t->nodes || id == 0 || id >= t->from->functions.len)
        return 0;
    if (!t->functions[id]) {
        struct function f = t->from->functions.data[id];

        f.name = translate_string(t, f.name);
        f.system_name = translate_string(t, f.system_name);
        f.file = translate_string(t, f.file);
        t->functions[id] = dict_function(t->to, f);
    }
    return t->functions[id];
}

static uint32_t translate_attribute(struct translate *t, uint32_t id)
{
    if (id == 0 || id >= t->from->attributes.len)
        return 0;
    if (!t->attributes[id]) {
        struct attribute a = t->from->attributes.data[id];

        a.key = translate_string(t, a.key);
        a.unit = translate_string(t, a.unit);
        a.text = translate_string(t, a.text);
        t->attributes[id] = dict_attribute(t->to, a);
    }
    return t->attributes[id];
}

uint32_t translate_attrs(struct translate *t, uint32_t id)
{
    if (!t->nodes || id == 0 || id >= t->from->attr_sets.len)
        return 0;
    if (!t->attr_sets[id]) {
        struct attrs set = t->from->attr_sets.data[id];

        vec_clear(&t->ids);
        for (uint32_t i = 0; i < set.n; i++) {
            uint32_t a = t->from->attr_ids.data[set.first + i];
            (void)vec_push(t->to->budget, &t->ids, translate_attribute(t, a));
        }
        t->attr_sets[id] = dict_attrs(t->to, t->ids.data, t->ids.len);
    }
    return t->attr_sets[id];
}

uint32_t translate_mapping(struct translate *t, uint32_t id)
{
    if (!t->nodes || id == 0 || id >= t->from->mappings.len)
        return 0;
    if (!t->mappings[id]) {
        struct mapping m = t->from->mappings.data[id];

        m.file = translate_string(t, m.file);
        m.build_id = translate_string(t, m.build_id);
        m.attrs = translate_attrs(t, m.attrs);
        t->mappings[id] = dict_mapping(t->to, m);
    }
    return t->mappings[id];
}

static uint32_t add_location(struct translate *t, struct location l)
{
    vec_clear(&t->lines);
    for (uint32_t i = 0; i < l.n_lines; i++) {
        struct line line = t->from->lines.data[l.first_line + i];

        line.function = translate_function(t, line.function);
        if (!vec_push(t->to->budget, &t->lines, line))
            return 0;
    }
    l.mapping = translate_mapping(t, l.mapping);
    l.type = translate_string(t, l.type);
    l.attrs = translate_attrs(t, l.attrs);
    return dict_location(t->to, l, t->lines.data, t->lines.len);
}

uint32_t translate_location(struct translate *t, uint32_t id)
{
    if (!t->nodes || id == 0 || id >= t->from->locations.len)
        return 0;
    if (!t->locations[id])
        t->locations[id] = add_location(t, t->from->locations.data[id]);
    return t->locations[id];
}

/* Goes up until a stack is known, then adds all that is below at once. */
uint32_t translate_node(struct translate *t, uint32_t id)
{
    const struct dict *from = t->from;
    struct budget *b = t->to->budget;
    uint32_t n = id;

    if (!t->nodes || id == 0 || id >= from->node_parent.len)
        return 0;
    if (t->nodes[id])
        return t->nodes[id];
    vec_clear(&t->path);
    for (; n != 0 && !t->nodes[n]; n = from->node_parent.data[n]) {
        if (!vec_push(b, &t->path, n))
            return 0;
    }
    size_t len = t->path.len;
    /* The locations, then the stacks they become: the outermost of these first. */
    if (!vec_resize(b, &t->frames, 2 * len))
        return 0;
    uint32_t *locations = t->frames.data, *stacks = t->frames.data + len;
    for (size_t i = 0; i < len; i++) {
        locations[i] = translate_location(t, from->node_location.data[t->path.data[i]]);
        if (locations[i] == 0)
            return 0;
    }
    uint32_t mapped = dict_path(t->to, t->nodes[n], locations, len, stacks);
    if (budget_failed(b))
        return 0;
    for (size_t i = 0; i < len; i++)
        t->nodes[t->path.data[i]] = stacks[len - 1 - i];
    return mapped;
}

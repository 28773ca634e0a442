#include "server/api_mask.h"

#include "profile/remap.h"

typedef VEC(uint32_t) ids;

/* What each element of the dictionary becomes; the tables are as long as they were at the start. */
struct masking {
    struct mask *mask;
    struct dict *dict;
    struct budget *budget;
    ids strings[STORE_ROLES]; /* per string: what it becomes + 1; 0 is not known yet */
    ids functions, mappings, attributes, sets, locations;
    struct buf text;
    bool has_changed;
};

static void masking_done(struct masking *m)
{
    for (size_t i = 0; i < STORE_ROLES; i++)
        vec_done(m->budget, &m->strings[i]);
    vec_done(m->budget, &m->functions);
    vec_done(m->budget, &m->mappings);
    vec_done(m->budget, &m->attributes);
    vec_done(m->budget, &m->sets);
    vec_done(m->budget, &m->locations);
    buf_done(&m->text);
}

static uint32_t mask_string(struct masking *m, enum store_role role, uint32_t id)
{
    ids *known = &m->strings[role];
    if (id == 0 || id >= known->len)
        return id;
    if (known->data[id] == 0) {
        uint32_t to = id;
        buf_clear(&m->text);
        if (mask_text(m->mask, role, dict_text(m->dict, id), &m->text))
            to = dict_string(m->dict, buf_bytes(&m->text));
        known->data[id] = to + 1;
    }
    return known->data[id] - 1;
}

static void mask_functions(struct masking *m)
{
    for (uint32_t i = 1; i < m->functions.len && !budget_failed(m->budget); i++) {
        struct function f = m->dict->functions.data[i], was = f;
        f.name = mask_string(m, STORE_NAMES, f.name);
        f.system_name = mask_string(m, STORE_NAMES, f.system_name);
        f.file = mask_string(m, STORE_PATHS, f.file);
        bool is_same = f.name == was.name && f.system_name == was.system_name && f.file == was.file;
        m->functions.data[i] = is_same ? i : dict_function(m->dict, f);
    }
}

static void mask_attributes(struct masking *m)
{
    for (uint32_t i = 1; i < m->attributes.len && !budget_failed(m->budget); i++) {
        struct attribute a = m->dict->attributes.data[i];
        uint32_t text = a.kind == ATTRIBUTE_STRING ? mask_string(m, STORE_VALUES, a.text) : a.text;
        bool is_same = text == a.text;
        a.text = text;
        m->attributes.data[i] = is_same ? i : dict_attribute(m->dict, a);
    }
}

static void mask_sets(struct masking *m)
{
    ids set = {0};
    for (uint32_t i = 1; i < m->sets.len && !budget_failed(m->budget); i++) {
        struct attrs a = m->dict->attr_sets.data[i];
        bool is_same = true;
        vec_clear(&set);
        for (uint32_t k = 0; k < a.n; k++) {
            uint32_t from = m->dict->attr_ids.data[a.first + k], to = m->attributes.data[from];
            is_same &= from == to;
            if (!vec_push(m->budget, &set, to))
                break;
        }
        m->sets.data[i] = is_same ? i : dict_attrs(m->dict, set.data, set.len);
        m->has_changed |= !is_same;
    }
    vec_done(m->budget, &set);
}

static void mask_mappings(struct masking *m)
{
    for (uint32_t i = 1; i < m->mappings.len && !budget_failed(m->budget); i++) {
        struct mapping x = m->dict->mappings.data[i], was = x;
        x.file = mask_string(m, STORE_PATHS, x.file);
        x.attrs = m->sets.data[x.attrs];
        bool is_same = x.file == was.file && x.attrs == was.attrs;
        m->mappings.data[i] = is_same ? i : dict_mapping(m->dict, x);
        m->has_changed |= !is_same;
    }
}

static uint32_t mask_location(struct masking *m, uint32_t id)
{
    struct location l = m->dict->locations.data[id];
    VEC(struct line) lines = {0};
    bool is_same = m->mappings.data[l.mapping] == l.mapping && m->sets.data[l.attrs] == l.attrs;

    for (uint32_t k = 0; k < l.n_lines; k++) {
        struct line line = m->dict->lines.data[l.first_line + k];
        is_same &= m->functions.data[line.function] == line.function;
        line.function = m->functions.data[line.function];
        if (!vec_push(m->budget, &lines, line))
            break;
    }
    l.mapping = m->mappings.data[l.mapping];
    l.attrs = m->sets.data[l.attrs];
    uint32_t to = is_same ? id : dict_location(m->dict, l, lines.data, lines.len);
    m->has_changed |= !is_same;
    vec_done(m->budget, &lines);
    return to;
}

static bool start(struct masking *m)
{
    struct dict *d = m->dict;
    bool ok = vec_resize(m->budget, &m->functions, d->functions.len) &&
              vec_resize(m->budget, &m->mappings, d->mappings.len) &&
              vec_resize(m->budget, &m->attributes, d->attributes.len) &&
              vec_resize(m->budget, &m->sets, d->attr_sets.len) &&
              vec_resize(m->budget, &m->locations, d->locations.len);
    for (size_t i = 0; ok && i < STORE_ROLES; i++)
        ok = vec_resize(m->budget, &m->strings[i], d->strings.len);
    return ok;
}

/* What a profile refers to beside its stacks. */
static void mask_rows(struct masking *m, struct profile *p)
{
    for (size_t i = 0; p->attrs && i < p->n_samples; i++)
        p->attrs[i] = m->sets.data[p->attrs[i]];
    for (size_t i = 0; i < p->mappings.len; i++)
        p->mappings.data[i] = m->mappings.data[p->mappings.data[i]];
    p->default_mapping = m->mappings.data[p->default_mapping];
    p->resource_attrs = m->sets.data[p->resource_attrs];
    p->scope_attrs = m->sets.data[p->scope_attrs];
    p->profile_attrs = m->sets.data[p->profile_attrs];
}

int api_mask(struct mask *mask, struct profile *p, struct error *err)
{
    CLEANUP(masking_done)
    struct masking m = {.mask = mask, .dict = p->dict, .budget = p->dict->budget};

    if (start(&m)) {
        mask_functions(&m);
        mask_attributes(&m);
        mask_sets(&m);
        mask_mappings(&m);
        for (uint32_t i = 1; i < m.locations.len && !budget_failed(m.budget); i++)
            m.locations.data[i] = mask_location(&m, i);
    }
    if (!budget_failed(m.budget) && m.has_changed) {
        mask_rows(&m, p);
        (void)profile_remap_locations(p, m.locations.data);
    }
    return budget_failed(m.budget) ? budget_error(m.budget, err) : 0;
}

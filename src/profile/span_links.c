#include "profile/span_links.h"

#include "base/hex.h"

/* Labels of a set that say a span, as ids of attributes; 0: not there. */
struct found {
    uint32_t span, trace;
    struct link link;
};

struct maker {
    struct dict *dict;
    uint32_t span_id, profile_id, trace_id, span_number; /* keys, 0 when no label has it */
    VEC(uint32_t) scratch;

    uint32_t from_attrs, attrs, link; /* what was found out last */
};

/* True when the text is exactly n bytes in hexadecimal, not all of them 0. */
static bool read_hex(struct bytes text, uint8_t *to, size_t n)
{
    uint8_t id[16], any = 0;

    if (n > sizeof(id) || !hex_decode(text, id, n))
        return false;
    for (size_t i = 0; i < n; i++)
        any |= id[i];
    if (any)
        memcpy(to, id, n);
    return any != 0;
}

static void look_at(const struct maker *m, uint32_t id, struct found *f)
{
    const struct attribute *a = &m->dict->attributes.data[id];
    struct bytes text = dict_text(m->dict, a->text);
    bool is_text = a->kind == ATTRIBUTE_STRING;

    if (a->key == 0)
        return;
    if (a->key == m->trace_id && is_text && read_hex(text, f->link.trace_id, 16)) {
        f->trace = id;
    } else if ((a->key == m->span_id || (a->key == m->profile_id && f->span == 0)) && is_text &&
               read_hex(text, f->link.span_id, 8)) {
        f->span = id;
    } else if (a->key == m->span_number && a->kind == ATTRIBUTE_INT && a->number != 0) {
        for (int i = 0; i < 8; i++)
            f->link.span_id[i] = (uint8_t)((uint64_t)a->number >> (56 - 8 * i));
        f->span = id;
    }
}

/* The set without the labels that became the link, and the link. */
static void convert(struct maker *m, uint32_t set)
{
    struct dict *d = m->dict;
    struct attrs old = d->attr_sets.data[set];
    struct found f = {0};

    m->from_attrs = m->attrs = set;
    m->link = 0;
    for (uint32_t i = 0; i < old.n; i++)
        look_at(m, d->attr_ids.data[old.first + i], &f);
    if (f.span == 0)
        return;
    vec_clear(&m->scratch);
    for (uint32_t i = 0; i < old.n; i++) {
        uint32_t id = d->attr_ids.data[old.first + i];
        if (id != f.span && id != f.trace)
            vec_push(d->budget, &m->scratch, id);
    }
    m->attrs = dict_attrs(d, m->scratch.data, m->scratch.len);
    m->link = dict_link(d, f.link);
}

static void link_profile(struct maker *m, struct profile *p)
{
    for (size_t i = 0; p->attrs && i < p->n_samples && !budget_failed(m->dict->budget); i++) {
        if (p->attrs[i] == 0 || profile_link(p, i) != 0)
            continue;
        if (p->attrs[i] != m->from_attrs)
            convert(m, p->attrs[i]);
        if (m->link == 0 || !profile_need_links(p))
            continue;
        p->attrs[i] = m->attrs;
        p->link[i] = m->link;
    }
}

int span_links_make(struct profile_set *set, size_t first, struct error *err)
{
    struct dict *d = set->dict;
    struct maker m = {
        .dict = d,
        .span_id = dict_find_string(d, BYTES("span_id")),
        .profile_id = dict_find_string(d, BYTES("profile_id")),
        .trace_id = dict_find_string(d, BYTES("trace_id")),
        .span_number = dict_find_string(d, BYTES("span id")),
    };

    if (m.span_id || m.profile_id || m.span_number) {
        for (size_t i = first; i < set->profiles.len; i++)
            link_profile(&m, set->profiles.data[i]);
    }
    vec_done(d->budget, &m.scratch);
    return budget_failed(d->budget) ? budget_error(d->budget, err) : 0;
}

#include <errno.h>

#include "base/hash.h"
#include "base/vec.h"
#include "formats/jfr.h"
#include "formats/jfr_internal.h"
#include "wire/protobuf.h"

#define LABELS_MAX 256 /* of one context; every sample that has it gets them all */

/* A label of a context: string ids of the snapshot. */
struct pair {
    uint64_t key, value;
};

struct context {
    size_t first, n; /* into pairs */
};

struct snapshot {
    struct profile_set *set;
    struct bytes content;
    struct error *err;
    struct jfr_ids context_ids, string_ids;
    VEC(struct context) contexts;
    VEC(uint32_t) strings; /* dictionary ids */
    VEC(struct pair) pairs;
    VEC(uint32_t) scratch;
    VEC(uint32_t) to; /* new attribute set by old one */
    uint32_t context_key, span_key, span_label;
};

static void snapshot_done(struct snapshot *s)
{
    struct budget *b = s->set->budget;

    jfr_ids_done(b, &s->context_ids);
    jfr_ids_done(b, &s->string_ids);
    vec_done(b, &s->contexts);
    vec_done(b, &s->strings);
    vec_done(b, &s->pairs);
    vec_done(b, &s->scratch);
    vec_done(b, &s->to);
}

static int check(const struct snapshot *s, const struct pb_reader *r)
{
    if (budget_failed(s->set->budget))
        return budget_error(s->set->budget, s->err);
    if (r->failure)
        return error_set(s->err, -EBADMSG, "jfr labels at byte %zu: %s",
                         pb_offset(r, s->content.data), r->failure);
    return 0;
}

/* An entry of a map: field 1 is the key, field 2 the value, a number or bytes. */
static struct pb_reader read_entry(struct bytes entry, uint64_t *ret_key, uint64_t *ret_number,
                                   struct bytes *ret_bytes)
{
    struct pb_reader r = pb_reader(entry);

    while (pb_next(&r)) {
        if (r.field == 1)
            *ret_key = pb_u64(&r);
        else if (r.field == 2 && ret_bytes)
            *ret_bytes = pb_bytes(&r);
        else if (r.field == 2)
            *ret_number = pb_u64(&r);
    }
    return r;
}

static int read_context(struct snapshot *s, struct bytes entry)
{
    struct budget *b = s->set->budget;
    uint64_t id = 0;
    struct bytes message = {0};
    struct pb_reader r = read_entry(entry, &id, NULL, &message);
    int e = check(s, &r);
    if (e < 0)
        return e;

    struct context c = {.first = s->pairs.len};
    r = pb_reader(message);
    while (pb_next(&r)) {
        struct pair p = {0};
        if (r.field != 1)
            continue;
        struct pb_reader inner = read_entry(pb_bytes(&r), &p.key, &p.value, NULL);
        if (!r.failure && (e = check(s, &inner)) < 0)
            return e;
        vec_push(b, &s->pairs, p);
    }
    c.n = s->pairs.len - c.first;
    if (c.n > LABELS_MAX)
        return error_set(
            s->err, -EBADMSG, "jfr labels at byte %zu: context %llu has %zu labels, more than %d",
            (size_t)(message.data - s->content.data), (unsigned long long)id, c.n, LABELS_MAX);
    if (!r.failure && jfr_ids_add(b, &s->context_ids, id) != JFR_NO_ID)
        vec_push(b, &s->contexts, c);
    return check(s, &r);
}

static int read_string(struct snapshot *s, struct bytes entry)
{
    struct budget *b = s->set->budget;
    uint64_t id = 0;
    struct bytes text = {0};
    struct pb_reader r = read_entry(entry, &id, NULL, &text);

    if (!r.failure && jfr_ids_add(b, &s->string_ids, id) != JFR_NO_ID)
        vec_push(b, &s->strings, dict_string(s->set->dict, text));
    return check(s, &r);
}

static int read_snapshot(struct snapshot *s)
{
    struct pb_reader r = pb_reader(s->content);

    while (pb_next(&r)) {
        struct bytes entry = r.field == 1 || r.field == 2 ? pb_bytes(&r) : (struct bytes){0};
        int e = r.failure      ? 0
                : r.field == 1 ? read_context(s, entry)
                : r.field == 2 ? read_string(s, entry)
                               : 0;
        if (e < 0)
            return e;
    }
    return check(s, &r);
}

static uint32_t string_of(const struct snapshot *s, uint64_t id)
{
    uint32_t at = jfr_ids_find(&s->string_ids, id);
    return at == JFR_NO_ID ? 0 : s->strings.data[at];
}

static void add_context(struct snapshot *s, uint64_t id)
{
    uint32_t at = jfr_ids_find(&s->context_ids, id);

    if (at == JFR_NO_ID)
        return;
    const struct context *c = &s->contexts.data[at];
    for (size_t i = 0; i < c->n; i++) {
        const struct pair *p = &s->pairs.data[c->first + i];
        uint32_t key = string_of(s, p->key);
        if (key)
            vec_push(s->set->budget, &s->scratch,
                     dict_string_attribute(s->set->dict, key, string_of(s, p->value)));
    }
}

/* The attribute set with labels in place of numbers. */
static uint32_t relabel(struct snapshot *s, uint32_t set)
{
    struct dict *d = s->set->dict;
    struct attrs old = d->attr_sets.data[set];

    vec_clear(&s->scratch);
    for (uint32_t i = 0; i < old.n; i++) {
        uint32_t id = d->attr_ids.data[old.first + i];
        struct attribute a = d->attributes.data[id];
        if (a.key == s->context_key) {
            add_context(s, (uint64_t)a.number);
        } else if (a.key == s->span_key) {
            uint32_t name = string_of(s, (uint64_t)a.number);
            if (name)
                vec_push(d->budget, &s->scratch, dict_string_attribute(d, s->span_label, name));
        } else {
            vec_push(d->budget, &s->scratch, id);
        }
    }
    return dict_attrs(d, s->scratch.data, s->scratch.len);
}

int jfr_apply_labels(struct profile_set *set, size_t first, struct bytes snapshot,
                     struct error *err)
{
    struct budget *b = set->budget;
    struct dict *d = set->dict;
    CLEANUP(snapshot_done) struct snapshot s = {.set = set, .content = snapshot, .err = err};
    int r = read_snapshot(&s);
    if (r < 0)
        return r;

    s.context_key = dict_cstring(d, JFR_CONTEXT_KEY);
    s.span_key = dict_cstring(d, JFR_SPAN_NAME_KEY);
    s.span_label = dict_cstring(d, "span_name");
    size_t n_sets = d->attr_sets.len;
    if (!vec_resize(b, &s.to, n_sets) || !s.to.data)
        return budget_error(b, err);
    for (uint32_t i = 0; i < n_sets && !budget_failed(b); i++)
        s.to.data[i] = relabel(&s, i);
    if (budget_failed(b))
        return budget_error(b, err);
    for (size_t i = first; i < set->profiles.len; i++) {
        struct profile *p = set->profiles.data[i];
        for (size_t k = 0; p->attrs && k < p->n_samples; k++)
            p->attrs[k] = s.to.data[p->attrs[k]];
    }
    return 0;
}

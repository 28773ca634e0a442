/*
 * An OTLP profile has one sample type. The types of one pprof profile are therefore written as
 * several profiles of one scope, and the scope's attributes tell the order they had and the type to
 * show. Here they become one profile again; nothing else is ever joined.
 */
#include "formats/otlp_internal.h"

static uint32_t scope_attribute(const struct otlp *o, const struct profile *p, const char *key)
{
    uint32_t string = dict_find_string(o->dict, bytes_of(key));

    return string ? dict_attrs_get(o->dict, p->scope_attrs, string) : 0;
}

static bool same_column(const void *a, const void *b, size_t n, size_t size)
{
    static const uint64_t zero;

    if (a && b)
        return n == 0 || memcmp(a, b, n * size) == 0;
    const uint8_t *one = a ? a : b;
    for (size_t i = 0; one && i < n; i++) {
        if (memcmp(one + i * size, &zero, size) != 0)
            return false;
    }
    return true;
}

static bool same_samples(const struct profile *a, const struct profile *b)
{
    size_t n = a->n_samples;

    return n == b->n_samples && same_column(a->node, b->node, n, sizeof(*a->node)) &&
           same_column(a->attrs, b->attrs, n, sizeof(*a->attrs)) &&
           same_column(a->link, b->link, n, sizeof(*a->link)) &&
           same_column(a->time_ns, b->time_ns, n, sizeof(*a->time_ns));
}

/* What identifies a profile stands in the first part, and need not be repeated. */
static bool same_identity(const struct profile *a, const struct profile *b)
{
    static const uint8_t no_id[sizeof(a->profile_id)];

    return (b->original_payload == 0 || (a->original_format == b->original_format &&
                                         a->original_payload == b->original_payload)) &&
           (b->dropped_attributes == 0 || a->dropped_attributes == b->dropped_attributes) &&
           (memcmp(b->profile_id, no_id, sizeof(no_id)) == 0 ||
            memcmp(a->profile_id, b->profile_id, sizeof(no_id)) == 0);
}

static bool same_header(const struct profile *a, const struct profile *b)
{
    return a->time_unix_ns == b->time_unix_ns && a->duration_ns == b->duration_ns &&
           a->period == b->period && a->period_type.type == b->period_type.type &&
           a->period_type.unit == b->period_type.unit && a->drop_frames == b->drop_frames &&
           a->keep_frames == b->keep_frames && a->doc_url == b->doc_url &&
           a->profile_attrs == b->profile_attrs && a->is_cumulative == b->is_cumulative &&
           a->comments.len == b->comments.len &&
           same_column(a->comments.data, b->comments.data, a->comments.len,
                       sizeof(*a->comments.data));
}

/* order[i] is the column that profile i was: true when they name each column once. */
static bool is_permutation(const int64_t *order, size_t n)
{
    uint64_t seen = 0;

    for (size_t i = 0; i < n; i++) {
        if (order[i] < 0 || order[i] >= (int64_t)n)
            return false;
        seen |= (uint64_t)1 << order[i];
    }
    return n == 64 ? seen == UINT64_MAX : seen == ((uint64_t)1 << n) - 1;
}

static bool joinable(struct profile *const *parts, const int64_t *order, size_t n)
{
    if (!is_permutation(order, n))
        return false;
    for (size_t i = 0; i < n; i++) {
        if (parts[i]->n_types != 1 || !same_samples(parts[0], parts[i]) ||
            !same_header(parts[0], parts[i]) || !same_identity(parts[0], parts[i]))
            return false;
        for (size_t j = 0; j < i; j++) {
            if (parts[j]->types[0].type == parts[i]->types[0].type &&
                parts[j]->types[0].unit == parts[i]->types[0].unit)
                return false;
        }
    }
    return true;
}

/* The scope's attributes without the two that were put to use. */
static uint32_t without(struct otlp *o, uint32_t set, uint32_t a, uint32_t b)
{
    struct attrs s = o->dict->attr_sets.data[set];

    vec_clear(&o->ids);
    for (uint32_t i = 0; i < s.n; i++) {
        uint32_t id = o->dict->attr_ids.data[s.first + i];
        if (id != a && id != b)
            vec_push(o->budget, &o->ids, id);
    }
    return dict_attrs(o->dict, o->ids.data, o->ids.len);
}

/* Moves the columns into parts[0]. All parts have equal samples, so equal capacities will do. */
static bool join(struct profile **parts, const int64_t *order, size_t n)
{
    struct profile *p = parts[0];
    struct value_type types[PROFILE_TYPES_MAX];
    int64_t *columns[PROFILE_TYPES_MAX];

    for (size_t i = 1; i < n; i++) {
        if (profile_add_type(p, parts[i]->types[0].type, parts[i]->types[0].unit) != i)
            return false;
        if (p->n_samples > 0)
            memcpy(p->values[i], parts[i]->values[0], p->n_samples * sizeof(int64_t));
    }
    for (size_t i = 0; i < n; i++) {
        types[order[i]] = p->types[i];
        columns[order[i]] = p->values[i];
    }
    memcpy(p->types, types, n * sizeof(*types));
    memcpy(p->values, columns, n * sizeof(*columns));
    return true;
}

void otlp_join_scope(struct otlp *o, size_t first)
{
    struct profile **parts = o->set->profiles.data + first;
    size_t n = o->set->profiles.len - first;
    int64_t order[PROFILE_TYPES_MAX] = {0};

    if (n == 0 || n > PROFILE_TYPES_MAX)
        return;
    uint32_t order_id = scope_attribute(o, parts[0], OTLP_ORDER_KEY);
    uint32_t default_id = scope_attribute(o, parts[0], OTLP_DEFAULT_KEY);
    if (n > 1) {
        struct bytes list = dict_text(o->dict, o->dict->attributes.data[order_id].text);
        if (order_id == 0 || otlp_int_array(list, order, (int)n) != (int)n ||
            !joinable(parts, order, n) || !join(parts, order, n))
            return;
        profile_set_truncate(o->set, first + 1);
    } else if (order_id != 0) {
        return;
    }
    if (default_id && o->dict->attributes.data[default_id].kind != ATTRIBUTE_STRING)
        default_id = 0;
    if (default_id)
        parts[0]->default_type = o->dict->attributes.data[default_id].text;
    if (order_id || default_id)
        parts[0]->scope_attrs = without(o, parts[0]->scope_attrs, order_id, default_id);
}

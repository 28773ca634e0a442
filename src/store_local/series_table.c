#include "store_local/series_table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/must.h"
#include "segment/varint.h"

/* What one definition may hold, whoever wrote it. */
#define LABELS_MAX 256
/* How many definitions in a row may be missing. */
#define SPARSE_MAX 1000000

struct series_table {
    struct budget budget;
    struct budget_keep keep; /* lists that readers may still have */
    struct arena arena;
    VEC(struct series *) all; /* by id - 1 */
    struct idset index;
    uint32_t n_groups;
};

struct series_table *series_table_new(void)
{
    struct series_table *t = must_calloc(1, sizeof(*t));
    budget_init(&t->budget, SIZE_MAX / 2);
    t->budget.keep = &t->keep;
    arena_init(&t->arena, &t->budget);
    return t;
}

void series_table_free(struct series_table *t)
{
    if (!t)
        return;
    budget_reclaim(&t->budget);
    t->budget.keep = NULL;
    vec_done(&t->budget, &t->all);
    idset_done(&t->budget, &t->index);
    arena_done(&t->arena);
    free(t);
}

uint32_t series_table_len(const struct series_table *t)
{
    return (uint32_t)t->all.len;
}

uint32_t series_table_n_groups(const struct series_table *t)
{
    return t->n_groups;
}

struct series *series_table_get(const struct series_table *t, uint32_t id)
{
    return id > 0 && id <= t->all.len ? t->all.data[id - 1] : NULL;
}

struct series *const *series_table_list(const struct series_table *t, uint32_t *ret_n)
{
    *ret_n = (uint32_t)t->all.len;
    return t->all.data;
}

size_t series_table_bytes(const struct series_table *t)
{
    return t->budget.used;
}

/* ---- Finding */

static uint64_t hash_text(uint64_t h, struct bytes s)
{
    return hash_mix(h, hash_bytes(s.data, s.len));
}

static uint64_t key_hash(const struct series_key *k)
{
    uint64_t h = hash_mix(k->n_labels, k->n_types << 2 | (size_t)k->is_group << 1 | k->is_instant);

    for (size_t i = 0; i < k->n_labels; i++)
        h = hash_text(hash_text(h, k->labels[i].name), k->labels[i].value);
    for (size_t i = 0; i < k->n_types; i++)
        h = hash_text(hash_text(h, k->types[i].name), k->types[i].unit);
    return hash_text(hash_text(h, k->period_type.name), k->period_type.unit);
}

static bool type_equal(const struct store_type *a, const struct store_type *b)
{
    return bytes_equal(a->name, b->name) && bytes_equal(a->unit, b->unit);
}

static bool is_key(const struct series *s, const struct series_key *k)
{
    if (s->n_labels != k->n_labels || s->n_types != k->n_types || s->is_instant != k->is_instant ||
        s->is_group != k->is_group || !type_equal(&s->period_type, &k->period_type))
        return false;
    for (size_t i = 0; i < k->n_types; i++) {
        if (!type_equal(&s->types[i], &k->types[i]))
            return false;
    }
    for (size_t i = 0; i < k->n_labels; i++) {
        if (!bytes_equal(s->labels[i].name, k->labels[i].name) ||
            !bytes_equal(s->labels[i].value, k->labels[i].value))
            return false;
    }
    return true;
}

struct series *series_table_find(const struct series_table *t, const struct series_key *key)
{
    uint32_t at = IDSET_FIND(&t->index, key_hash(key), i, is_key(t->all.data[i], key));
    return at == IDSET_NONE ? NULL : t->all.data[at];
}

/* ---- Adding */

static bool copy_text(struct series_table *t, struct bytes *s)
{
    const char *copy = arena_strdup(&t->arena, *s);

    s->data = (const uint8_t *)copy;
    return copy != NULL;
}

static bool copy_type(struct series_table *t, struct store_type *type)
{
    return copy_text(t, &type->name) && copy_text(t, &type->unit);
}

static struct series *copy_key(struct series_table *t, const struct series_key *k)
{
    struct series *s = arena_new(&t->arena, struct series, 1);
    struct label *labels = arena_new(&t->arena, struct label, k->n_labels);
    struct store_type *types = arena_new(&t->arena, struct store_type, k->n_types);

    if (!s || !labels || !types)
        return NULL;
    for (size_t i = 0; i < k->n_labels; i++) {
        labels[i] = k->labels[i];
        if (!copy_text(t, &labels[i].name) || !copy_text(t, &labels[i].value))
            return NULL;
    }
    for (size_t i = 0; i < k->n_types; i++) {
        types[i] = k->types[i];
        if (!copy_type(t, &types[i]))
            return NULL;
    }
    *s = (struct series){.labels = labels,
                         .n_labels = (uint32_t)k->n_labels,
                         .types = types,
                         .n_types = (uint32_t)k->n_types,
                         .period_type = k->period_type,
                         .is_instant = k->is_instant,
                         .is_group = k->is_group,
                         .hash = key_hash(k),
                         .max_start_ns = INT64_MIN};
    return copy_type(t, &s->period_type) ? s : NULL;
}

struct series *series_table_add(struct series_table *t, const struct series_key *key,
                                uint32_t group)
{
    struct series *s = copy_key(t, key);

    if (!s || t->all.len >= IDSET_NONE - 1 || !vec_reserve(&t->budget, &t->all, 1) ||
        !idset_add(&t->budget, &t->index, s->hash, (uint32_t)t->all.len))
        return NULL;
    t->all.data[t->all.len++] = s;
    s->id = (uint32_t)t->all.len;
    s->group = group;
    t->n_groups += s->is_group;
    return s;
}

/* ---- As bytes: varint id, group, flags (1 instant, 2 group), labels, types, period type */

static void add_text(struct buf *out, struct bytes s)
{
    add_varint(out, s.len);
    buf_add_bytes(out, s);
}

void series_encode_tenant(struct bytes name, struct buf *out)
{
    add_varint(out, 0);
    add_varint(out, name.len);
    buf_add_bytes(out, name);
}

bool series_take_tenant(struct bytes *in, struct bytes *ret_name)
{
    struct bytes rest = *in;
    uint64_t id, len;

    if (!take_varint(&rest, &id) || id != 0 || !take_varint(&rest, &len) ||
        !take_bytes(&rest, len, ret_name))
        return false;
    *in = rest;
    return true;
}

void series_encode(const struct series *s, struct buf *out)
{
    add_varint(out, s->id);
    add_varint(out, s->group);
    buf_add_byte(out, (uint8_t)(s->is_instant | s->is_group << 1));
    add_varint(out, s->n_labels);
    for (uint32_t i = 0; i < s->n_labels; i++) {
        add_text(out, s->labels[i].name);
        add_text(out, s->labels[i].value);
    }
    add_varint(out, s->n_types);
    for (uint32_t i = 0; i < s->n_types; i++) {
        add_text(out, s->types[i].name);
        add_text(out, s->types[i].unit);
    }
    add_text(out, s->period_type.name);
    add_text(out, s->period_type.unit);
}

struct definition {
    uint64_t id, group;
    struct label labels[LABELS_MAX];
    struct store_type types[PROFILE_TYPES_MAX];
    struct series_key key;
};

static bool take_text(struct bytes *in, struct bytes *ret)
{
    uint64_t len;
    return take_varint(in, &len) && take_bytes(in, len, ret);
}

static bool take_pairs(struct bytes *in, size_t max, struct bytes *ret, size_t *ret_n)
{
    uint64_t n;

    if (!take_varint(in, &n) || n > max)
        return false;
    for (uint64_t i = 0; i < 2 * n; i++) {
        if (!take_text(in, &ret[i]))
            return false;
    }
    *ret_n = (size_t)n;
    return true;
}

_Static_assert(sizeof(struct label) == 2 * sizeof(struct bytes) &&
                   sizeof(struct store_type) == 2 * sizeof(struct bytes),
               "both are pairs of texts");

static bool take_definition(struct bytes *in, struct definition *ret)
{
    uint8_t flags;

    if (!take_varint(in, &ret->id) || !take_varint(in, &ret->group) || !take_byte(in, &flags) ||
        flags > 3 || ret->id == 0 || ret->id >= IDSET_NONE || ret->group >= IDSET_NONE)
        return false;
    if (!take_pairs(in, LABELS_MAX, &ret->labels[0].name, &ret->key.n_labels) ||
        !take_pairs(in, PROFILE_TYPES_MAX, &ret->types[0].name, &ret->key.n_types) ||
        !take_text(in, &ret->key.period_type.name) || !take_text(in, &ret->key.period_type.unit))
        return false;
    ret->key.labels = ret->labels;
    ret->key.types = ret->types;
    ret->key.is_instant = flags & 1;
    ret->key.is_group = flags & 2;
    return true;
}

static int apply_definition(struct series_table *t, const struct definition *d, struct series **ret,
                            struct error *err)
{
    struct series *have = series_table_get(t, (uint32_t)d->id);

    if (have) {
        if (!is_key(have, &d->key) || have->group != d->group)
            return error_set(err, -EBADMSG, "two series have the number %u", have->id);
        *ret = have;
        return 0;
    }
    if (d->id != t->all.len + 1 || d->group > t->all.len)
        return error_set(err, -ESTALE, "the definition of a series before %u is missing",
                         (unsigned)d->id);
    if (series_table_find(t, &d->key))
        return error_set(err, -EBADMSG, "series %u is defined a second time", (unsigned)d->id);
    struct series *s = series_table_add(t, &d->key, (uint32_t)d->group);
    if (!s)
        return error_set(err, -ENOBUFS, "no memory for a series");
    *ret = s;
    return 0;
}

int series_apply(struct series_table *t, struct bytes *in, struct series **ret, struct error *err)
{
    struct definition d = {0};

    if (!take_definition(in, &d))
        return error_set(err, -EBADMSG, "the definition of a series is malformed");
    return apply_definition(t, &d, ret, err);
}

bool series_table_pad(struct series_table *t, uint32_t up_to)
{
    while (t->all.len < up_to) {
        char number[16];
        snprintf(number, sizeof(number), "%zu", t->all.len + 1);
        struct label lost = {BYTES("vesta.lost"), bytes_of(number)};
        struct series *s =
            series_table_add(t, &(struct series_key){.labels = &lost, .n_labels = 1}, 0);
        if (!s)
            return false;
        s->is_logged = s->is_durable = s->is_flushed = true;
    }
    return true;
}

int series_apply_sparse(struct series_table *t, struct bytes *in, struct series **ret,
                        struct error *err)
{
    struct definition d = {0};

    if (!take_definition(in, &d) || d.id - 1 > t->all.len + SPARSE_MAX)
        return error_set(err, -EBADMSG, "the definition of a series is malformed");
    if (!series_table_pad(t, (uint32_t)d.id - 1))
        return error_set(err, -ENOBUFS, "no memory for a series");
    return apply_definition(t, &d, ret, err);
}

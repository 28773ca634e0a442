#include "profile/tag_totals.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/idset.h"
#include "profile/measure.h"

struct totalling {
    struct tag_totals *t;
    struct idset values, keys; /* of t->all, of t->keys */
};

static void add_to(int64_t *sum, int64_t value)
{
    *sum = (int64_t)((uint64_t)*sum + (uint64_t)value);
}

/* A set that has a key several times counts once for it. */
static void add_key(struct totalling *x, uint32_t key, uint32_t set, int64_t value)
{
    struct tag_totals *t = x->t;
    uint64_t hash = hash_mix(key, 7);
    uint32_t id = IDSET_FIND(&x->keys, hash, i, t->keys.data[i].key == key);
    struct tag_key new = {.key = key, .total = value, .last_set = set};

    if (id == IDSET_NONE) {
        if (!vec_push(t->budget, &t->keys, new) ||
            !idset_add(t->budget, &x->keys, hash, (uint32_t)t->keys.len - 1))
            t->budget->failed = true;
        return;
    }
    if (t->keys.data[id].last_set != set)
        add_to(&t->keys.data[id].total, value);
    t->keys.data[id].last_set = set;
}

static void add_value(struct totalling *x, struct tag_total wanted)
{
    struct tag_totals *t = x->t;
    uint64_t hash = hash_mix((uint64_t)wanted.key << 32 | wanted.text, 5);
    uint32_t id =
        IDSET_FIND(&x->values, hash, i,
                   t->all.data[i].key == wanted.key && t->all.data[i].text == wanted.text);

    if (id == IDSET_NONE) {
        id = (uint32_t)t->all.len;
        if (t->all.len >= UINT32_MAX - 1 || !vec_push(t->budget, &t->all, wanted) ||
            !idset_add(t->budget, &x->values, hash, id))
            t->budget->failed = true;
        return;
    }
    struct tag_total *known = &t->all.data[id];
    add_to(&known->value, wanted.value);
    if (wanted.has_number && (!known->has_number || wanted.least < known->least))
        known->least = wanted.least;
    if (wanted.has_number && (!known->has_number || wanted.most > known->most))
        known->most = wanted.most;
    known->has_number |= wanted.has_number;
    known->has_text |= wanted.has_text;
}

/* The value of a label as it is printed. */
static uint32_t shown_text(struct dict *d, const struct attribute *a,
                           const struct label_units *units, const char *unit)
{
    struct buf text = {0};

    if (label_is_number(a)) {
        char number[MEASURE_TEXT_MAX];
        measure_label(a->number, dict_cstr(d, label_unit(units, a->key)), unit, number);
        buf_add_str(&text, number);
    } else {
        label_add_text(d, a, &text);
    }
    uint32_t id = dict_string(d, buf_bytes(&text));
    buf_done(&text);
    return id;
}

/* Strings may have a NUL in them, and be equal up to it: those of one key must stand together. */
static int compare_strings(const struct dict *d, uint32_t a, uint32_t b)
{
    int r = strcmp(dict_cstr(d, a), dict_cstr(d, b));

    return r != 0 ? r : (a > b) - (a < b);
}

static int compare(const void *a, const void *b, void *context)
{
    const struct dict *d = context;
    const struct tag_total *x = a, *y = b;
    uint64_t left = x->value < 0 ? -(uint64_t)x->value : (uint64_t)x->value;
    uint64_t right = y->value < 0 ? -(uint64_t)y->value : (uint64_t)y->value;

    if (x->key != y->key)
        return compare_strings(d, x->key, y->key);
    if (left != right)
        return left > right ? -1 : 1;
    return compare_strings(d, x->text, y->text);
}

static int compare_keys(const void *a, const void *b, void *context)
{
    const struct tag_key *x = a, *y = b;

    return compare_strings(context, x->key, y->key);
}

static void sort(struct tag_totals *t, struct dict *d)
{
    if (t->all.len > 1)
        qsort_r(t->all.data, t->all.len, sizeof(*t->all.data), compare, d);
    if (t->keys.len > 1)
        qsort_r(t->keys.data, t->keys.len, sizeof(*t->keys.data), compare_keys, d);
    for (size_t i = 0, at = 0; i < t->keys.len; i++) {
        struct tag_key *k = &t->keys.data[i];
        k->first = at;
        while (at < t->all.len && t->all.data[at].key == k->key)
            at++;
        k->n = at - k->first;
    }
}

bool tag_totals_build(const struct profile *p, uint32_t type, const struct label_units *units,
                      const char *unit, struct tag_totals *ret)
{
    struct dict *d = p->dict;
    size_t n_sets = d->attr_sets.len;
    VEC(uint64_t) sums = {0}; /* per attribute set */
    VEC(bool) used = {0};
    struct totalling x = {.t = ret};

    *ret = (struct tag_totals){.budget = d->budget};
    bool ok = vec_resize(d->budget, &sums, n_sets) && vec_resize(d->budget, &used, n_sets);
    for (size_t i = 0; ok && i < p->n_samples; i++) {
        sums.data[profile_attrs(p, i)] += (uint64_t)p->values[type][i];
        used.data[profile_attrs(p, i)] = true;
    }
    for (uint32_t s = 1; ok && s < n_sets; s++) {
        struct attrs set = d->attr_sets.data[s];
        for (uint32_t i = 0; used.data[s] && i < set.n; i++) {
            struct attribute a = d->attributes.data[d->attr_ids.data[set.first + i]];
            bool is_number = label_is_number(&a);
            add_key(&x, a.key, s, (int64_t)sums.data[s]);
            add_value(&x, (struct tag_total){.key = a.key,
                                             .text = shown_text(d, &a, units, unit),
                                             .value = (int64_t)sums.data[s],
                                             .has_text = !is_number,
                                             .has_number = is_number,
                                             .least = a.number,
                                             .most = a.number});
        }
        ok = !budget_failed(d->budget);
    }
    if (ok)
        sort(ret, d);
    vec_done(d->budget, &sums);
    vec_done(d->budget, &used);
    idset_done(d->budget, &x.values);
    idset_done(d->budget, &x.keys);
    return ok;
}

void tag_totals_done(struct tag_totals *t)
{
    vec_done(t->budget, &t->all);
    vec_done(t->budget, &t->keys);
}

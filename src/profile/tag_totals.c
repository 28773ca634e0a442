#include "profile/tag_totals.h"

#include <stdlib.h>

#include "base/hash.h"
#include "base/idset.h"
#include "profile/measure.h"

static void add(struct tag_totals *t, struct idset *index, struct tag_total wanted)
{
    uint64_t hash = hash_mix((uint64_t)wanted.key << 32 | wanted.text, 5);
    uint32_t id = IDSET_FIND(
        index, hash, i, t->all.data[i].key == wanted.key && t->all.data[i].text == wanted.text);

    if (id == IDSET_NONE) {
        id = (uint32_t)t->all.len;
        if (t->all.len >= UINT32_MAX - 1 || !vec_push(t->budget, &t->all, wanted) ||
            !idset_add(t->budget, index, hash, id))
            t->budget->failed = true;
        return;
    }
    int64_t *sum = &t->all.data[id].value;
    *sum = (int64_t)((uint64_t)*sum + (uint64_t)wanted.value);
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

static int compare(const void *a, const void *b, void *context)
{
    const struct dict *d = context;
    const struct tag_total *x = a, *y = b;
    uint64_t left = x->value < 0 ? -(uint64_t)x->value : (uint64_t)x->value;
    uint64_t right = y->value < 0 ? -(uint64_t)y->value : (uint64_t)y->value;

    if (x->key != y->key)
        return strcmp(dict_cstr(d, x->key), dict_cstr(d, y->key));
    if (left != right)
        return left > right ? -1 : 1;
    return strcmp(dict_cstr(d, x->text), dict_cstr(d, y->text));
}

bool tag_totals_build(const struct profile *p, uint32_t type, const struct label_units *units,
                      const char *unit, struct tag_totals *ret)
{
    struct dict *d = p->dict;
    size_t n_sets = d->attr_sets.len;
    VEC(uint64_t) sums = {0}; /* per attribute set */
    VEC(bool) used = {0};
    struct idset index = {0};

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
            add(ret, &index,
                (struct tag_total){a.key, shown_text(d, &a, units, unit), (int64_t)sums.data[s]});
        }
        ok = !budget_failed(d->budget);
    }
    if (ok && ret->all.len > 1)
        qsort_r(ret->all.data, ret->all.len, sizeof(*ret->all.data), compare, d);
    vec_done(d->budget, &sums);
    vec_done(d->budget, &used);
    idset_done(d->budget, &index);
    return ok;
}

void tag_totals_done(struct tag_totals *t)
{
    vec_done(t->budget, &t->all);
}

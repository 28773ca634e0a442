#include "profile/subtract.h"

#include "base/hash.h"

/* The rows of `before` by what they are of; their values are used up as rows of p take them. */
struct taker {
    struct budget *budget;
    const struct profile *before;
    struct idset index;
    VEC(uint32_t) first; /* per row: the first of its kind */
    VEC(int64_t) left;   /* of the column at hand, per row */
};

static uint64_t row_hash(const struct profile *p, size_t i)
{
    return hash_mix((uint64_t)p->node[i] << 32 | profile_attrs(p, i), profile_link(p, i) + 1u);
}

static bool same_row(const struct profile *a, size_t i, const struct profile *b, size_t k)
{
    return a->node[i] == b->node[k] && profile_attrs(a, i) == profile_attrs(b, k) &&
           profile_link(a, i) == profile_link(b, k);
}

static bool index_rows(struct taker *t)
{
    const struct profile *b = t->before;

    for (size_t i = 0; i < b->n_samples; i++) {
        uint64_t hash = row_hash(b, i);
        uint32_t at = IDSET_FIND(&t->index, hash, k, same_row(b, i, b, k));
        if (at == IDSET_NONE) {
            at = (uint32_t)i;
            if (i >= IDSET_NONE || !idset_add(t->budget, &t->index, hash, at))
                return false;
        }
        if (!vec_push(t->budget, &t->first, at))
            return false;
    }
    return vec_resize(t->budget, &t->left, b->n_samples);
}

/* What all rows of a kind have, with the first of them. */
static void add_up(struct taker *t, uint32_t column)
{
    const struct profile *b = t->before;

    memset(t->left.data, 0, b->n_samples * sizeof(int64_t));
    for (size_t i = 0; i < b->n_samples; i++) {
        int64_t *sum = &t->left.data[t->first.data[i]];
        if (__builtin_add_overflow(*sum, b->values[column][i], sum))
            *sum = INT64_MAX;
    }
}

static uint32_t find_column(const struct profile *p, struct value_type type)
{
    for (uint32_t t = 0; t < p->n_types; t++) {
        if (p->types[t].type == type.type && p->types[t].unit == type.unit)
            return t;
    }
    return IDSET_NONE;
}

/* What is left of a value of row i when those before are taken off. */
static int64_t take_off(struct taker *t, const struct profile *p, size_t i, int64_t value)
{
    uint32_t at = IDSET_FIND(&t->index, row_hash(p, i), k, same_row(p, i, t->before, k));
    int64_t *left = at == IDSET_NONE ? NULL : &t->left.data[at];

    if (!left || *left <= 0 || value <= 0)
        return value;
    int64_t n = *left < value ? *left : value;
    *left -= n;
    return value - n;
}

void profile_drop_zero_rows(struct profile *p)
{
    size_t kept = 0;

    for (size_t i = 0; i < p->n_samples; i++) {
        bool is_zero = true;
        for (uint32_t t = 0; t < p->n_types && is_zero; t++)
            is_zero = p->values[t][i] == 0;
        if (!is_zero)
            profile_move_row(p, i, kept++);
    }
    p->n_samples = kept;
}

int profile_subtract(struct profile *p, const struct profile *before, const bool *is_cumulative,
                     struct error *err)
{
    struct taker t = {.budget = p->dict->budget, .before = before};
    bool ok = index_rows(&t);

    for (uint32_t c = 0; ok && c < p->n_types; c++) {
        uint32_t from = is_cumulative[c] ? find_column(before, p->types[c]) : IDSET_NONE;
        if (from == IDSET_NONE || before->n_samples == 0)
            continue;
        add_up(&t, from);
        for (size_t i = 0; i < p->n_samples; i++)
            p->values[c][i] = take_off(&t, p, i, p->values[c][i]);
    }
    if (ok)
        profile_drop_zero_rows(p);
    idset_done(t.budget, &t.index);
    vec_done(t.budget, &t.first);
    vec_done(t.budget, &t.left);
    return ok ? 0 : budget_error(p->dict->budget, err);
}

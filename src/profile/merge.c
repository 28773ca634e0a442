#include "profile/merge.h"

#include "base/hash.h"
#include "profile/merge_internal.h"

/* A merge under way. */
struct merge {
    struct dict *dict;
    struct budget *budget;
    struct profile *out;
    bool drop_zero;

    VEC(uint32_t) first_row; /* per stack: the first row that has it, + 1; 0 is none */
    VEC(uint32_t) row;       /* per sample of the profile being added: its row, + 1 */
    struct idset index;      /* the other rows, by stack, attributes and link */

    /* Of the profile being added: */
    uint32_t column[PROFILE_TYPES_MAX]; /* its types as columns of `out` */
    double scale[PROFILE_TYPES_MAX];
    uint32_t extra_attrs;           /* what its samples get from its resource */
    VEC(uint32_t) attrs_with_extra; /* per attribute set: united with extra_attrs, + 1; 0 unknown */
};

static bool is_zero_row(const struct profile *p, size_t i)
{
    for (uint32_t t = 0; t < p->n_types; t++) {
        if (p->values[t][i] != 0)
            return false;
    }
    return true;
}

static uint64_t row_hash(uint32_t node, uint32_t attrs, uint32_t link)
{
    return hash_mix((uint64_t)node << 32 | attrs, link);
}

static bool row_equal(const struct profile *p, size_t i, const struct sample *s)
{
    return p->node[i] == s->node && profile_attrs(p, i) == s->attrs &&
           profile_link(p, i) == s->link;
}

/* The row of the output that this sample is part of, made when there is none; SIZE_MAX when the
 * budget is spent. */
static size_t find_row(struct merge *m, const struct sample *s)
{
    static const int64_t zeros[PROFILE_TYPES_MAX];
    uint32_t *first = &m->first_row.data[s->node];
    uint64_t hash = 0;

    if (*first != 0) {
        if (row_equal(m->out, *first - 1, s))
            return *first - 1;
        hash = row_hash(s->node, s->attrs, s->link);
        uint32_t found = IDSET_FIND(&m->index, hash, i, row_equal(m->out, i, s));
        if (found != IDSET_NONE)
            return found;
    }
    size_t row = m->out->n_samples;
    if (row >= UINT32_MAX - 1 ||
        (*first != 0 && !idset_add(m->budget, &m->index, hash, (uint32_t)row))) {
        m->budget->failed = true;
        return SIZE_MAX;
    }
    struct sample empty = *s;
    empty.values = zeros;
    if (!profile_add(m->out, &empty))
        return SIZE_MAX;
    if (*first == 0)
        *first = (uint32_t)row + 1;
    return row;
}

/* The attribute set of a sample united with what its resource adds. */
static uint32_t widen_attrs(struct merge *m, uint32_t set)
{
    if (m->extra_attrs == 0)
        return set;
    if (set >= m->attrs_with_extra.len && !vec_resize(m->budget, &m->attrs_with_extra, set + 1u))
        return set;
    uint32_t *memo = &m->attrs_with_extra.data[set];
    if (*memo == 0)
        *memo = merge_attrs_union(m->dict, set, m->extra_attrs) + 1;
    return *memo - 1;
}

static void add_values(const struct merge *m, const struct profile *p, size_t from, size_t to)
{
    for (uint32_t t = 0; t < p->n_types; t++) {
        int64_t *sum = &m->out->values[m->column[t]][to];
        int64_t v = p->values[t][from];
        if (m->scale[t] != 1)
            v = merge_scale(v, m->scale[t]);
        *sum = (int64_t)((uint64_t)*sum + (uint64_t)v);
    }
}

/*
 * The usual case, no labels anywhere: nothing is hashed and nothing compared. First every sample
 * finds its row, then the columns are added one by one.
 */
static bool add_plain(struct merge *m, const struct profile *p)
{
    uint32_t *first_row = m->first_row.data;
    struct profile *out = m->out;
    size_t rows = out->n_samples;

    /* As many rows as there could be, so that the loop need not ask. */
    if (!profile_reserve(out, p->n_samples) || !vec_resize(m->budget, &m->row, p->n_samples))
        return false;
    uint32_t *row = m->row.data;
    for (size_t i = 0; i < p->n_samples; i++) {
        uint32_t node = p->node[i];
        if (first_row[node] == 0 && !(m->drop_zero && is_zero_row(p, i))) {
            out->node[rows] = node;
            first_row[node] = (uint32_t)++rows;
        }
        row[i] = first_row[node];
    }
    for (uint32_t t = 0; t < out->n_types && rows > out->n_samples; t++)
        memset(out->values[t] + out->n_samples, 0, (rows - out->n_samples) * sizeof(int64_t));
    out->n_samples = rows;
    for (uint32_t t = 0; t < p->n_types; t++) {
        int64_t *sums = out->values[m->column[t]];
        for (size_t i = 0; i < p->n_samples; i++) {
            if (row[i] != 0)
                sums[row[i] - 1] =
                    (int64_t)((uint64_t)sums[row[i] - 1] + (uint64_t)p->values[t][i]);
        }
    }
    return true;
}

static bool is_plain(const struct merge *m, const struct profile *p)
{
    const struct profile *out = m->out;
    for (uint32_t t = 0; t < p->n_types; t++) {
        if (m->scale[t] != 1)
            return false;
    }
    return m->extra_attrs == 0 && !p->attrs && !p->link && !out->attrs && !out->link &&
           out->n_samples + p->n_samples < UINT32_MAX;
}

static bool add_profile(struct merge *m, const struct profile *p)
{
    if (is_plain(m, p))
        return add_plain(m, p);
    vec_clear(&m->attrs_with_extra);
    for (size_t i = 0; i < p->n_samples; i++) {
        if (m->drop_zero && is_zero_row(p, i))
            continue;
        struct sample s = {.node = p->node[i],
                           .attrs = widen_attrs(m, profile_attrs(p, i)),
                           .link = profile_link(p, i)};
        size_t row = find_row(m, &s);
        if (row == SIZE_MAX)
            return false;
        add_values(m, p, i, row);
    }
    return !budget_failed(m->budget);
}

/* Closes the gaps that rows which came to zero leave. */
static void drop_zero_rows(struct profile *p)
{
    size_t kept = 0;

    for (size_t i = 0; i < p->n_samples; i++) {
        if (!is_zero_row(p, i))
            profile_move_row(p, i, kept++);
    }
    p->n_samples = kept;
}

static bool add_all(struct merge *m, struct profile *const *in, size_t n)
{
    uint32_t shared = merge_shared_attrs(m->dict, in, n);

    m->out->resource_attrs = shared;
    for (size_t i = 0; i < n; i++) {
        for (uint32_t t = 0; t < in[i]->n_types; t++)
            m->column[t] = merge_find_type(m->out, in[i]->types[t], &m->scale[t]);
        m->extra_attrs = merge_attrs_without(m->dict, in[i]->resource_attrs, shared);
        if (!add_profile(m, in[i]))
            return false;
    }
    return true;
}

static bool add_up(struct dict *d, struct profile *const *in, size_t n,
                   struct merge_options options, struct profile *out)
{
    struct merge m = {.dict = d, .budget = d->budget, .out = out, .drop_zero = options.drop_zero};

    bool ok = merge_headers(out, in, n) && vec_resize(d->budget, &m.first_row, dict_n_nodes(d)) &&
              add_all(&m, in, n);
    vec_done(d->budget, &m.first_row);
    vec_done(d->budget, &m.row);
    vec_done(d->budget, &m.attrs_with_extra);
    idset_done(d->budget, &m.index);
    if (ok && options.drop_zero)
        drop_zero_rows(out);
    return ok && !budget_failed(d->budget);
}

struct profile *profile_merge(struct dict *d, struct profile *const *in, size_t n,
                              struct merge_options options)
{
    CLEANUP(profile_freep) struct profile *out = profile_new(d);
    bool changed = false;

    if (!add_up(d, in, n, options, out) || !merge_unify_mappings(out, &changed))
        return NULL;
    if (!changed)
        return TAKE_PTR(out);

    /* Stacks that differed by their addresses alone are now equal: add up once more. */
    CLEANUP(profile_freep) struct profile *again = profile_new(d);
    struct profile *const one[] = {out};
    if (!add_up(d, one, 1, options, again))
        return NULL;
    return TAKE_PTR(again);
}

void profile_totals(const struct profile *p, uint32_t type, int64_t *ret)
{
    const uint32_t *parent = p->dict->node_parent.data;
    const int64_t *values = p->values[type];
    size_t n = dict_n_nodes(p->dict);

    memset(ret, 0, n * sizeof(*ret));
    for (size_t i = 0; i < p->n_samples; i++)
        ret[p->node[i]] = (int64_t)((uint64_t)ret[p->node[i]] + (uint64_t)values[i]);
    while (n-- > 1) {
        if (ret[n] != 0)
            ret[parent[n]] = (int64_t)((uint64_t)ret[parent[n]] + (uint64_t)ret[n]);
    }
}

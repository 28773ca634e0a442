#include "profile/diff.h"

#include <errno.h>
#include <math.h>

#include "profile/measure.h"
#include "profile/merge.h"

static int64_t scaled(int64_t v, double ratio)
{
    if (ratio == -1)
        return (int64_t) - (uint64_t)v;
    double x = round((double)v * ratio);
    if (x >= 0x1p63)
        return INT64_MAX;
    return x <= -0x1p63 ? INT64_MIN : (int64_t)x;
}

void profile_scale(struct profile *p, const double *ratios)
{
    size_t kept = 0;
    bool all_ones = true;

    for (uint32_t t = 0; t < p->n_types; t++)
        all_ones &= ratios[t] == 1;
    if (all_ones)
        return;
    for (size_t i = 0; i < p->n_samples; i++) {
        bool keep = false;
        for (uint32_t t = 0; t < p->n_types; t++) {
            int64_t *v = &p->values[t][i];
            if (ratios[t] != 1)
                *v = scaled(*v, ratios[t]);
            keep |= *v != 0;
        }
        if (keep)
            profile_move_row(p, i, kept++);
    }
    p->n_samples = kept;
}

static uint32_t find_type(const struct profile *p, uint32_t type)
{
    for (uint32_t t = 0; t < p->n_types; t++) {
        if (p->types[t].type == type)
            return t;
    }
    return UINT32_MAX;
}

/* A copy of p with the types that `other` has too, in the order of `order`. */
static struct profile *copy_shared(const struct profile *p, const struct profile *order,
                                   const struct profile *other)
{
    uint32_t columns[PROFILE_TYPES_MAX] = {0}, n = 0;

    for (uint32_t t = 0; t < order->n_types; t++) {
        uint32_t type = order->types[t].type;
        if (find_type(other, type) != UINT32_MAX && find_type(p, type) != UINT32_MAX &&
            find_type(order, type) == t)
            columns[n++] = find_type(p, type);
    }
    struct profile *copy = profile_copy(p, columns, n);
    bool is_same = n == p->n_types;
    for (uint32_t t = 0; t < n; t++)
        is_same &= columns[t] == t;
    /* As pprof does: once columns went or moved, the first is shown unless the default is left. */
    if (copy && !is_same && n > 0 && find_type(copy, copy->default_type) == UINT32_MAX)
        copy->default_type = copy->types[0].type;
    return copy;
}

/* What scales the source's total of each type to the base's. */
static void normalize(struct profile *source, const struct profile *base)
{
    const struct dict *d = source->dict;
    double ratios[PROFILE_TYPES_MAX] = {0};

    for (uint32_t t = 0; t < source->n_types; t++) {
        int64_t of_source = profile_total(source, t), of_base = profile_total(base, t);
        double units = 1;
        (void)measure_ratio(dict_cstr(d, base->types[t].unit), dict_cstr(d, source->types[t].unit),
                            &units);
        ratios[t] = of_source ? (double)of_base * units / (double)of_source : 0;
    }
    profile_scale(source, ratios);
}

/* Adds the label of a base to every row. */
static bool mark_as_base(struct profile *p)
{
    struct dict *d = p->dict;
    uint32_t label =
        dict_string_attribute(d, dict_cstring(d, DIFF_BASE_KEY), dict_cstring(d, "true"));
    size_t n_sets = d->attr_sets.len;
    VEC(uint32_t) with = {0}; /* per set: it with the label */

    bool ok = profile_need_attrs(p) && vec_resize(d->budget, &with, n_sets);
    for (size_t i = 0; ok && i < p->n_samples; i++) {
        uint32_t set = p->attrs[i];
        if (with.data[set] == 0)
            with.data[set] = dict_attrs_with(d, set, label);
        p->attrs[i] = with.data[set];
    }
    vec_done(d->budget, &with);
    return ok && !budget_failed(d->budget);
}

static int no_shared_type(const struct profile *a, const struct profile *b, struct error *err)
{
    const char *first = a->n_types ? dict_cstr(a->dict, a->types[0].type) : "nothing";
    const char *second = b->n_types ? dict_cstr(b->dict, b->types[0].type) : "nothing";
    return error_set(
        err, -EINVAL,
        "could not compare: the profiles have no sample type in common (%s against %s)", first,
        second);
}

int profile_diff(const struct profile *source, const struct profile *base,
                 struct diff_options options, struct profile **ret, struct error *err)
{
    struct dict *d = source->dict;
    CLEANUP(profile_freep) struct profile *a = copy_shared(source, source, base);
    CLEANUP(profile_freep) struct profile *b = copy_shared(base, source, source);
    double minus[PROFILE_TYPES_MAX] = {0};

    if (!a || !b)
        return budget_error(d->budget, err);
    if (a->n_types == 0)
        return no_shared_type(source, base, err);
    if (options.is_diff_base && !mark_as_base(b))
        return budget_error(d->budget, err);
    if (options.normalize)
        normalize(a, b);
    for (uint32_t t = 0; t < b->n_types; t++)
        minus[t] = -1;
    profile_scale(b, minus);

    struct profile *const both[] = {a, b};
    struct profile *merged = profile_merge(d, both, 2, (struct merge_options){.drop_zero = true});
    if (!merged)
        return budget_error(d->budget, err);
    *ret = merged;
    return 0;
}

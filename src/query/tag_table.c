#include "query/tag_table.h"

#include <errno.h>

#include "profile/tag_filter.h"

static int64_t minus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

static int64_t plus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static struct tag_row row_of(const struct tag_table *t, const struct tag_key *k, size_t values_max)
{
    struct tag_row row = {.name = k->key,
                          .total = k->total,
                          .not_set = minus(t->total, k->total),
                          .n_all = k->n,
                          .values = t->totals.all.data + k->first,
                          .n_values = values_max > 0 && k->n > values_max ? values_max : k->n};
    int64_t sum = 0;

    for (size_t i = 0; i < k->n; i++) {
        sum = plus(sum, row.values[i].value);
        if (i >= row.n_values)
            row.other = plus(row.other, row.values[i].value);
    }
    row.repeated = minus(sum, k->total);
    return row;
}

int tag_table_build(const struct profile *p, const struct tag_table_options *o,
                    struct tag_table *ret, struct error *err)
{
    struct budget *b = p->dict->budget;

    *ret = (struct tag_table){
        .budget = b, .dict = p->dict, .units = {.budget = b}, .totals = {.budget = b}};
    if (o->type >= p->n_types)
        return error_set(err, -EINVAL, "there is no sample type %u: the profile has %u", o->type,
                         p->n_types);
    ret->total = profile_total(p, o->type);
    if (!label_units_build(p, &ret->units, NULL) ||
        !tag_totals_build(p, o->type, &ret->units, "auto", &ret->totals))
        return budget_error(b, err);
    for (size_t i = 0; i < ret->totals.keys.len; i++) {
        const struct tag_key *k = &ret->totals.keys.data[i];
        if (o->name && !bytes_are(dict_text(p->dict, k->key), o->name))
            continue;
        ret->n_all++;
        if (o->rows_max > 0 && ret->rows.len == o->rows_max)
            continue;
        if (!vec_push(b, &ret->rows, row_of(ret, k, o->values_max)))
            return budget_error(b, err);
    }
    return 0;
}

void tag_table_done(struct tag_table *t)
{
    if (!t->budget)
        return;
    vec_done(t->budget, &t->rows);
    tag_totals_done(&t->totals);
    label_units_done(&t->units);
}

bool tag_table_value_filter(const struct tag_table *t, const struct tag_total *value,
                            struct buf *out)
{
    struct bytes key = dict_text(t->dict, value->key);

    if (value->has_text && value->has_number)
        return false;
    if (value->has_number)
        return tag_filter_for_numbers(key, value->least, value->most,
                                      dict_cstr(t->dict, label_unit(&t->units, value->key)), out);
    tag_filter_for_text(key, dict_text(t->dict, value->text), out);
    return true;
}

bool tag_table_any_filter(const struct tag_table *t, const struct tag_row *row, struct buf *out)
{
    for (size_t i = 0; i < row->n_all; i++)
        if (row->values[i].has_number)
            return false;
    return tag_filter_for_any_text(dict_text(t->dict, row->name), out);
}

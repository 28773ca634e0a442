#include "store_local/fold.h"

#include <stdlib.h>
#include <string.h>

#include "base/must.h"

bool fold_init(struct fold *f, struct budget *budget, const struct dict *dict)
{
    size_t size = dict->strings.len * sizeof(uint32_t);

    *f = (struct fold){.dict = dict, .budget = budget};
    if (!budget_take(budget, size))
        return false;
    f->charged = size;
    f->stamps = must_calloc(1, size + 1);
    return true;
}

void fold_done(struct fold *f)
{
    free(f->stamps);
    if (f->budget)
        budget_give(f->budget, f->charged);
    *f = (struct fold){0};
}

static uint32_t line_name(const struct dict *d, const struct location *l, uint32_t i)
{
    return d->functions.data[d->lines.data[l->first_line + i].function].name;
}

static void meet(struct fold *f, uint32_t name, int64_t value, struct sums *to)
{
    if (f->stamps[name] == f->stamp)
        return;
    f->stamps[name] = f->stamp;
    sums_add(to, name, 1, value);
}

static void fold_one(struct fold *f, uint32_t node, int64_t value, struct sums *to)
{
    const struct dict *d = f->dict;
    const struct location *leaf = &d->locations.data[d->node_location.data[node]];

    if (++f->stamp == 0) {
        memset(f->stamps, 0, f->charged);
        f->stamp = 1;
    }
    sums_add(to, leaf->n_lines ? line_name(d, leaf, 0) : 0, 0, value);
    for (; node != 0; node = d->node_parent.data[node]) {
        const struct location *l = &d->locations.data[d->node_location.data[node]];

        if (l->n_lines == 0)
            meet(f, 0, value, to);
        for (uint32_t i = 0; i < l->n_lines; i++)
            meet(f, line_name(d, l, i), value, to);
    }
}

void fold_stacks(struct fold *f, const struct sums_taken *stacks, unsigned col, struct sums *to)
{
    const int64_t *values = stacks->values + col * stacks->n;

    for (size_t i = 0; i < stacks->n; i++) {
        if (stacks->keys[i] < dict_n_nodes(f->dict) && values[i] != 0)
            fold_one(f, stacks->keys[i], values[i], to);
    }
}

/* 1: the innermost line is of the function, 2: some line is. */
static uint8_t location_has(const struct dict *d, const struct location *l, uint32_t name)
{
    if (l->n_lines == 0)
        return name == 0 ? 3 : 0;
    for (uint32_t i = 0; i < l->n_lines; i++) {
        if (line_name(d, l, i) == name)
            return i == 0 ? 3 : 2;
    }
    return 0;
}

void fold_find(const struct dict *dict, uint32_t name, uint64_t *flat, uint64_t *cum)
{
    for (uint32_t n = 1; n < dict_n_nodes(dict); n++) {
        uint32_t parent = dict->node_parent.data[n];
        uint64_t bit = (uint64_t)1 << (n % 64);
        uint8_t has = location_has(dict, &dict->locations.data[dict->node_location.data[n]], name);

        if (has & 1)
            flat[n / 64] |= bit;
        if ((has & 2) || (cum[parent / 64] >> (parent % 64) & 1))
            cum[n / 64] |= bit;
    }
}

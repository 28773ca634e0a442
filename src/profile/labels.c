#include "profile/labels.h"

#include <stdlib.h>

void label_add_text(const struct dict *d, const struct attribute *a, struct buf *out)
{
    double number;

    switch (a->kind) {
    case ATTRIBUTE_BOOL:
        buf_add_str(out, a->number ? "true" : "false");
        break;
    case ATTRIBUTE_DOUBLE:
        memcpy(&number, &a->number, sizeof(number));
        buf_addf(out, "%.17g", number);
        break;
    case ATTRIBUTE_INT:
        buf_add_i64(out, a->number);
        break;
    case ATTRIBUTE_NONE:
    case ATTRIBUTE_STRING:
    case ATTRIBUTE_BYTES:
    case ATTRIBUTE_OTHER:
        buf_add_bytes(out, dict_text(d, a->text));
        break;
    }
}

/* Notes the units of one set of attributes. */
static void see_set(struct label_units *u, const struct dict *d, uint32_t set, bool *warned,
                    struct buf *warnings)
{
    struct attrs s = d->attr_sets.data[set];

    for (uint32_t i = 0; i < s.n; i++) {
        const struct attribute *a = &d->attributes.data[d->attr_ids.data[s.first + i]];
        uint32_t *unit = &u->unit.data[a->key];
        if (!label_is_number(a) || a->unit == 0 || *unit == a->unit)
            continue;
        if (*unit == 0) {
            *unit = a->unit;
        } else if (warnings && !warned[a->key]) {
            warned[a->key] = true;
            buf_addf(warnings, "For tag %s used unit %s, also encountered unit(s) %s\n",
                     dict_cstr(d, a->key), dict_cstr(d, *unit), dict_cstr(d, a->unit));
        }
    }
}

/* What a key without units suggests. */
static void infer_units(struct label_units *u, struct dict *d, uint32_t bytes)
{
    uint32_t alignment = dict_find_string(d, BYTES("alignment"));
    uint32_t request = dict_find_string(d, BYTES("request"));

    for (size_t i = 1; i < d->attributes.len; i++) {
        const struct attribute *a = &d->attributes.data[i];
        if (!label_is_number(a) || u->unit.data[a->key] != 0)
            continue;
        bool is_size = a->key != 0 && (a->key == alignment || a->key == request);
        u->unit.data[a->key] = is_size ? bytes : a->key;
    }
}

bool label_units_build(const struct profile *p, struct label_units *ret, struct buf *warnings)
{
    struct dict *d = p->dict;
    VEC(bool) warned = {0}, seen = {0};

    *ret = (struct label_units){.budget = d->budget};
    if (!p->attrs)
        return true;
    uint32_t bytes = dict_cstring(d, "bytes");
    bool ok = vec_resize(d->budget, &ret->unit, d->strings.len) &&
              vec_resize(d->budget, &warned, d->strings.len) &&
              vec_resize(d->budget, &seen, d->attr_sets.len);
    for (size_t i = 0; ok && i < p->n_samples; i++) {
        uint32_t set = p->attrs[i];
        if (!seen.data[set])
            see_set(ret, d, set, warned.data, warnings);
        seen.data[set] = true;
    }
    if (ok)
        infer_units(ret, d, bytes);
    vec_done(d->budget, &warned);
    vec_done(d->budget, &seen);
    return ok;
}

void label_units_done(struct label_units *u)
{
    vec_done(u->budget, &u->unit);
}

static int compare_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void label_join(const struct dict *d, uint32_t set, uint32_t but, struct buf *out)
{
    struct attrs s = d->attr_sets.data[set];
    VEC(char *) all = {0};
    struct budget *b = d->budget;

    for (uint32_t i = 0; i < s.n; i++) {
        const struct attribute *a = &d->attributes.data[d->attr_ids.data[s.first + i]];
        if (label_is_number(a) || (but && a->key == but))
            continue;
        struct buf one = {0};
        buf_add_bytes(&one, dict_text(d, a->key));
        buf_add_byte(&one, ':');
        label_add_text(d, a, &one);
        char *copy = strdup(buf_cstr(&one));
        buf_done(&one);
        if (!copy || !vec_push(b, &all, copy)) {
            free(copy);
            break;
        }
    }
    if (all.len > 1)
        qsort(all.data, all.len, sizeof(*all.data), compare_text);
    for (size_t i = 0; i < all.len; i++) {
        buf_add_str(out, i ? "\\n" : "");
        buf_add_str(out, all.data[i]);
        free(all.data[i]);
    }
    vec_done(b, &all);
}

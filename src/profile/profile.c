#include "profile/profile.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/must.h"

struct profile *profile_new(struct dict *d)
{
    struct profile *p = must_calloc(1, sizeof(*p));
    p->dict = d;
    p->charged = budget_take(d->budget, sizeof(*p)) ? sizeof(*p) : 0;
    return p;
}

void profile_free(struct profile *p)
{
    if (!p)
        return;
    struct budget *b = p->dict->budget;
    budget_free(b, p->node, p->cap * sizeof(*p->node));
    budget_free(b, p->attrs, p->cap * sizeof(*p->attrs));
    budget_free(b, p->link, p->cap * sizeof(*p->link));
    budget_free(b, p->time_ns, p->cap * sizeof(*p->time_ns));
    for (uint32_t t = 0; t < p->n_types; t++)
        budget_free(b, p->values[t], p->cap * sizeof(int64_t));
    vec_done(b, &p->comments);
    vec_done(b, &p->mappings);
    budget_give(b, p->charged);
    free(p);
}

/* A column of `cap` elements, the first n zero, when it does not exist yet. */
static bool column_make(struct profile *p, void **column, size_t size)
{
    if (*column || p->cap == 0)
        return true;
    if (!budget_resize(p->dict->budget, column, 0, p->cap * size))
        return false;
    memset(*column, 0, p->n_samples * size);
    return true;
}

static bool column_grow(struct profile *p, void **column, size_t size, size_t cap)
{
    return budget_resize(p->dict->budget, column, p->cap * size, cap * size);
}

/*
 * All columns share one capacity. When one fails to grow the others are shrunk back, so that the
 * budget and the capacity never disagree.
 */
static bool grow(struct profile *p, size_t cap)
{
    struct {
        void **column;
        size_t size;
    } all[PROFILE_TYPES_MAX + 4];
    size_t n = 0;

    all[n].column = (void **)&p->node, all[n++].size = sizeof(*p->node);
    if (p->attrs)
        all[n].column = (void **)&p->attrs, all[n++].size = sizeof(*p->attrs);
    if (p->link)
        all[n].column = (void **)&p->link, all[n++].size = sizeof(*p->link);
    if (p->time_ns)
        all[n].column = (void **)&p->time_ns, all[n++].size = sizeof(*p->time_ns);
    for (uint32_t t = 0; t < p->n_types; t++)
        all[n].column = (void **)&p->values[t], all[n++].size = sizeof(int64_t);

    for (size_t i = 0; i < n; i++) {
        if (column_grow(p, all[i].column, all[i].size, cap))
            continue;
        while (i-- > 0)
            (void)budget_resize(p->dict->budget, all[i].column, cap * all[i].size,
                                p->cap * all[i].size);
        return false;
    }
    p->cap = cap;
    return true;
}

bool profile_reserve(struct profile *p, size_t n)
{
    size_t need;

    if (p->cap - p->n_samples >= n)
        return true;
    if (__builtin_add_overflow(p->n_samples, n, &need) || need > SIZE_MAX / 16) {
        p->dict->budget->failed = true;
        return false;
    }
    size_t cap = p->cap < 16 ? 16 : p->cap * 2;
    return grow(p, cap > need ? cap : need);
}

uint32_t profile_add_type(struct profile *p, uint32_t type, uint32_t unit)
{
    for (uint32_t t = 0; t < p->n_types; t++) {
        if (p->types[t].type == type && p->types[t].unit == unit)
            return t;
    }
    if (p->n_types == PROFILE_TYPES_MAX) {
        p->dict->budget->failed = true;
        return PROFILE_TYPES_MAX - 1;
    }
    uint32_t t = p->n_types;
    void *column = NULL;
    if (!column_make(p, &column, sizeof(int64_t)))
        return t > 0 ? t - 1 : 0;
    p->values[t] = column;
    p->types[t] = (struct value_type){type, unit};
    p->n_types++;
    return t;
}

uint32_t profile_add_ctype(struct profile *p, const char *type, const char *unit)
{
    return profile_add_type(p, dict_cstring(p->dict, type), dict_cstring(p->dict, unit));
}

bool profile_add(struct profile *p, const struct sample *s)
{
    if (!profile_reserve(p, 1) ||
        (s->attrs && !column_make(p, (void **)&p->attrs, sizeof(*p->attrs))) ||
        (s->link && !column_make(p, (void **)&p->link, sizeof(*p->link))) ||
        (s->time_ns && !column_make(p, (void **)&p->time_ns, sizeof(*p->time_ns))))
        return false;
    size_t i = p->n_samples++;
    p->node[i] = s->node;
    for (uint32_t t = 0; t < p->n_types; t++)
        p->values[t][i] = s->values[t];
    if (p->attrs)
        p->attrs[i] = s->attrs;
    if (p->link)
        p->link[i] = s->link;
    if (p->time_ns)
        p->time_ns[i] = s->time_ns;
    return true;
}

bool profile_add_value(struct profile *p, uint32_t node, int64_t value)
{
    return profile_add(p, &(struct sample){.node = node, .values = &value});
}

bool profile_need_attrs(struct profile *p)
{
    return profile_reserve(p, 1) && column_make(p, (void **)&p->attrs, sizeof(*p->attrs));
}

bool profile_need_links(struct profile *p)
{
    return profile_reserve(p, 1) && column_make(p, (void **)&p->link, sizeof(*p->link));
}

/* Copies the n_samples elements of a column that exists. */
static bool column_copy(struct profile *to, void **column, const void *from, size_t size)
{
    if (!from || to->cap == 0)
        return true;
    if (!budget_resize(to->dict->budget, column, 0, to->cap * size))
        return false;
    memcpy(*column, from, to->n_samples * size);
    return true;
}

struct profile *profile_copy(const struct profile *p, const uint32_t *columns, uint32_t n)
{
    struct budget *b = p->dict->budget;
    CLEANUP(profile_freep) struct profile *copy = profile_new(p->dict);
    size_t charged = copy->charged;

    *copy = *p;
    copy->charged = charged;
    memset(copy->values, 0, sizeof(copy->values));
    copy->node = copy->attrs = copy->link = NULL;
    copy->time_ns = NULL;
    memset(&copy->comments, 0, sizeof(copy->comments));
    memset(&copy->mappings, 0, sizeof(copy->mappings));
    copy->n_types = columns ? n : p->n_types;
    copy->cap = p->n_samples;
    bool ok = vec_append(b, &copy->comments, p->comments.data, p->comments.len) &&
              vec_append(b, &copy->mappings, p->mappings.data, p->mappings.len) &&
              column_copy(copy, (void **)&copy->node, p->node, sizeof(*p->node)) &&
              column_copy(copy, (void **)&copy->attrs, p->attrs, sizeof(*p->attrs)) &&
              column_copy(copy, (void **)&copy->link, p->link, sizeof(*p->link)) &&
              column_copy(copy, (void **)&copy->time_ns, p->time_ns, sizeof(*p->time_ns));
    for (uint32_t t = 0; ok && t < copy->n_types; t++) {
        uint32_t from = columns ? columns[t] : t;
        copy->types[t] = p->types[from];
        ok = column_copy(copy, (void **)&copy->values[t], p->values[from], sizeof(int64_t));
    }
    return ok ? TAKE_PTR(copy) : NULL;
}

void profile_move_row(struct profile *p, size_t from, size_t to)
{
    if (from == to)
        return;
    p->node[to] = p->node[from];
    for (uint32_t t = 0; t < p->n_types; t++)
        p->values[t][to] = p->values[t][from];
    if (p->attrs)
        p->attrs[to] = p->attrs[from];
    if (p->link)
        p->link[to] = p->link[from];
    if (p->time_ns)
        p->time_ns[to] = p->time_ns[from];
}

int64_t profile_total(const struct profile *p, uint32_t type)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < p->n_samples; i++)
        sum += (uint64_t)p->values[type][i];
    return (int64_t)sum;
}

bool profile_type_is_instant(const struct profile *p, uint32_t type)
{
    static const char *const names[] = {"goroutine", "goroutines", "threadcreate"};
    struct bytes name = dict_text(p->dict, p->types[type].type);

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        if (bytes_are(name, names[i]))
            return true;
    }
    return bytes_start_with(name, BYTES("inuse_"));
}

uint32_t profile_default_index(const struct profile *p)
{
    for (uint32_t t = 0; t < p->n_types; t++) {
        if (p->default_type && p->types[t].type == p->default_type)
            return t;
    }
    return p->n_types ? p->n_types - 1 : 0;
}

/* "a, b, c": the types of p, cut where they are too many to read. */
static void list_types(const struct profile *p, char *text, size_t size)
{
    size_t len = 0;

    text[0] = '\0';
    for (uint32_t t = 0; t < p->n_types && len < size; t++) {
        int n = snprintf(text + len, size - len, "%s%s", t ? ", " : "",
                         dict_cstr(p->dict, p->types[t].type));
        len += n > 0 ? (size_t)n : 0;
    }
}

int profile_find_index(const struct profile *p, const char *name, uint32_t *ret, struct error *err)
{
    uint64_t number;

    if (p->n_types == 0)
        return error_set(err, -ENODATA, "the profile has no samples");
    if (!name || !*name) {
        *ret = profile_default_index(p);
        return 0;
    }
    if (bytes_to_u64(bytes_of(name), &number)) {
        if (number >= p->n_types)
            return error_set(err, -EINVAL, "sample_index %s is outside the range [0..%u]", name,
                             p->n_types - 1);
        *ret = (uint32_t)number;
        return 0;
    }
    const char *short_name = strncmp(name, "inuse_", 6) == 0 ? name + 6 : name;
    for (uint32_t t = 0; t < p->n_types; t++) {
        const char *type = dict_cstr(p->dict, p->types[t].type);
        if (strcmp(type, name) == 0 || strcmp(type, short_name) == 0) {
            *ret = t;
            return 0;
        }
    }
    char types[256];
    list_types(p, types, sizeof(types));
    return error_set(err, -EINVAL, "sample_index \"%s\" must be one of: %s", name, types);
}

bool profile_is_instant(const struct profile *p)
{
    for (uint32_t i = 0; i < p->n_types; i++) {
        if (profile_type_is_instant(p, i))
            return true;
    }
    return p->is_cumulative;
}

struct profile_set *profile_set_new(struct budget *budget)
{
    struct profile_set *s = must_calloc(1, sizeof(*s));
    s->budget = budget;
    s->dict = dict_new(budget);
    return s;
}

void profile_set_free(struct profile_set *s)
{
    if (!s)
        return;
    profile_set_truncate(s, 0);
    vec_done(s->budget, &s->profiles);
    for (size_t i = 0; i < s->notes.len; i++)
        free(s->notes.data[i]);
    vec_done(s->budget, &s->notes);
    dict_free(s->dict);
    free(s);
}

struct profile *profile_set_add(struct profile_set *s)
{
    struct profile *p = profile_new(s->dict);

    if (p->charged && vec_push(s->budget, &s->profiles, p))
        return p;
    profile_free(p);
    return NULL;
}

void profile_set_truncate(struct profile_set *s, size_t n)
{
    while (s->profiles.len > n)
        profile_free(s->profiles.data[--s->profiles.len]);
}

/* People read the first few; more would only make the search for equal ones slow. */
#define NOTES_MAX 100

void profile_set_note(struct profile_set *s, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    for (size_t i = 0; i < s->notes.len; i++) {
        if (strcmp(s->notes.data[i], text) == 0)
            return;
    }
    if (s->notes.len >= NOTES_MAX)
        return;
    char *copy = strdup(s->notes.len == NOTES_MAX - 1 ? "more was noted than is shown" : text);
    if (!copy || !vec_push(s->budget, &s->notes, copy))
        free(copy);
}

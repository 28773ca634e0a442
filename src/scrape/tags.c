#include "scrape/tags.h"

#include <stdlib.h>
#include <string.h>

#include "base/must.h"

void tags_done(struct tags *t)
{
    for (size_t i = 0; i < t->n; i++) {
        free(t->items[i].name);
        free(t->items[i].value);
    }
    free(t->items);
    *t = (struct tags){0};
}

struct tags tags_copy(const struct tags *t)
{
    struct tags copy = {.items = must_calloc(t->n + 1, sizeof(*copy.items)), .n = t->n};

    for (size_t i = 0; i < t->n; i++)
        copy.items[i] = (struct tag){must_copy(bytes_of(t->items[i].name)),
                                     must_copy(bytes_of(t->items[i].value))};
    return copy;
}

/* Where the name is, or belongs. */
static size_t place_of(const struct tags *t, struct bytes name, bool *ret_is_there)
{
    for (size_t i = 0; i < t->n; i++) {
        int order = bytes_compare(bytes_of(t->items[i].name), name);
        if (order >= 0) {
            *ret_is_there = order == 0;
            return i;
        }
    }
    *ret_is_there = false;
    return t->n;
}

const char *tags_get(const struct tags *t, const char *name)
{
    bool is_there;
    size_t at = place_of(t, bytes_of(name), &is_there);

    return is_there ? t->items[at].value : "";
}

bool tags_has(const struct tags *t, struct bytes name)
{
    bool is_there;

    (void)place_of(t, name, &is_there);
    return is_there;
}

static void remove_at(struct tags *t, size_t at)
{
    free(t->items[at].name);
    free(t->items[at].value);
    memmove(&t->items[at], &t->items[at + 1], (t->n - at - 1) * sizeof(*t->items));
    t->n--;
}

bool tags_set(struct tags *t, struct bytes name, struct bytes value)
{
    bool is_there;
    size_t at = place_of(t, name, &is_there);

    if (value.len == 0) {
        if (is_there)
            remove_at(t, at);
        return true;
    }
    if (name.len > TAG_NAME_MAX || value.len > TAG_VALUE_MAX || (!is_there && t->n == TAGS_MAX))
        return false;
    char *copy = must_copy(value);
    if (is_there) {
        free(t->items[at].value);
        t->items[at].value = copy;
        return true;
    }
    t->items = must_realloc(t->items, (t->n + 1) * sizeof(*t->items));
    memmove(&t->items[at + 1], &t->items[at], (t->n - at) * sizeof(*t->items));
    t->items[at] = (struct tag){must_copy(name), copy};
    t->n++;
    return true;
}

bool tag_name_is_sound(struct bytes name)
{
    for (size_t i = 0; i < name.len; i++) {
        uint8_t c = name.data[i], lower = c | 0x20;
        bool is_digit = c >= '0' && c <= '9';
        if (!(lower >= 'a' && lower <= 'z') && c != '_' && c != '.' && !(is_digit && i > 0))
            return false;
    }
    return name.len > 0 && name.len <= TAG_NAME_MAX;
}

void tags_add_key(const struct tags *t, struct buf *out)
{
    for (size_t i = 0; i < t->n; i++)
        buf_addf(out, "%zu:%s=%zu:%s,", strlen(t->items[i].name), t->items[i].name,
                 strlen(t->items[i].value), t->items[i].value);
}

void tags_list_push(struct tags_list *l, struct tags t)
{
    l->items = must_realloc(l->items, (l->n + 1) * sizeof(*l->items));
    l->items[l->n++] = t;
}

void tags_list_done(struct tags_list *l)
{
    for (size_t i = 0; i < l->n; i++)
        tags_done(&l->items[i]);
    free(l->items);
    *l = (struct tags_list){0};
}

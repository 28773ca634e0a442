#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/bytes.h"

/* Labels of a target while it is found and relabelled: name and value, by name. */
#define TAGS_MAX      128
#define TAG_NAME_MAX  256
#define TAG_VALUE_MAX 4096

struct tag {
    char *name, *value;
};

struct tags {
    struct tag *items;
    size_t n;
};

void tags_done(struct tags *t);
struct tags tags_copy(const struct tags *t);

/* The value, or "". */
const char *tags_get(const struct tags *t, const char *name);
bool tags_has(const struct tags *t, struct bytes name);

/* An empty value takes the tag away. What goes over the limits above is left out: false. */
bool tags_set(struct tags *t, struct bytes name, struct bytes value);

/* Letters, digits, '_' and '.', not beginning with a digit: false for others. */
bool tag_name_is_sound(struct bytes name);

/* All of them as one text that no other tags have. */
void tags_add_key(const struct tags *t, struct buf *out);

struct tags_list {
    struct tags *items;
    size_t n;
};

void tags_list_push(struct tags_list *l, struct tags t); /* which is taken over */
void tags_list_done(struct tags_list *l);

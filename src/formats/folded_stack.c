#include "formats/folded_stack.h"

#include "formats/collapsed_names.h"

static const struct frame_suffix suffixes[] = {
    {"_[k]", "kernel", NULL}, {"_[j]", "jvm", "jit"},         {"_[i]", "jvm", "inlined"},
    {"_[1]", "jvm", "c1"},    {"_[0]", "jvm", "interpreted"},
};

/* NULL when a frame ends in none. */
static const struct frame_suffix *frame_suffix_of(struct bytes frame)
{
    if (frame.len <= 4 || frame.data[frame.len - 1] != ']')
        return NULL;
    for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) {
        if (memcmp(frame.data + frame.len - 4, suffixes[i].text, 4) == 0)
            return &suffixes[i];
    }
    return NULL;
}

const struct frame_suffix *frame_suffix_by_kind(const char *type, const char *kind)
{
    for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) {
        bool same_kind = suffixes[i].kind ? strcmp(suffixes[i].kind, kind) == 0
                                          : strcmp(suffixes[i].type, type) == 0;
        if (same_kind)
            return &suffixes[i];
    }
    return NULL;
}

/* The location of a frame text met for the first time. */
static uint32_t new_location(struct folded_stacks *f, struct bytes frame)
{
    struct dict *d = f->dict;
    const struct frame_suffix *suffix = frame_suffix_of(frame);
    struct bytes name = suffix ? bytes_head(frame, frame.len - 4) : frame;
    struct location l = {0};

    if (suffix) {
        l.type = dict_cstring(d, suffix->type);
        if (suffix->kind) {
            uint32_t kind = dict_string_attribute(d, f->kind_key, dict_cstring(d, suffix->kind));
            l.attrs = dict_attrs(d, &kind, 1);
        }
    }
    struct line line = {.function =
                            dict_function(d, (struct function){.name = dict_string(d, name)})};
    return dict_location(d, l, &line, line.function ? 1 : 0);
}

static uint32_t find_location(struct folded_stacks *f, struct bytes frame)
{
    uint32_t location;

    if (text_cache_find(&f->frames, frame, &location))
        return location;
    location = new_location(f, frame);
    text_cache_add(&f->frames, frame, location);
    return location;
}

static size_t common_length(struct bytes a, struct bytes b)
{
    size_t n = a.len < b.len ? a.len : b.len, i = 0;

    for (uint64_t x, y; i + 8 <= n; i += 8) {
        memcpy(&x, a.data + i, 8);
        memcpy(&y, b.data + i, 8);
        if (x != y)
            return i + (size_t)__builtin_ctzll(x ^ y) / 8;
    }
    while (i < n && a.data[i] == b.data[i])
        i++;
    return i;
}

/* Drops the levels that the new stack does not share with the one before. */
static void keep_shared_levels(struct folded_stacks *f, struct bytes stack, size_t shared)
{
    while (f->levels.len > 0) {
        size_t end = vec_last(&f->levels).end;
        bool ends_here = end == stack.len || (end < stack.len && stack.data[end] == ';');
        if (end <= shared && ends_here)
            return;
        f->levels.len--;
    }
}

uint32_t folded_stack_node(struct folded_stacks *f, struct bytes stack, size_t shared)
{
    struct budget *b = f->dict->budget;

    if (shared == SIZE_MAX)
        shared = common_length((struct bytes){f->previous.data, f->previous.len}, stack);
    keep_shared_levels(f, stack, shared);
    uint32_t node = f->levels.len ? vec_last(&f->levels).node : 0;
    size_t pos = f->levels.len ? (size_t)vec_last(&f->levels).end + 1 : 0;
    while (pos <= stack.len) {
        struct bytes rest = bytes_from(stack, pos);
        const uint8_t *semi = bytes_find_byte(rest, ';');
        size_t len = semi ? (size_t)(semi - rest.data) : rest.len;
        node = dict_node(f->dict, node, find_location(f, bytes_head(rest, len)));
        pos += len;
        if (!vec_push(b, &f->levels, (struct folded_level){(uint32_t)pos, node}))
            return 0;
        pos++;
    }
    f->previous.len = shared;
    struct bytes rest = bytes_from(stack, shared);
    vec_append(b, &f->previous, rest.data, rest.len);
    return node;
}

void folded_stacks_init(struct folded_stacks *f, struct dict *dict)
{
    *f = (struct folded_stacks){.dict = dict, .kind_key = dict_cstring(dict, COLLAPSED_KIND_KEY)};
    text_cache_init(&f->frames, dict->budget);
}

void folded_stacks_done(struct folded_stacks *f)
{
    text_cache_done(&f->frames);
    vec_done(f->dict->budget, &f->previous);
    vec_done(f->dict->budget, &f->levels);
}

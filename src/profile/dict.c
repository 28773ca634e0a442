#include "profile/dict.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/must.h"

/* Ids are u32 and IDSET_NONE is taken. */
#define IDS_MAX (UINT32_MAX - 1)

static const struct dict_string no_string = {.text = ""};

struct dict *dict_new(struct budget *budget)
{
    struct dict *d = must_calloc(1, sizeof(*d));
    d->budget = budget;
    arena_init(&d->text, budget);

    /* The null elements are the one thing a spent budget must not take away: every reader may look
     * at id 0. They are a few hundred bytes, so they are let through and accounted afterwards. */
    struct budget real = *budget;
    budget->limit = SIZE_MAX;
    vec_push(budget, &d->strings, no_string);
    vec_push(budget, &d->functions, (struct function){0});
    vec_push(budget, &d->mappings, (struct mapping){0});
    vec_push(budget, &d->locations, (struct location){0});
    vec_push(budget, &d->attributes, (struct attribute){0});
    vec_push(budget, &d->attr_sets, (struct attrs){0});
    vec_push(budget, &d->links, (struct link){{0}, {0}});
    vec_push(budget, &d->node_parent, 0);
    vec_push(budget, &d->node_location, 0);
    budget->limit = real.limit;
    if (budget->used > budget->limit) {
        budget_fail(budget, budget->used - real.used);
        budget->limit = budget->used;
    }
    return d;
}

void dict_free(struct dict *d)
{
    if (!d)
        return;
    struct budget *b = d->budget;
    vec_done(b, &d->strings);
    vec_done(b, &d->functions);
    vec_done(b, &d->mappings);
    vec_done(b, &d->locations);
    vec_done(b, &d->lines);
    vec_done(b, &d->attributes);
    vec_done(b, &d->attr_sets);
    vec_done(b, &d->attr_ids);
    vec_done(b, &d->links);
    vec_done(b, &d->node_parent);
    vec_done(b, &d->node_location);
    idset_done(b, &d->string_index);
    idset_done(b, &d->function_index);
    idset_done(b, &d->mapping_index);
    idset_done(b, &d->location_index);
    idset_done(b, &d->attribute_index);
    idset_done(b, &d->attr_set_index);
    idset_done(b, &d->link_index);
    if (d->trie_slots)
        budget_free(b, d->trie_slots, (d->trie_mask + 1) * sizeof(*d->trie_slots));
    arena_done(&d->text);
    free(d);
}

/* Room in one table and its index, unless that is more than an eighth of what is left. */
#define RESERVE(d, table, index, n)                                                                \
    ({                                                                                             \
        size_t n_ = (n), left_ = (d)->budget->limit - (d)->budget->used;                           \
        if (n_ > 0 && n_ <= left_ / 8 / (sizeof(*(d)->table.data) + 4 * sizeof(uint64_t))) {       \
            (void)vec_reserve((d)->budget, &(d)->table, n_);                                       \
            (void)idset_reserve((d)->budget, &(d)->index, (d)->index.len + n_);                    \
        }                                                                                          \
    })

void dict_reserve(struct dict *d, struct dict_room room)
{
    RESERVE(d, strings, string_index, room.strings);
    RESERVE(d, functions, function_index, room.functions);
    RESERVE(d, locations, location_index, room.locations);
    if (room.lines <= (d->budget->limit - d->budget->used) / 8 / sizeof(struct line))
        (void)vec_reserve(d->budget, &d->lines, room.lines);
}

/* Adds an element that is not there yet: to the column, then to the index; both or neither. */
#define ADD(d, table, index, hash, ...)                                                            \
    ({                                                                                             \
        uint32_t added_ = 0;                                                                       \
        if ((d)->table.len >= IDS_MAX)                                                             \
            (d)->budget->failed = true;                                                            \
        else if (vec_push((d)->budget, &(d)->table, (__VA_ARGS__))) {                              \
            added_ = (uint32_t)(d)->table.len - 1;                                                 \
            if (!idset_add((d)->budget, &(d)->index, (hash), added_)) {                            \
                (d)->table.len--;                                                                  \
                added_ = 0;                                                                        \
            }                                                                                      \
        }                                                                                          \
        added_;                                                                                    \
    })

static inline bool string_is(const struct dict *d, uint32_t id, struct bytes s)
{
    return d->strings.data[id].len == s.len && memcmp(d->strings.data[id].text, s.data, s.len) == 0;
}

static uint32_t find_string(const struct dict *d, struct bytes s, uint64_t hash)
{
    return IDSET_FIND(&d->string_index, hash, id, string_is(d, id, s));
}

uint32_t dict_find_string(const struct dict *d, struct bytes s)
{
    if (s.len == 0)
        return 0;
    uint32_t id = find_string(d, s, hash_bytes(s.data, s.len));
    return id == IDSET_NONE ? 0 : id;
}

uint32_t dict_string(struct dict *d, struct bytes s)
{
    if (s.len == 0)
        return 0;
    if (d->next_string < d->strings.len && string_is(d, d->next_string, s))
        return d->next_string++;
    uint64_t hash = hash_bytes(s.data, s.len);
    uint32_t id = find_string(d, s, hash);
    if (id != IDSET_NONE) {
        d->next_string = id + 1;
        return id;
    }
    if (s.len >= UINT32_MAX) {
        budget_fail(d->budget, s.len);
        return 0;
    }
    const char *copy = arena_strdup(&d->text, s);
    if (!copy)
        return 0;
    return ADD(d, strings, string_index, hash,
               (struct dict_string){copy, (uint32_t)s.len, (uint32_t)(hash >> 32)});
}

uint32_t dict_cstring(struct dict *d, const char *s)
{
    return dict_string(d, bytes_of(s));
}

static uint64_t pair(uint32_t a, uint32_t b)
{
    return (uint64_t)a << 32 | b;
}

static bool function_equal(const struct function *a, const struct function *b)
{
    return a->name == b->name && a->system_name == b->system_name && a->file == b->file &&
           a->start_line == b->start_line;
}

uint32_t dict_function(struct dict *d, struct function f)
{
    if (function_equal(&f, &(struct function){0}))
        return 0;
    uint32_t id = d->next_function;
    if (id < d->functions.len && function_equal(&d->functions.data[id], &f))
        return d->next_function++;
    uint64_t hash = hash_mix(hash_mix(pair(f.name, f.system_name), f.file), (uint64_t)f.start_line);
    id = IDSET_FIND(&d->function_index, hash, i, function_equal(&d->functions.data[i], &f));
    if (id == IDSET_NONE)
        return ADD(d, functions, function_index, hash, f);
    d->next_function = id + 1;
    return id;
}

static bool mapping_equal(const struct mapping *a, const struct mapping *b)
{
    return a->start == b->start && a->limit == b->limit && a->offset == b->offset &&
           a->file == b->file && a->build_id == b->build_id && a->attrs == b->attrs &&
           a->has_functions == b->has_functions && a->has_filenames == b->has_filenames &&
           a->has_line_numbers == b->has_line_numbers &&
           a->has_inline_frames == b->has_inline_frames;
}

uint32_t dict_mapping(struct dict *d, struct mapping m)
{
    if (mapping_equal(&m, &(struct mapping){0}))
        return 0;
    uint64_t flags = (uint64_t)(m.has_functions | m.has_filenames << 1 | m.has_line_numbers << 2 |
                                m.has_inline_frames << 3);
    uint64_t hash =
        hash_mix(hash_mix(m.start, m.limit), hash_mix(m.offset, pair(m.file, m.build_id)));
    hash = hash_mix(hash, pair(m.attrs, (uint32_t)flags));
    uint32_t id = IDSET_FIND(&d->mapping_index, hash, i, mapping_equal(&d->mappings.data[i], &m));
    return id != IDSET_NONE ? id : ADD(d, mappings, mapping_index, hash, m);
}

static uint64_t location_hash(const struct location *l, const struct line *lines, size_t n)
{
    uint64_t hash = hash_mix(hash_mix(l->address, pair(l->mapping, l->type)),
                             pair(l->attrs, (uint32_t)n << 1 | l->is_folded));
    for (size_t i = 0; i < n; i++)
        hash = hash_mix(hash ^ (uint64_t)lines[i].column,
                        (uint64_t)lines[i].line << 32 ^ lines[i].function);
    return hash;
}

static bool location_equal(const struct dict *d, uint32_t id, const struct location *l,
                           const struct line *lines, size_t n)
{
    const struct location *have = &d->locations.data[id];
    if (have->address != l->address || have->mapping != l->mapping || have->type != l->type ||
        have->attrs != l->attrs || have->is_folded != l->is_folded || have->n_lines != n)
        return false;
    const struct line *had = d->lines.data + have->first_line;
    for (size_t i = 0; i < n; i++) {
        if (had[i].function != lines[i].function || had[i].line != lines[i].line ||
            had[i].column != lines[i].column)
            return false;
    }
    return true;
}

uint32_t dict_location(struct dict *d, struct location l, const struct line *lines, size_t n)
{
    l.n_lines = 0;
    if (n > UINT32_MAX || d->lines.len > UINT32_MAX - n) {
        d->budget->failed = true;
        return 0;
    }
    uint32_t id = d->next_location;
    if (id < d->locations.len && id != 0 && location_equal(d, id, &l, lines, n))
        return d->next_location++;
    uint64_t hash = location_hash(&l, lines, n);
    id = IDSET_FIND(&d->location_index, hash, i, location_equal(d, i, &l, lines, n));
    if (id != IDSET_NONE) {
        d->next_location = id + 1;
        return id;
    }
    size_t first = d->lines.len;
    if (!vec_append(d->budget, &d->lines, lines, n))
        return 0;
    l.first_line = (uint32_t)first;
    l.n_lines = (uint32_t)n;
    id = ADD(d, locations, location_index, hash, l);
    if (id == 0)
        d->lines.len = first;
    return id;
}

static bool attribute_equal(const struct attribute *a, const struct attribute *b)
{
    return a->key == b->key && a->unit == b->unit && a->text == b->text && a->kind == b->kind &&
           a->number == b->number;
}

static uint64_t attribute_hash(const struct attribute *a)
{
    return hash_mix(hash_mix(pair(a->key, a->unit), pair(a->text, a->kind)), (uint64_t)a->number);
}

static uint32_t find_attribute(const struct dict *d, const struct attribute *a, uint64_t hash)
{
    return IDSET_FIND(&d->attribute_index, hash, i, attribute_equal(&d->attributes.data[i], a));
}

uint32_t dict_find_attribute(const struct dict *d, struct attribute a)
{
    uint32_t id = find_attribute(d, &a, attribute_hash(&a));
    return id == IDSET_NONE ? 0 : id;
}

uint32_t dict_attribute(struct dict *d, struct attribute a)
{
    if (attribute_equal(&a, &(struct attribute){0}))
        return 0;
    uint64_t hash = attribute_hash(&a);
    uint32_t id = find_attribute(d, &a, hash);
    return id != IDSET_NONE ? id : ADD(d, attributes, attribute_index, hash, a);
}

uint32_t dict_string_attribute(struct dict *d, uint32_t key, uint32_t text)
{
    return dict_attribute(d,
                          (struct attribute){.key = key, .text = text, .kind = ATTRIBUTE_STRING});
}

uint32_t dict_int_attribute(struct dict *d, uint32_t key, int64_t number, uint32_t unit)
{
    return dict_attribute(
        d, (struct attribute){.key = key, .number = number, .unit = unit, .kind = ATTRIBUTE_INT});
}

static int compare_ids(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Sorts and drops repetitions and zeros; how many are left. */
static size_t normalize_ids(uint32_t *ids, size_t n)
{
    bool sorted = true;
    for (size_t i = 1; i < n; i++)
        sorted &= ids[i - 1] < ids[i];
    if (!sorted)
        qsort(ids, n, sizeof(*ids), compare_ids);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (ids[i] != 0 && (kept == 0 || ids[kept - 1] != ids[i]))
            ids[kept++] = ids[i];
    }
    return kept;
}

static uint32_t find_set(const struct dict *d, const uint32_t *ids, size_t n, uint64_t hash)
{
    return IDSET_FIND(
        &d->attr_set_index, hash, i,
        d->attr_sets.data[i].n == n &&
            memcmp(d->attr_ids.data + d->attr_sets.data[i].first, ids, n * sizeof(*ids)) == 0);
}

uint32_t dict_find_attrs(const struct dict *d, uint32_t *ids, size_t n)
{
    size_t kept = normalize_ids(ids, n);
    if (kept == 0)
        return 0;
    uint32_t id = find_set(d, ids, kept, hash_bytes(ids, kept * sizeof(*ids)));
    return id == IDSET_NONE ? 0 : id;
}

uint32_t dict_attrs(struct dict *d, uint32_t *ids, size_t n)
{
    size_t kept = normalize_ids(ids, n);
    if (kept == 0)
        return 0;
    uint64_t hash = hash_bytes(ids, kept * sizeof(*ids));
    uint32_t id = find_set(d, ids, kept, hash);
    if (id != IDSET_NONE)
        return id;
    size_t first = d->attr_ids.len;
    if (first + kept > UINT32_MAX || !vec_append(d->budget, &d->attr_ids, ids, kept)) {
        d->budget->failed = true;
        return 0;
    }
    id = ADD(d, attr_sets, attr_set_index, hash, (struct attrs){(uint32_t)first, (uint32_t)kept});
    if (id == 0)
        d->attr_ids.len = first;
    return id;
}

uint32_t dict_attrs_with(struct dict *d, uint32_t set, uint32_t attribute)
{
    struct attrs have = d->attr_sets.data[set];
    VEC(uint32_t) ids = {0};
    uint32_t id = 0;

    if (vec_append(d->budget, &ids, d->attr_ids.data + have.first, have.n) &&
        vec_push(d->budget, &ids, attribute))
        id = dict_attrs(d, ids.data, ids.len);
    vec_done(d->budget, &ids);
    return id;
}

uint32_t dict_attrs_get(const struct dict *d, uint32_t set, uint32_t key)
{
    struct attrs have = d->attr_sets.data[set];
    for (uint32_t i = 0; i < have.n; i++) {
        uint32_t id = d->attr_ids.data[have.first + i];
        if (d->attributes.data[id].key == key)
            return id;
    }
    return 0;
}

uint32_t dict_link(struct dict *d, struct link l)
{
    static const struct link none;
    if (memcmp(&l, &none, sizeof(l)) == 0)
        return 0;
    uint64_t hash = hash_bytes(&l, sizeof(l));
    uint32_t id =
        IDSET_FIND(&d->link_index, hash, i, memcmp(&d->links.data[i], &l, sizeof(l)) == 0);
    return id != IDSET_NONE ? id : ADD(d, links, link_index, hash, l);
}

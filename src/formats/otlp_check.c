#include "formats/otlp_check.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>

#include "formats/otlp_internal.h"
#include "profile/dict.h"

enum shape { SHAPE_NONE, SHAPE_VALUES, SHAPE_TIMES, SHAPE_BOTH, SHAPE_BAD };

static const char *const table_names[] = {
    [DICTIONARY_MAPPINGS] = "mapping_table",   [DICTIONARY_LOCATIONS] = "location_table",
    [DICTIONARY_FUNCTIONS] = "function_table", [DICTIONARY_LINKS] = "link_table",
    [DICTIONARY_STRINGS] = "string_table",     [DICTIONARY_ATTRIBUTES] = "attribute_table",
    [DICTIONARY_STACKS] = "stack_table",
};
#define N_TABLES ARRAY_SIZE(table_names)

struct check {
    struct budget budget;
    struct dict *dict; /* holds the strings, so that equal ones are one */
    struct buf *problems;
    struct buf path; /* where we are: "resource_profiles[0].scope_profiles[1]" */
    int n;

    VEC(uint8_t) used[N_TABLES]; /* by index: something refers to it; the length is the table's */
    VEC(uint32_t) strings;       /* index -> id in dict */
    VEC(uint32_t) keys;          /* attribute index -> string index */
    VEC(uint32_t) seen_by;       /* string id -> owner that had it as a key */
    uint32_t owner;
    VEC(uint64_t) numbers; /* scratch */
};

static void problem(struct check *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void problem(struct check *c, const char *fmt, ...)
{
    char text[256];
    va_list ap;

    if (c->n < INT_MAX)
        c->n++;
    if (c->n > OTLP_CHECK_LINES)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    buf_addf(c->problems, "%s: %s\n", c->path.len > 0 ? buf_cstr(&c->path) : "message", text);
}

/* Steps into an element of a repeated field; give the result to leave(). */
static size_t enter(struct check *c, const char *field, size_t index)
{
    size_t before = c->path.len;

    buf_addf(&c->path, "%s%s[%zu]", before > 0 ? "." : "", field, index);
    return before;
}

static void leave(struct check *c, size_t before)
{
    c->path.len = before;
}

static bool next(struct check *c, struct pb_reader *r)
{
    if (pb_next(r))
        return true;
    if (r->failure)
        problem(c, "%s", r->failure);
    return false;
}

static void check_index(struct check *c, enum otlp_dictionary_field table, uint64_t index,
                        const char *name)
{
    if (index < c->used[table].len)
        c->used[table].data[index] = 1;
    else
        problem(c, "%s is %lld and the %s has %zu", name, (long long)index, table_names[table],
                c->used[table].len);
}

/* The numbers of every occurrence of a field, packed or not. */
static void read_numbers(struct check *c, struct bytes message, uint32_t field)
{
    struct pb_reader r = pb_reader(message);

    vec_clear(&c->numbers);
    while (pb_next(&r)) {
        if (r.field != field)
            continue;
        struct bytes list = pb_packed(&r);
        for (uint64_t v; pb_packed_next(&r, &list, &v);)
            vec_push(&c->budget, &c->numbers, v);
    }
    if (r.failure)
        problem(c, "%s", r.failure);
}

static void check_attributes(struct check *c, struct bytes message, uint32_t field)
{
    read_numbers(c, message, field);
    c->owner++;
    for (size_t i = 0; i < c->numbers.len; i++) {
        uint64_t v = c->numbers.data[i];
        check_index(c, DICTIONARY_ATTRIBUTES, v, "attribute_indices");
        if (v >= c->keys.len || c->keys.data[v] >= c->strings.len)
            continue;
        uint32_t key = c->strings.data[c->keys.data[v]];
        if (c->seen_by.data[key] == c->owner)
            problem(c, "attribute_indices has the key \"%s\" twice", dict_cstr(c->dict, key));
        c->seen_by.data[key] = c->owner;
    }
}

static void check_value_type(struct check *c, struct bytes message, const char *name)
{
    struct pb_reader r = pb_reader(message);

    while (next(c, &r)) {
        if (r.field == 1 || r.field == 2)
            check_index(c, DICTIONARY_STRINGS, r.value, name);
    }
}

static size_t count_times(struct check *c, struct bytes sample, uint64_t start, uint64_t end)
{
    struct pb_reader r = pb_reader(sample);
    size_t n = 0;

    while (pb_next(&r)) {
        if (r.field != SAMPLE_TIMES)
            continue;
        struct bytes list = r.data;
        if (r.wire == PB_FIXED64)
            list = (struct bytes){r.pos - 8, 8};
        for (size_t i = 0; i + 8 <= list.len; i += 8, n++) {
            uint64_t time;
            memcpy(&time, list.data + i, 8);
            if (time < start || time >= end)
                problem(c, "timestamps_unix_nano has %llu, outside of [%llu, %llu)",
                        (unsigned long long)time, (unsigned long long)start,
                        (unsigned long long)end);
        }
    }
    return n;
}

static enum shape sample_shape(struct check *c, size_t n_values, size_t n_times)
{
    if (n_values == 0 && n_times == 0) {
        problem(c, "there is neither a value nor a time");
        return SHAPE_BAD;
    }
    if (n_values == 0)
        return SHAPE_TIMES;
    if (n_times == 0) {
        if (n_values > 1)
            problem(c, "there are %zu values without times", n_values);
        return SHAPE_VALUES;
    }
    if (n_values != n_times)
        problem(c, "there are %zu values and %zu times", n_values, n_times);
    return SHAPE_BOTH;
}

static enum shape check_sample(struct check *c, struct bytes message, uint64_t start, uint64_t end)
{
    struct pb_reader r = pb_reader(message);

    while (next(c, &r)) {
        if (r.field == SAMPLE_STACK)
            check_index(c, DICTIONARY_STACKS, r.value, "stack_index");
        else if (r.field == SAMPLE_LINK)
            check_index(c, DICTIONARY_LINKS, r.value, "link_index");
    }
    check_attributes(c, message, SAMPLE_ATTRIBUTES);
    size_t n_times = count_times(c, message, start, end);
    read_numbers(c, message, SAMPLE_VALUES);
    return sample_shape(c, c->numbers.len, n_times);
}

static void check_profile(struct check *c, struct bytes message)
{
    struct pb_reader r = pb_reader(message);
    uint64_t start = 0, duration = 0;
    enum shape expected = SHAPE_NONE;
    size_t n = 0;

    while (next(c, &r)) {
        if (r.field == PROFILE_SAMPLE_TYPE)
            check_value_type(c, r.data, "sample_type");
        else if (r.field == PROFILE_PERIOD_TYPE)
            check_value_type(c, r.data, "period_type");
        else if (r.field == PROFILE_TIME)
            start = r.value;
        else if (r.field == PROFILE_DURATION)
            duration = r.value;
    }
    check_attributes(c, message, PROFILE_ATTRIBUTES);
    r = pb_reader(message);
    while (pb_next(&r)) {
        if (r.field != PROFILE_SAMPLES || r.wire != PB_BYTES)
            continue;
        size_t before = enter(c, "samples", n++);
        enum shape shape = check_sample(c, r.data, start, start + duration);
        if (expected != SHAPE_NONE && shape != expected)
            problem(c, "the sample has another shape than the profile's first");
        else
            expected = shape;
        leave(c, before);
    }
}

/* Resource profiles hold scope profiles hold profiles: none may be empty. */
static void check_envelope(struct check *c, struct bytes message, int level)
{
    static const char *const names[] = {"resource_profiles", "scope_profiles", "profiles"};
    struct pb_reader r = pb_reader(message);
    size_t n = 0;

    if (level == 3) {
        check_profile(c, message);
        return;
    }
    while (next(c, &r)) {
        if (r.field != (level == 0 ? 1u : 2u) || r.wire != PB_BYTES)
            continue;
        size_t before = enter(c, names[level], n++);
        check_envelope(c, r.data, level + 1);
        leave(c, before);
    }
    if (n == 0)
        problem(c, "there are no %s", names[level]);
}

static void check_mapping(struct check *c, struct bytes message)
{
    struct pb_reader r = pb_reader(message);
    uint64_t start = 0, limit = 0;

    while (next(c, &r)) {
        if (r.field == MAPPING_START)
            start = r.value;
        else if (r.field == MAPPING_LIMIT)
            limit = r.value;
        else if (r.field == MAPPING_FILE)
            check_index(c, DICTIONARY_STRINGS, r.value, "filename_strindex");
    }
    if (start >= limit && (start != 0 || limit != 0))
        problem(c, "memory_start %llx is not below memory_limit %llx", (unsigned long long)start,
                (unsigned long long)limit);
    check_attributes(c, message, MAPPING_ATTRIBUTES);
}

static void check_not_negative(struct check *c, uint64_t v, const char *name)
{
    if ((int64_t)v < 0)
        problem(c, "%s is negative", name);
}

static void check_line(struct check *c, struct bytes message)
{
    struct pb_reader r = pb_reader(message);

    while (next(c, &r)) {
        if (r.field == 1)
            check_index(c, DICTIONARY_FUNCTIONS, r.value, "function_index");
        else if (r.field == 2)
            check_not_negative(c, r.value, "line");
        else if (r.field == 3)
            check_not_negative(c, r.value, "column");
    }
}

static void check_location(struct check *c, struct bytes message)
{
    struct pb_reader r = pb_reader(message);

    while (next(c, &r)) {
        if (r.field == LOCATION_MAPPING)
            check_index(c, DICTIONARY_MAPPINGS, r.value, "mapping_index");
        else if (r.field == LOCATION_LINES && r.wire == PB_BYTES)
            check_line(c, r.data);
    }
    check_attributes(c, message, LOCATION_ATTRIBUTES);
}

static void check_function(struct check *c, struct bytes message)
{
    static const char *const names[] = {"", "name_strindex", "system_name_strindex",
                                        "filename_strindex"};
    struct pb_reader r = pb_reader(message);

    while (next(c, &r)) {
        if (r.field <= 3)
            check_index(c, DICTIONARY_STRINGS, r.value, names[r.field]);
        else if (r.field == 4)
            check_not_negative(c, r.value, "start_line");
    }
}

static void check_link(struct check *c, struct bytes message)
{
    struct pb_reader r = pb_reader(message);
    size_t trace = 0, span = 0;

    while (next(c, &r)) {
        if (r.field == 1)
            trace = r.data.len;
        else if (r.field == 2)
            span = r.data.len;
    }
    if (trace != 16)
        problem(c, "trace_id has %zu bytes and not 16", trace);
    if (span != 8)
        problem(c, "span_id has %zu bytes and not 8", span);
}

static void check_attribute(struct check *c, struct bytes message)
{
    struct pb_reader r = pb_reader(message);

    while (next(c, &r)) {
        if (r.field == 1)
            check_index(c, DICTIONARY_STRINGS, r.value, "key_strindex");
        else if (r.field == 3)
            check_index(c, DICTIONARY_STRINGS, r.value, "unit_strindex");
    }
}

static void check_stack(struct check *c, struct bytes message)
{
    read_numbers(c, message, 1);
    for (size_t i = 0; i < c->numbers.len; i++)
        check_index(c, DICTIONARY_LOCATIONS, c->numbers.data[i], "location_indices");
}

/* Only fields of value zero: also ids of zero bytes, and an attribute value without a kind. */
static bool is_zero(struct bytes message)
{
    struct pb_reader r = pb_reader(message);

    while (pb_next(&r)) {
        if (r.wire != PB_BYTES && r.value != 0)
            return false;
        for (size_t i = 0; r.wire == PB_BYTES && i < r.data.len; i++) {
            if (r.data.data[i] != 0)
                return false;
        }
    }
    return !r.failure;
}

static void check_element(struct check *c, uint32_t table, size_t index, struct bytes message)
{
    static void (*const checks[])(struct check * c, struct bytes message) = {
        [DICTIONARY_MAPPINGS] = check_mapping,     [DICTIONARY_LOCATIONS] = check_location,
        [DICTIONARY_FUNCTIONS] = check_function,   [DICTIONARY_LINKS] = check_link,
        [DICTIONARY_ATTRIBUTES] = check_attribute, [DICTIONARY_STACKS] = check_stack,
    };

    if (index > 0 && checks[table])
        checks[table](c, message);
    else if (index == 0 && table != DICTIONARY_STRINGS && !is_zero(message))
        problem(c, "element 0 is not empty");
    else if (index == 0 && table == DICTIONARY_STRINGS && message.len > 0)
        problem(c, "the first string is not empty");
}

/* Strings and keys, and the size of every table: what the checks of references need. */
static void index_element(struct check *c, const struct pb_reader *r)
{
    uint8_t is_first = c->used[r->field].len == 0;

    vec_push(&c->budget, &c->used[r->field], is_first);
    if (r->field == DICTIONARY_STRINGS)
        vec_push(&c->budget, &c->strings, dict_string(c->dict, r->data));
    if (r->field != DICTIONARY_ATTRIBUTES)
        return;
    uint32_t key = 0;
    for (struct pb_reader a = pb_reader(r->data); pb_next(&a);)
        key = a.field == 1 ? (uint32_t)a.value : key;
    vec_push(&c->budget, &c->keys, key);
}

static bool is_element(const struct pb_reader *r)
{
    return r->field < N_TABLES && r->wire == PB_BYTES;
}

/* Calls `look` for every element of the dictionary, or just makes the index when it is NULL. */
static void each_element(struct check *c, struct bytes message,
                         void (*look)(struct check *c, uint32_t table, size_t index,
                                      struct bytes element))
{
    size_t n[N_TABLES] = {0};

    for (struct pb_reader m = pb_reader(message); pb_next(&m);) {
        if (m.field != 2 || m.wire != PB_BYTES)
            continue;
        struct pb_reader r = pb_reader(m.data);
        while (look ? pb_next(&r) : next(c, &r)) {
            if (!is_element(&r))
                continue;
            if (!look) {
                index_element(c, &r);
                continue;
            }
            size_t index = n[r.field]++;
            size_t before = enter(c, table_names[r.field], index);
            look(c, r.field, index, r.data);
            leave(c, before);
        }
    }
}

/* Equal mappings are found as equal messages: fields are written in one order by one writer. */
static void check_twice(struct check *c, uint32_t table, size_t index, struct bytes element)
{
    bool is_mapping = table == DICTIONARY_MAPPINGS;

    if (index == 0 || (!is_mapping && table != DICTIONARY_STRINGS))
        return;
    size_t before = c->dict->attributes.len;
    uint32_t text = dict_string(c->dict, element);
    dict_attribute(c->dict,
                   (struct attribute){.key = text, .number = is_mapping, .kind = ATTRIBUTE_INT});
    if (c->dict->attributes.len == before)
        problem(c, "an equal element stands before it");
}

static void check_orphans(struct check *c)
{
    for (uint32_t t = 1; t < N_TABLES; t++) {
        if (c->used[t].len == 0)
            problem(c, "the %s has no element 0", table_names[t]);
        for (size_t i = 1; i < c->used[t].len; i++) {
            if (!c->used[t].data[i])
                problem(c, "nothing refers to element %zu of the %s", i, table_names[t]);
        }
    }
}

int otlp_check(struct bytes message, struct buf *problems)
{
    struct check c = {.problems = problems};

    budget_init(&c.budget, BUDGET_DEFAULT_BYTES);
    c.dict = dict_new(&c.budget);
    each_element(&c, message, NULL);
    if (vec_resize(&c.budget, &c.seen_by, c.dict->strings.len)) {
        check_envelope(&c, message, 0);
        each_element(&c, message, check_element);
        each_element(&c, message, check_twice);
        check_orphans(&c);
    }
    if (budget_failed(&c.budget))
        problem(&c, "the message is too large to check");

    for (size_t t = 0; t < N_TABLES; t++)
        vec_done(&c.budget, &c.used[t]);
    vec_done(&c.budget, &c.strings);
    vec_done(&c.budget, &c.keys);
    vec_done(&c.budget, &c.seen_by);
    vec_done(&c.budget, &c.numbers);
    dict_free(c.dict);
    buf_done(&c.path);
    return c.n;
}

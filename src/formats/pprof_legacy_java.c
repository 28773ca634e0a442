/*
 * The Java variants: like the C++ formats, but the numbers in a stack only name places, which are
 * listed behind the samples as "0xNUMBER function (file:line)".
 */
#include <errno.h>

#include "base/hash.h"
#include "formats/pprof_legacy_internal.h"

#define HEAP_RATE 524288 /* bytes per sample, on average; the files do not say it */

static bool take_attribute(struct bytes line, struct bytes *ret_key, struct bytes *ret_value)
{
    const uint8_t *equals = bytes_find_byte(line, '=');

    if (!equals)
        return false;
    *ret_key = bytes_trim(bytes_head(line, (size_t)(equals - line.data)));
    *ret_value = bytes_trim(bytes_from(line, (size_t)(equals - line.data) + 1));
    return ret_key->len > 0 && ret_value->len > 0;
}

static int read_attribute(struct legacy *l, bool is_heap, struct bytes key, struct bytes value)
{
    struct profile *p = l->profile;
    int64_t number = 0;
    bool is_number = bytes_to_i64(value, &number);

    if (bytes_are(key, "format"))
        return bytes_are(value, "java") ? 0 : legacy_fail(l, "the format is not \"java\"");
    if (bytes_are(key, "resolution") && p->n_types == 0) {
        profile_add_ctype(p, is_heap ? "inuse_objects" : "contentions", "count");
        profile_add_type(p, dict_cstring(l->dict, is_heap ? "inuse_space" : "delay"),
                         dict_string(l->dict, value));
        return 0;
    }
    if (!is_heap && bytes_are(key, "sampling period") && is_number) {
        p->period_type = (struct value_type){dict_cstring(l->dict, "contentions"),
                                             dict_cstring(l->dict, "count")};
        p->period = number;
        return 0;
    }
    if (!is_heap && bytes_are(key, "ms since reset") && is_number &&
        !__builtin_mul_overflow(number, 1000000, &p->duration_ns))
        return 0;
    return legacy_fail(l, "\"%.*s\" is not known or not a number", (int)(key.len & 127),
                       (const char *)key.data);
}

/* "SIZE COUNT @ NUMBER...". False when the line is something else. */
static bool take_sample(struct bytes *line, int64_t *ret_size, int64_t *ret_count)
{
    struct bytes s = *line;

    if (!take_i64(&s, ret_size) || !take_spaces(&s) || !take_i64(&s, ret_count) ||
        !take_spaces(&s) || !take_text(&s, "@ "))
        return false;
    *line = s;
    return true;
}

static int add_sample(struct legacy *l, bool is_heap, int64_t size, int64_t count)
{
    struct legacy_sample s = {0};
    int64_t period = l->profile->period;

    if (size < 0 || count < 0)
        return legacy_fail(l, "a value is negative");
    if (is_heap) {
        if (count == 0)
            return legacy_fail(l, "a count is 0");
        s.block_size = size / count;
        s.has_block_size = true;
        legacy_unsample(&count, &size, HEAP_RATE);
    } else if (period != 0 && (__builtin_mul_overflow(count, period, &count) ||
                               __builtin_mul_overflow(size, period, &size))) {
        return legacy_fail(l, "a value does not fit 64 bits");
    }
    s.values[0] = count;
    s.values[1] = size;
    legacy_add_sample(l, s);
    return 0;
}

int legacy_read_java(struct legacy *l, struct bytes header)
{
    bool is_heap = bytes_are(header, "--- heapz 1 ---"), in_header = true;
    struct bytes before = l->rest;

    for (struct bytes line; legacy_next_line(l, &line) && !budget_failed(l->budget);
         before = l->rest) {
        struct bytes key, value;
        int64_t size, count;
        int r;
        line = bytes_trim(line);
        if (line.len == 0)
            continue;
        if (in_header && take_attribute(line, &key, &value)) {
            r = read_attribute(l, is_heap, key, value);
        } else if (take_sample(&line, &size, &count)) {
            in_header = false;
            if (l->profile->n_types == 0)
                return legacy_fail(l, "samples come before \"resolution = UNIT\"");
            r = legacy_add_addresses(l, line, LEGACY_ADJUST_NONE);
            if (r == 0)
                r = add_sample(l, is_heap, size, count);
        } else {
            break;
        }
        if (r < 0)
            return r;
    }
    if (before.len > 0 && l->line > 0 && before.data != l->rest.data)
        l->line--;
    l->rest = before;
    return legacy_read_java_places(l);
}

/* "function (file:line)", "function (path)", "... generated stub/JIT ..." or just a name. */
struct place_text {
    struct bytes function, file;
    int64_t line;
};

static struct bytes base_name(struct bytes path)
{
    const uint8_t *slash = path.len ? memrchr(path.data, '/', path.len) : NULL;
    return slash ? bytes_from(path, (size_t)(slash - path.data) + 1) : path;
}

static struct place_text read_place(struct bytes text)
{
    struct place_text p = {.function = text};
    const uint8_t *open = NULL;

    if (text.len > 0 && text.data[text.len - 1] == ')')
        open = memrchr(text.data, '(', text.len);
    if (!open || open == text.data || !is_space(open[-1])) {
        if (bytes_find(text, BYTES("generated stub/JIT")))
            p.function = BYTES("STUB");
        return p;
    }
    size_t at = (size_t)(open - text.data);
    struct bytes inner = {open + 1, text.len - at - 2};
    p.function = bytes_trim(bytes_head(text, at));
    const uint8_t *colon = inner.len ? memrchr(inner.data, ':', inner.len) : NULL;
    int64_t line;
    if (colon && colon > inner.data &&
        bytes_to_i64(bytes_from(inner, (size_t)(colon - inner.data) + 1), &line)) {
        p.file = bytes_head(inner, (size_t)(colon - inner.data));
        p.line = line > 0 ? line : 0;
    } else {
        p.file = base_name(inner);
    }
    return p;
}

/* Functions are known by name alone: the file is the first one met. */
struct function_names {
    VEC(uint32_t) functions; /* dictionary ids */
    struct idset index;
};

static uint32_t function_of(struct legacy *l, struct function_names *names,
                            const struct place_text *p)
{
    uint32_t name = dict_string(l->dict, p->function);
    uint64_t hash = hash_mix(name, 3);
    uint32_t at = IDSET_FIND(&names->index, hash, i,
                             l->dict->functions.data[names->functions.data[i]].name == name);
    if (at != IDSET_NONE)
        return names->functions.data[at];
    uint32_t id = dict_function(l->dict, (struct function){.name = name,
                                                           .system_name = name,
                                                           .file = dict_string(l->dict, p->file)});
    if (vec_push(l->budget, &names->functions, id))
        idset_add(l->budget, &names->index, hash, (uint32_t)names->functions.len - 1);
    return id;
}

int legacy_read_java_places(struct legacy *l)
{
    struct function_names names = {0};

    l->keeps_addresses = false;
    for (struct bytes line; legacy_next_line(l, &line) && !budget_failed(l->budget);) {
        uint64_t number;
        line = bytes_trim(line);
        if (!bytes_start_with(line, BYTES("0x")) || !take_hex(&line, &number) ||
            !take_spaces(&line))
            continue;
        uint32_t at = IDSET_FIND(&l->place_index, hash_mix(number, 2), i,
                                 l->places.data[i].address == number);
        if (at == IDSET_NONE)
            continue;
        struct place_text p = read_place(line);
        l->places.data[at].function = function_of(l, &names, &p);
        l->places.data[at].line = p.line;
        l->places.data[at].has_line = true;
    }
    vec_done(l->budget, &names.functions);
    idset_done(l->budget, &names.index);
    return 0;
}

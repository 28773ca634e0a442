#pragma once

#include <errno.h>

#include "formats/formats.h"
#include "formats/otlp_check.h"
#include "formats/otlp_internal.h"
#include "formats/otlp_schema.h"
#include "lib/test.h"
#include "wire/inflate.h"

/* What the tests of OTLP share: a set as text, to compare sets by, and a message to start from. */

static inline void dump_attrs(struct buf *b, const struct dict *d, uint32_t set)
{
    struct attrs s = d->attr_sets.data[set];
    struct buf *sorted[64];
    size_t n = 0;

    for (uint32_t i = 0; i < s.n && n < 64; i++) {
        const struct attribute *a = &d->attributes.data[d->attr_ids.data[s.first + i]];
        struct buf *one = calloc(1, sizeof(*one));
        buf_addf(one, " %s=", dict_cstr(d, a->key));
        if (a->kind == ATTRIBUTE_STRING)
            buf_addf(one, "\"%s\"", dict_cstr(d, a->text));
        else if (a->kind == ATTRIBUTE_OTHER || a->kind == ATTRIBUTE_BYTES)
            for (uint32_t k = 0; k < d->strings.data[a->text].len; k++)
                buf_addf(one, "%02x", (uint8_t)dict_cstr(d, a->text)[k]);
        else
            buf_addf(one, "%d:%lld", a->kind, (long long)a->number);
        buf_addf(one, "%s", dict_cstr(d, a->unit));
        size_t at = n++;
        for (; at > 0 && strcmp(buf_cstr(sorted[at - 1]), buf_cstr(one)) > 0; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = one;
    }
    for (size_t i = 0; i < n; i++) {
        buf_add_str(b, buf_cstr(sorted[i]));
        buf_done(sorted[i]);
        free(sorted[i]);
    }
}

static inline void dump_hex(struct buf *b, const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        buf_addf(b, "%02x", p[i]);
}

static inline void dump_location(struct buf *b, const struct dict *d, uint32_t id)
{
    const struct location *l = &d->locations.data[id];
    const struct mapping *m = &d->mappings.data[l->mapping];

    buf_addf(b, "  %llx %s%s", (unsigned long long)l->address, dict_cstr(d, l->type),
             l->is_folded ? " folded" : "");
    dump_attrs(b, d, l->attrs);
    if (l->mapping) {
        buf_addf(b, " in %llx-%llx+%llx %s (%s) %d%d%d%d", (unsigned long long)m->start,
                 (unsigned long long)m->limit, (unsigned long long)m->offset, dict_cstr(d, m->file),
                 dict_cstr(d, m->build_id), m->has_functions, m->has_filenames, m->has_line_numbers,
                 m->has_inline_frames);
        dump_attrs(b, d, m->attrs);
    }
    for (uint32_t i = 0; i < l->n_lines; i++) {
        const struct line *line = &d->lines.data[l->first_line + i];
        const struct function *f = &d->functions.data[line->function];
        buf_addf(b, " | %s %s %s:%lld:%lld s=%lld", dict_cstr(d, f->name),
                 dict_cstr(d, f->system_name), dict_cstr(d, f->file), (long long)line->line,
                 (long long)line->column, (long long)f->start_line);
    }
    buf_add_str(b, "\n");
}

static inline void dump_profile(struct buf *b, const struct profile *p)
{
    const struct dict *d = p->dict;

    buf_addf(b, "resource %u", p->resource_index);
    dump_attrs(b, d, p->resource_attrs);
    buf_addf(b, " %s dropped %u entities %u\nscope %u %s %s", dict_cstr(d, p->resource_schema_url),
             p->resource_dropped_attributes, d->strings.data[p->resource_entities].len,
             p->scope_index, dict_cstr(d, p->scope_name), dict_cstr(d, p->scope_version));
    dump_attrs(b, d, p->scope_attrs);
    buf_addf(b, " %s dropped %u\nprofile ", dict_cstr(d, p->scope_schema_url),
             p->scope_dropped_attributes);
    dump_hex(b, p->profile_id, sizeof(p->profile_id));
    dump_attrs(b, d, p->profile_attrs);
    buf_addf(b, " dropped %u cumulative %d\n", p->dropped_attributes, p->is_cumulative);
    for (uint32_t t = 0; t < p->n_types; t++)
        buf_addf(b, "type %s/%s\n", dict_cstr(d, p->types[t].type), dict_cstr(d, p->types[t].unit));
    buf_addf(b, "default %s time %lld for %lld period %lld %s/%s\n", dict_cstr(d, p->default_type),
             (long long)p->time_unix_ns, (long long)p->duration_ns, (long long)p->period,
             dict_cstr(d, p->period_type.type), dict_cstr(d, p->period_type.unit));
    buf_addf(b, "frames %s %s doc %s payload %s %u\n", dict_cstr(d, p->drop_frames),
             dict_cstr(d, p->keep_frames), dict_cstr(d, p->doc_url),
             dict_cstr(d, p->original_format), d->strings.data[p->original_payload].len);
    for (size_t i = 0; i < p->comments.len; i++)
        buf_addf(b, "comment %s\n", dict_cstr(d, p->comments.data[i]));
    for (size_t i = 0; i < p->mappings.len; i++)
        buf_addf(b, "mapping %s\n", dict_cstr(d, d->mappings.data[p->mappings.data[i]].file));
    for (size_t i = 0; i < p->n_samples; i++) {
        const struct link *l = &d->links.data[profile_link(p, i)];
        buf_add_str(b, "sample");
        for (uint32_t t = 0; t < p->n_types; t++)
            buf_addf(b, " %lld", (long long)p->values[t][i]);
        buf_addf(b, " at %llu", (unsigned long long)profile_time_ns(p, i));
        dump_attrs(b, d, profile_attrs(p, i));
        buf_add_str(b, " ");
        dump_hex(b, l->trace_id, 16);
        dump_hex(b, l->span_id, 8);
        buf_add_str(b, "\n");
        for (uint32_t n = p->node[i]; n != 0; n = d->node_parent.data[n])
            dump_location(b, d, d->node_location.data[n]);
    }
}

/* Everything a set says, as text; free it. */
static inline char *dump_set(const struct profile_set *set)
{
    struct buf b = {0};

    for (size_t i = 0; i < set->profiles.len; i++)
        dump_profile(&b, set->profiles.data[i]);
    char *text = strdup(buf_cstr(&b));
    buf_done(&b);
    return text;
}

/* A set under its own budget, and the error of reading it. */
struct reading {
    struct budget budget;
    struct profile_set *set;
    struct error err;
    int result;
};

static inline void read_into(struct reading *r, const struct format *f, struct bytes content,
                             size_t limit)
{
    budget_init(&r->budget, limit);
    r->set = profile_set_new(&r->budget);
    r->err.text[0] = '\0';
    struct input *in = input_from_bytes(content, "test", &r->budget);
    r->result = format_read(in, f, r->set, NULL, &r->err);
    input_close(in);
}

static inline void reading_done(struct reading *r)
{
    profile_set_free(r->set);
}

static inline char *read_as_text(const struct format *f, struct bytes content)
{
    struct reading r;
    read_into(&r, f, content, BUDGET_DEFAULT_BYTES);
    char *text = r.result == 0 ? dump_set(r.set) : strdup(r.err.text);
    reading_done(&r);
    return text;
}

#define CHECK_SAME_TEXT(t, got, want)                                                              \
    do {                                                                                           \
        char *got_text_ = (got), *want_text_ = (want);                                             \
        CHECK_STR(t, got_text_, want_text_);                                                       \
        free(got_text_);                                                                           \
        free(want_text_);                                                                          \
    } while (0)

/* Reading fails, and says this. */
#define CHECK_REFUSED(t, format, content, text_)                                                   \
    do {                                                                                           \
        struct reading reading_;                                                                   \
        read_into(&reading_, (format), (content), BUDGET_DEFAULT_BYTES);                           \
        CHECK_INT(t, reading_.result, -EBADMSG);                                                   \
        CHECK_STR(t, reading_.err.text, (text_));                                                  \
        reading_done(&reading_);                                                                   \
    } while (0)

/* Strings of the example, by index. */
#define EXAMPLE_STRINGS(X)                                                                         \
    X(S_NONE, "")                                                                                  \
    X(S_SAMPLES, "samples")                                                                        \
    X(S_COUNT, "count")                                                                            \
    X(S_CPU, "cpu")                                                                                \
    X(S_NS, "nanoseconds")                                                                         \
    X(S_MAIN, "main")                                                                              \
    X(S_WORK, "work")                                                                              \
    X(S_FILE, "a.c")                                                                               \
    X(S_BINARY, "/bin/x")                                                                          \
    X(S_THREAD, "thread.name")                                                                     \
    X(S_FRAME_TYPE, "profile.frame.type")                                                          \
    X(S_BUILD_ID, "process.executable.build_id.gnu")                                               \
    X(S_SIZE, "size")                                                                              \
    X(S_BYTES, "bytes")
#define EXAMPLE_ENUM(name, text) name,
#define EXAMPLE_TEXT(name, text) text,
enum { EXAMPLE_STRINGS(EXAMPLE_ENUM) N_EXAMPLE_STRINGS };

static inline void put_packed(struct buf *b, uint32_t field, size_t n, const uint64_t *v)
{
    size_t at = pb_begin(b, field);
    for (size_t i = 0; i < n; i++)
        pb_put_varint(b, v[i]);
    pb_end(b, at);
}
#define PACKED(b, field, ...)                                                                      \
    put_packed((b), (field), sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t),                 \
               (uint64_t[]){__VA_ARGS__})

static inline void put_times(struct buf *b, uint32_t field, size_t n, const uint64_t *v)
{
    pb_put_bytes(b, field, (struct bytes){(const uint8_t *)v, n * sizeof(*v)});
}
#define TIMES(b, field, ...)                                                                       \
    put_times((b), (field), sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t),                  \
              (uint64_t[]){__VA_ARGS__})

/*
 * The example, hand-encoded in the numbers of each release: two samples of the stack work <- main
 * (work was inlined into nothing, main is called at a.c:10), with labels, a link and times.
 */
static const char *const example_strings[] = {EXAMPLE_STRINGS(EXAMPLE_TEXT)};
static const uint8_t trace_id[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
static const uint8_t span_id[8] = {1, 1, 1, 1, 2, 2, 2, 2};

enum { V7 = 7, V8, V9, V10 };

static inline void put_string_value(struct buf *b, uint32_t field, const char *text)
{
    size_t at = pb_begin(b, field);
    pb_put_bytes(b, 1, bytes_of(text));
    pb_end(b, at);
}

static inline void put_key_text(struct buf *b, int layout, uint32_t key)
{
    if (layout == V7)
        pb_put_bytes(b, 1, bytes_of(example_strings[key]));
    else
        pb_put_u64(b, 1, key);
}

static inline void put_text_attribute(struct buf *b, int layout, uint32_t key, const char *text)
{
    size_t at = pb_begin(b, 6);
    put_key_text(b, layout, key);
    put_string_value(b, 2, text);
    pb_end(b, at);
}

/* In 1.7 no table but that of strings has an empty first element: indices are one less. */
static inline uint64_t ix(int layout, uint64_t index)
{
    return layout == V7 ? index - 1 : index;
}

static inline void put_attributes(struct buf *b, int layout)
{
    if (layout != V7)
        pb_put_bytes(b, 6, BYTES(""));
    put_text_attribute(b, layout, S_THREAD, "t1");
    put_text_attribute(b, layout, S_FRAME_TYPE, "native");
    put_text_attribute(b, layout, S_BUILD_ID, "abc");
    size_t at = pb_begin(b, 6), value;
    put_key_text(b, layout, S_SIZE);
    value = pb_begin(b, 2);
    pb_put_u64(b, 3, 96);
    pb_end(b, value);
    if (layout != V7)
        pb_put_u64(b, 3, S_BYTES);
    pb_end(b, at);
    if (layout == V7) {
        at = pb_begin(b, 7);
        pb_put_u64(b, 1, S_SIZE);
        pb_put_u64(b, 2, S_BYTES);
        pb_end(b, at);
    }
}

static inline void put_line(struct buf *b, uint64_t function, uint64_t line, uint64_t column)
{
    size_t at = pb_begin(b, 3);
    pb_put_u64_opt(b, 1, function);
    pb_put_u64_opt(b, 2, line);
    pb_put_u64_opt(b, 3, column);
    pb_end(b, at);
}

static inline void put_dictionary(struct buf *b, int layout)
{
    bool old = layout == V7;
    size_t dictionary = pb_begin(b, 2), at;

    if (!old) {
        for (uint32_t table = 1; table <= 4; table++)
            pb_put_bytes(b, table, BYTES(""));
        pb_put_bytes(b, 7, BYTES(""));
    }
    at = pb_begin(b, 1);
    pb_put_u64(b, 1, 0x1000);
    pb_put_u64(b, 2, 0x2000);
    pb_put_u64(b, 3, 0x100);
    pb_put_u64(b, 4, S_BINARY);
    PACKED(b, 5, ix(layout, 3));
    if (old)
        pb_put_u64(b, 6, 1);
    pb_end(b, at);
    at = pb_begin(b, 2);
    pb_put_u64(b, 1, ix(layout, 1));
    pb_put_u64(b, 2, 0x1100);
    put_line(b, ix(layout, 1), 10, 0);
    PACKED(b, old ? 5 : 4, ix(layout, 2));
    pb_end(b, at);
    at = pb_begin(b, 2);
    pb_put_u64(b, 2, 0x77);
    put_line(b, ix(layout, 2), 20, 3);
    put_line(b, ix(layout, 1), 11, 0);
    if (old)
        pb_put_u64(b, 4, 1);
    pb_end(b, at);
    for (uint32_t name = S_MAIN; name <= S_WORK; name++) {
        at = pb_begin(b, 3);
        pb_put_u64(b, 1, name);
        pb_put_u64(b, 3, S_FILE);
        pb_put_u64(b, 4, 5);
        pb_end(b, at);
    }
    at = pb_begin(b, 4);
    pb_put_bytes(b, 1, (struct bytes){trace_id, 16});
    pb_put_bytes(b, 2, (struct bytes){span_id, 8});
    pb_end(b, at);
    for (size_t i = 0; i < N_EXAMPLE_STRINGS; i++)
        pb_put_bytes(b, 5, bytes_of(example_strings[i]));
    put_attributes(b, layout);
    if (!old) {
        at = pb_begin(b, 7);
        PACKED(b, 1, 2, 1);
        pb_end(b, at);
    }
    pb_end(b, dictionary);
}

static inline void put_value_type(struct buf *b, uint32_t field, uint32_t type, uint32_t unit)
{
    size_t at = pb_begin(b, field);
    pb_put_u64(b, 1, type);
    pb_put_u64(b, 2, unit);
    pb_end(b, at);
}

/* Two events with their own values, and a third with other labels and a link. */
static inline void put_samples(struct buf *b, int layout)
{
    size_t at = pb_begin(b, 2);
    if (layout == V7) {
        pb_put_u64(b, 1, 1);
        pb_put_u64(b, 2, 2);
        PACKED(b, 3, 5, 6);
        PACKED(b, 4, 0);
        PACKED(b, 6, 1000, 1001);
    } else if (layout < V10) {
        pb_put_u64(b, 1, 1);
        PACKED(b, 2, 5, 6);
        PACKED(b, 3, 1);
        TIMES(b, 5, 1000, 1001);
    } else {
        pb_put_u64(b, 1, 1);
        PACKED(b, 2, 1);
        PACKED(b, 4, 5, 6);
        TIMES(b, 5, 1000, 1001);
    }
    pb_end(b, at);
    at = pb_begin(b, 2);
    if (layout == V7) {
        pb_put_u64(b, 1, 1);
        pb_put_u64(b, 2, 2);
        PACKED(b, 3, 7);
        PACKED(b, 4, 3);
        pb_put_u64(b, 5, 0);
        PACKED(b, 6, 1002);
    } else if (layout < V10) {
        pb_put_u64(b, 1, 1);
        PACKED(b, 2, 7);
        PACKED(b, 3, 4);
        pb_put_u64(b, 4, 1);
        TIMES(b, 5, 1002);
    } else {
        pb_put_u64(b, 1, 1);
        PACKED(b, 2, 4);
        pb_put_u64(b, 3, 1);
        PACKED(b, 4, 7);
        TIMES(b, 5, 1002);
    }
    pb_end(b, at);
}

static inline void put_profile(struct buf *b, int layout)
{
    static const uint8_t id[16] = {9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9};
    struct bytes profile_id = {id, sizeof(id)};
    size_t at = pb_begin(b, 2);

    put_value_type(b, 1, S_SAMPLES, S_COUNT);
    put_samples(b, layout);
    if (layout == V7) {
        PACKED(b, 3, 0, 1, 0); /* the slice 1..3 is work <- main */
        pb_put_u64(b, 4, 1000);
        pb_put_u64(b, 5, 500);
        put_value_type(b, 6, S_CPU, S_NS);
        pb_put_u64(b, 7, 50);
        PACKED(b, 8, S_WORK);
        pb_put_bytes(b, 10, profile_id);
        pb_put_u64(b, 11, 3);
        pb_put_bytes(b, 12, BYTES("pprof"));
        pb_put_bytes(b, 13, BYTES("raw"));
        PACKED(b, 14, 0);
    } else {
        uint32_t more = layout == V8;
        pb_put_fixed64(b, 3, 1000);
        pb_put_u64(b, 4, 500);
        put_value_type(b, 5, S_CPU, S_NS);
        pb_put_u64(b, 6, 50);
        if (layout == V8)
            PACKED(b, 7, S_WORK);
        pb_put_bytes(b, 7 + more, profile_id);
        pb_put_u64(b, 8 + more, 3);
        pb_put_bytes(b, 9 + more, BYTES("pprof"));
        pb_put_bytes(b, 10 + more, BYTES("raw"));
        PACKED(b, 11 + more, 1);
    }
    pb_end(b, at);
}

static inline void put_pair(struct buf *b, uint32_t field, const char *key, const char *value)
{
    size_t at = pb_begin(b, field);
    pb_put_bytes(b, 1, bytes_of(key));
    put_string_value(b, 2, value);
    pb_end(b, at);
}

static inline void put_resource(struct buf *b, int layout)
{
    size_t resource_profiles = pb_begin(b, 1), at = pb_begin(b, 1);
    put_pair(b, 1, "service.name", "shop");
    pb_put_u64(b, 2, 4);
    pb_put_bytes(b, 3, BYTES("\x12\x07service"));
    pb_end(b, at);
    size_t scope_profiles = pb_begin(b, 2);
    at = pb_begin(b, 1);
    pb_put_bytes(b, 1, BYTES("profiler"));
    pb_put_bytes(b, 2, BYTES("1.2"));
    put_pair(b, 3, "level", "high");
    pb_put_u64(b, 4, 5);
    pb_end(b, at);
    put_profile(b, layout);
    pb_put_bytes(b, 3, BYTES("schema/scope"));
    pb_end(b, scope_profiles);
    pb_put_bytes(b, 3, BYTES("schema/resource"));
    pb_end(b, resource_profiles);
}

static inline struct buf example(int layout)
{
    struct buf b = {0};
    put_resource(&b, layout);
    put_dictionary(&b, layout);
    return b;
}

#include "formats/jfr.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "formats/formats.h"
#include "formats/jfr_internal.h"

static const struct bytes magic = BYTES("FLR\0");

void jfr_make_printable(char *text)
{
    for (; *text; text++) {
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            *text = '?';
    }
}

int jfr_fail(struct jfr_file *f, const uint8_t *at, const char *fmt, ...)
{
    char text[400];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    jfr_make_printable(text);
    return error_set(f->err, -EBADMSG, "jfr at byte %zu: %s", (size_t)(at - f->content.data), text);
}

int jfr_check(struct jfr_file *f, const struct jfr_reader *r)
{
    if (budget_failed(f->budget))
        return budget_error(f->budget, f->err);
    return r->failure ? jfr_fail(f, r->failed_at, "%s", r->failure) : 0;
}

static int read_header(struct jfr_file *f, const uint8_t *start, size_t left, struct jfr_chunk *c)
{
    struct jfr_reader r = {.pos = start, .end = start + left};

    if (left < JFR_HEADER_BYTES)
        return jfr_fail(f, start, "a chunk header of %d bytes was expected and only %zu are left",
                        JFR_HEADER_BYTES, left);
    if (memcmp(start, magic.data, magic.len) != 0)
        return jfr_fail(f, start, "a chunk does not begin with \"FLR\"");
    r.pos += magic.len;
    unsigned major = (unsigned)jfr_fixed(&r, 2), minor = (unsigned)jfr_fixed(&r, 2);
    if (major != 1 && major != 2)
        return jfr_fail(f, start, "version %u.%u cannot be read; versions 1.x and 2.x can", major,
                        minor);
    uint64_t size = jfr_fixed(&r, 8), pool_at = jfr_fixed(&r, 8), metadata_at = jfr_fixed(&r, 8);
    if (size == 0)
        return jfr_fail(f, start, "the chunk is unfinished: the recording was not closed");
    if (size > left || size < JFR_HEADER_BYTES)
        return jfr_fail(f, start, "the chunk is said to be %llu bytes long and %zu are left",
                        (unsigned long long)size, left);
    if (metadata_at < JFR_HEADER_BYTES || metadata_at >= size)
        return jfr_fail(f, start, "the metadata is said to be at %llu, outside of the chunk",
                        (unsigned long long)metadata_at);
    if (pool_at < JFR_HEADER_BYTES || pool_at >= size)
        return jfr_fail(f, start, "the last checkpoint is said to be at %llu, outside of the chunk",
                        (unsigned long long)pool_at);
    c->metadata_at = (size_t)metadata_at;
    c->checkpoint_at = (size_t)pool_at;
    c->start_ns = (int64_t)jfr_fixed(&r, 8);
    c->duration_ns = (int64_t)jfr_fixed(&r, 8);
    c->start_ticks = jfr_fixed(&r, 8);
    uint64_t ticks_per_second = jfr_fixed(&r, 8);
    c->ns_per_tick = ticks_per_second > 0 ? 1e9 / (double)ticks_per_second : 1.0;
    c->all = (struct jfr_reader){
        .pos = start, .end = start + size, .compressed = (jfr_fixed(&r, 4) & 1) != 0};
    return 0;
}

static void chunk_done(struct jfr_chunk *c)
{
    struct budget *b = c->file->budget;
    struct jfr_ids *const ids[] = {&c->type_ids,   &c->trace_ids,  &c->method_ids,
                                   &c->class_ids,  &c->symbol_ids, &c->string_ids,
                                   &c->thread_ids, &c->state_ids,  &c->frame_type_ids};

    for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
        jfr_ids_done(b, ids[i]);
    vec_done(b, &c->types);
    vec_done(b, &c->fields);
    vec_done(b, &c->traces);
    vec_done(b, &c->frames);
    vec_done(b, &c->methods);
    vec_done(b, &c->classes);
    vec_done(b, &c->symbols);
    vec_done(b, &c->strings);
    vec_done(b, &c->threads);
    vec_done(b, &c->states);
    vec_done(b, &c->frame_types);
    vec_done(b, &c->scratch);
    vec_done(b, &c->labels);
    idset_done(b, &c->label_index);
    arena_done(&c->arena);
}

/* Widens the file's time window; a window that no clock can have been at is left out. */
static void add_window(struct jfr_file *f, const struct jfr_chunk *c)
{
    int64_t end;

    if (c->start_ns < 0 || c->duration_ns < 0 ||
        __builtin_add_overflow(c->start_ns, c->duration_ns, &end))
        return;
    if (f->start_ns == 0 || c->start_ns < f->start_ns)
        f->start_ns = c->start_ns;
    if (end > f->end_ns)
        f->end_ns = end;
}

static int read_chunk(struct jfr_file *f, const uint8_t *start, size_t left, size_t *ret_size)
{
    CLEANUP(chunk_done) struct jfr_chunk c = {.file = f, .number = ++f->n_chunks};
    int r;

    arena_init(&c.arena, f->budget);
    if ((r = read_header(f, start, left, &c)) < 0)
        return r;
    add_window(f, &c);
    if ((r = jfr_read_metadata(&c)) < 0 || (r = jfr_read_pools(&c)) < 0 ||
        (r = jfr_read_events(&c)) < 0)
        return r;
    *ret_size = (size_t)(c.all.end - start);
    return 0;
}

static void file_done(struct jfr_file *f)
{
    vec_done(f->budget, &f->memo);
    vec_done(f->budget, &f->tallies);
    arena_done(&f->arena);
}

/* The order of profiles should not depend on which event came first. */
static void sort_profiles(struct jfr_file *f, size_t first)
{
    for (size_t i = 0; i < JFR_FAMILIES; i++) {
        if (f->profiles[i])
            f->set->profiles.data[first++] = f->profiles[i];
    }
}

static int decode(struct input *in, struct profile_set *out, struct error *err)
{
    CLEANUP(file_done)
    struct jfr_file f = {.set = out, .dict = out->dict, .budget = out->budget, .err = err};
    size_t first = out->profiles.len;
    int r = input_all(in, &f.content, err);
    if (r < 0)
        return r;

    arena_init(&f.arena, f.budget);
    f.types[0] = dict_cstring(f.dict, "jvm");
    f.types[1] = dict_cstring(f.dict, "native");
    f.types[2] = dict_cstring(f.dict, "kernel");
    for (size_t at = 0, size = 0; at < f.content.len; at += size) {
        if ((r = read_chunk(&f, f.content.data + at, f.content.len - at, &size)) < 0)
            return r;
    }
    jfr_finish(&f);
    sort_profiles(&f, first);
    return 0;
}

static int sniff(struct bytes head)
{
    return bytes_start_with(head, magic) ? 100 : 0;
}

const struct format format_jfr = {
    .name = "jfr",
    .title = "Java Flight Recorder",
    .sniff = sniff,
    .decode = decode,
};

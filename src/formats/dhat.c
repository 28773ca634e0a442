/*
 * DHAT's JSON (Valgrind's dhat and the dhat crate): program points, each a stack with how much was
 * allocated there in all, how much of it was live when the heap was largest and at the end, and how
 * often it was read and written.
 */
#include <errno.h>

#include "formats/formats.h"
#include "formats/valgrind_frame.h"
#include "wire/json.h"

/* The numbers of a program point that add up; "mb" (its own peak) and "tl" (lifetimes) do not. */
static const struct {
    const char *key, *type, *unit;
} fields[] = {
    {"tbk", "alloc_objects", "count"}, {"tb", "alloc_space", "bytes"},
    {"gbk", "peak_objects", "count"},  {"gb", "peak_space", "bytes"},
    {"ebk", "inuse_objects", "count"}, {"eb", "inuse_space", "bytes"},
    {"rb", "read_space", "bytes"},     {"wb", "written_space", "bytes"},
};
#define N_FIELDS (sizeof(fields) / sizeof(fields[0]))

struct point {
    int64_t values[N_FIELDS];
    size_t first_frame, n_frames; /* into frames */
};

struct reader {
    struct profile *profile;
    struct dict *dict;
    struct budget *budget;
    struct json_reader *json;
    VEC(struct point) points;
    VEC(uint32_t) frames;    /* indices into the frame table, innermost first */
    VEC(uint32_t) locations; /* the frame table, which comes last */
    VEC(uint32_t) stack;
    bool is_heap;
    bool has_version;
};

static int dhat_sniff(struct bytes head)
{
    return bytes_find(bytes_head(head, 256), BYTES("\"dhatFileVersion\"")) ? 100 : 0;
}

static void read_frames(struct reader *r, struct point *p)
{
    json_enter_array(r->json);
    while (json_next_element(r->json)) {
        uint64_t index = json_get_u64(r->json);
        if (index >= UINT32_MAX)
            json_fail(r->json, "a frame index is too large");
        if (!vec_push(r->budget, &r->frames, (uint32_t)index))
            json_fail(r->json, "out of memory");
        p->n_frames++;
    }
}

static void read_point(struct reader *r)
{
    struct point p = {.first_frame = r->frames.len};

    json_enter_object(r->json);
    for (struct bytes key; json_next_key(r->json, &key);) {
        size_t i = 0;
        while (i < N_FIELDS && !bytes_are(key, fields[i].key))
            i++;
        if (i < N_FIELDS)
            p.values[i] = json_get_i64(r->json);
        else if (bytes_are(key, "fs"))
            read_frames(r, &p);
        else
            json_skip(r->json);
    }
    vec_push(r->budget, &r->points, p);
}

static void read_top(struct reader *r, struct bytes key)
{
    struct json_reader *j = r->json;

    if (bytes_are(key, "dhatFileVersion")) {
        r->has_version = true;
        int64_t version = json_get_i64(j);
        if (version != 2)
            json_fail(j, "version %lld of the format is not known", (long long)version);
    } else if (bytes_are(key, "mode")) {
        struct bytes mode = json_get_string(j);
        r->is_heap = bytes_are(mode, "heap") || bytes_are(mode, "rust-heap");
    } else if (bytes_are(key, "cmd")) {
        vec_push(r->budget, &r->profile->comments,
                 dict_string(r->dict, json_get_string_or_empty(j)));
    } else if (bytes_are(key, "pid")) {
        uint32_t a =
            dict_int_attribute(r->dict, dict_cstring(r->dict, "process.pid"), json_get_i64(j), 0);
        r->profile->resource_attrs = dict_attrs(r->dict, &a, 1);
    } else if (bytes_are(key, "pps")) {
        json_enter_array(j);
        while (json_next_element(j) && !budget_failed(r->budget))
            read_point(r);
    } else if (bytes_are(key, "ftbl")) {
        json_enter_array(j);
        while (json_next_element(j) && !budget_failed(r->budget))
            vec_push(r->budget, &r->locations, valgrind_location(r->dict, json_get_string(j)));
    } else {
        json_skip(j);
    }
}

/* Adds the program points, now that the frame table is known. Frame 0 is the root of all. */
static int add_points(struct reader *r, struct error *err)
{
    for (size_t i = 0; i < N_FIELDS; i++) {
        const char *unit = r->is_heap || i % 2 == 0 ? fields[i].unit : "units";
        profile_add_ctype(r->profile, fields[i].type, unit);
    }
    r->profile->default_type = dict_cstring(r->dict, "alloc_space");
    for (size_t i = 0; i < r->points.len && !budget_failed(r->budget); i++) {
        const struct point *p = &r->points.data[i];
        vec_clear(&r->stack);
        for (size_t k = 0; k < p->n_frames; k++) {
            uint32_t index = r->frames.data[p->first_frame + k];
            if (index >= r->locations.len)
                return error_set(err, -EBADMSG,
                                 "dhat: program point %zu has frame %u of a table of %zu", i, index,
                                 r->locations.len);
            if (index > 0)
                vec_push(r->budget, &r->stack, r->locations.data[index]);
        }
        struct sample s = {.node = dict_stack(r->dict, r->stack.data, r->stack.len),
                           .values = p->values};
        profile_add(r->profile, &s);
    }
    return 0;
}

static void reader_done(struct reader *r)
{
    json_reader_free(r->json);
    vec_done(r->budget, &r->points);
    vec_done(r->budget, &r->frames);
    vec_done(r->budget, &r->locations);
    vec_done(r->budget, &r->stack);
}

static int dhat_decode(struct input *in, struct profile_set *out, struct error *err)
{
    struct profile *p = profile_set_add(out);
    if (!p)
        return budget_error(out->budget, err);

    CLEANUP(reader_done)
    struct reader r = {.profile = p, .dict = out->dict, .budget = out->budget};
    r.json = json_reader_new(in, out->budget);
    json_enter_object(r.json);
    for (struct bytes key; json_next_key(r.json, &key) && !budget_failed(out->budget);)
        read_top(&r, key);
    if (budget_failed(out->budget))
        return budget_error(out->budget, err);
    int result = json_finish(r.json, "dhat", err);
    if (result < 0)
        return result;
    if (!r.has_version)
        return error_set(err, -EBADMSG, "dhat: there is no dhatFileVersion");
    profile_set_note(out, "times of program points and how their blocks were accessed were not "
                          "kept");
    return add_points(&r, err);
}

const struct format format_dhat = {
    .name = "dhat",
    .title = "DHAT heap profile",
    .sniff = dhat_sniff,
    .decode = dhat_decode,
};

/*
 * Ruby's stackprof, as JSON. "frames" describes each frame by an id; "raw" holds the stacks as runs
 * of [depth, id of the outermost frame, ..., id of the innermost, how many samples], and
 * "raw_lines" the line numbers in the same shape.
 *
 * Values, by mode: cpu is samples times the interval; wall the measured time between samples where
 * the file has it, else like cpu; object counts allocations, one interval per sample; in custom
 * mode there are only samples. A profile made without raw data holds no stacks: what each frame and
 * line spent itself is kept, as stacks of one frame.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/hash.h"
#include "formats/formats.h"
#include "wire/json.h"

enum mode { MODE_CUSTOM, MODE_CPU, MODE_WALL, MODE_OBJECT };

/* What a frame spent itself, by line. */
struct self {
    uint32_t frame;
    int64_t line, samples;
};

struct frame {
    uint64_t id;
    uint32_t function;
    uint32_t location; /* at the function's own line */
    int64_t line, samples;
};

struct reader {
    struct profile_set *out;
    struct dict *dict;
    struct budget *budget;
    struct json_reader *r;
    struct profile *p;
    struct error *err;
    enum mode mode;
    int64_t interval, missed;
    VEC(struct frame) frames;
    struct idset frame_index;
    VEC(struct self) selfs;
    VEC(int64_t) raw, lines, deltas;
    bool has_lines;
};

static void out_of_memory(struct reader *s)
{
    json_fail(s->r, "out of memory"); /* the budget's own words replace this in decode() */
}

static uint32_t find_frame(const struct reader *s, uint64_t id)
{
    return IDSET_FIND(&s->frame_index, hash_mix(id, 1), i, s->frames.data[i].id == id);
}

static uint32_t location_at(struct reader *s, const struct frame *f, int64_t line)
{
    struct line l = {.function = f->function, .line = line};
    struct location at = {.type = dict_cstring(s->dict, "ruby")};
    return dict_location(s->dict, at, &l, 1);
}

/* {"23": [total, self], ...}; old versions have one number, the total. */
static void read_frame_lines(struct reader *s, uint32_t frame)
{
    struct bytes key;

    json_enter_object(s->r);
    while (json_next_key(s->r, &key)) {
        struct self self = {.frame = frame};
        if (!bytes_to_i64(key, &self.line) || json_peek(s->r) != JSON_ARRAY) {
            json_skip(s->r);
            continue;
        }
        int64_t counts[2] = {0};
        json_enter_array(s->r);
        if (json_get_i64_run(s->r, counts, 2) == 2)
            while (json_next_element(s->r))
                json_skip(s->r);
        self.samples = counts[1];
        if (self.samples != 0 && !vec_push(s->budget, &s->selfs, self))
            out_of_memory(s);
    }
}

static void read_frame(struct reader *s, uint64_t id)
{
    struct function fn = {0};
    struct frame f = {.id = id};
    uint32_t index = (uint32_t)s->frames.len;
    struct bytes key;

    json_enter_object(s->r);
    while (json_next_key(s->r, &key)) {
        if (bytes_are(key, "name"))
            fn.name = dict_string(s->dict, json_get_string_or_empty(s->r));
        else if (bytes_are(key, "file"))
            fn.file = dict_string(s->dict, json_get_string_or_empty(s->r));
        else if (bytes_are(key, "line") && json_peek(s->r) == JSON_NUMBER)
            fn.start_line = f.line = json_get_i64(s->r);
        else if (bytes_are(key, "samples"))
            f.samples = json_get_i64(s->r);
        else if (bytes_are(key, "lines") && json_peek(s->r) == JSON_OBJECT)
            read_frame_lines(s, index);
        else
            json_skip(s->r);
    }
    f.function = dict_function(s->dict, fn);
    f.location = location_at(s, &f, f.line);
    if (!vec_push(s->budget, &s->frames, f) ||
        !idset_add(s->budget, &s->frame_index, hash_mix(id, 1), index))
        out_of_memory(s);
}

static void read_frames(struct reader *s)
{
    struct bytes key;
    uint64_t id;

    json_enter_object(s->r);
    while (json_next_key(s->r, &key)) {
        if (!bytes_to_u64(key, &id))
            json_fail(s->r, "the id of a frame is not a number");
        else if (find_frame(s, id) != IDSET_NONE)
            json_fail(s->r, "frame %" PRIu64 " is described twice", id);
        else
            read_frame(s, id);
    }
}

static void read_numbers(struct reader *s, void *to)
{
    VEC(int64_t) *v = to;
    int64_t run[256];
    size_t n;

    vec_clear(v);
    json_enter_array(s->r);
    do {
        n = json_get_i64_run(s->r, run, ARRAY_SIZE(run));
        if (!vec_append(s->budget, v, run, n))
            out_of_memory(s);
    } while (n == ARRAY_SIZE(run) && !json_failed(s->r));
}

static enum mode mode_named(struct bytes name)
{
    return bytes_are(name, "cpu")      ? MODE_CPU
           : bytes_are(name, "wall")   ? MODE_WALL
           : bytes_are(name, "object") ? MODE_OBJECT
                                       : MODE_CUSTOM;
}

/* {"key": "value"}: what the program said of the profile. */
static void read_metadata(struct reader *s)
{
    struct bytes key;
    struct buf text = {0};

    json_enter_object(s->r);
    while (json_next_key(s->r, &key)) {
        buf_clear(&text);
        buf_add_bytes(&text, key);
        buf_add_str(&text, ": ");
        if (json_peek(s->r) != JSON_STRING) {
            json_skip(s->r);
            continue;
        }
        buf_add_bytes(&text, json_get_string(s->r));
        vec_push(s->budget, &s->p->comments, dict_string(s->dict, buf_bytes(&text)));
    }
    buf_done(&text);
}

static void read_document(struct reader *s)
{
    struct bytes key;

    json_enter_object(s->r);
    while (json_next_key(s->r, &key)) {
        enum json_kind kind = json_peek(s->r);
        if (bytes_are(key, "mode"))
            s->mode = mode_named(json_get_string(s->r));
        else if (bytes_are(key, "interval") && kind == JSON_NUMBER)
            s->interval = json_get_i64(s->r);
        else if (bytes_are(key, "missed_samples") && kind == JSON_NUMBER)
            s->missed = json_get_i64(s->r);
        else if (bytes_are(key, "frames"))
            read_frames(s);
        else if (bytes_are(key, "raw"))
            read_numbers(s, &s->raw);
        else if (bytes_are(key, "raw_lines"))
            read_numbers(s, &s->lines);
        else if (bytes_are(key, "raw_timestamp_deltas"))
            read_numbers(s, &s->deltas);
        else if (bytes_are(key, "metadata") && kind == JSON_OBJECT)
            read_metadata(s);
        else
            json_skip(s->r);
    }
    if (s->interval < 0 || s->interval > INT32_MAX)
        json_fail(s->r, "the interval is %" PRId64, s->interval);
}

/* One row: `samples` at a stack that took `measured` microseconds, or -1 when that is not known. */
static int add_row(struct reader *s, uint32_t node, int64_t samples, int64_t measured)
{
    int64_t values[2] = {samples, 0}, scale = s->interval * (s->mode == MODE_OBJECT ? 1 : 1000);
    bool overflow = measured >= 0 && s->mode == MODE_WALL
                        ? __builtin_mul_overflow(measured, (int64_t)1000, &values[1])
                        : __builtin_mul_overflow(samples, scale, &values[1]);

    if (overflow)
        return error_set(s->err, -EBADMSG, "stackprof: %" PRId64 " samples in one place", samples);
    if (!profile_add(s->p, &(struct sample){.node = node, .values = values}))
        return budget_error(s->budget, s->err);
    return 0;
}

static int bad_raw(struct reader *s, size_t at, const char *reason)
{
    return error_set(s->err, -EBADMSG, "stackprof: element %zu of \"raw\" %s", at, reason);
}

/* The microseconds of the next n samples; -1 where they were not measured. */
static int take_time(struct reader *s, size_t *used, int64_t n, int64_t *ret)
{
    uint64_t sum = 0;

    *ret = -1;
    if (s->deltas.len == 0 || s->mode != MODE_WALL)
        return 0;
    if ((uint64_t)n > s->deltas.len - *used)
        return error_set(s->err, -EBADMSG,
                         "stackprof: \"raw_timestamp_deltas\" has %zu elements, fewer than there "
                         "are samples",
                         s->deltas.len);
    for (int64_t i = 0; i < n; i++)
        sum += (uint64_t)s->deltas.data[(*used)++];
    *ret = (int64_t)(sum & INT64_MAX);
    return 0;
}

/* The stack at raw[at .. at + depth), outermost first. */
static int read_stack(struct reader *s, size_t at, size_t depth, uint32_t *ret)
{
    uint32_t node = 0;

    for (size_t i = at; i < at + depth; i++) {
        uint32_t frame = find_frame(s, (uint64_t)s->raw.data[i]);
        if (frame == IDSET_NONE)
            return bad_raw(s, i, "names a frame that is not described");
        const struct frame *f = &s->frames.data[frame];
        bool has_line = s->has_lines && s->lines.data[i] > 0;
        uint32_t location = has_line ? location_at(s, f, s->lines.data[i]) : f->location;
        node = dict_node(s->dict, node, location);
    }
    *ret = node;
    return 0;
}

static int add_stacks(struct reader *s)
{
    size_t used = 0;

    s->has_lines = s->lines.len == s->raw.len;
    for (size_t at = 0; at < s->raw.len;) {
        int64_t depth = s->raw.data[at], time = -1;
        size_t left = s->raw.len - at - 1;
        uint32_t node = 0;
        if (depth < 0 || left == 0 || (uint64_t)depth > left - 1)
            return bad_raw(s, at, "is a depth that runs past the end");
        int64_t samples = s->raw.data[at + 1 + (size_t)depth];
        if (samples < 0)
            return bad_raw(s, at + 1 + (size_t)depth, "is a negative number of samples");
        int r = read_stack(s, at + 1, (size_t)depth, &node);
        if (r < 0 || (r = take_time(s, &used, samples, &time)) < 0 ||
            (r = add_row(s, node, samples, time)) < 0)
            return r;
        at += (size_t)depth + 2;
    }
    return 0;
}

/* Without stacks: what each line spent itself, and the rest of its frame at the frame's own line.
 */
static int add_selfs(struct reader *s)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < s->selfs.len; i++) {
        const struct self *self = &s->selfs.data[i];
        struct frame *f = &s->frames.data[self->frame];
        f->samples = (int64_t)((uint64_t)f->samples - (uint64_t)self->samples);
        uint32_t node = dict_node(s->dict, 0, location_at(s, f, self->line));
        r = add_row(s, node, self->samples, -1);
    }
    for (size_t i = 0; r == 0 && i < s->frames.len; i++) {
        const struct frame *f = &s->frames.data[i];
        if (f->samples != 0)
            r = add_row(s, dict_node(s->dict, 0, f->location), f->samples, -1);
    }
    profile_set_note(s->out, "stackprof: the profile was made without raw data, so it holds what "
                             "each frame spent itself and no stacks");
    return r;
}

static void set_types(struct reader *s)
{
    static const char *const types[][2] = {[MODE_CUSTOM] = {"custom", "count"},
                                           [MODE_CPU] = {"cpu", "nanoseconds"},
                                           [MODE_WALL] = {"wall", "nanoseconds"},
                                           [MODE_OBJECT] = {"alloc_objects", "count"}};
    struct profile *p = s->p;

    profile_add_ctype(p, "samples", "count");
    if (s->mode == MODE_CUSTOM)
        return;
    uint32_t t = profile_add_ctype(p, types[s->mode][0], types[s->mode][1]);
    p->default_type = p->types[t].type;
    p->period_type = p->types[t];
    p->period = s->interval * (s->mode == MODE_OBJECT ? 1 : 1000);
}

static int read_all(struct reader *s)
{
    read_document(s);
    int r = json_finish(s->r, "stackprof", s->err);
    if (budget_failed(s->budget))
        return budget_error(s->budget, s->err);
    if (r < 0)
        return r;
    set_types(s);
    if (s->missed > 0)
        profile_set_note(s->out, "stackprof: %" PRId64 " samples were missed", s->missed);
    r = s->raw.len > 0 ? add_stacks(s) : add_selfs(s);
    return r == 0 && budget_failed(s->budget) ? budget_error(s->budget, s->err) : r;
}

static int decode(struct input *in, struct profile_set *out, struct error *err)
{
    struct reader s = {.out = out, .dict = out->dict, .budget = out->budget, .err = err};

    s.p = profile_set_add(out);
    if (!s.p)
        return budget_error(out->budget, err);
    s.r = json_reader_new(in, out->budget);
    int r = read_all(&s);
    json_reader_free(s.r);
    vec_done(s.budget, &s.frames);
    idset_done(s.budget, &s.frame_index);
    vec_done(s.budget, &s.selfs);
    vec_done(s.budget, &s.raw);
    vec_done(s.budget, &s.lines);
    vec_done(s.budget, &s.deltas);
    return r;
}

static int sniff(struct bytes head)
{
    struct bytes rest = bytes_trim(head);

    if (rest.len == 0 || rest.data[0] != '{' || !bytes_find(rest, BYTES("\"frames\"")))
        return 0;
    if (bytes_find(rest, BYTES("\"mode\"")) && bytes_find(rest, BYTES("\"missed_samples\"")))
        return 85;
    return bytes_find(rest, BYTES("\"total_samples\"")) ? 70 : 0;
}

const struct format format_stackprof = {
    .name = "stackprof",
    .title = "stackprof JSON",
    .sniff = sniff,
    .decode = decode,
};

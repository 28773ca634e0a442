/*
 * Speedscope's file format: frames shared by any number of profiles, each a list of samples with
 * weights ("sampled"), or of frames being opened and closed ("evented"). All versions of the format
 * have this layout. speedscope_write.c writes it.
 *
 * Times become nanoseconds. The format does not say whether they are of a clock or of a processor:
 * they are called wall. A profile's name becomes its attribute "profile.name", and where there are
 * several profiles, a label of their samples.
 *
 * "shared" may come behind "profiles", so stacks are first kept as stacks of frame numbers, in a
 * trie of the decoder's own, whose locations are frame numbers + 1.
 */
#include "formats/speedscope.h"

#include <inttypes.h>
#include <math.h>

#include "formats/formats.h"
#include "formats/json_sniff.h"
#include "wire/json.h"

#define FRAMES_MAX ((int64_t)UINT32_MAX - 2)

struct row {
    uint32_t node; /* of `stacks` */
    double weight;
};

struct scope_profile {
    uint64_t offset;
    size_t first_row, n_rows;
    size_t first_weight, n_weights;
    double start, end;
    uint32_t name; /* string */
    const struct scope_unit *unit;
    bool is_evented, has_type;
};

struct speedscope {
    struct profile_set *out;
    struct dict *dict;
    struct budget *budget;
    struct dict *stacks;
    VEC(uint32_t) frames; /* locations */
    VEC(struct scope_profile) profiles;
    VEC(struct row) rows;
    VEC(double) weights;
    VEC(uint32_t) open; /* nodes */
    int64_t highest_frame;
    uint64_t highest_frame_at;
    bool has_rounded;
};

const struct scope_unit scope_units[SCOPE_N_UNITS] = {
    {"none", "samples", "count", 1},
    {"nanoseconds", "wall", "nanoseconds", 1},
    {"microseconds", "wall", "nanoseconds", 1e3},
    {"milliseconds", "wall", "nanoseconds", 1e6},
    {"seconds", "wall", "nanoseconds", 1e9},
    {"bytes", "space", "bytes", 1},
};

static int speedscope_sniff(struct bytes head)
{
    struct bytes value, inner, field;

    if (json_head_find(head, "$schema", &value) &&
        bytes_find(bytes_head(value, 64), BYTES("speedscope")))
        return 100;
    if (json_head_find(head, "shared", &value) && json_head_find(value, "frames", &inner))
        return 80;
    if (json_head_find(head, "profiles", &value) && json_head_first(value, &inner) &&
        (json_head_find(inner, "endValue", &field) || json_head_find(inner, "startValue", &field)))
        return 80;
    return 0;
}

static void read_frame(struct speedscope *s, struct json_reader *r)
{
    struct function f = {0};
    struct line l = {0};

    json_enter_object(r);
    for (struct bytes key; json_next_key(r, &key);) {
        if (bytes_are(key, "name"))
            f.name = dict_string(s->dict, json_get_string_or_empty(r));
        else if (bytes_are(key, "file"))
            f.file = dict_string(s->dict, json_get_string_or_empty(r));
        else if (bytes_are(key, "line") && json_peek(r) == JSON_NUMBER)
            l.line = json_get_i64(r);
        else if (bytes_are(key, "col") && json_peek(r) == JSON_NUMBER)
            l.column = json_get_i64(r);
        else
            json_skip(r);
    }
    l.function = dict_function(s->dict, f);
    uint32_t location = dict_location(s->dict, (struct location){0}, &l, 1);
    vec_push(s->budget, &s->frames, location);
}

static void read_shared(struct speedscope *s, struct json_reader *r)
{
    json_enter_object(r);
    for (struct bytes key; json_next_key(r, &key);) {
        if (!bytes_are(key, "frames") || s->frames.len > 0) {
            json_skip(r);
            continue;
        }
        json_enter_array(r);
        while (json_next_element(r))
            read_frame(s, r);
    }
}

/* A frame number, as a location of `stacks`. That it exists is checked at the end. */
static uint32_t note_frame(struct speedscope *s, struct json_reader *r, int64_t frame)
{
    if (frame < 0 || frame > FRAMES_MAX) {
        json_fail(r, "there cannot be a frame %" PRId64, frame);
        return 0;
    }
    if (frame > s->highest_frame) {
        s->highest_frame = frame;
        s->highest_frame_at = json_offset(r);
    }
    return (uint32_t)frame + 1;
}

/* One sample: [frame numbers], root first. */
static void read_sample(struct speedscope *s, struct json_reader *r)
{
    int64_t frames[256];
    uint32_t node = 0;
    size_t n;

    json_enter_array(r);
    do {
        n = json_get_i64_run(r, frames, ARRAY_SIZE(frames));
        for (size_t i = 0; i < n && !json_failed(r); i++)
            node = dict_node(s->stacks, node, note_frame(s, r, frames[i]));
    } while (n == ARRAY_SIZE(frames));
    vec_push(s->budget, &s->rows, (struct row){.node = node});
}

static void read_samples(struct speedscope *s, struct json_reader *r, struct scope_profile *p)
{
    p->first_row = s->rows.len;
    json_enter_array(r);
    while (json_next_element(r))
        read_sample(s, r);
    p->n_rows = s->rows.len - p->first_row;
}

static void read_weights(struct speedscope *s, struct json_reader *r, struct scope_profile *p)
{
    p->first_weight = s->weights.len;
    json_enter_array(r);
    while (json_next_element(r)) {
        double v = json_get_double(r);
        vec_push(s->budget, &s->weights, v);
    }
    p->n_weights = s->weights.len - p->first_weight;
}

struct event {
    uint64_t offset;
    char type;
    uint32_t location;
    double at;
};

static struct event read_event(struct speedscope *s, struct json_reader *r)
{
    struct event e = {.offset = json_offset(r)};

    json_enter_object(r);
    for (struct bytes key; json_next_key(r, &key);) {
        if (bytes_are(key, "type")) {
            struct bytes type = json_get_string(r);
            e.type = '?';
            if (type.len == 1)
                e.type = (char)type.data[0];
        } else if (bytes_are(key, "frame")) {
            e.location = note_frame(s, r, json_get_i64(r));
        } else if (bytes_are(key, "at")) {
            e.at = json_get_double(r);
        } else {
            json_skip(r);
        }
    }
    return e;
}

static void open_frame(struct speedscope *s, const struct event *e)
{
    uint32_t parent = s->open.len > 0 ? vec_last(&s->open) : 0;
    uint32_t node = dict_node(s->stacks, parent, e->location);

    vec_push(s->budget, &s->open, node);
}

static void close_frame(struct speedscope *s, struct json_reader *r, const struct event *e)
{
    uint32_t top = s->open.len > 0 ? vec_last(&s->open) : 0;

    if (top == 0 || s->stacks->node_location.data[top] != e->location)
        json_fail_at(r, e->offset, "frame %u is closed but is not the innermost open one",
                     e->location - 1);
    else
        s->open.len--;
}

/* Rows of an evented profile have the time they begin at for a weight; one without a stack ends
 * each. */
static void read_events(struct speedscope *s, struct json_reader *r, struct scope_profile *p)
{
    double now = -INFINITY;

    p->first_row = s->rows.len;
    vec_clear(&s->open);
    json_enter_array(r);
    while (json_next_element(r)) {
        struct event e = read_event(s, r);
        if (json_failed(r) || budget_failed(s->budget))
            return;
        if (e.at < now)
            json_fail_at(r, e.offset, "an event is earlier than the one before it");
        else if (e.location == 0)
            json_fail_at(r, e.offset, "an event names no frame");
        else if (e.type == 'O')
            open_frame(s, &e);
        else if (e.type == 'C')
            close_frame(s, r, &e);
        else
            json_fail_at(r, e.offset, "an event is neither of type O nor C");
        now = e.at;
        uint32_t node = s->open.len > 0 ? vec_last(&s->open) : 0;
        vec_push(s->budget, &s->rows, (struct row){node, now});
    }
    if (s->open.len > 0)
        json_fail(r, "the events end with %zu frames open", s->open.len);
    p->n_rows = s->rows.len - p->first_row;
}

static const struct scope_unit *read_unit(struct json_reader *r)
{
    struct bytes text = json_get_string(r);

    for (size_t i = 0; i < SCOPE_N_UNITS; i++) {
        if (bytes_are(text, scope_units[i].name))
            return &scope_units[i];
    }
    json_fail(r, "the unit is none of the format's");
    return &scope_units[0];
}

static void read_type(struct json_reader *r, struct scope_profile *p)
{
    struct bytes type = json_get_string(r);

    p->has_type = true;
    p->is_evented = bytes_are(type, "evented");
    if (!p->is_evented && !bytes_are(type, "sampled"))
        json_fail(r, "a profile is neither sampled nor evented");
}

static void check_profile(struct json_reader *r, const struct scope_profile *p)
{
    if (!p->has_type)
        json_fail_at(r, p->offset, "a profile has no type");
    else if (!p->is_evented && p->n_rows != p->n_weights)
        json_fail_at(r, p->offset, "a profile has %zu samples and %zu weights", p->n_rows,
                     p->n_weights);
}

static void read_profile(struct speedscope *s, struct json_reader *r)
{
    struct scope_profile p = {.offset = json_offset(r), .unit = &scope_units[0]};
    bool is_first = true;

    json_enter_object(r);
    for (struct bytes key; json_next_key(r, &key);) {
        bool has_rows = bytes_are(key, "samples") || bytes_are(key, "events");
        if (has_rows && !is_first)
            json_fail(r, "a profile has more than one list of samples or events");
        is_first = is_first && !has_rows;
        if (bytes_are(key, "type"))
            read_type(r, &p);
        else if (bytes_are(key, "name"))
            p.name = dict_string(s->dict, json_get_string_or_empty(r));
        else if (bytes_are(key, "unit"))
            p.unit = read_unit(r);
        else if (bytes_are(key, "startValue"))
            p.start = json_get_double(r);
        else if (bytes_are(key, "endValue"))
            p.end = json_get_double(r);
        else if (bytes_are(key, "samples"))
            read_samples(s, r, &p);
        else if (bytes_are(key, "weights") && p.n_weights == 0)
            read_weights(s, r, &p);
        else if (bytes_are(key, "events"))
            read_events(s, r, &p);
        else
            json_skip(r);
    }
    check_profile(r, &p);
    vec_push(s->budget, &s->profiles, p);
}

static void read_document(struct speedscope *s, struct json_reader *r)
{
    json_enter_object(r);
    for (struct bytes key; json_next_key(r, &key);) {
        if (bytes_are(key, "shared")) {
            read_shared(s, r);
        } else if (bytes_are(key, "profiles")) {
            json_enter_array(r);
            while (json_next_element(r))
                read_profile(s, r);
        } else {
            json_skip(r);
        }
    }
}

/* A value in the profile's unit as one of ours. */
static int64_t convert(struct speedscope *s, struct json_reader *r, const struct scope_profile *p,
                       double v)
{
    v *= p->unit->scale;
    if (!(fabs(v) < 0x1p62)) {
        json_fail_at(r, p->offset, "a value is out of range");
        return 0;
    }
    s->has_rounded = s->has_rounded || (p->unit->scale == 1 && v != floor(v));
    return llround(v);
}

/* Where the rows of a profile go. */
struct target {
    struct profile *profile;
    uint32_t attrs;
    const uint32_t *nodes; /* of the dictionary, by node of `stacks` */
};

static void add_row(const struct target *to, uint32_t node, int64_t value)
{
    profile_add(to->profile,
                &(struct sample){.node = to->nodes[node], .attrs = to->attrs, .values = &value});
}

static void add_sampled(struct speedscope *s, struct json_reader *r, const struct scope_profile *p,
                        const struct target *to)
{
    for (size_t i = 0; i < p->n_rows && !json_failed(r); i++)
        add_row(to, s->rows.data[p->first_row + i].node,
                convert(s, r, p, s->weights.data[p->first_weight + i]));
}

/* Times are rounded before they are subtracted, so that nothing is lost on the way. */
static void add_evented(struct speedscope *s, struct json_reader *r, const struct scope_profile *p,
                        const struct target *to)
{
    for (size_t i = 0; i + 1 < p->n_rows && !json_failed(r); i++) {
        const struct row *row = &s->rows.data[p->first_row + i];
        int64_t value = convert(s, r, p, row[1].weight) - convert(s, r, p, row[0].weight);
        if (row->node != 0 && value != 0)
            add_row(to, row->node, value);
    }
}

static void add_profile(struct speedscope *s, struct json_reader *r, const struct scope_profile *p,
                        const uint32_t *nodes)
{
    struct target to = {.profile = profile_set_add(s->out), .nodes = nodes};

    if (!to.profile)
        return;
    profile_add_ctype(to.profile, p->unit->type, p->unit->unit);
    if (p->name) {
        uint32_t key = dict_cstring(s->dict, "profile.name");
        uint32_t id = dict_string_attribute(s->dict, key, p->name);
        to.profile->profile_attrs = dict_attrs(s->dict, &id, 1);
        if (s->profiles.len > 1)
            to.attrs = to.profile->profile_attrs;
    }
    if (bytes_are(bytes_of(p->unit->unit), "nanoseconds"))
        to.profile->duration_ns = convert(s, r, p, p->end) - convert(s, r, p, p->start);
    if (p->is_evented)
        add_evented(s, r, p, &to);
    else
        add_sampled(s, r, p, &to);
}

/* The stacks of frame numbers as stacks of the dictionary: parents come before children. */
static void finish(struct speedscope *s, struct json_reader *r)
{
    VEC(uint32_t) nodes = {0};
    size_t n = dict_n_nodes(s->stacks);

    if (s->highest_frame >= (int64_t)s->frames.len) {
        json_fail_at(r, s->highest_frame_at, "frame %" PRId64 " does not exist: there are %zu",
                     s->highest_frame, s->frames.len);
        return;
    }
    if (vec_resize(s->budget, &nodes, n)) {
        for (size_t i = 1; i < n; i++) {
            uint32_t location = s->frames.data[s->stacks->node_location.data[i] - 1];
            nodes.data[i] =
                dict_node(s->dict, nodes.data[s->stacks->node_parent.data[i]], location);
        }
        for (size_t i = 0; i < s->profiles.len && !json_failed(r); i++)
            add_profile(s, r, &s->profiles.data[i], nodes.data);
    }
    vec_done(s->budget, &nodes);
    if (s->has_rounded)
        profile_set_note(s->out, "values with a fraction were rounded to whole numbers");
}

static void speedscope_done(struct speedscope *s)
{
    vec_done(s->budget, &s->frames);
    vec_done(s->budget, &s->profiles);
    vec_done(s->budget, &s->rows);
    vec_done(s->budget, &s->weights);
    vec_done(s->budget, &s->open);
    dict_free(s->stacks);
}

static int speedscope_decode(struct input *in, struct profile_set *out, struct error *err)
{
    CLEANUP(json_reader_freep) struct json_reader *r = json_reader_new(in, out->budget);
    CLEANUP(speedscope_done)
    struct speedscope s = {
        .out = out, .dict = out->dict, .budget = out->budget, .highest_frame = -1};

    s.stacks = dict_new(out->budget);
    read_document(&s, r);
    int result = json_finish(r, "speedscope", err);
    if (result < 0)
        return result;
    if (s.profiles.len == 0)
        json_fail(r, "there are no \"profiles\"");
    else
        finish(&s, r);
    return json_result(r, "speedscope", err);
}

const struct format format_speedscope = {
    .name = "speedscope",
    .title = "Speedscope JSON",
    .extension = ".speedscope.json",
    .sniff = speedscope_sniff,
    .decode = speedscope_decode,
    .encode = speedscope_encode,
    .holds_many = true,
};

/*
 * Which release of the protocol a message was written for. Nothing in it says so, and the numbers
 * of fields moved at almost every release, so the wire types give it away. All of a message is of
 * one layout; what is seen anywhere in it counts.
 */
#include "formats/otlp_internal.h"

#define DICTIONARY_SINCE_1_8                                                                       \
    {                                                                                              \
        [1] = 1, [2] = 2, [3] = 3, [4] = 4, [5] = 5, [6] = 6, [7] = 7                              \
    }
#define LOCATION_SINCE_1_8                                                                         \
    {                                                                                              \
        [1] = 1, [2] = 2, [3] = 3, [4] = 4                                                         \
    }
#define MAPPING_SINCE_1_8                                                                          \
    {                                                                                              \
        [1] = 1, [2] = 2, [3] = 3, [4] = 4, [5] = 5                                                \
    }
#define PROFILE_SINCE_1_9                                                                          \
    {                                                                                              \
        [1] = 1, [2] = 2, [3] = 3, [4] = 4, [5] = 5, [6] = 6, [7] = 7, [8] = 8, [9] = 9,           \
        [10] = 10, [11] = 11                                                                       \
    }
#define SAMPLE_TO_1_9                                                                              \
    {                                                                                              \
        [1] = SAMPLE_STACK, [2] = SAMPLE_VALUES, [3] = SAMPLE_ATTRIBUTES, [4] = SAMPLE_LINK,       \
        [5] = SAMPLE_TIMES                                                                         \
    }
#define EVERY_FIELD                                                                                \
    {                                                                                              \
        0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15                                       \
    }

static const struct otlp_layout otlp_layout_1_10 = {
    .name = "1.10",
    .dictionary = DICTIONARY_SINCE_1_8,
    .profile = PROFILE_SINCE_1_9,
    .sample = {[1] = 1, [2] = 2, [3] = 3, [4] = 4, [5] = 5},
    .location = LOCATION_SINCE_1_8,
    .mapping = MAPPING_SINCE_1_8,
};

static const struct otlp_layout otlp_layout_1_9 = {
    .name = "1.9",
    .dictionary = DICTIONARY_SINCE_1_8,
    .profile = PROFILE_SINCE_1_9,
    .sample = SAMPLE_TO_1_9,
    .location = LOCATION_SINCE_1_8,
    .mapping = MAPPING_SINCE_1_8,
};

static const struct otlp_layout otlp_layout_1_8 = {
    .name = "1.8",
    .dictionary = DICTIONARY_SINCE_1_8,
    .profile = {[1] = PROFILE_SAMPLE_TYPE,
                [2] = PROFILE_SAMPLES,
                [3] = PROFILE_TIME,
                [4] = PROFILE_DURATION,
                [5] = PROFILE_PERIOD_TYPE,
                [6] = PROFILE_PERIOD,
                [7] = PROFILE_COMMENTS,
                [8] = PROFILE_ID,
                [9] = PROFILE_DROPPED,
                [10] = PROFILE_FORMAT,
                [11] = PROFILE_PAYLOAD,
                [12] = PROFILE_ATTRIBUTES},
    .sample = SAMPLE_TO_1_9,
    .location = LOCATION_SINCE_1_8,
    .mapping = MAPPING_SINCE_1_8,
};

static const struct otlp_layout otlp_layout_1_7 = {
    .name = "1.7",
    .dictionary = {[1] = DICTIONARY_MAPPINGS,
                   [2] = DICTIONARY_LOCATIONS,
                   [3] = DICTIONARY_FUNCTIONS,
                   [4] = DICTIONARY_LINKS,
                   [5] = DICTIONARY_STRINGS,
                   [6] = DICTIONARY_KEY_VALUES,
                   [7] = DICTIONARY_UNITS},
    .profile = {[1] = PROFILE_SAMPLE_TYPE,
                [2] = PROFILE_SAMPLES,
                [3] = PROFILE_LOCATION_INDICES,
                [4] = PROFILE_TIME,
                [5] = PROFILE_DURATION,
                [6] = PROFILE_PERIOD_TYPE,
                [7] = PROFILE_PERIOD,
                [8] = PROFILE_COMMENTS,
                [9] = PROFILE_DEFAULT_TYPE,
                [10] = PROFILE_ID,
                [11] = PROFILE_DROPPED,
                [12] = PROFILE_FORMAT,
                [13] = PROFILE_PAYLOAD,
                [14] = PROFILE_ATTRIBUTES},
    .sample = {[1] = SAMPLE_START,
               [2] = SAMPLE_LENGTH,
               [3] = SAMPLE_VALUES,
               [4] = SAMPLE_ATTRIBUTES,
               [5] = SAMPLE_LINK,
               [6] = SAMPLE_VARINT_TIMES},
    .location = {[1] = LOCATION_MAPPING,
                 [2] = LOCATION_ADDRESS,
                 [3] = LOCATION_LINES,
                 [4] = LOCATION_FOLDED,
                 [5] = LOCATION_ATTRIBUTES},
    .mapping = EVERY_FIELD,
    .zero_is_real = true,
};

const struct otlp_layout otlp_layout_own = {
    .name = "JSON",
    .is_own = true,
    .dictionary = EVERY_FIELD,
    .profile = EVERY_FIELD,
    .sample = EVERY_FIELD,
    .location = EVERY_FIELD,
    .mapping = EVERY_FIELD,
};

const struct otlp_layout otlp_layout_own_1_7 = {
    .name = "JSON of 1.7",
    .is_own = true,
    .dictionary = EVERY_FIELD,
    .profile = EVERY_FIELD,
    .sample = EVERY_FIELD,
    .location = EVERY_FIELD,
    .mapping = EVERY_FIELD,
    .zero_is_real = true,
};

/*
 * What was seen. "Sure" evidence cannot be explained by the other layout at all; the rest could be,
 * by a sender that does not pack repeated numbers (async-profiler is one).
 */
struct evidence {
    const char *too_old; /* the layout, when it is one that is not supported */
    bool sure_1_7, maybe_1_7, sure_since_1_8;
    bool sure_1_8, has_twelve;
    bool sure_new, sure_old, maybe_new, maybe_old; /* the order of a sample's fields */
    bool undecided; /* samples of fields 1, 2 and 5 only, equally many of 2 and 5 */
    size_t n_links;
    otlp_ids keys, seen_by; /* of attributes, and the sample that last had each key */
    uint32_t n_seen;
};

/* Entries of an attribute table: KeyValue to 1.7 (its key is a string), then with indices. */
static void look_at_attributes(struct otlp *o, struct evidence *e)
{
    struct otlp_table *t = &o->tables[6];

    for (size_t i = 0; i < t->runs.len && !e->sure_1_7 && !e->sure_since_1_8; i++) {
        struct otlp_run run = t->runs.data[i];
        struct pb_reader r = pb_reader((struct bytes){run.start, (size_t)(run.end - run.start)});
        while (otlp_next(o, &r)) {
            struct pb_reader entry = pb_reader(pb_bytes(&r));
            while (otlp_next(o, &entry)) {
                e->sure_1_7 |= entry.field == 1 && entry.wire == PB_BYTES;
                e->sure_since_1_8 |= entry.field == 1 && entry.wire == PB_VARINT;
                e->sure_since_1_8 |= entry.field == 3;
            }
            if (e->sure_1_7 || e->sure_since_1_8)
                break;
        }
    }
}

/* Table 7: pairs of key and unit in 1.7, then stacks. */
static void look_at_table_7(struct otlp *o, struct evidence *e)
{
    struct otlp_table *t = &o->tables[7];

    for (size_t i = 0; i < t->runs.len && !e->sure_1_7 && !e->sure_since_1_8; i++) {
        struct otlp_run run = t->runs.data[i];
        struct pb_reader r = pb_reader((struct bytes){run.start, (size_t)(run.end - run.start)});
        while (otlp_next(o, &r)) {
            struct pb_reader entry = pb_reader(pb_bytes(&r));
            while (otlp_next(o, &entry)) {
                e->sure_1_7 |= entry.field == 2;
                e->sure_since_1_8 |= entry.field == 1 && entry.wire == PB_BYTES;
                e->maybe_1_7 |= entry.field == 1 && entry.wire == PB_VARINT;
            }
            if (e->sure_1_7 || e->sure_since_1_8)
                break;
        }
    }
}

static size_t count_varints(struct bytes packed)
{
    size_t n = 0;

    for (size_t i = 0; i < packed.len; i++)
        n += packed.data[i] < 0x80;
    return n;
}

/* How often each field of a sample came, and what decides. */
struct sample_shape {
    uint32_t times[8]; /* the field was there */
    size_t n_2, n_5;   /* numbers in it */
    uint64_t number_4;
    bool packed_3, packed_4;
};

static struct sample_shape sample_shape(struct otlp *o, struct bytes sample, struct evidence *e)
{
    struct sample_shape s = {0};
    struct pb_reader r = pb_reader(sample);

    while (otlp_next(o, &r)) {
        if (r.field > 6)
            continue;
        s.times[r.field]++;
        if (r.field == 2) {
            s.n_2 += r.wire == PB_BYTES ? count_varints(r.data) : 1;
            e->maybe_1_7 |= r.wire == PB_VARINT;
        } else if (r.field == 3) {
            s.packed_3 |= r.wire == PB_BYTES;
        } else if (r.field == 4) {
            s.packed_4 |= r.wire == PB_BYTES;
            s.number_4 = r.wire == PB_VARINT ? r.value : 0;
        } else if (r.field == 5) {
            s.n_5 += r.wire == PB_BYTES ? r.data.len / 8 : 1;
            e->sure_1_7 |= r.wire == PB_VARINT;
            e->sure_since_1_8 |= r.wire == PB_FIXED64;
        } else if (r.field == 6) {
            e->sure_1_7 = true;
        }
    }
    return s;
}

/*
 * From 1.8 to 1.9 a sample is 1 stack, 2 values, 3 attributes, 4 link, 5 times; since 1.10 it is
 * 1 stack, 2 attributes, 3 link, 4 values, 5 times. Every sample has values or times.
 */
static void look_at_sample(struct otlp *o, struct bytes sample, struct evidence *e)
{
    struct sample_shape s = sample_shape(o, sample, e);

    if (s.packed_3)
        e->sure_old = true;
    else if (s.times[3] > 0)
        *(s.times[3] > 1 ? &e->maybe_old : &e->sure_new) = true;
    if (s.packed_4) {
        e->sure_new = true;
    } else if (s.times[4] > 0) {
        /* One number: a link of old, or values not packed. */
        bool is_value =
            s.times[4] > 1 || (s.times[2] == 0 && s.times[5] == 0) || s.number_4 >= e->n_links;
        *(is_value ? &e->maybe_new : &e->maybe_old) = true;
    }
    if (s.times[3] > 0 || s.times[4] > 0 || s.times[2] == 0)
        return;
    if (s.times[5] == 0)
        e->maybe_old = true;
    else if (s.n_2 != s.n_5)
        e->sure_new = true;
    else
        e->undecided = true;
}

static bool samples_decided(const struct evidence *e)
{
    return e->sure_1_7 || (e->sure_since_1_8 && (e->sure_new || e->sure_old));
}

static void look_at_profile(struct otlp *o, struct bytes profile, struct evidence *e)
{
    struct pb_reader r = pb_reader(profile);
    uint32_t n_types = 0;

    while (otlp_next(o, &r)) {
        if (samples_decided(e))
            otlp_skip_samples(&r);
        bool bytes = r.wire == PB_BYTES, varint = r.wire == PB_VARINT;
        switch (r.field) {
        case 1:
            e->sure_1_7 |= ++n_types > 1;
            break;
        case 2:
            if (r.wire == PB_FIXED64)
                e->too_old = "1.3";
            else if (!samples_decided(e))
                look_at_sample(o, pb_bytes(&r), e);
            break;
        case 3:
            *(r.wire == PB_FIXED64 ? &e->sure_since_1_8 : &e->sure_1_7) = true;
            break;
        case 4:
            if (bytes)
                e->too_old = "1.4 or 1.5";
            break;
        case 5:
            *(bytes ? &e->sure_since_1_8 : &e->sure_1_7) = true;
            break;
        case 6:
            *(bytes ? &e->sure_1_7 : &e->sure_since_1_8) = true;
            break;
        case 7:
            e->maybe_1_7 |= varint;
            e->sure_1_8 |= bytes && r.data.len != 0 && r.data.len != 16;
            break;
        case 8:
            e->sure_1_8 |= bytes;
            break;
        case 9:
            e->sure_1_8 |= varint;
            break;
        case 12:
            e->has_twelve = true;
            break;
        default:
            break;
        }
        if (e->too_old)
            return;
    }
}

/* Calls `look` for every profile of the message. */
static void each_profile(struct otlp *o, struct evidence *e,
                         void (*look)(struct otlp *o, struct bytes profile, struct evidence *e))
{
    struct pb_reader message = pb_reader(o->message);

    while (otlp_next(o, &message)) {
        if (message.field != 1)
            continue;
        struct pb_reader resource = pb_reader(pb_bytes(&message));
        while (otlp_next(o, &resource)) {
            if (resource.field != 2)
                continue;
            struct pb_reader scope = pb_reader(pb_bytes(&resource));
            while (otlp_next(o, &scope)) {
                if (scope.field == 2)
                    look(o, pb_bytes(&scope), e);
                if (e->too_old)
                    return;
            }
        }
    }
}

/* The key of every attribute, as an index of strings; what is no such index is left 0. */
static void read_keys(struct otlp *o, struct evidence *e)
{
    struct otlp_table *t = &o->tables[6];
    size_t n_strings = o->tables[DICTIONARY_STRINGS].n;

    if (!vec_resize(o->budget, &e->seen_by, n_strings + 1) ||
        !vec_reserve(o->budget, &e->keys, t->n))
        return;
    for (size_t i = 0; i < t->runs.len; i++) {
        struct otlp_run run = t->runs.data[i];
        struct pb_reader r = pb_reader((struct bytes){run.start, (size_t)(run.end - run.start)});
        while (otlp_next(o, &r)) {
            struct pb_reader entry = pb_reader(pb_bytes(&r));
            uint64_t key = 0;
            while (otlp_next(o, &entry)) {
                if (entry.field == 1)
                    key = entry.value;
            }
            vec_push(o->budget, &e->keys, key < n_strings ? (uint32_t)key : 0);
        }
    }
}

/* Whether field 2 of a sample cannot be a list of attributes: one that does not exist, or two of
 * the same key. */
static void look_for_values(struct otlp *o, struct bytes profile, struct evidence *e)
{
    struct pb_reader r = pb_reader(profile);

    while (!e->sure_old && otlp_next(o, &r)) {
        if (r.field != 2)
            continue;
        struct pb_reader sample = pb_reader(pb_bytes(&r));
        e->n_seen++;
        while (otlp_next(o, &sample)) {
            if (sample.field != 2)
                continue;
            struct bytes list = pb_packed(&sample);
            for (uint64_t v; pb_packed_next(&sample, &list, &v);) {
                uint32_t key = v < e->keys.len ? e->keys.data[v] : 0;
                e->sure_old |= v >= o->tables[6].n || (v > 0 && e->seen_by.data[key] == e->n_seen);
                e->seen_by.data[key] = e->n_seen;
            }
        }
    }
}

static const struct otlp_layout *decide(struct otlp *o, struct evidence *e)
{
    if (e->sure_1_7 && e->sure_since_1_8) {
        otlp_fail(o, o->origin, "the message has fields of layout 1.7 and of later ones");
        return NULL;
    }
    if (e->sure_1_7 || (e->maybe_1_7 && !e->sure_since_1_8))
        return &otlp_layout_1_7;
    if (e->sure_1_8 || (e->has_twelve && !e->sure_new))
        return &otlp_layout_1_8;
    if (e->sure_new && e->sure_old) {
        otlp_fail(o, o->origin, "the message has samples of layout 1.9 and of layout 1.10");
        return NULL;
    }
    if (!e->sure_new && !e->sure_old && !e->maybe_new && !e->maybe_old && e->undecided) {
        read_keys(o, e);
        if (e->seen_by.len > 0)
            each_profile(o, e, look_for_values);
        vec_done(o->budget, &e->keys);
        vec_done(o->budget, &e->seen_by);
    }
    bool old = e->sure_old || (!e->sure_new && !e->maybe_new && e->maybe_old);
    return old ? &otlp_layout_1_9 : &otlp_layout_1_10;
}

const struct otlp_layout *otlp_tell_layout(struct otlp *o)
{
    struct evidence e = {.n_links = o->tables[4].n};

    look_at_attributes(o, &e);
    look_at_table_7(o, &e);
    each_profile(o, &e, look_at_profile);
    if (o->status == 0 && e.too_old)
        otlp_fail(o, o->origin, "layout %s of OTLP profiles is not supported: 1.7 and later are",
                  e.too_old);
    return o->status == 0 ? decide(o, &e) : NULL;
}

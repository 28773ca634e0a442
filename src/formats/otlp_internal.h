#pragma once

#include <stdarg.h>

#include "formats/format.h"
#include "formats/packed_stack.h"
#include "wire/protobuf.h"

/*
 * OTLP profiles, inside. One message is read in these steps:
 *
 *   otlp.c          frames and the order of the steps
 *   otlp_layout.c   which release of the protocol numbered the fields
 *   otlp_tables.c   the message's dictionary into ours: one array of ids per table
 *   otlp_value.c    attribute values
 *   otlp_profiles.c resources, scopes, profiles and samples
 *   otlp_join.c     profiles that are the columns of one pprof profile become one again
 *
 * The releases number fields differently, so decoders switch on numbers of our own: those of
 * release 1.10 with the fields that existed only earlier behind them. A layout translates.
 */
enum otlp_dictionary_field {
    DICTIONARY_MAPPINGS = 1,
    DICTIONARY_LOCATIONS = 2,
    DICTIONARY_FUNCTIONS = 3,
    DICTIONARY_LINKS = 4,
    DICTIONARY_STRINGS = 5,
    DICTIONARY_ATTRIBUTES = 6,
    DICTIONARY_STACKS = 7,
    DICTIONARY_KEY_VALUES = 8, /* 1.7: attributes with their keys written out... */
    DICTIONARY_UNITS = 9,      /* ...and the units of keys */
    OTLP_TABLES = 10,
};

/* 1.7 in JSON: the key of an attribute, in the message that later has its index in field 1. */
#define ATTRIBUTE_INLINE_KEY 4

enum otlp_profile_field {
    PROFILE_SAMPLE_TYPE = 1,
    PROFILE_SAMPLES = 2,
    PROFILE_TIME = 3,
    PROFILE_DURATION = 4,
    PROFILE_PERIOD_TYPE = 5,
    PROFILE_PERIOD = 6,
    PROFILE_ID = 7,
    PROFILE_DROPPED = 8,
    PROFILE_FORMAT = 9,
    PROFILE_PAYLOAD = 10,
    PROFILE_ATTRIBUTES = 11,
    PROFILE_COMMENTS = 12,         /* to 1.8 */
    PROFILE_DEFAULT_TYPE = 13,     /* 1.7: an index into the sample types */
    PROFILE_LOCATION_INDICES = 14, /* 1.7: samples are slices of this list */
};

enum otlp_sample_field {
    SAMPLE_STACK = 1,
    SAMPLE_ATTRIBUTES = 2,
    SAMPLE_LINK = 3,
    SAMPLE_VALUES = 4,
    SAMPLE_TIMES = 5,        /* fixed64 */
    SAMPLE_START = 6,        /* 1.7: the slice... */
    SAMPLE_LENGTH = 7,       /* ...of the profile's locations */
    SAMPLE_VARINT_TIMES = 8, /* 1.7 */
};

enum otlp_location_field {
    LOCATION_MAPPING = 1,
    LOCATION_ADDRESS = 2,
    LOCATION_LINES = 3,
    LOCATION_ATTRIBUTES = 4,
    LOCATION_FOLDED = 5, /* 1.7 */
};

enum otlp_mapping_field {
    MAPPING_START = 1,
    MAPPING_LIMIT = 2,
    MAPPING_OFFSET = 3,
    MAPPING_FILE = 4,
    MAPPING_ATTRIBUTES = 5,
    MAPPING_HAS_FUNCTIONS = 6, /* these to 1.7 */
    MAPPING_HAS_FILENAMES = 7,
    MAPPING_HAS_LINE_NUMBERS = 8,
    MAPPING_HAS_INLINE_FRAMES = 9,
};

#define OTLP_FIELD_MAX 15

/* Our number of each field of a message, by the number on the wire; 0 is unknown. */
struct otlp_layout {
    const char *name;
    uint8_t dictionary[OTLP_FIELD_MAX + 1];
    uint8_t profile[OTLP_FIELD_MAX + 1];
    uint8_t sample[OTLP_FIELD_MAX + 1];
    uint8_t location[OTLP_FIELD_MAX + 1];
    uint8_t mapping[OTLP_FIELD_MAX + 1];
    bool is_own;       /* our own numbers: no sender's */
    bool zero_is_real; /* to 1.7: index 0 is an element like any other */
};

static inline uint32_t otlp_field(const uint8_t *map, uint32_t wire_field)
{
    return wire_field <= OTLP_FIELD_MAX ? map[wire_field] : 0;
}

/* Our own numbers on the wire: what the JSON reader makes of names, old and new. */
extern const struct otlp_layout otlp_layout_own, otlp_layout_own_1_7;

/* What an attribute says about its owner, when the model has a place for it. */
enum otlp_role {
    ROLE_NONE,
    ROLE_LIST, /* several values of one label, see otlp_value.c */
    ROLE_FRAME_TYPE,
    ROLE_FOLDED,
    ROLE_BUILD_ID,
    ROLE_HAS_FUNCTIONS,
    ROLE_HAS_FILENAMES,
    ROLE_HAS_LINE_NUMBERS,
    ROLE_HAS_INLINE_FRAMES,
    ROLE_COMMENT,
    ROLE_COMMENT_LIST,
    ROLE_DROP_FRAMES,
    ROLE_KEEP_FRAMES,
    ROLE_DOC_URL,
};

typedef VEC(uint32_t) otlp_ids;

/* A stretch of the dictionary holding elements of one table only. */
struct otlp_run {
    const uint8_t *start, *end;
};

struct otlp_table {
    VEC(struct otlp_run) runs;
    size_t n; /* elements seen by the first walk */
};

#define OTLP_MEMO_SLOTS 256

struct otlp_memo {
    struct bytes list;
    uint32_t attrs;
};

/* One message being read. */
struct otlp {
    struct profile_set *set;
    struct dict *dict;
    struct budget *budget;
    struct error *err;
    int status; /* the first failure; everything stops at it */

    const char *format; /* for messages: "otlp" or "otlp-json" */
    const uint8_t *origin;
    size_t offset; /* of origin in the file */
    /* Where in the source a place in the message stands; NULL when it is the message itself. */
    size_t (*locate)(const void *map, size_t offset);
    const void *map;

    const struct otlp_layout *layout;
    struct bytes message;

    struct otlp_table tables[OTLP_TABLES]; /* by the field's number on the wire */
    otlp_ids strings, attributes, links, functions, mappings, locations, stacks; /* index -> id */
    VEC(uint8_t) roles;                                                          /* of attributes */

    /* Scratch, kept from element to element. */
    struct packed_stacks packed;
    otlp_ids ids, path_locations, path_nodes;
    otlp_ids slice;          /* 1.7: the locations of the profile that samples are slices of */
    uint64_t n_slice_frames; /* frames taken from it so far */
    VEC(struct line) lines;
    VEC(int64_t) values;
    VEC(uint64_t) times;
    struct buf value;
    size_t value_charged;

    /* Sets of attributes by the bytes that stood for them: samples share them. */
    struct otlp_memo attrs_memo[OTLP_MEMO_SLOTS];

    uint32_t resource_index, scope_index; /* of the message's next */
};

/* Fails the message. `at` points into it. Returns the status. */
int otlp_fail(struct otlp *o, const uint8_t *at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Passes on the failure of a reader, if it has one. True when all is well so far. */
bool otlp_good(struct otlp *o, const struct pb_reader *r);

/* The next field of a message; false at its end, or once anything has failed. */
static inline bool otlp_next(struct otlp *o, struct pb_reader *r)
{
    if (o->status == 0 && pb_next(r))
        return true;
    otlp_good(o, r);
    return false;
}

/* Passes by the short samples that come next in a profile, and counts them: there may be millions.
 */
static inline size_t otlp_skip_samples(struct pb_reader *r)
{
    const uint8_t *p = r->pos;
    size_t n = 0;

    for (; r->end - p > 2 && p[0] == (PROFILE_SAMPLES << 3 | PB_BYTES) && p[1] < 0x80 &&
           p[1] <= r->end - p - 2;
         n++)
        p += 2 + p[1];
    r->pos = p;
    return n;
}

/* Says that an index is past the end of its table, unless it is 0: unset and null are the same,
 * also where a sender left a table out. Returns 0. */
uint32_t otlp_no_element(struct otlp *o, size_t len, uint64_t index, const char *name,
                         const uint8_t *at);

/* The id behind an index, or 0 with the message failed. */
static inline uint32_t otlp_get(struct otlp *o, const otlp_ids *table, uint64_t index,
                                const char *name, const uint8_t *at)
{
    if (__builtin_expect(index < table->len, 1))
        return table->data[index];
    return otlp_no_element(o, table->len, index, name, at);
}

/* otlp_layout.c: NULL with the message failed when there is no telling, or no support. */
const struct otlp_layout *otlp_tell_layout(struct otlp *o);

/* otlp_tables.c: notes where the tables' elements are; then reads them, once the layout is known.
 */
void otlp_index_tables(struct otlp *o);
void otlp_read_tables(struct otlp *o);
void otlp_tables_done(struct otlp *o);
/* The stack of these locations. */
uint32_t otlp_stack(struct otlp *o, const uint32_t *leaf_first, size_t n);
/* Appends the attributes behind a sample's list of indices to o->ids; a ROLE_LIST as its values. */
void otlp_add_labels(struct otlp *o, struct pb_reader *r);

/* otlp_value.c: one attribute of the model from an AnyValue, and from a KeyValue. */
uint32_t otlp_attribute(struct otlp *o, uint32_t key, uint32_t unit, struct bytes value);
uint32_t otlp_key_value(struct otlp *o, struct bytes message);
/* Pays for what o->value has grown to: references make a value longer than its source. False when
 * that is too much. */
bool otlp_charge(struct otlp *o);
enum otlp_role otlp_role_of(const struct otlp *o, uint32_t attribute);
/* The values of a ROLE_LIST as attributes, appended to o->ids. */
void otlp_expand_list(struct otlp *o, uint32_t attribute);
/* The strings of an array value, one at a time; false at the end or where one is no string. */
bool otlp_next_string(struct pb_reader *array, struct bytes *ret);
struct pb_reader otlp_array(struct bytes any_value);
/* The numbers of an array of integers; -1 when it is not one, or has more than `max`. */
int otlp_int_array(struct bytes any_value, int64_t *to, int max);

/* otlp_profiles.c: one element of resource_profiles. */
void otlp_read_resource(struct otlp *o, struct bytes message);

/* Scope attributes: the type to show first, and which of pprof's types each profile was. */
#define OTLP_ORDER_KEY   "pprof.scope.sample_type_order"
#define OTLP_DEFAULT_KEY "pprof.scope.default_sample_type"

/* otlp_join.c: the profiles from `first` on are those of one scope. */
void otlp_join_scope(struct otlp *o, size_t first);

/* otlp.c: decodes one message, with 16 readable bytes behind, whose layout is known from elsewhere,
 * or NULL to tell it. */
struct otlp_source {
    const char *format;
    const struct otlp_layout *layout;
    size_t offset;
    size_t (*locate)(const void *map, size_t offset);
    const void *map;
};
int otlp_decode_message(struct bytes message, const struct otlp_source *source,
                        struct profile_set *set, struct error *err);

/* otlp_encode.c: writes a set as one message. */
int otlp_encode(const struct profile_set *set, struct buf *out, struct buf *losses,
                struct error *err);

/* The same as JSON: otlp_json_write.c. */
int otlp_encode_json(const struct profile_set *set, struct buf *out, struct buf *losses,
                     struct error *err);

/* otlp_json.c: one or more documents. */
int otlp_decode_json(struct input *in, struct profile_set *out, struct error *err);

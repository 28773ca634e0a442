#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/idset.h"
#include "base/vec.h"
#include "formats/jfr_read.h"
#include "profile/profile.h"

/*
 * The insides of the JFR reader.
 *
 * A recording is a row of chunks, each complete in itself: a header, events, one metadata event
 * that describes every type (its fields, in order, with their types), and checkpoint events that
 * hold the constants which other events refer to by id. A chunk is read in this order:
 *
 *     jfr.c         header
 *     jfr_meta.c    metadata -> types; a type that is needed is compiled to a flat list of steps
 *     jfr_pool.c    checkpoints, last to first -> stack traces, methods, threads...
 *     jfr_events.c  events: settings first, then all others
 *     jfr_samples.c samples -> one profile per family of events
 *     jfr_names.c   the constants that samples refer to -> the dictionary
 *
 * Nothing is assumed about the order or the number of a type's fields: wanted ones are found by
 * name, all others are stepped over.
 */

/* jfr_meta.c: types. */
enum jfr_kind {
    JFR_STRUCT,
    JFR_BYTE, /* boolean and byte: one byte always */
    JFR_SHORT,
    JFR_INT,
    JFR_LONG,
    JFR_FLOAT, /* four and eight bytes always */
    JFR_DOUBLE,
    JFR_STRING,
};

/* What a time span counts: the unit its annotation names. */
enum jfr_unit { JFR_NO_UNIT, JFR_TICKS, JFR_NS, JFR_US, JFR_MS, JFR_S };

struct jfr_field {
    struct bytes name;
    uint64_t type;
    bool is_constant; /* an id of the constant pool of its type */
    bool is_array;
    enum jfr_unit unit;
};

struct jfr_type {
    uint64_t id;
    struct bytes name; /* with "jdk." where the first recorders wrote "com.oracle.jdk." */
    enum jfr_kind kind;
    uint32_t first_field, n_fields;
    struct jfr_plan *plan;              /* once compiled */
    const struct jfr_event_kind *event; /* what its events mean, or NULL */
    uint64_t seen;                      /* events of this type in the chunk */
};

/*
 * A step of reading a value. Every step takes at least one byte, so input bounds the work. The
 * value goes into a slot: numbers and texts have slots of their own.
 */
enum jfr_code {
    JFR_OP_VARINT,
    JFR_OP_FIXED, /* `width` bytes, big-endian */
    JFR_OP_TEXT,
    JFR_OP_REF,   /* an id of the string or symbol pool, into a text slot */
    JFR_OP_ARRAY, /* a count, then the next `body` steps that many times */
};

#define JFR_NO_SLOT 0xff

struct jfr_op {
    uint8_t code;
    uint8_t slot;
    uint8_t width;
    uint8_t encoding; /* of JFR_OP_REF */
    uint32_t body;
};

#define JFR_NUMBERS 16
#define JFR_TEXTS   3

struct jfr_plan {
    const struct jfr_op *ops;
    size_t n_ops;
    enum jfr_unit units[JFR_NUMBERS]; /* of the fields that went into number slots */
    uint32_t has_numbers;             /* bit per slot that is filled */
};

struct jfr_values {
    uint64_t numbers[JFR_NUMBERS];
    struct jfr_text texts[JFR_TEXTS];

    /* Called after each element of an outermost array, with the slots its fields filled. */
    void (*each)(struct jfr_values *v);
    void *context;
};

/* Which fields to keep, by name. `numbers` and `texts` end with a NULL name. */
struct jfr_want {
    const char *name;
    uint8_t slot;
};

struct jfr_wants {
    const struct jfr_want *numbers;
    const struct jfr_want *texts;
    bool in_arrays; /* the names are also looked for in structs that are array elements */
};

/* Constants. Ids that lead nowhere are met all the time and mean "not known". */
struct jfr_trace {
    size_t first_frame;
    uint32_t n_frames;
    uint32_t node;
    bool is_resolved;
    bool is_truncated; /* the recorder cut the outer frames off */
};

struct jfr_frame {
    uint64_t method;
    uint32_t type;
    int32_t line;
};

struct jfr_method {
    uint64_t type; /* class */
    struct jfr_text name, descriptor;
    uint32_t function[2]; /* dictionary ids, once known: as Java, as native code */
    uint32_t mapping;     /* of native code */
};

struct jfr_class {
    struct jfr_text name;
    uint32_t attribute; /* `class`, once known */
};

struct jfr_thread {
    struct jfr_text os_name, java_name;
    uint64_t os_id, java_id;
    uint32_t attributes[2]; /* thread.name and thread.id, once known */
    bool is_known;
};

struct jfr_state {
    struct jfr_text name;
    uint32_t attribute;
    bool is_sleeping, is_runnable;
};

/* What a frame type means to us: its frame type string and whether it is outside of Java. */
struct jfr_frame_type {
    struct jfr_text name;
    uint32_t type;
    bool is_native;
};

/* Remembers the location of a frame: stacks repeat frames far more often than they add new ones. */
struct jfr_memo {
    struct jfr_frame frame;
    uint32_t location;
    uint32_t chunk; /* number of the chunk it is from; method ids mean nothing in another */
};

#define JFR_MEMO_SIZE 4096

/* A set of labels as samples name it, and the attribute set it became. */
struct jfr_label {
    uint64_t key[7];
    uint32_t attrs;
};

#define JFR_HEADER_BYTES 68

struct jfr_chunk {
    struct jfr_file *file;
    struct jfr_reader all; /* the chunk, from its first byte */
    size_t metadata_at, checkpoint_at;
    int64_t start_ns, duration_ns;
    uint64_t start_ticks;
    double ns_per_tick;

    struct arena arena; /* texts and plans */
    struct jfr_ids type_ids;
    VEC(struct jfr_type) types;
    VEC(struct jfr_field) fields;

    struct jfr_ids trace_ids, method_ids, class_ids, symbol_ids, string_ids, thread_ids, state_ids,
        frame_type_ids;
    VEC(struct jfr_trace) traces;
    VEC(struct jfr_frame) frames;
    VEC(struct jfr_method) methods;
    VEC(struct jfr_class) classes;
    VEC(struct jfr_text) symbols;
    VEC(struct jfr_text) strings;
    VEC(struct jfr_thread) threads;
    VEC(struct jfr_state) states;
    VEC(struct jfr_frame_type) frame_types;

    uint32_t number;              /* 1 for the first */
    VEC(uint8_t) scratch;         /* a name being put together */
    VEC(struct jfr_label) labels; /* attribute sets of samples seen */
    struct idset label_index;
};

/* Families of events; each becomes a profile of its own, in this order. */
enum jfr_family {
    JFR_CPU,
    JFR_CPU_TIME,
    JFR_WALL,
    JFR_NATIVE,
    JFR_ALLOC_IN_TLAB,
    JFR_ALLOC_OUTSIDE_TLAB,
    JFR_ALLOC_SAMPLE,
    JFR_LIVE,
    JFR_MUTEX,
    JFR_BLOCK,
    JFR_MALLOC,
    JFR_FAMILIES,
};

/* What to do with the events of a type. */
struct jfr_event_kind {
    const char *type;
    int (*on)(struct jfr_chunk *c, const struct jfr_type *t, struct jfr_values *v);
    struct jfr_wants wants; /* none for samples: they all want the same... */
    enum jfr_family family;
    const char *bytes;   /* ...and the field that says how many bytes they stand for, */
    const char *samples; /* or how many samples, where it is not called "samples" */
};

/* What the recorder was set to; what a chunk does not say is as in the one before it. */
struct jfr_settings {
    bool is_async;        /* async-profiler's settings were seen */
    bool event_is_wall;   /* event=wall: execution samples are wall clock samples too */
    struct bytes event;   /* async-profiler's event, empty when it measures time */
    uint64_t interval_ns; /* async-profiler's interval; 0 is its default */
    uint64_t wall_ns;     /* async-profiler's wall= */
    uint64_t period_ns;   /* of jdk.ExecutionSample */
    uint64_t native_ns;   /* of jdk.NativeMethodSample */
};

/* An event type that is not kept, and how many of its events there were. */
struct jfr_tally {
    struct bytes name;
    uint64_t n;
};

struct jfr_file {
    struct profile_set *set;
    struct dict *dict;
    struct budget *budget;
    struct error *err;
    struct bytes content;

    uint32_t n_chunks;
    VEC(struct jfr_memo) memo;
    struct jfr_settings settings;
    struct profile *profiles[JFR_FAMILIES];
    int64_t start_ns, end_ns;
    bool period_is_guessed;

    uint32_t types[3]; /* strings: frame types jvm, native, kernel */
    uint32_t resource[4];
    double load[3];
    uint64_t n_load, n_truncated, n_without_trace, n_unknown, n_frames;
    VEC(struct jfr_tally) tallies;
    uint64_t n_more; /* of types past those */
    struct arena arena;
};

/* Replaces control characters: names of types are input, and messages are one line. */
void jfr_make_printable(char *text);

/* Sets "jfr at byte N: ..." and returns -EBADMSG. */
int jfr_fail(struct jfr_file *f, const uint8_t *at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The reader's failure, or the budget's, or 0. */
int jfr_check(struct jfr_file *f, const struct jfr_reader *r);

/* jfr_meta.c */
int jfr_read_metadata(struct jfr_chunk *c);
struct jfr_type *jfr_find_type(struct jfr_chunk *c, uint64_t id);
int jfr_compile(struct jfr_chunk *c, struct jfr_type *t, const struct jfr_wants *wants);
void jfr_run(const struct jfr_plan *plan, struct jfr_reader *r, struct jfr_values *v);

/* jfr_pool.c */
int jfr_read_pools(struct jfr_chunk *c);
struct bytes jfr_resolve_text(struct jfr_chunk *c, struct jfr_text t);

/* jfr_names.c: constants -> dictionary */
uint32_t jfr_trace_node(struct jfr_chunk *c, struct jfr_trace *t);
uint32_t jfr_class_attribute(struct jfr_chunk *c, struct jfr_class *k);
uint32_t jfr_state_attribute(struct jfr_chunk *c, struct jfr_state *s);
const uint32_t *jfr_thread_attributes(struct jfr_chunk *c, struct jfr_thread *t);

/* jfr_samples.c */
int jfr_compile_sample(struct jfr_chunk *c, struct jfr_type *t);
int jfr_on_sample(struct jfr_chunk *c, const struct jfr_type *t, struct jfr_values *v);
int jfr_on_execution(struct jfr_chunk *c, const struct jfr_type *t, struct jfr_values *v);
int jfr_on_wall(struct jfr_chunk *c, const struct jfr_type *t, struct jfr_values *v);

/* jfr_events.c */
const struct jfr_event_kind *jfr_event_kind(struct bytes type_name);
int jfr_read_events(struct jfr_chunk *c);
void jfr_finish(struct jfr_file *f);

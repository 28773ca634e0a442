#pragma once

#include "formats/format.h"
#include "formats/perf_columns.h"
#include "formats/perf_maps.h"
#include "formats/text_cache.h"

/*
 * The parts of the perf.data reader: perf_data.c finds the records and puts them in the order of
 * time, perf_data_header.c reads what describes them (attributes, features), perf_data_records.c
 * turns them into samples, perf_event_name.c names events.
 */

/* Reads numbers off a run of bytes in the file's byte order. Past the end everything is 0 and
 * `failed` is set. */
struct perf_cursor {
    const uint8_t *pos, *end;
    bool is_swapped; /* big-endian */
    bool failed;
};

static inline size_t perf_left(const struct perf_cursor *c)
{
    return (size_t)(c->end - c->pos);
}

static inline struct bytes perf_take(struct perf_cursor *c, uint64_t n)
{
    if (n > perf_left(c)) {
        c->failed = true;
        c->pos = c->end;
        return (struct bytes){c->end, 0};
    }
    struct bytes b = {c->pos, (size_t)n};
    c->pos += n;
    return b;
}

static inline uint16_t perf_u16(struct perf_cursor *c)
{
    uint16_t v = 0;
    struct bytes b = perf_take(c, sizeof(v));

    if (b.len)
        memcpy(&v, b.data, sizeof(v));
    return c->is_swapped ? __builtin_bswap16(v) : v;
}

static inline uint32_t perf_u32(struct perf_cursor *c)
{
    uint32_t v = 0;
    struct bytes b = perf_take(c, sizeof(v));

    if (b.len)
        memcpy(&v, b.data, sizeof(v));
    return c->is_swapped ? __builtin_bswap32(v) : v;
}

static inline uint64_t perf_u64(struct perf_cursor *c)
{
    uint64_t v = 0;
    struct bytes b = perf_take(c, sizeof(v));

    if (b.len)
        memcpy(&v, b.data, sizeof(v));
    return c->is_swapped ? __builtin_bswap64(v) : v;
}

/* The bytes up to a NUL, or all that is left. */
struct bytes perf_cstring(struct perf_cursor *c);

/* What is sampled, of perf_event_attr the part that matters here. */
struct perf_attr {
    uint32_t type;
    uint64_t config;
    uint64_t sample_period; /* or frequency */
    uint64_t sample_type;
    uint64_t read_format;
    uint64_t flags;
    uint32_t bp_type;
    uint64_t bp_address;
};

enum perf_attr_flags {
    PERF_FLAG_EXCLUDE_USER = 1 << 4,
    PERF_FLAG_EXCLUDE_KERNEL = 1 << 5,
    PERF_FLAG_EXCLUDE_HV = 1 << 6,
    PERF_FLAG_FREQ = 1 << 10,
    PERF_FLAG_SAMPLE_ID_ALL = 1 << 18,
    PERF_FLAG_EXCLUDE_HOST = 1 << 19,
    PERF_FLAG_EXCLUDE_GUEST = 1 << 20,
};
#define PERF_FLAG_PRECISE_SHIFT 15 /* two bits */

enum perf_sample_type {
    PERF_HAS_IP = 1 << 0,
    PERF_HAS_TID = 1 << 1,
    PERF_HAS_TIME = 1 << 2,
    PERF_HAS_ADDR = 1 << 3,
    PERF_HAS_READ = 1 << 4,
    PERF_HAS_CALLCHAIN = 1 << 5,
    PERF_HAS_ID = 1 << 6,
    PERF_HAS_CPU = 1 << 7,
    PERF_HAS_PERIOD = 1 << 8,
    PERF_HAS_STREAM_ID = 1 << 9,
    PERF_HAS_RAW = 1 << 10,
    PERF_HAS_BRANCHES = 1 << 11,
    PERF_HAS_USER_STACK = 1 << 13,
    PERF_HAS_IDENTIFIER = 1 << 16,
};

/* An event: its attributes, the ids its records carry, its name. */
struct perf_event {
    struct perf_attr attr;
    uint32_t name; /* string; 0: follows from the attributes */
    int column;    /* in columns, when it has samples */
    bool has_samples;
};

struct perf_id {
    uint64_t id;
    uint32_t event;
};

struct perf_record {
    uint32_t type;
    uint16_t misc;
    struct perf_cursor body;
    uint64_t offset; /* in the file, or in what was decompressed */
    bool is_unpacked;
};

enum perf_record_type {
    PERF_MMAP = 1,
    PERF_LOST = 2,
    PERF_COMM = 3,
    PERF_EXIT = 4,
    PERF_FORK = 7,
    PERF_SAMPLE = 9,
    PERF_MMAP2 = 10,
    PERF_LOST_SAMPLES = 13,
    PERF_KERNEL_TYPES_END = 64,
    PERF_HEADER_ATTR = 64,
    PERF_TRACING_DATA = 66,
    PERF_BUILD_ID = 67,
    PERF_AUXTRACE = 71,
    PERF_EVENT_UPDATE = 78,
    PERF_HEADER_FEATURE = 80,
    PERF_COMPRESSED = 81,
    PERF_TYPES_END = 96, /* room to count them */
};

/* A mapped file, as a record said; `mapping` once a sample needed it. */
struct perf_map {
    uint64_t start, len, pgoff;
    uint32_t file;     /* string */
    uint32_t build_id; /* string */
    uint32_t mapping;
    uint32_t type; /* string: frame type */
    bool is_kernel;
    bool is_file; /* addresses are kept as offsets in it */
};

struct perf_process {
    uint32_t pid;
    uint32_t root; /* in maps */
};

struct perf_thread {
    uint32_t tid;
    uint32_t comm; /* string */
};

#define PERF_LOCATION_CACHE 8192
#define PERF_SAMPLER_CACHE  1024

struct perf_cached_location {
    uint64_t address;
    uint64_t space;    /* root and whether it is the kernel's */
    uint32_t location; /* 0: free */
};

struct perf_cached_sampler {
    uint32_t pid, tid, cpu, comm, process_comm;
    uint32_t attrs;
    bool is_set;
};

struct perf_reader {
    struct profile_set *set;
    struct profile *profile;
    struct dict *dict;
    struct budget *budget;
    bool is_swapped;

    VEC(struct perf_event) events;
    VEC(struct perf_id) ids;
    struct idset id_index;
    VEC(uint8_t) unpacked;       /* of compressed records */
    struct text_cache build_ids; /* by file name: a string of the dictionary */
    bool has_clock;
    uint64_t clock_to_utc; /* added, wrapping */

    struct perf_columns columns;
    struct perf_maps maps;
    VEC(struct perf_map) map_infos;
    uint32_t kernel_root;
    VEC(struct perf_process) processes;
    struct idset process_index;
    VEC(struct perf_thread) threads;
    struct idset thread_index;
    VEC(uint32_t) stack;
    struct perf_cached_location *locations; /* PERF_LOCATION_CACHE of them */
    struct perf_cached_sampler *samplers;   /* PERF_SAMPLER_CACHE */

    uint64_t counts[PERF_TYPES_END];
    uint64_t n_other_types;
    uint64_t lost;
    uint64_t unknown_ids;
    uint64_t stack_dumps;
    uint64_t branch_stacks, raw_payloads;
    uint64_t first_ns, last_ns;
};

int perf_record_error(const struct perf_record *r, struct error *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* perf_data_header.c */

/* One perf_event_attr, of `size` bytes. False when too short. */
bool perf_read_attr(struct perf_cursor *c, uint64_t size, struct perf_attr *ret);

/* Adds an event whose ids are what is left of `ids`. False when there are too many. */
bool perf_add_event(struct perf_reader *r, const struct perf_attr *attr, struct perf_cursor *ids);

/* The event of an id, or NULL. */
struct perf_event *perf_find_event(struct perf_reader *r, uint64_t id);

/* The content of one feature; content that does not parse is as good as absent. */
void perf_read_feature(struct perf_reader *r, uint32_t feature, struct perf_cursor content);

/* The records of HEADER_ATTR, HEADER_FEATURE, BUILD_ID and EVENT_UPDATE types. */
int perf_read_header_record(struct perf_reader *r, struct perf_record *record, struct error *err);

/* perf_data_records.c */

/* The time a record carries, 0 when it has none. Notes which events have samples. */
uint64_t perf_record_time(struct perf_reader *r, const struct perf_record *record);

/* Gives every event that has samples its columns, in the order the file describes them. */
int perf_add_columns(struct perf_reader *r, struct error *err);

/* Samples and what gives them names; other types are only counted. */
int perf_read_record(struct perf_reader *r, struct perf_record *record, struct error *err);

/* perf_event_name.c: as `perf report` calls an event that has no name of its own. */
void perf_event_name(const struct perf_attr *attr, struct buf *to);

/* The type as perf spells it, "MMAP2", or NULL. */
const char *perf_record_name(uint32_t type);

#pragma once

#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "segment/block.h"
#include "segment/block_file.h"
#include "store_local/local_internal.h"

/*
 * Segments of profiles: a file of one tenant and one window of time, holding parts, one per
 * dictionary epoch; a part holds strips, one per series and level; a strip holds rows in the order
 * of their starts, cut into blocks. The bytes are specified at the top of part_write.c.
 *
 * Level 0 is what was appended. The others are sums of exactly the rows of the same part, so a
 * reader may take either, bucket by bucket. A level that does not pay is not there.
 *
 * Everything here is immutable, so any thread may read. Nothing takes the store's lock.
 */
enum level {
    LEVEL_RAW,
    LEVEL_MINUTE,
    LEVEL_HOUR,
    LEVEL_DAY,
    LEVEL_FUNCTIONS_HOUR, /* keys are the string ids of function names, flat and cum per type */
    LEVEL_FUNCTIONS_DAY,
    LEVEL_COUNT,
};

/* The length of a bucket of a level; 0 for raw rows. */
int64_t level_step_ns(enum level level);

static inline bool level_is_functions(enum level level)
{
    return level >= LEVEL_FUNCTIONS_HOUR;
}

/* Values per sample in the runs of a strip: of functions, flat of every type, then cum of every
 * type. */
static inline unsigned level_n_cols(enum level level, unsigned n_types)
{
    return level_is_functions(level) ? 2 * n_types : n_types;
}

/* One part in a segment's directory. */
struct part_entry {
    uint64_t epoch;
    int64_t min_ns, max_ns;          /* of starts of raw rows */
    uint32_t min_series, max_series; /* of all strips */
    uint64_t n_rows, n_samples;      /* raw */
    struct block_ref index;
};

/* An open segment. Lives as long as its struct segment: hold a version. */
struct segment_file {
    struct block_file *file;
    uint32_t tenant;
    uint8_t tier;
    int64_t window_start_ns, window_len_ns;
    struct part_entry *parts; /* by epoch, ascending */
    uint32_t n_parts;
    struct block_ref traces;  /* len 0: no row of it has a trace... */
    bool has_too_many_traces; /* ...unless there are too many to list */
};

/*
 * Opens the file of a segment at its first use, from its last bytes. Any thread, also with the lock
 * held. A file that cannot be read is remembered as bad; the text names it. Segments of other
 * kinds: -EINVAL.
 */
int segment_file_get(struct local *l, struct segment *s, struct segment_file **ret,
                     struct error *err);
void segment_file_close(struct segment_file *f); /* NULL is fine; when the segment goes */

/* What a version would say of the file seg/ID.seg, from the file alone; with no reference yet. Its
 * tombstone_seq is not known, and 0. */
int segment_describe(struct local *l, uint64_t id, struct segment **ret, struct error *err);

/* 1: some row may have this trace, 0: none has, or an error. */
int segment_has_trace(struct local *l, struct segment_file *f, const uint8_t trace_id[16],
                      struct error *err);

struct strip_block {
    int64_t min_ns, max_ns; /* of starts */
    uint32_t n_rows;
    uint64_t n_samples;
    struct block_ref rows, payload, side; /* len 0: there is none */
};

struct strip {
    uint32_t series;
    uint8_t level; /* enum level */
    uint8_t n_types;
    uint32_t first_block, n_blocks; /* into the part's blocks */
    int64_t min_ns, max_ns;         /* of starts */
    uint64_t n_rows, n_samples;
};

/* A part's index, decoded. */
struct part {
    struct local *l;
    struct segment_file *file;
    const struct part_entry *entry;
    struct strip *strips; /* by series, then level */
    uint32_t n_strips;
    struct strip_block *blocks; /* of strips, in their order */
    uint32_t n_blocks;
};

/* Reads the index of parts[i]. The part belongs to the caller. */
int part_open(struct local *l, struct segment_file *f, uint32_t i, struct part *ret,
              struct error *err);
void part_done(struct part *p); /* zeroed is fine */

/* The strip, or NULL when there is none. */
const struct strip *part_strip(const struct part *p, uint32_t series, enum level level);

/* How many strips come before this series: the first of it, when it is there. */
uint32_t part_series_at(const struct part *p, uint32_t series);

/*
 * The rows of one block. Arrays of n, one allocation. A payload is, per attribute set, a varint (id
 * in the epoch) and a run (segment/run.h) of level_n_cols() columns, to its end.
 */
enum {
    ROWS_TOTALS = 1,
    ROWS_IDS = 2,    /* ids and content hashes: raw rows only */
    ROWS_WINDOW = 4, /* durations, periods, profile counts */
    ROWS_ALL = 7,
};

struct row_block {
    uint32_t n;
    uint8_t n_types;
    int64_t *start_ns; /* of a rollup: of its bucket */
    uint32_t *n_samples;
    uint32_t *payload_at; /* n + 1: where each payload begins in the payload block, and the end */
    uint32_t *side_at;    /* n + 1; NULL: no side rows */

    /* NULL where not asked for. */
    int64_t *totals;      /* totals[type * n + row] */
    int64_t *duration_ns; /* of a rollup: of its rows, added up */
    int64_t *period;      /* of a rollup: what its rows agree on, or 0 */
    uint64_t *n_profiles; /* 1 for raw rows */
    uint64_t *content_hash;
    uint8_t (*id)[16];
    bool *has_id;

    void *memory;
};

/* Decodes the row block; `columns` says what beside starts and places is wanted. */
int row_block_read(const struct part *p, const struct strip *s, const struct strip_block *b,
                   unsigned columns, struct row_block *ret, struct error *err);
void row_block_done(struct row_block *r); /* zeroed is fine */

/*
 * The payloads of a block, checked to be as long as `r` needs. The caller gets a reference; a row's
 * payload is strip_row_payload() of it.
 */
int strip_payloads(struct local *l, const struct part *p, const struct strip_block *b,
                   const struct row_block *r, struct block **ret, struct error *err);

/* The same for side rows (store_local/side.h). -ENOENT when r->side_at is NULL. */
int strip_sides(struct local *l, const struct part *p, const struct strip_block *b,
                const struct row_block *r, struct block **ret, struct error *err);

static inline struct bytes strip_row_payload(const struct row_block *r,
                                             const struct block *payloads, uint32_t row)
{
    return (struct bytes){payloads->data + r->payload_at[row],
                          r->payload_at[row + 1] - r->payload_at[row]};
}

static inline struct bytes strip_row_side(const struct row_block *r, const struct block *sides,
                                          uint32_t row)
{
    return (struct bytes){sides->data + r->side_at[row], r->side_at[row + 1] - r->side_at[row]};
}

/*
 * Whether a profile is in a segment already: same series and start, and the same id (16 bytes), or
 * no id (NULL) on either side and the same content. Rows that a tombstone hides do not count. 1, 0,
 * or negative when a file could not be read. Call with the lock held.
 */
int local_find_in_segments(struct local *l, uint32_t tenant, uint32_t series, int64_t start_ns,
                           const uint8_t *id, uint64_t content_hash);

/*
 * ---- Writing
 *
 * Parts in the order of epochs, strips by series then level, rows by start: anything else is
 * -EINVAL. Not thread-safe. Memory: one block of each kind.
 */
struct part_writer;

struct part_row {
    int64_t start_ns, duration_ns, period;
    uint64_t n_profiles;
    uint64_t content_hash;
    uint8_t id[16];
    bool has_id;
    uint32_t n_samples;
    const int64_t *totals; /* per type */
    struct bytes payload, side;
};

struct part_options {
    uint64_t id; /* of the file */
    uint32_t tenant;
    uint8_t tier;
    int64_t window_start_ns, window_len_ns;
    uint64_t tombstone_seq;
};

int part_writer_new(struct local *l, const struct part_options *options, struct part_writer **ret,
                    struct error *err);
/* Without part_writer_finish() the file goes. NULL is fine. */
void part_writer_free(struct part_writer *w);
DEFINE_CLEANUP(struct part_writer *, part_writer_free)

int part_writer_begin(struct part_writer *w, uint64_t epoch, struct error *err);
int part_writer_strip(struct part_writer *w, uint32_t series, enum level level, unsigned n_types,
                      struct error *err);
int part_writer_row(struct part_writer *w, const struct part_row *row, struct error *err);

/* How many raw rows there are so far. */
uint64_t part_writer_rows(const struct part_writer *w);

/* Makes the file durable under its name. *ret is what a version names, with no reference yet. */
int part_writer_finish(struct part_writer *w, struct segment **ret, struct error *err);

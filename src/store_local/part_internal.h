#pragma once

#include "base/buf.h"
#include "base/vec.h"
#include "store_local/part.h"
#include "store_local/version.h"

/* What the files that read and write parts share. The layout is at the top of part_write.c. */
#define PART_FORMAT 1

/* A block ends when it has this much. */
#define PART_ROWS_MAX      4096
#define PART_PAYLOAD_BYTES ((size_t)96 << 10)
#define PART_SIDE_BYTES    ((size_t)96 << 10)

#define PART_TRACES_MAX       ((size_t)4 << 20)
#define PART_WRITER_BYTES_MAX ((size_t)256 << 20)

/* Distances wrap, so that the whole range of times can be written. */
static inline int64_t ns_between(int64_t from, int64_t to)
{
    return (int64_t)((uint64_t)to - (uint64_t)from);
}

static inline int64_t ns_after(int64_t from, int64_t distance)
{
    return (int64_t)((uint64_t)from + (uint64_t)distance);
}

struct row_id {
    uint8_t bytes[16];
};

/* part_rows.c: the rows of a block while it is being filled. */
struct row_columns {
    VEC(int64_t) start, duration, period, n_profiles, n_samples, payload_len, side_len, has_id;
    VEC(int64_t) totals; /* row by row */
    VEC(uint64_t) content_hash;
    VEC(struct row_id) id;
};

bool row_columns_add(struct budget *b, struct row_columns *c, const struct part_row *row,
                     unsigned n_types);
void row_columns_clear(struct row_columns *c);
void row_columns_done(struct budget *b, struct row_columns *c);
void row_columns_encode(const struct row_columns *c, enum level level, unsigned n_types,
                        bool has_side, struct buf *out);

uint32_t trace_fingerprint(const uint8_t trace_id[16]);

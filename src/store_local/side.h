#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "base/vec.h"
#include "profile/dict.h"

/*
 * The side table of a profile: the samples that were taken in a span or at a known time, one row
 * each. The main runs of the profile count them too: a reader takes either, never both.
 *
 *     varint n_rows, u8 flags (1: links, 2: times), u8 n_values
 *     with links: varint n_traces, 16 bytes each; per row varint trace index + 1 (0: none), and
 *         the 8 bytes of its span when it has one
 *     with times: per row zigzag distance to the row before (the first: to the profile's start) +
 * 1, or 0 when the time is not known per row varint node; per row varint attrs; per column and row
 * zigzag value
 */
struct side_row {
    uint32_t node, attrs;
    uint64_t time_ns; /* 0: not known */
    struct link link; /* zeros: none */
};

/* Rows in columns: values[t * n + i] of row i. */
struct side_rows {
    struct side_row *rows;
    int64_t *values;
    size_t n;
    unsigned n_values;
};

void side_encode(const struct side_rows *rows, int64_t start_ns, struct buf *out);

/*
 * Rows from bytes; the vecs are overwritten and charged to `b`. Node and attribute ids are as they
 * stand: whoever looks them up checks them. -EBADMSG when malformed, -ENOBUFS past the budget.
 */
struct side_vecs {
    VEC(struct side_row) rows;
    VEC(int64_t) values;
};
int side_decode(struct bytes in, int64_t start_ns, unsigned n_values, struct budget *b,
                struct side_vecs *vecs, struct side_rows *ret);
void side_vecs_done(struct budget *b, struct side_vecs *vecs);

/* How many rows there are, 0 when malformed. Reads only the front. */
size_t side_count(struct bytes in);

/* Whether any row has this trace; reads only the list of traces. */
bool side_has_trace(struct bytes in, const uint8_t trace_id[16]);

/* Calls each(arg, trace id) for every trace in it. */
int side_traces(struct bytes in, void (*each)(void *arg, const uint8_t trace_id[16]), void *arg);

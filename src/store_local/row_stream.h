#pragma once

#include "store_local/cover.h"
#include "store_local/part.h"

/*
 * The rows of one strip in their order, without those that tombstones hide: what merging reads. It
 * remembers its place, so the blocks it holds can be given up and are read again when needed. For
 * one thread.
 */
struct row_stream {
    struct local *l;
    struct segment *segment; /* blamed when a block is damaged */
    const struct part *part;
    const struct strip *strip;
    unsigned columns; /* ROWS_...; with ROWS_IDS also side tables */
    struct cover_range *hidden;
    size_t n_hidden;

    int64_t next_ns; /* start of the next row; INT64_MAX: there is none */
    uint32_t block, row;
    bool is_open;
    struct row_block rows;
    struct block *payloads, *sides;
    struct block *held[2]; /* of the row that was handed out last */
    int64_t totals[UINT8_MAX];
};

/* Looks at the first row. `hidden` is copied. A failed one needs row_stream_done() too. */
struct row_stream_from {
    struct local *l;
    struct segment *segment;
    const struct part *part;
    const struct strip *strip;
    unsigned columns;
    const struct cover_range *hidden;
    size_t n_hidden;
};
int row_stream_init(struct row_stream *s, const struct row_stream_from *from, struct error *err);
void row_stream_done(struct row_stream *s); /* zeroed is fine */

/* The next row, borrowed until the next call. 1, 0 at the end. */
int row_stream_next(struct row_stream *s, struct part_row *ret, struct error *err);

/* Back to the first row. */
int row_stream_rewind(struct row_stream *s, unsigned columns, struct error *err);

/* Gives up the blocks. */
void row_stream_close(struct row_stream *s);

/* The stream whose next row starts first, or NULL when all have ended. */
struct row_stream *row_streams_first(struct row_stream *streams, size_t n);

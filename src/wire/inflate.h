#pragma once

#include <stdbool.h>

#include "base/budget.h"
#include "base/buf.h"
#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/error.h"

/*
 * Compressed layers: gzip (any number of members in a row) and zstd (any number of frames), whole
 * or as a stream; and gzip for what we write.
 */
enum codec {
    CODEC_NONE,
    CODEC_GZIP,
    CODEC_ZSTD,
    CODEC_ZSTD_HTTP, /* with a window of at most 8 MiB, as RFC 9659 has it; never detected */
};

/* By magic number. */
enum codec codec_detect(struct bytes head);

/* About how many bytes a whole gzip file unpacks to, as its last four bytes say. Hostile input may
 * lie; never more than its size could give. */
size_t gzip_size_hint(struct bytes in);

/* The output of unpack(): a block charged to the budget, with 16 zero bytes behind its content. */
struct unpacked {
    uint8_t *data;
    size_t len;
    size_t cap;
};

void unpacked_done(struct budget *b, struct unpacked *u);

/* -EBADMSG when damaged or cut short, -ENOBUFS when the content does not fit the budget. */
int unpack(enum codec codec, struct bytes in, struct budget *b, struct unpacked *ret,
           struct error *err);

/* Unpacks bit by bit: feed `in`, get bytes. */
struct unpack_stream;
struct unpack_stream *unpack_stream_new(enum codec codec);
void unpack_stream_free(struct unpack_stream *s);
DEFINE_CLEANUP(struct unpack_stream *, unpack_stream_free)

/*
 * Reads from *in (advancing it) and writes up to size bytes. Returns how many were written; 0 with
 * *in empty means that more input is needed, or, when `last`, the end. -EBADMSG when damaged, or
 * when `last` and the stream is cut short.
 */
ssize_t unpack_stream_read(struct unpack_stream *s, struct bytes *in, bool last, void *to,
                           size_t size, struct error *err);

/* Appends `in` as one gzip member to `out`. Level 1 (fast) to 12 (small); 6 is usual. */
void gzip_pack(struct bytes in, int level, struct buf *out);

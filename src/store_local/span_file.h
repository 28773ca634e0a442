#pragma once

#include "base/cleanup.h"
#include "base/vec.h"
#include "segment/block_file.h"
#include "store_local/local_internal.h"

/*
 * Segments of spans: a file of one tenant and one window of time, all its spans in order
 * (span_codec.h), cut into blocks. An index of traces tells which blocks have spans of a trace, so
 * a search by trace reads few of them. The bytes are specified at the top of span_file.c.
 *
 * Everything here is immutable, so any thread may read. Nothing takes the store's lock.
 */
struct span_block {
    int64_t min_ns, max_ns; /* of starts; blocks of a file do not overlap but at their ends */
    uint32_t n;
    uint32_t first_service, n_services; /* into block_services */
    struct block_ref ref;               /* of a batch */
};

struct span_trace_page {
    uint32_t first; /* fingerprint */
    uint32_t n;
    struct block_ref ref;
};

/* An open file. Lives as long as its struct segment: hold a version. */
struct span_file {
    struct block_file *file;
    struct block *footer; /* strings point into it */
    uint32_t tenant;
    uint8_t tier;
    int64_t window_start_ns, window_len_ns;
    struct span_block *blocks;
    uint32_t n_blocks;
    struct bytes *services;
    uint32_t n_services;
    uint32_t *block_services; /* ids */
    struct span_trace_page *pages;
    uint32_t n_pages;
    bool has_all_traces; /* false: there were too many to list, any block may have any */
};

/* Opens the file of a segment at its first use, as segment_file_get() does. */
int span_file_get(struct local *l, struct segment *s, struct span_file **ret, struct error *err);
void span_file_close(struct span_file *f); /* NULL is fine; when the segment goes */

/* As segment_describe(), of a file of spans. */
int span_file_describe(struct local *l, uint64_t id, struct segment **ret, struct error *err);

/* Whether the block has spans of the service. */
bool span_block_has_service(const struct span_file *f, const struct span_block *b,
                            struct bytes service);

/* Calls each(arg, block) for the blocks that may have spans of the trace, in order; anything but 0
 * ends it and is returned. */
int span_file_trace(struct local *l, const struct span_file *f, const uint8_t trace_id[16],
                    int (*each)(void *arg, uint32_t block), void *arg, struct error *err);

/* Reads and checks everything in the file; what is wrong goes to `report`. True when it is sound.
 */
bool span_file_verify(struct local *l, struct segment *s, store_report_fn report, void *ctx);

/*
 * ---- Writing, in the order of span_compare(). Not thread-safe. Memory: a block and 8 bytes for
 * each trace in each block.
 */
struct span_writer;

struct span_file_options {
    uint64_t id;
    uint32_t tenant;
    uint8_t tier;
    int64_t window_start_ns, window_len_ns;
    uint64_t tombstone_seq;
    size_t max_entries; /* in the index of traces: beyond, there is none; 0: 8 million */
};

int span_writer_new(struct local *l, const struct span_file_options *options,
                    struct span_writer **ret, struct error *err);
/* Without span_writer_finish() the file goes. NULL is fine. */
void span_writer_free(struct span_writer *w);
DEFINE_CLEANUP(struct span_writer *, span_writer_free)

/* The span is copied. -EINVAL when it is before the last one. */
int span_writer_add(struct span_writer *w, const struct store_span *span, struct error *err);

/* Makes the file durable under its name. *ret is what a version names, with no reference yet.
 * -EINVAL when it has no spans. */
int span_writer_finish(struct span_writer *w, struct segment **ret, struct error *err);

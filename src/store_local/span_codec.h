#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "store/store.h"

/*
 * A batch of spans as bytes: the payload of a record in the WAL, what the memtable holds, and a
 * block of a segment of spans. Spans stand in the order of (start, trace, span); each batch has its
 * own strings, so it means the same wherever it lies. The layout is at the top of span_codec.c.
 *
 * All bytes are hostile: what is malformed is -EBADMSG, never more than its budget in memory.
 */
#define SPAN_BATCH_MAX      65536 /* spans */
#define SPAN_ATTRIBUTES_MAX 64    /* of one span */
#define SPAN_RAW_MAX        ((size_t)64 << 20)

/*
 * Adds a batch to `out`, in order whatever the order of `spans` is; no duration is negative and
 * none has more than SPAN_ATTRIBUTES_MAX attributes. Memory is taken from `b`. -ENOBUFS past it or
 * past SPAN_RAW_MAX, -EINVAL for no spans or more than SPAN_BATCH_MAX.
 */
int span_encode(const struct store_span *spans, size_t n, struct budget *b, struct buf *out,
                struct error *err);

/* What can be told without unpacking. Points into the bytes. */
struct span_head {
    uint32_t n, n_traces;
    int64_t min_ns, max_ns;  /* of starts */
    const uint8_t *traces;   /* n_traces of 16 bytes, each once */
    const uint8_t *span_ids; /* n of 8 bytes */
};

int span_head(struct bytes in, struct span_head *ret);

/* Whether some span is of the trace, has the id. */
bool span_head_has_trace(const struct span_head *h, const uint8_t trace_id[16]);
bool span_head_has_span(const struct span_head *h, const uint8_t span_id[8]);

struct span_rows {
    struct store_span *spans;
    size_t n;
};

/* All spans of a batch; their strings and attributes live in the arena. */
int span_decode(struct bytes in, struct arena *arena, struct span_rows *ret, struct error *err);

/* The order of spans; equal ones are the same span. */
int span_compare(const struct store_span *a, const struct store_span *b);

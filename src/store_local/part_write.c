#include <errno.h>
#include <stdlib.h>

#include "base/checksum.h"
#include "segment/bitpack.h"
#include "segment/varint.h"
#include "store_local/part_internal.h"
#include "store_local/side.h"

/*
 * THE LAYOUT OF A SEGMENT OF PROFILES, seg/ID.seg, kind 1
 *
 * The file is a block file (segment/block_file.c: header, blocks back to back, footer, trailer). A
 * block is known by a ref: offset, length, length before packing (0: not packed), and XXH3 of its
 * bytes; whoever holds the ref stores the sum, so each byte is checked by what leads to it:
 *
 *     trailer -> footer -> part indexes -> row, payload and side blocks
 *                       -> traces
 *
 * All numbers are varints, `z` means zigzag; `ref` is: varint distance from the end of the block
 * that was referred to before (in the order of this text; the first: from 0), zigzag; varint
 * len; varint raw_len; 8 bytes sum, little-endian. A ref that is not there is a len of 0 alone,
 * preceded by a distance of 0 and followed by nothing.
 *
 * FOOTER
 *     format (1), tenant, tier, z window_start, window_len
 *     n parts, by epoch ascending; each:
 *         epoch - epoch of the part before, z min start, max - min, min series, max - min,
 *         n raw rows, n samples of raw rows, ref of its index
 *     traces: u8 0 none, 1 ref of the trace list follows, 2 too many to list
 *
 * PART INDEX (packed with zstd where that makes it smaller)
 *     n strips, n blocks
 *     per strip, by series then level: series - series of the strip before, u8 level, u8 n types,
 *         n blocks; per block, by start:
 *             z (min start - max start of the block before it in the strip, the first: - the part's
 *             min), max - min, n rows, n samples, ref of rows, ref of payload, ref of side
 *
 * ROW BLOCK (packed with zstd where that makes it smaller). Rows by start; columns of
 * segment/columns.h, all of n rows, one after the other:
 *     start, payload length, n samples
 *     where there is a side block: side length
 *     totals, a column per type
 *     duration, period
 *     raw levels:    u8 1 if any row has an id; then the column has_id, and 16 bytes per row that
 *                    has one; then 8 bytes content hash, little-endian, per row that has none
 *     other levels:  n profiles
 *
 * PAYLOAD BLOCK (never packed: its runs are, and reading is the hot path; not there when all are
 * empty). Payloads back to back.
 * A payload is, per attribute set ascending, the id of the set in the epoch, and a run (segment/
 * run.h) of the samples: keys are stack nodes of the epoch and a column per type, or, on function
 * levels, string ids of function names and a column of flat values per type, then one of cumulative
 * values per type.
 *
 * SIDE BLOCK (packed where that pays): side tables back to back (store_local/side.h).
 *
 * TRACES: n, the first fingerprint, then bitpack (segment/bitpack.h) of the n - 1 distances between
 * them. A fingerprint is the low 32 bits of XXH3 of a trace id; they ascend, each stands once.
 *
 * Levels: 0 raw, 1 minutes, 2 hours, 3 days, 4 functions per hour, 5 functions per day. A row of
 * level 1..5 is the sum of the rows of its part, and of its series or (for a group series) of the
 * series in that group, which start in [start, start + length of the level). A strip of a level is
 * there for all rows of its series in this part or not at all.
 */

struct part_writer {
    struct local *l;
    struct part_options options;
    struct block_writer *file;
    struct budget budget;

    struct row_columns rows; /* of the block being filled */
    struct buf payload, side, scratch;

    bool is_in_part;
    uint64_t epoch;
    VEC(struct strip) strips; /* of the part being written */
    VEC(struct strip_block) blocks;

    VEC(struct part_entry) parts;
    VEC(uint32_t) traces;
    size_t n_unique_traces; /* as of the last time they were sorted */
    bool has_too_many_traces;
    int64_t min_ns, max_ns;
    uint64_t n_rows, n_samples;
    bool is_finished;
};

int64_t level_step_ns(enum level level)
{
    static const int64_t steps[LEVEL_COUNT] = {0, MINUTE_NS, HOUR_NS, DAY_NS, HOUR_NS, DAY_NS};
    return steps[level];
}

int part_writer_new(struct local *l, const struct part_options *options, struct part_writer **ret,
                    struct error *err)
{
    CLEANUP(part_writer_freep) struct part_writer *w = calloc(1, sizeof(*w));

    if (!w)
        return error_set(err, -ENOMEM, "could not write a segment: no memory");
    w->l = l;
    w->options = *options;
    w->min_ns = INT64_MAX;
    w->max_ns = INT64_MIN;
    budget_init(&w->budget, PART_WRITER_BYTES_MAX);
    int r = block_writer_new(l->fs, "seg", options->id, SEGMENT_PROFILES, &w->file, err);
    if (r < 0)
        return r;
    *ret = TAKE_PTR(w);
    return 0;
}

void part_writer_free(struct part_writer *w)
{
    if (!w)
        return;
    block_writer_free(w->file);
    row_columns_done(&w->budget, &w->rows);
    buf_done(&w->payload);
    buf_done(&w->side);
    buf_done(&w->scratch);
    vec_done(&w->budget, &w->strips);
    vec_done(&w->budget, &w->blocks);
    vec_done(&w->budget, &w->parts);
    vec_done(&w->budget, &w->traces);
    free(w);
}

/* ---- Blocks */

static int writer_error(struct part_writer *w, struct error *err)
{
    return error_prefix(err, budget_error(&w->budget, err), "could not write a segment");
}

static int end_block(struct part_writer *w, struct error *err)
{
    struct row_columns *c = &w->rows;
    struct strip *strip = &vec_last(&w->strips);

    if (c->start.len == 0)
        return 0;
    struct strip_block block = {
        .min_ns = c->start.data[0],
        .max_ns = vec_last(&c->start),
        .n_rows = (uint32_t)c->start.len,
    };
    for (size_t i = 0; i < c->n_samples.len; i++)
        block.n_samples += (uint64_t)c->n_samples.data[i];
    buf_clear(&w->scratch);
    row_columns_encode(c, strip->level, strip->n_types, w->side.len > 0, &w->scratch);
    int r = block_writer_add(w->file, buf_bytes(&w->scratch), true, &block.rows, err);
    if (r == 0 && w->payload.len > 0)
        r = block_writer_add(w->file, buf_bytes(&w->payload), false, &block.payload, err);
    if (r == 0 && w->side.len > 0)
        r = block_writer_add(w->file, buf_bytes(&w->side), true, &block.side, err);
    if (r < 0)
        return r;
    if (!vec_push(&w->budget, &w->blocks, block))
        return writer_error(w, err);
    if (strip->n_blocks++ == 0)
        strip->min_ns = block.min_ns;
    strip->max_ns = block.max_ns;
    strip->n_rows += block.n_rows;
    strip->n_samples += block.n_samples;
    row_columns_clear(c);
    buf_clear(&w->payload);
    buf_clear(&w->side);
    return 0;
}

static int end_strip(struct part_writer *w, struct error *err)
{
    if (w->strips.len == 0)
        return 0;
    int r = end_block(w, err);
    if (r == 0 && vec_last(&w->strips).n_blocks == 0)
        w->strips.len--; /* nothing was in it */
    return r;
}

/* ---- Parts */

static void put_ref(struct buf *out, struct block_ref ref, uint64_t *end)
{
    if (ref.len == 0) {
        add_varint(out, 0);
        add_varint(out, 0);
        return;
    }
    add_varint(out, zigzag((int64_t)(ref.offset - *end)));
    add_varint(out, ref.len);
    add_varint(out, ref.raw_len);
    for (int i = 0; i < 8; i++)
        buf_add_byte(out, (uint8_t)(ref.sum >> (8 * i)));
    *end = ref.offset + ref.len;
}

static void encode_index(const struct part_writer *w, int64_t part_min, struct buf *out)
{
    uint32_t series = 0;
    uint64_t end = 0;

    add_varint(out, w->strips.len);
    add_varint(out, w->blocks.len);
    for (size_t i = 0; i < w->strips.len; i++) {
        const struct strip *s = &w->strips.data[i];
        add_varint(out, s->series - series);
        series = s->series;
        buf_add_byte(out, s->level);
        buf_add_byte(out, s->n_types);
        add_varint(out, s->n_blocks);
        int64_t before = part_min;
        for (uint32_t j = 0; j < s->n_blocks; j++) {
            const struct strip_block *b = &w->blocks.data[s->first_block + j];
            add_varint(out, zigzag(ns_between(before, b->min_ns)));
            add_varint(out, (uint64_t)ns_between(b->min_ns, b->max_ns));
            before = b->max_ns;
            add_varint(out, b->n_rows);
            add_varint(out, b->n_samples);
            put_ref(out, b->rows, &end);
            put_ref(out, b->payload, &end);
            put_ref(out, b->side, &end);
        }
    }
}

static int end_part(struct part_writer *w, struct error *err)
{
    if (!w->is_in_part)
        return 0;
    int r = end_strip(w, err);
    if (r < 0)
        return r;
    w->is_in_part = false;
    if (w->strips.len == 0)
        return 0;
    struct part_entry e = {
        .epoch = w->epoch,
        .min_ns = INT64_MAX,
        .max_ns = INT64_MIN,
        .min_series = w->strips.data[0].series,
        .max_series = vec_last(&w->strips).series,
    };
    for (size_t i = 0; i < w->strips.len; i++) {
        const struct strip *s = &w->strips.data[i];
        if (s->level != LEVEL_RAW)
            continue;
        e.min_ns = s->min_ns < e.min_ns ? s->min_ns : e.min_ns;
        e.max_ns = s->max_ns > e.max_ns ? s->max_ns : e.max_ns;
        e.n_rows += s->n_rows;
        e.n_samples += s->n_samples;
    }
    if (e.n_rows == 0)
        return error_set(err, -EINVAL, "could not write a segment: a part without raw rows");
    buf_clear(&w->scratch);
    encode_index(w, e.min_ns, &w->scratch);
    r = block_writer_add(w->file, buf_bytes(&w->scratch), true, &e.index, err);
    if (r < 0)
        return r;
    if (!vec_push(&w->budget, &w->parts, e))
        return writer_error(w, err);
    w->min_ns = e.min_ns < w->min_ns ? e.min_ns : w->min_ns;
    w->max_ns = e.max_ns > w->max_ns ? e.max_ns : w->max_ns;
    w->n_rows += e.n_rows;
    w->n_samples += e.n_samples;
    vec_clear(&w->strips);
    vec_clear(&w->blocks);
    return 0;
}

int part_writer_begin(struct part_writer *w, uint64_t epoch, struct error *err)
{
    int r = end_part(w, err);

    if (r < 0)
        return r;
    if (w->parts.len > 0 && epoch <= vec_last(&w->parts).epoch)
        return error_set(err, -EINVAL, "could not write a segment: epochs do not ascend");
    w->epoch = epoch;
    w->is_in_part = true;
    return 0;
}

int part_writer_strip(struct part_writer *w, uint32_t series, enum level level, unsigned n_types,
                      struct error *err)
{
    int r = end_strip(w, err);

    if (r < 0)
        return r;
    if (!w->is_in_part || n_types > UINT8_MAX)
        return error_set(err, -EINVAL, "could not write a segment: no part for this strip");
    if (w->strips.len > 0) {
        const struct strip *last = &vec_last(&w->strips);
        if (series < last->series || (series == last->series && level <= last->level))
            return error_set(err, -EINVAL, "could not write a segment: strips do not ascend");
    }
    struct strip s = {.series = series,
                      .level = (uint8_t)level,
                      .n_types = (uint8_t)n_types,
                      .first_block = (uint32_t)w->blocks.len};
    return vec_push(&w->budget, &w->strips, s) ? 0 : writer_error(w, err);
}

/* ---- Traces */

static int by_u32(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return x < y ? -1 : x > y;
}

static void sort_traces(struct part_writer *w)
{
    size_t n = 0;

    if (w->traces.len == 0)
        return;
    qsort(w->traces.data, w->traces.len, sizeof(uint32_t), by_u32);
    for (size_t i = 0; i < w->traces.len; i++) {
        if (n == 0 || w->traces.data[n - 1] != w->traces.data[i])
            w->traces.data[n++] = w->traces.data[i];
    }
    w->traces.len = w->n_unique_traces = n;
}

uint32_t trace_fingerprint(const uint8_t trace_id[16])
{
    return (uint32_t)checksum64(trace_id, 16);
}

static void add_trace(void *arg, const uint8_t trace_id[16])
{
    struct part_writer *w = arg;

    if (w->has_too_many_traces)
        return;
    if (w->traces.len >= 2 * w->n_unique_traces + 65536)
        sort_traces(w);
    if (w->traces.len >= PART_TRACES_MAX ||
        !vec_push(&w->budget, &w->traces, trace_fingerprint(trace_id)))
        w->has_too_many_traces = true;
}

/* ---- Rows */

int part_writer_row(struct part_writer *w, const struct part_row *row, struct error *err)
{
    struct row_columns *c = &w->rows;

    if (!w->is_in_part || w->strips.len == 0)
        return error_set(err, -EINVAL, "could not write a segment: no strip for this row");
    const struct strip *strip = &vec_last(&w->strips);
    int64_t last = c->start.len > 0      ? vec_last(&c->start)
                   : strip->n_blocks > 0 ? strip->max_ns
                                         : INT64_MIN;
    if (row->start_ns < last)
        return error_set(err, -EINVAL, "could not write a segment: rows do not ascend");
    if (c->start.len >= PART_ROWS_MAX || w->payload.len >= PART_PAYLOAD_BYTES ||
        w->side.len >= PART_SIDE_BYTES ||
        (c->start.len > 0 && (w->payload.len + row->payload.len > BLOCK_BYTES_MAX ||
                              w->side.len + row->side.len > BLOCK_BYTES_MAX))) {
        int r = end_block(w, err);
        if (r < 0)
            return r;
    }
    if (!row_columns_add(&w->budget, c, row, strip->n_types))
        return writer_error(w, err);
    buf_add_bytes(&w->payload, row->payload);
    if (row->side.len > 0) {
        buf_add_bytes(&w->side, row->side);
        int r = side_traces(row->side, add_trace, w);
        if (r < 0)
            return error_set(err, r, "could not write a segment: a side table is malformed");
    }
    return 0;
}

uint64_t part_writer_rows(const struct part_writer *w)
{
    uint64_t n = w->n_rows;

    for (size_t i = 0; i < w->strips.len; i++)
        n += w->strips.data[i].level == LEVEL_RAW ? w->strips.data[i].n_rows : 0;
    if (w->strips.len > 0 && vec_last(&w->strips).level == LEVEL_RAW)
        n += w->rows.start.len;
    return n;
}

/* ---- The end */

static int write_traces(struct part_writer *w, struct block_ref *ret, struct error *err)
{
    CLEANUP(freep) uint64_t *steps = NULL;

    sort_traces(w);
    if (w->traces.len == 0 || w->has_too_many_traces)
        return 0;
    size_t n = w->traces.len;
    steps = calloc(n, sizeof(*steps));
    if (!steps)
        return error_set(err, -ENOMEM, "could not write a segment: no memory");
    for (size_t i = 1; i < n; i++)
        steps[i - 1] = w->traces.data[i] - w->traces.data[i - 1];
    buf_clear(&w->scratch);
    add_varint(&w->scratch, n);
    add_varint(&w->scratch, w->traces.data[0]);
    bitpack_encode(steps, n - 1, &w->scratch);
    return block_writer_add(w->file, buf_bytes(&w->scratch), false, ret, err);
}

static void encode_footer(const struct part_writer *w, struct block_ref traces, struct buf *out)
{
    uint64_t epoch = 0, end = 0;

    add_varint(out, PART_FORMAT);
    add_varint(out, w->options.tenant);
    add_varint(out, w->options.tier);
    add_varint(out, zigzag(w->options.window_start_ns));
    add_varint(out, (uint64_t)w->options.window_len_ns);
    add_varint(out, w->parts.len);
    for (size_t i = 0; i < w->parts.len; i++) {
        const struct part_entry *e = &w->parts.data[i];
        add_varint(out, e->epoch - epoch);
        epoch = e->epoch;
        add_varint(out, zigzag(e->min_ns));
        add_varint(out, (uint64_t)ns_between(e->min_ns, e->max_ns));
        add_varint(out, e->min_series);
        add_varint(out, e->max_series - e->min_series);
        add_varint(out, e->n_rows);
        add_varint(out, e->n_samples);
        put_ref(out, e->index, &end);
    }
    buf_add_byte(out, w->has_too_many_traces ? 2 : traces.len > 0);
    if (!w->has_too_many_traces && traces.len > 0)
        put_ref(out, traces, &end);
}

static struct segment *new_segment(const struct part_writer *w, uint64_t bytes)
{
    CLEANUP(segment_freep) struct segment *s = calloc(1, sizeof(*s));

    if (!s)
        return NULL;
    s->epochs = calloc(w->parts.len, sizeof(*s->epochs));
    if (!s->epochs)
        return NULL;
    for (size_t i = 0; i < w->parts.len; i++)
        s->epochs[s->n_epochs++] = w->parts.data[i].epoch;
    s->id = w->options.id;
    s->kind = SEGMENT_PROFILES;
    s->tenant = w->options.tenant;
    s->tier = w->options.tier;
    s->window_start_ns = w->options.window_start_ns;
    s->window_len_ns = w->options.window_len_ns;
    s->min_ns = w->min_ns;
    s->max_ns = w->max_ns;
    s->n_rows = w->n_rows;
    s->n_samples = w->n_samples;
    s->bytes = bytes;
    s->tombstone_seq = w->options.tombstone_seq;
    return TAKE_PTR(s);
}

int part_writer_finish(struct part_writer *w, struct segment **ret, struct error *err)
{
    struct block_ref traces = {0};
    uint64_t bytes;

    int r = end_part(w, err);
    if (r == 0)
        r = write_traces(w, &traces, err);
    if (r < 0)
        return r;
    if (w->parts.len == 0)
        return error_set(err, -ENODATA, "could not write a segment: it would be empty");
    buf_clear(&w->scratch);
    encode_footer(w, traces, &w->scratch);
    /* Made before the file has its name: afterwards nothing may fail. */
    CLEANUP(segment_freep) struct segment *s = new_segment(w, 0);
    if (!s)
        return error_set(err, -ENOMEM, "could not write a segment: no memory");
    r = block_writer_finish(w->file, buf_bytes(&w->scratch), &bytes, err);
    if (r < 0)
        return r;
    s->bytes = bytes;
    *ret = TAKE_PTR(s);
    return 0;
}

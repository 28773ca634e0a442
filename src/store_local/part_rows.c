#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "segment/columns.h"
#include "segment/varint.h"
#include "store_local/part_internal.h"

/* Row blocks: columns in, bytes out, and back. The layout is at the top of part_write.c. */

/* ---- Writing */

bool row_columns_add(struct budget *b, struct row_columns *c, const struct part_row *row,
                     unsigned n_types)
{
    size_t n = c->start.len;
    struct row_id id;
    memcpy(id.bytes, row->id, sizeof(id.bytes));

    bool ok =
        vec_append(b, &c->totals, row->totals, n_types) &&
        vec_push(b, &c->duration, row->duration_ns) && vec_push(b, &c->period, row->period) &&
        vec_push(b, &c->n_profiles, (int64_t)row->n_profiles) &&
        vec_push(b, &c->n_samples, (int64_t)row->n_samples) &&
        vec_push(b, &c->payload_len, (int64_t)row->payload.len) &&
        vec_push(b, &c->side_len, (int64_t)row->side.len) && vec_push(b, &c->has_id, row->has_id) &&
        (row->has_id ? vec_push(b, &c->id, id) : vec_push(b, &c->content_hash, row->content_hash));
    /* Last, and alone in saying how many rows there are. */
    return ok && vec_push(b, &c->start, row->start_ns) && c->start.len == n + 1;
}

void row_columns_clear(struct row_columns *c)
{
    vec_clear(&c->start);
    vec_clear(&c->duration);
    vec_clear(&c->period);
    vec_clear(&c->n_profiles);
    vec_clear(&c->n_samples);
    vec_clear(&c->payload_len);
    vec_clear(&c->side_len);
    vec_clear(&c->has_id);
    vec_clear(&c->totals);
    vec_clear(&c->content_hash);
    vec_clear(&c->id);
}

void row_columns_done(struct budget *b, struct row_columns *c)
{
    vec_done(b, &c->start);
    vec_done(b, &c->duration);
    vec_done(b, &c->period);
    vec_done(b, &c->n_profiles);
    vec_done(b, &c->n_samples);
    vec_done(b, &c->payload_len);
    vec_done(b, &c->side_len);
    vec_done(b, &c->has_id);
    vec_done(b, &c->totals);
    vec_done(b, &c->content_hash);
    vec_done(b, &c->id);
}

static void encode_ids(const struct row_columns *c, struct buf *out)
{
    buf_add_byte(out, c->id.len > 0);
    if (c->id.len > 0)
        column_encode_i64(c->has_id.data, c->has_id.len, out);
    for (size_t i = 0; i < c->id.len; i++)
        buf_add(out, c->id.data[i].bytes, sizeof(c->id.data[i].bytes));
    for (size_t i = 0; i < c->content_hash.len; i++) {
        for (int shift = 0; shift < 64; shift += 8)
            buf_add_byte(out, (uint8_t)(c->content_hash.data[i] >> shift));
    }
}

static void encode_totals(const struct row_columns *c, unsigned n_types, struct buf *out)
{
    int64_t column[PART_ROWS_MAX];
    size_t n = c->start.len;

    for (unsigned type = 0; type < n_types; type++) {
        for (size_t i = 0; i < n; i++)
            column[i] = c->totals.data[i * n_types + type];
        column_encode_i64(column, n, out);
    }
}

void row_columns_encode(const struct row_columns *c, enum level level, unsigned n_types,
                        bool has_side, struct buf *out)
{
    size_t n = c->start.len;

    column_encode_i64(c->start.data, n, out);
    column_encode_i64(c->payload_len.data, n, out);
    column_encode_i64(c->n_samples.data, n, out);
    if (has_side)
        column_encode_i64(c->side_len.data, n, out);
    encode_totals(c, n_types, out);
    column_encode_i64(c->duration.data, n, out);
    column_encode_i64(c->period.data, n, out);
    if (level == LEVEL_RAW)
        encode_ids(c, out);
    else
        column_encode_i64(c->n_profiles.data, n, out);
}

/* ---- Reading */

void row_block_done(struct row_block *r)
{
    free(r->memory);
    *r = (struct row_block){0};
}

/* One allocation for all arrays; 8-byte elements first. */
static int allot(struct row_block *r, enum level level, bool has_side, unsigned columns)
{
    size_t n = r->n, words = n /* start */ + n /* scratch */;
    size_t halves = n + (n + 1) + (has_side ? n + 1 : 0), bytes = 0;

    words += columns & ROWS_TOTALS ? n * r->n_types : 0;
    words += columns & ROWS_WINDOW ? 3 * n : 0;
    if (level == LEVEL_RAW && columns & ROWS_IDS) {
        words += n;
        bytes = n * 16 + n;
    }
    uint64_t *at = calloc(words * 8 + halves * 4 + bytes + 8, 1);
    if (!at)
        return -ENOMEM;
    r->memory = at;
    at += n; /* scratch comes first */
    r->start_ns = (int64_t *)at;
    at += n;
    if (columns & ROWS_TOTALS) {
        r->totals = (int64_t *)at;
        at += n * r->n_types;
    }
    if (columns & ROWS_WINDOW) {
        r->duration_ns = (int64_t *)at;
        r->period = (int64_t *)(at + n);
        r->n_profiles = at + 2 * n;
        at += 3 * n;
    }
    if (bytes > 0) {
        r->content_hash = at;
        at += n;
    }
    r->n_samples = (uint32_t *)at;
    r->payload_at = r->n_samples + n;
    uint32_t *end = r->payload_at + n + 1;
    if (has_side) {
        r->side_at = end;
        end += n + 1;
    }
    if (bytes > 0) {
        r->id = (uint8_t(*)[16])end;
        r->has_id = (bool *)(r->id + n);
    }
    return 0;
}

/* Lengths into places; false when one is negative or all of them are too long for a block. */
static bool places(const int64_t *len, uint32_t n, uint32_t *at)
{
    uint64_t end = 0;

    for (uint32_t i = 0; i < n; i++) {
        at[i] = (uint32_t)end;
        if (len[i] < 0 || len[i] > BLOCK_BYTES_MAX)
            return false;
        end += (uint64_t)len[i];
        if (end > BLOCK_BYTES_MAX)
            return false;
    }
    at[n] = (uint32_t)end;
    return true;
}

static bool decode_places(struct bytes *in, struct row_block *r)
{
    int64_t *scratch = r->memory;

    if (column_decode_i64(in, r->n, r->start_ns) < 0 || column_decode_i64(in, r->n, scratch) < 0 ||
        !places(scratch, r->n, r->payload_at) || column_decode_i64(in, r->n, scratch) < 0)
        return false;
    for (uint32_t i = 0; i < r->n; i++) {
        if (scratch[i] < 0 || scratch[i] > UINT32_MAX)
            return false;
        r->n_samples[i] = (uint32_t)scratch[i];
    }
    for (uint32_t i = 1; i < r->n; i++) {
        if (r->start_ns[i] < r->start_ns[i - 1])
            return false;
    }
    return !r->side_at ||
           (column_decode_i64(in, r->n, scratch) == 0 && places(scratch, r->n, r->side_at));
}

static bool decode_ids(struct bytes *in, struct row_block *r)
{
    int64_t *scratch = r->memory;
    uint8_t has_ids;
    struct bytes b;

    if (!take_byte(in, &has_ids))
        return false;
    memset(scratch, 0, r->n * sizeof(*scratch));
    if (has_ids && column_decode_i64(in, r->n, scratch) < 0)
        return false;
    for (uint32_t i = 0; i < r->n; i++) {
        r->has_id[i] = scratch[i] != 0;
        if (!r->has_id[i])
            continue;
        if (!take_bytes(in, 16, &b))
            return false;
        memcpy(r->id[i], b.data, 16);
    }
    for (uint32_t i = 0; i < r->n; i++) {
        if (r->has_id[i])
            continue;
        if (!take_bytes(in, 8, &b))
            return false;
        for (int j = 0; j < 8; j++)
            r->content_hash[i] |= (uint64_t)b.data[j] << (8 * j);
    }
    return true;
}

/* Columns stand in one order, so what is not wanted is decoded into the scratch, or is last. */
static bool decode_rest(struct bytes *in, struct row_block *r, enum level level)
{
    int64_t *scratch = r->memory;
    bool wants_more = r->duration_ns || r->id;

    if (!r->totals && !wants_more)
        return true;
    for (unsigned type = 0; type < r->n_types; type++) {
        int64_t *to = r->totals ? r->totals + (size_t)type * r->n : scratch;
        if (column_decode_i64(in, r->n, to) < 0)
            return false;
    }
    if (!wants_more)
        return true;
    if (column_decode_i64(in, r->n, r->duration_ns ? r->duration_ns : scratch) < 0 ||
        column_decode_i64(in, r->n, r->period ? r->period : scratch) < 0)
        return false;
    if (level == LEVEL_RAW) {
        for (uint32_t i = 0; r->n_profiles && i < r->n; i++)
            r->n_profiles[i] = 1;
        return !r->id || decode_ids(in, r);
    }
    return !r->n_profiles || column_decode_i64(in, r->n, (int64_t *)r->n_profiles) == 0;
}

static void row_block_donep(struct row_block *r)
{
    row_block_done(r);
}

int row_block_read(const struct part *p, const struct strip *s, const struct strip_block *b,
                   unsigned columns, struct row_block *ret, struct error *err)
{
    CLEANUP(block_unrefp) struct block *block = NULL;
    CLEANUP(row_block_donep) struct row_block rows = {.n = b->n_rows, .n_types = s->n_types};
    enum level level = (enum level)s->level;

    int r = block_file_read(p->file->file, b->rows, p->l->cache, &block, err);
    if (r < 0)
        return r;
    if (allot(&rows, level, b->side.len > 0, columns) < 0)
        return error_set(err, -ENOMEM, "segment %" PRIu64 ": no memory for rows",
                         block_file_id(p->file->file));
    struct bytes in = block_bytes(block);
    if (!decode_places(&in, &rows) || !decode_rest(&in, &rows, level))
        return error_set(err, -EBADMSG,
                         "segment %" PRIu64 ": a row block of series %" PRIu32 " is malformed",
                         block_file_id(p->file->file), s->series);
    *ret = rows;
    rows = (struct row_block){0};
    return 0;
}

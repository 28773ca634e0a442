#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/bisect.h"
#include "segment/bitpack.h"
#include "segment/varint.h"
#include "store_local/part_internal.h"
#include "store_local/span_file.h"

/*
 * Reading segments. The checksums say that bytes are what was written; still every number is held
 * against what it must fit, so that a file which is wrong in itself is refused and nothing worse.
 */
struct taker {
    struct bytes in;
    bool failed;
    uint64_t end; /* of the block last referred to */
};

static uint64_t take(struct taker *t, uint64_t max)
{
    uint64_t v;

    if (t->failed || !take_varint(&t->in, &v) || v > max) {
        t->failed = true;
        return 0;
    }
    return v;
}

static uint8_t take_u8(struct taker *t, uint8_t max)
{
    uint8_t v;

    if (t->failed || !take_byte(&t->in, &v) || v > max) {
        t->failed = true;
        return 0;
    }
    return v;
}

static int64_t take_ns(struct taker *t)
{
    return unzigzag(take(t, UINT64_MAX));
}

/* A span that does not pass the end of time. */
static int64_t take_max(struct taker *t, int64_t min)
{
    int64_t max = ns_after(min, (int64_t)take(t, UINT64_MAX));

    t->failed |= max < min;
    return max;
}

static struct block_ref take_ref(struct taker *t)
{
    struct block_ref ref = {0};
    struct bytes sum = {0};
    uint64_t offset = t->end + (uint64_t)unzigzag(take(t, UINT64_MAX));

    ref.len = (uint32_t)take(t, UINT32_MAX);
    if (ref.len == 0)
        return ref;
    ref.offset = offset;
    ref.raw_len = (uint32_t)take(t, BLOCK_BYTES_MAX);
    if (t->failed || !take_bytes(&t->in, 8, &sum)) {
        t->failed = true;
        return ref;
    }
    for (int i = 0; i < 8; i++)
        ref.sum |= (uint64_t)sum.data[i] << (8 * i);
    t->end = ref.offset + ref.len;
    return ref;
}

/* ---- The file */

void segment_file_close(struct segment_file *f)
{
    if (!f)
        return;
    block_file_close(f->file);
    free(f->parts);
    free(f);
}
DEFINE_CLEANUP(struct segment_file *, segment_file_close)

void segment_free(struct segment *s)
{
    if (!s)
        return;
    segment_file_close(atomic_load(&s->file));
    span_file_close(atomic_load(&s->spans));
    free(s->epochs);
    free(s);
}

static void take_parts(struct taker *t, struct segment_file *f)
{
    uint64_t epoch = 0;

    for (uint32_t i = 0; i < f->n_parts && !t->failed; i++) {
        struct part_entry *e = &f->parts[i];
        uint64_t step = take(t, UINT64_MAX - epoch);
        t->failed |= step == 0;
        e->epoch = epoch += step;
        e->min_ns = take_ns(t);
        e->max_ns = take_max(t, e->min_ns);
        e->min_series = (uint32_t)take(t, UINT32_MAX);
        e->max_series = e->min_series + (uint32_t)take(t, UINT32_MAX - e->min_series);
        e->n_rows = take(t, UINT64_MAX);
        e->n_samples = take(t, UINT64_MAX);
        e->index = take_ref(t);
    }
}

static int read_footer(struct segment_file *f, struct bytes footer, struct error *err)
{
    struct taker t = {.in = footer};
    uint64_t format = take(&t, UINT64_MAX);

    if (!t.failed && format > PART_FORMAT)
        return error_set(err, -EPROTONOSUPPORT, "it has format %" PRIu64 ", known is up to %d",
                         format, PART_FORMAT);
    f->tenant = (uint32_t)take(&t, UINT32_MAX);
    f->tier = (uint8_t)take(&t, UINT8_MAX);
    f->window_start_ns = take_ns(&t);
    f->window_len_ns = (int64_t)take(&t, INT64_MAX);
    f->n_parts = (uint32_t)take(&t, t.in.len / 8);
    f->parts = calloc((size_t)f->n_parts + 1, sizeof(*f->parts));
    if (!f->parts)
        return error_set(err, -ENOMEM, "no memory");
    take_parts(&t, f);
    uint8_t traces = take_u8(&t, 2);
    if (traces == 1)
        f->traces = take_ref(&t);
    f->has_too_many_traces = traces == 2;
    if (t.failed || t.in.len > 0)
        return error_set(err, -EBADMSG, "its footer is malformed");
    return 0;
}

static int open_segment(struct local *l, uint64_t id, struct segment_file **ret, struct error *err)
{
    CLEANUP(segment_file_closep) struct segment_file *f = calloc(1, sizeof(*f));
    CLEANUP(block_unrefp) struct block *footer = NULL;

    if (!f)
        return error_set(err, -ENOMEM, "no memory");
    int r = block_file_open(l->fs, "seg", id, SEGMENT_PROFILES, &f->file, err);
    if (r < 0)
        return r;
    r = block_file_read(f->file, block_file_footer(f->file), NULL, &footer, err);
    if (r == 0)
        r = read_footer(f, block_bytes(footer), err);
    if (r < 0)
        return error_prefix(err, r, "segment %" PRIu64, id);
    *ret = TAKE_PTR(f);
    return 0;
}

int segment_describe(struct local *l, uint64_t id, struct segment **ret, struct error *err)
{
    CLEANUP(segment_file_closep) struct segment_file *f = NULL;
    CLEANUP(segment_freep) struct segment *s = calloc(1, sizeof(*s));

    int r = open_segment(l, id, &f, err);
    if (r < 0)
        return r;
    if (s)
        s->epochs = calloc((size_t)f->n_parts + 1, sizeof(*s->epochs));
    if (!s || !s->epochs)
        return error_set(err, -ENOMEM, "segment %" PRIu64 ": no memory", id);
    s->id = id;
    s->kind = SEGMENT_PROFILES;
    s->tenant = f->tenant;
    s->tier = f->tier;
    s->window_start_ns = f->window_start_ns;
    s->window_len_ns = f->window_len_ns;
    s->bytes = block_file_bytes(f->file);
    s->min_ns = INT64_MAX;
    s->max_ns = INT64_MIN;
    for (uint32_t i = 0; i < f->n_parts; i++) {
        const struct part_entry *e = &f->parts[i];
        s->epochs[s->n_epochs++] = e->epoch;
        s->n_rows += e->n_rows;
        s->n_samples += e->n_samples;
        s->min_ns = e->min_ns < s->min_ns ? e->min_ns : s->min_ns;
        s->max_ns = e->max_ns > s->max_ns ? e->max_ns : s->max_ns;
    }
    *ret = TAKE_PTR(s);
    return 0;
}

int segment_file_get(struct local *l, struct segment *s, struct segment_file **ret,
                     struct error *err)
{
    struct segment_file *f = atomic_load_explicit(&s->file, memory_order_acquire), *none = NULL;

    if (f) {
        *ret = f;
        return 0;
    }
    if (s->kind != SEGMENT_PROFILES)
        return error_set(err, -EINVAL, "segment %" PRIu64 " holds no profiles", s->id);
    int r = open_segment(l, s->id, &f, err);
    if (r == 0 && f->tenant != s->tenant) {
        r = error_set(err, -EBADMSG,
                      "segment %" PRIu64 ": it belongs to tenant %" PRIu32 ", not %" PRIu32, s->id,
                      f->tenant, s->tenant);
        segment_file_close(f);
    }
    if (r < 0) {
        /* What the disk may give back later is not held against the file. */
        if (r == -EBADMSG || r == -ENOENT || r == -EPROTONOSUPPORT)
            atomic_store(&s->is_bad, true);
        return r;
    }
    if (!atomic_compare_exchange_strong(&s->file, &none, f)) {
        segment_file_close(f);
        f = none;
    }
    *ret = f;
    return 0;
}

int segment_has_trace(struct local *l, struct segment_file *f, const uint8_t trace_id[16],
                      struct error *err)
{
    CLEANUP(block_unrefp) struct block *block = NULL;
    uint64_t steps[BITPACK_CHUNK], n, at;
    uint32_t wanted = trace_fingerprint(trace_id);
    struct bitpack packed;
    struct bitpack_cursor cursor;

    if (f->has_too_many_traces)
        return 1;
    if (f->traces.len == 0)
        return 0;
    int r = block_file_read(f->file, f->traces, l->cache, &block, err);
    if (r < 0)
        return r;
    struct bytes in = block_bytes(block);
    if (!take_varint(&in, &n) || n == 0 || n > PART_TRACES_MAX || !take_varint(&in, &at) ||
        bitpack_open(&in, (size_t)n - 1, &packed) < 0)
        return error_set(err, -EBADMSG, "segment %" PRIu64 ": its list of traces is malformed",
                         block_file_id(f->file));
    bitpack_start(&packed, &cursor);
    for (size_t left = (size_t)n - 1; at < wanted && left > 0;) {
        size_t chunk = left < BITPACK_CHUNK ? left : BITPACK_CHUNK;
        bitpack_next(&cursor, chunk, steps);
        for (size_t i = 0; i < chunk && at < wanted; i++)
            at += steps[i];
        left -= chunk;
    }
    return at == wanted;
}

/* ---- Parts */

void part_done(struct part *p)
{
    free(p->strips);
    free(p->blocks);
    *p = (struct part){0};
}

static void take_block(struct taker *t, const struct strip *s, int64_t before,
                       struct strip_block *ret)
{
    ret->min_ns = ns_after(before, take_ns(t));
    ret->max_ns = take_max(t, ret->min_ns);
    ret->n_rows = (uint32_t)take(t, PART_ROWS_MAX);
    ret->n_samples = take(t, UINT64_MAX);
    ret->rows = take_ref(t);
    ret->payload = take_ref(t);
    ret->side = take_ref(t);
    t->failed |= ret->n_rows == 0 || ret->rows.len == 0;
    t->failed |= s->n_rows > 0 && ret->min_ns < s->max_ns;
}

static void take_strip(struct taker *t, struct part *p, struct strip *s, uint32_t *n_blocks)
{
    int64_t before = p->entry->min_ns;

    s->level = take_u8(t, LEVEL_COUNT - 1);
    s->n_types = take_u8(t, UINT8_MAX);
    s->first_block = *n_blocks;
    s->n_blocks = (uint32_t)take(t, p->n_blocks - *n_blocks);
    for (uint32_t i = 0; i < s->n_blocks && !t->failed; i++) {
        struct strip_block *b = &p->blocks[s->first_block + i];
        take_block(t, s, before, b);
        before = b->max_ns;
        if (i == 0)
            s->min_ns = b->min_ns;
        s->max_ns = b->max_ns;
        s->n_rows += b->n_rows;
        s->n_samples += b->n_samples;
    }
    *n_blocks += s->n_blocks;
}

static bool take_strips(struct taker *t, struct part *p)
{
    uint32_t series = 0, n_blocks = 0;

    for (uint32_t i = 0; i < p->n_strips && !t->failed; i++) {
        struct strip *s = &p->strips[i];
        series += (uint32_t)take(t, UINT32_MAX - series);
        s->series = series;
        take_strip(t, p, s, &n_blocks);
        if (i > 0 && s[-1].series == series && s[-1].level >= s->level)
            t->failed = true;
    }
    return !t->failed && t->in.len == 0 && n_blocks == p->n_blocks;
}

int part_open(struct local *l, struct segment_file *f, uint32_t i, struct part *ret,
              struct error *err)
{
    CLEANUP(block_unrefp) struct block *index = NULL;
    CLEANUP(part_done) struct part p = {.l = l, .file = f, .entry = &f->parts[i]};

    int r = block_file_read(f->file, p.entry->index, l->cache, &index, err);
    if (r < 0)
        return r;
    /* A strip takes at least 4 bytes, a block 25: sizes follow those of the index. */
    struct taker t = {.in = block_bytes(index)};
    p.n_strips = (uint32_t)take(&t, t.in.len / 4);
    p.n_blocks = (uint32_t)take(&t, t.in.len / 16);
    p.strips = calloc((size_t)p.n_strips + 1, sizeof(*p.strips));
    p.blocks = calloc((size_t)p.n_blocks + 1, sizeof(*p.blocks));
    if (!p.strips || !p.blocks)
        return error_set(err, -ENOMEM, "segment %" PRIu64 ": no memory for an index",
                         block_file_id(f->file));
    if (!take_strips(&t, &p))
        return error_set(err, -EBADMSG,
                         "segment %" PRIu64 ": the index of part %" PRIu32 " is malformed",
                         block_file_id(f->file), i);
    *ret = p;
    p = (struct part){0};
    return 0;
}

uint32_t part_series_at(const struct part *p, uint32_t series)
{
    return (uint32_t)BISECT(p->n_strips, i, p->strips[i].series < series);
}

const struct strip *part_strip(const struct part *p, uint32_t series, enum level level)
{
    uint32_t i = part_series_at(p, series);

    for (; i < p->n_strips && p->strips[i].series == series; i++) {
        if (p->strips[i].level == level)
            return &p->strips[i];
    }
    return NULL;
}

/* ---- Payloads */

static int read_sized(struct local *l, const struct part *p, struct block_ref ref, uint32_t size,
                      struct block **ret, struct error *err)
{
    struct block *b = NULL;

    if (ref.len == 0)
        b = block_new(0);
    int r = ref.len == 0 ? 0 : block_file_read(p->file->file, ref, l->cache, &b, err);
    if (r < 0)
        return r;
    if (!b)
        return error_set(err, -ENOMEM, "segment %" PRIu64 ": no memory for a block",
                         block_file_id(p->file->file));
    if (b->len != size) {
        uint32_t len = b->len;
        block_unref(b);
        return error_set(err, -EBADMSG,
                         "segment %" PRIu64 ": a block has %" PRIu32 " bytes where %" PRIu32
                         " are needed",
                         block_file_id(p->file->file), len, size);
    }
    *ret = b;
    return 0;
}

int strip_payloads(struct local *l, const struct part *p, const struct strip_block *b,
                   const struct row_block *r, struct block **ret, struct error *err)
{
    return read_sized(l, p, b->payload, r->payload_at[r->n], ret, err);
}

int strip_sides(struct local *l, const struct part *p, const struct strip_block *b,
                const struct row_block *r, struct block **ret, struct error *err)
{
    if (!r->side_at)
        return error_set(err, -ENOENT, "segment %" PRIu64 ": no side rows here",
                         block_file_id(p->file->file));
    return read_sized(l, p, b->side, r->side_at[r->n], ret, err);
}

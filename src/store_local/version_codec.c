#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/must.h"
#include "segment/varint.h"
#include "store_local/version.h"

/*
 * The content of the manifest, numbers as varints (z: zigzag), texts as length and bytes:
 *
 *     format (1), generation, next_id, flushed_wal, tombstone_seq, disk_limit
 *     n tenants     id, name, series_file_len, z max_age, z max_span_age, max_bytes,
 *                   z floor of profiles, z of spans
 *     n epochs      id, tenant, file_len, z created, service, the nine counts of its mark
 *     n tombstones  seq, tenant, z from, z to, selector
 *     n segments    id, kind, tenant, tier, z window_start, z window_len, z min, z max, rows,
 *                   samples, bytes, tombstone_seq, n epochs, each as the distance to the one before
 *
 * Tenants, epochs and segments ascend by id, tombstones by seq; nothing follows. Framing, checksums
 * and the second copy are segment/manifest_file.h's.
 */
#define VERSION_TEXT_MAX 65536

/* ---- Encoding */

static void put_text(struct buf *out, const char *s)
{
    struct bytes text = bytes_of(s);

    add_varint(out, text.len);
    buf_add_bytes(out, text);
}

static const size_t mark_fields[] = {
    offsetof(struct epoch_mark, strings),   offsetof(struct epoch_mark, functions),
    offsetof(struct epoch_mark, mappings),  offsetof(struct epoch_mark, locations),
    offsetof(struct epoch_mark, lines),     offsetof(struct epoch_mark, attributes),
    offsetof(struct epoch_mark, attr_sets), offsetof(struct epoch_mark, attr_ids),
    offsetof(struct epoch_mark, nodes),
};
_Static_assert(ARRAY_SIZE(mark_fields) * sizeof(uint32_t) == sizeof(struct epoch_mark),
               "every table of an epoch is in the manifest");

static uint32_t *mark_field(struct epoch_mark *m, size_t i)
{
    return (uint32_t *)(void *)((uint8_t *)m + mark_fields[i]);
}

static void encode_segment(const struct segment *s, struct buf *out)
{
    add_varint(out, s->id);
    add_varint(out, (uint64_t)s->kind);
    add_varint(out, s->tenant);
    add_varint(out, s->tier);
    add_signed(out, s->window_start_ns);
    add_signed(out, s->window_len_ns);
    add_signed(out, s->min_ns);
    add_signed(out, s->max_ns);
    add_varint(out, s->n_rows);
    add_varint(out, s->n_samples);
    add_varint(out, s->bytes);
    add_varint(out, s->tombstone_seq);
    add_varint(out, s->n_epochs);
    uint64_t before = 0;
    for (uint32_t i = 0; i < s->n_epochs; i++) {
        add_varint(out, s->epochs[i] - before);
        before = s->epochs[i];
    }
}

static void encode_epoch(const struct epoch_entry *e, struct buf *out)
{
    struct epoch_mark mark = e->mark;

    add_varint(out, e->id);
    add_varint(out, e->tenant);
    add_varint(out, e->file_len);
    add_signed(out, e->created_ns);
    put_text(out, e->service);
    for (size_t i = 0; i < ARRAY_SIZE(mark_fields); i++)
        add_varint(out, *mark_field(&mark, i));
}

void version_encode(const struct version *v, struct buf *out)
{
    add_varint(out, VERSION_FORMAT);
    add_varint(out, v->generation);
    add_varint(out, v->next_id);
    add_varint(out, v->flushed_wal);
    add_varint(out, v->tombstone_seq);
    add_varint(out, v->disk_limit);

    add_varint(out, v->tenants.len);
    for (size_t i = 0; i < v->tenants.len; i++) {
        const struct tenant_entry *t = &v->tenants.data[i];
        add_varint(out, t->id);
        put_text(out, t->name);
        add_varint(out, t->series_file_len);
        add_signed(out, t->policy.max_age_ns);
        add_signed(out, t->policy.max_span_age_ns);
        add_varint(out, t->policy.max_bytes);
        add_signed(out, t->floors.profiles_ns);
        add_signed(out, t->floors.spans_ns);
    }
    add_varint(out, v->epochs.len);
    for (size_t i = 0; i < v->epochs.len; i++)
        encode_epoch(&v->epochs.data[i], out);
    add_varint(out, v->tombstones.len);
    for (size_t i = 0; i < v->tombstones.len; i++) {
        const struct tombstone *t = &v->tombstones.data[i];
        add_varint(out, t->seq);
        add_varint(out, t->tenant);
        add_signed(out, t->from_ns);
        add_signed(out, t->to_ns);
        put_text(out, t->selector);
    }
    add_varint(out, v->segments.len);
    for (size_t i = 0; i < v->segments.len; i++)
        encode_segment(v->segments.data[i], out);
}

/* ---- Decoding: sticky, so that fields are read straight through */

struct taker {
    struct bytes in;
    const char *failure; /* what was being read */
    const char *what;
};

static uint64_t take(struct taker *t, uint64_t max)
{
    uint64_t v;

    if (t->failure)
        return 0;
    if (!take_varint(&t->in, &v) || v > max) {
        t->failure = t->what;
        return 0;
    }
    return v;
}

static int64_t take_zigzag(struct taker *t)
{
    return unzigzag(take(t, UINT64_MAX));
}

static char *take_text(struct taker *t)
{
    uint64_t len = take(t, VERSION_TEXT_MAX);
    struct bytes text = {0};
    char *copy = NULL;

    if (!t->failure && take_bytes(&t->in, len, &text) && !(len && memchr(text.data, 0, len)))
        copy = must_copy(text);
    if (!copy && !t->failure)
        t->failure = t->what;
    return copy;
}

/* A count of things that take at least `least` bytes each. */
static uint64_t take_count(struct taker *t, size_t least)
{
    return take(t, t->in.len / least);
}

/* An id that is larger than the one before. */
static uint64_t take_ascending(struct taker *t, uint64_t *before, uint64_t max)
{
    uint64_t id = take(t, max);

    if (!t->failure && id <= *before)
        t->failure = t->what;
    *before = id;
    return id;
}

static void decode_tenants(struct taker *t, struct version *v)
{
    uint64_t before = 0;

    t->what = "tenants";
    for (uint64_t n = take_count(t, 8); n > 0 && !t->failure; n--) {
        struct tenant_entry e = {.id = (uint32_t)take_ascending(t, &before, UINT32_MAX)};
        e.name = take_text(t);
        e.series_file_len = take(t, INT64_MAX);
        e.policy.max_age_ns = take_zigzag(t);
        e.policy.max_span_age_ns = take_zigzag(t);
        e.policy.max_bytes = take(t, UINT64_MAX);
        e.floors.profiles_ns = take_zigzag(t);
        e.floors.spans_ns = take_zigzag(t);
        if (!vec_push(&v->budget, &v->tenants, e)) {
            t->failure = t->what;
            free(e.name);
        }
    }
}

static void decode_epochs(struct taker *t, struct version *v)
{
    uint64_t before = 0;

    t->what = "epochs";
    for (uint64_t n = take_count(t, 14); n > 0 && !t->failure; n--) {
        struct epoch_entry e = {.id = take_ascending(t, &before, UINT64_MAX)};
        e.tenant = (uint32_t)take(t, UINT32_MAX);
        e.file_len = take(t, INT64_MAX);
        e.created_ns = take_zigzag(t);
        e.service = take_text(t);
        for (size_t i = 0; i < ARRAY_SIZE(mark_fields); i++)
            *mark_field(&e.mark, i) = (uint32_t)take(t, UINT32_MAX);
        if (!vec_push(&v->budget, &v->epochs, e)) {
            t->failure = t->what;
            free(e.service);
        }
    }
}

static void decode_tombstones(struct taker *t, struct version *v)
{
    uint64_t before = 0;

    t->what = "tombstones";
    for (uint64_t n = take_count(t, 5); n > 0 && !t->failure; n--) {
        struct tombstone e = {.seq = take_ascending(t, &before, v->tombstone_seq)};
        e.tenant = (uint32_t)take(t, UINT32_MAX);
        e.from_ns = take_zigzag(t);
        e.to_ns = take_zigzag(t);
        e.selector = take_text(t);
        if (!vec_push(&v->budget, &v->tombstones, e)) {
            t->failure = t->what;
            free(e.selector);
        }
    }
}

static void decode_segment_epochs(struct taker *t, struct segment *s)
{
    uint64_t n = take_count(t, 1), before = 0;

    if (n == 0)
        return;
    s->epochs = must_calloc(n, sizeof(*s->epochs));
    for (; s->n_epochs < n && !t->failure; s->n_epochs++) {
        uint64_t step = take(t, UINT64_MAX - before);
        if (step == 0 && !t->failure)
            t->failure = t->what;
        s->epochs[s->n_epochs] = before += step;
    }
}

static void decode_segments(struct taker *t, struct version *v)
{
    uint64_t before = 0;

    t->what = "segments";
    for (uint64_t n = take_count(t, 13); n > 0 && !t->failure; n--) {
        struct segment *s = must_calloc(1, sizeof(*s));
        if (!vec_push(&v->budget, &v->segments, s)) {
            free(s);
            t->failure = t->what;
            return;
        }
        s->refs = 1;
        s->id = take_ascending(t, &before, UINT64_MAX);
        s->kind = (enum segment_kind)take(t, SEGMENT_SPANS);
        s->tenant = (uint32_t)take(t, UINT32_MAX);
        s->tier = (uint8_t)take(t, UINT8_MAX);
        s->window_start_ns = take_zigzag(t);
        s->window_len_ns = take_zigzag(t);
        s->min_ns = take_zigzag(t);
        s->max_ns = take_zigzag(t);
        s->n_rows = take(t, UINT64_MAX);
        s->n_samples = take(t, UINT64_MAX);
        s->bytes = take(t, INT64_MAX);
        s->tombstone_seq = take(t, UINT64_MAX);
        decode_segment_epochs(t, s);
        if (!t->failure && (s->kind < SEGMENT_PROFILES || s->window_len_ns < 0))
            t->failure = t->what;
    }
}

int version_decode(struct bytes content, struct version **ret, struct error *err)
{
    struct taker t = {.in = content, .what = "header"};
    uint64_t format = take(&t, UINT64_MAX);

    if (!t.failure && format > VERSION_FORMAT)
        return error_set(err, -EPROTONOSUPPORT,
                         "the manifest has format %" PRIu64 ", this program knows up to %d", format,
                         VERSION_FORMAT);
    if (!t.failure && format < VERSION_FORMAT)
        return error_set(err, -EPROTONOSUPPORT,
                         "the manifest has format %" PRIu64
                         ", this program works with format %d: run \"vesta store upgrade\"",
                         format, VERSION_FORMAT);
    CLEANUP(version_discardp) struct version *v = version_new();
    v->generation = take(&t, UINT64_MAX);
    v->next_id = take(&t, INT64_MAX);
    v->flushed_wal = take(&t, UINT64_MAX);
    v->tombstone_seq = take(&t, UINT64_MAX);
    v->disk_limit = take(&t, UINT64_MAX);
    decode_tenants(&t, v);
    decode_epochs(&t, v);
    decode_tombstones(&t, v);
    decode_segments(&t, v);
    if (!t.failure && t.in.len > 0)
        t.failure = "end";
    if (budget_failed(&v->budget))
        return error_set(err, -ENOMEM, "could not read the manifest: no memory");
    if (t.failure)
        return error_set(err, -EBADMSG, "the manifest is damaged in its %s", t.failure);
    *ret = TAKE_PTR(v);
    return 0;
}

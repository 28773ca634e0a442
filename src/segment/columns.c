#include "segment/columns.h"

#include <assert.h>
#include <errno.h>

#include "base/cleanup.h"
#include "segment/scaled.h"
#include "segment/varint.h"

#define ORDER_MAX 2

/* Room for n numbers, or NULL with `out` full. */
static uint64_t *scratch_reserve(struct buf *scratch, size_t n, struct buf *out)
{
    *scratch = (struct buf){.budget = out->budget};
    void *p = buf_reserve(scratch, n * sizeof(uint64_t));
    if (!p)
        out->full = true;
    return p;
}

/* Replaces v[from..n) by differences to the one before. */
static void differentiate(int64_t *v, size_t from, size_t n)
{
    for (size_t i = n; i-- > from;)
        v[i] = (int64_t)((uint64_t)v[i] - (uint64_t)v[i - 1]);
}

static void integrate(int64_t *v, size_t from, size_t n)
{
    for (size_t i = from; i < n; i++)
        v[i] = (int64_t)((uint64_t)v[i] + (uint64_t)v[i - 1]);
}

/* v[0..order) are the first value and differences, the rest is to be scaled. */
static void encode_order(const int64_t *v, size_t n, unsigned order, uint64_t *steps,
                         struct buf *out)
{
    uint8_t flags = (uint8_t)(order << SCALED_FLAGS_SHIFT);
    CLEANUP(buf_done) struct buf rest = {.budget = out->budget};

    if (n > order) {
        scaled_encode(v + order, n - order, flags, steps, &rest);
        flags = rest.len ? rest.data[0] : 0;
    }
    buf_add_byte(out, flags);
    for (unsigned i = 0; i < order; i++)
        add_varint(out, zigzag(v[i]));
    buf_add_bytes(out, bytes_from(buf_bytes(&rest), 1));
    out->full |= rest.full;
}

/* Writes the column in each way and keeps the shortest. */
static void encode_best(int64_t *v, size_t n, uint64_t *steps, struct buf *out)
{
    size_t start = out->len, best_len = SIZE_MAX;

    for (unsigned order = 0; order <= ORDER_MAX && order <= n; order++) {
        size_t at = out->len;

        if (order > 0)
            differentiate(v, order, n);
        encode_order(v, n, order, steps, out);
        if (buf_full(out))
            break;
        size_t len = out->len - at;
        if (len < best_len && at > start)
            memmove(out->data + start, out->data + at, len);
        best_len = len < best_len ? len : best_len;
        out->len = start + best_len;
    }
}

void column_encode_u64(const uint64_t *values, size_t n, struct buf *out)
{
    CLEANUP(buf_done) struct buf copy = {0}, scratch = {0};

    if (n == 0)
        return;
    uint64_t *v = scratch_reserve(&copy, n, out);
    uint64_t *steps = v ? scratch_reserve(&scratch, n, out) : NULL;
    if (!steps)
        return;
    memcpy(v, values, n * sizeof(*v));
    encode_best((int64_t *)v, n, steps, out);
}

int column_decode_u64(struct bytes *in, size_t n, uint64_t *ret)
{
    int64_t *v = (int64_t *)ret;
    struct bytes rest = *in;
    struct scaled s;
    uint64_t first;
    uint8_t flags;

    if (n == 0)
        return 0;
    if (!take_byte(&rest, &flags))
        return -EBADMSG;
    unsigned order = flags >> SCALED_FLAGS_SHIFT;
    if (order > ORDER_MAX || order > n)
        return -EBADMSG;
    for (unsigned i = 0; i < order; i++) {
        if (!take_varint(&rest, &first))
            return -EBADMSG;
        v[i] = unzigzag(first);
    }
    if (n > order) {
        if (scaled_open(&rest, flags, n - order, &s) < 0)
            return -EBADMSG;
        scaled_read(&s, n - order, v + order);
    }
    for (unsigned i = order; i > 0; i--)
        integrate(v, i, n);
    *in = rest;
    return 0;
}

void column_encode_fixed(const void *values, size_t width, size_t n, struct buf *out)
{
    const uint8_t *v = values;
    bool all_equal = true;

    if (n == 0 || width == 0)
        return;
    for (size_t i = 1; i < n && all_equal; i++)
        all_equal = memcmp(v, v + i * width, width) == 0;
    buf_add_byte(out, all_equal);
    buf_add(out, v, all_equal ? width : n * width);
}

int column_decode_fixed(struct bytes *in, size_t width, size_t n, void *ret)
{
    struct bytes rest = *in, got;
    uint8_t all_equal;

    if (n == 0 || width == 0)
        return 0;
    if (!take_byte(&rest, &all_equal) || all_equal > 1 || n > SIZE_MAX / width ||
        !take_bytes(&rest, all_equal ? width : n * width, &got))
        return -EBADMSG;
    for (size_t at = 0; at < n * width; at += got.len)
        memcpy((uint8_t *)ret + at, got.data, got.len);
    *in = rest;
    return 0;
}

void column_encode_strings(const struct bytes *strings, size_t n, struct buf *out)
{
    CLEANUP(buf_done) struct buf scratch = {0};
    uint64_t *lens = n ? scratch_reserve(&scratch, n, out) : NULL;

    if (!lens)
        return;
    for (size_t i = 0; i < n; i++)
        lens[i] = strings[i].len;
    column_encode_u64(lens, n, out);
    for (size_t i = 0; i < n; i++)
        buf_add_bytes(out, strings[i]);
}

/* Lengths are read into the upper half of ret and turned into strings from the front: string i is
 * written over lengths that were used already, as 2 i + 1 <= n + i. */
int column_decode_strings(struct bytes *in, size_t n, struct bytes *ret)
{
    static_assert(sizeof(struct bytes) == 2 * sizeof(uint64_t), "lengths fill half of it");
    uint64_t *lens = (uint64_t *)ret + n;
    struct bytes rest = *in;

    if (column_decode_u64(&rest, n, lens) < 0)
        return -EBADMSG;
    for (size_t i = 0; i < n; i++) {
        struct bytes s;
        if (!take_bytes(&rest, lens[i], &s))
            return -EBADMSG;
        ret[i] = s;
    }
    *in = rest;
    return 0;
}

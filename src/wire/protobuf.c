#include "wire/protobuf.h"

struct bytes pb_packed(struct pb_reader *r)
{
    if (r->wire == PB_BYTES)
        return r->data;
    if (r->wire != PB_VARINT) {
        pb_fail(r, "a packed list of numbers was expected");
        return (struct bytes){0};
    }
    /* The varint just read ends at pos; find its first byte. */
    const uint8_t *first = r->pos - 1;
    while (first > r->start && first[-1] >= 0x80)
        first--;
    /* The tag's bytes may also have their high bit set, but its last byte never does. */
    return (struct bytes){first, (size_t)(r->pos - first)};
}

void pb_put_varint(struct buf *b, uint64_t v)
{
    uint8_t *p = buf_reserve(b, 10);
    size_t n = 0;

    if (!p)
        return;
    while (v >= 0x80) {
        p[n++] = (uint8_t)(v | 0x80);
        v >>= 7;
    }
    p[n++] = (uint8_t)v;
    b->len += n;
}

void pb_put_u64(struct buf *b, uint32_t field, uint64_t v)
{
    pb_put_varint(b, (uint64_t)field << 3 | PB_VARINT);
    pb_put_varint(b, v);
}

void pb_put_fixed64(struct buf *b, uint32_t field, uint64_t v)
{
    pb_put_varint(b, (uint64_t)field << 3 | PB_FIXED64);
    buf_add(b, &v, sizeof(v));
}

void pb_put_bytes(struct buf *b, uint32_t field, struct bytes data)
{
    pb_put_varint(b, (uint64_t)field << 3 | PB_BYTES);
    pb_put_varint(b, data.len);
    buf_add_bytes(b, data);
}

size_t pb_begin(struct buf *b, uint32_t field)
{
    pb_put_varint(b, (uint64_t)field << 3 | PB_BYTES);
    buf_add_byte(b, 0);
    return b->len;
}

void pb_end(struct buf *b, size_t at)
{
    size_t len = b->len - at;
    uint8_t length[10];
    size_t n = 0;

    if (buf_full(b))
        return;

    for (uint64_t v = len; n == 0 || v; v >>= 7)
        length[n++] = (uint8_t)((v & 0x7f) | (v >> 7 ? 0x80 : 0));
    if (n > 1) {
        if (!buf_reserve(b, n - 1))
            return;
        memmove(b->data + at + n - 1, b->data + at, len);
        b->len += n - 1;
    }
    memcpy(b->data + at - 1, length, n);
}

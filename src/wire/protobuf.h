#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "base/bytes.h"

/*
 * Protocol buffers by hand: a reader that walks the fields of one message, and a writer that
 * appends fields to a buffer. No descriptors, no object trees, no allocation.
 *
 *     struct pb_reader r = pb_reader(message);
 *     while (pb_next(&r)) {
 *         switch (r.field) {
 *         case 1: id = pb_u64(&r); break;
 *         case 2: decode_line(pb_bytes(&r)); break;
 *         default: break;                         unread fields are skipped
 *         }
 *     }
 *     if (r.failure) ...                           a text, and pb_offset() the place
 *
 * Errors are sticky: a malformed message ends the loop with `failure` set. pb_next() has read the
 * field's value already: r.value for varint, fixed64 and fixed32, r.data for length-delimited ones.
 * A getter that meets another wire type than it can read fails the reader.
 */
enum pb_wire { PB_VARINT = 0, PB_FIXED64 = 1, PB_BYTES = 2, PB_FIXED32 = 5 };

struct pb_reader {
    const uint8_t *start, *pos, *end;
    uint32_t field;
    uint32_t wire;
    uint64_t value;
    struct bytes data;
    const char *failure;
    const uint8_t *failed_at;
};

static inline struct pb_reader pb_reader(struct bytes message)
{
    const uint8_t *p = message.data;
    /* Adding even 0 to NULL is undefined, and an empty message may have no bytes at all. */
    return (struct pb_reader){.start = p, .pos = p, .end = message.len ? p + message.len : p};
}

static inline void pb_fail(struct pb_reader *r, const char *why)
{
    if (!r->failure) {
        r->failure = why;
        r->failed_at = r->pos;
    }
    r->pos = r->end;
}

/* How far into the bytes that begin at `origin` the failure lies. */
static inline size_t pb_offset(const struct pb_reader *r, const uint8_t *origin)
{
    return (size_t)((r->failed_at ? r->failed_at : r->pos) - origin);
}

/* Reads a varint at *pos; false when it is cut short or longer than 10 bytes. */
static inline bool pb_varint(const uint8_t **pos, const uint8_t *end, uint64_t *ret)
{
    const uint8_t *p = *pos;

    if (__builtin_expect(p < end && *p < 0x80, 1)) {
        *ret = *p;
        *pos = p + 1;
        return true;
    }
    uint64_t v = 0;
    for (unsigned shift = 0; p < end && shift < 70; shift += 7) {
        uint64_t b = *p++;
        v |= (b & 0x7f) << shift;
        if (b < 0x80) {
            *ret = v;
            *pos = p;
            return true;
        }
    }
    return false;
}

static inline bool pb_next(struct pb_reader *r)
{
    uint64_t tag, len;

    if (r->pos >= r->end)
        return false;
    if (!pb_varint(&r->pos, r->end, &tag)) {
        pb_fail(r, "a field tag is cut short");
        return false;
    }
    if (tag >> 3 == 0 || tag >> 32 != 0) {
        pb_fail(r, "a field number is out of range");
        return false;
    }
    r->field = (uint32_t)(tag >> 3);
    r->wire = (uint32_t)tag & 7;
    switch (r->wire) {
    case PB_VARINT:
        if (pb_varint(&r->pos, r->end, &r->value))
            return true;
        pb_fail(r, "a varint is cut short or too long");
        return false;
    case PB_BYTES:
        if (!pb_varint(&r->pos, r->end, &len)) {
            pb_fail(r, "a length is cut short or too long");
            return false;
        }
        if (len > (size_t)(r->end - r->pos)) {
            pb_fail(r, "a length runs past the end of its message");
            return false;
        }
        r->data = (struct bytes){r->pos, (size_t)len};
        r->pos += len;
        return true;
    case PB_FIXED64:
        if (r->end - r->pos < 8) {
            pb_fail(r, "a fixed64 is cut short");
            return false;
        }
        memcpy(&r->value, r->pos, 8);
        r->pos += 8;
        return true;
    case PB_FIXED32: {
        uint32_t v;
        if (r->end - r->pos < 4) {
            pb_fail(r, "a fixed32 is cut short");
            return false;
        }
        memcpy(&v, r->pos, 4);
        r->value = v;
        r->pos += 4;
        return true;
    }
    default:
        pb_fail(r, "a field has a wire type that does not exist");
        return false;
    }
}

static inline uint64_t pb_u64(struct pb_reader *r)
{
    if (__builtin_expect(r->wire == PB_BYTES, 0)) {
        pb_fail(r, "a number was expected and bytes were found");
        return 0;
    }
    return r->value;
}

static inline int64_t pb_i64(struct pb_reader *r)
{
    return (int64_t)pb_u64(r);
}

static inline struct bytes pb_bytes(struct pb_reader *r)
{
    if (__builtin_expect(r->wire != PB_BYTES, 0)) {
        pb_fail(r, "bytes were expected and a number was found");
        return (struct bytes){0};
    }
    return r->data;
}

/*
 * A repeated scalar, packed or not: the bytes to read numbers from. For one unpacked number the
 * bytes are its own encoding, so both forms are read by the same loop:
 *
 *     struct bytes p = pb_packed(&r);
 *     for (uint64_t v; pb_packed_next(&r, &p, &v);) ...
 */
struct bytes pb_packed(struct pb_reader *r);

static inline bool pb_packed_next(struct pb_reader *r, struct bytes *packed, uint64_t *ret)
{
    const uint8_t *pos = packed->data, *end = packed->data + packed->len;

    if (packed->len == 0)
        return false;
    if (!pb_varint(&pos, end, ret)) {
        pb_fail(r, "a packed number is cut short or too long");
        return false;
    }
    *packed = (struct bytes){pos, (size_t)(end - pos)};
    return true;
}

/* Writing. Fields of value 0 (or empty) are left out by the *_opt forms, as proto3 does. */
void pb_put_varint(struct buf *b, uint64_t v);
void pb_put_u64(struct buf *b, uint32_t field, uint64_t v);
void pb_put_fixed64(struct buf *b, uint32_t field, uint64_t v);
void pb_put_bytes(struct buf *b, uint32_t field, struct bytes data);

static inline void pb_put_u64_opt(struct buf *b, uint32_t field, uint64_t v)
{
    if (v)
        pb_put_u64(b, field, v);
}

static inline void pb_put_bytes_opt(struct buf *b, uint32_t field, struct bytes data)
{
    if (data.len)
        pb_put_bytes(b, field, data);
}

/*
 * A nested message, written in place: its length is patched in by pb_end(), which moves the content
 * only when the length needs another byte count than the one byte set aside.
 *
 *     size_t at = pb_begin(b, 4);  ...fields...  pb_end(b, at);
 */
size_t pb_begin(struct buf *b, uint32_t field);
void pb_end(struct buf *b, size_t at);

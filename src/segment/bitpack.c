#include "segment/bitpack.h"

#include <errno.h>

#include "segment/varint.h"

enum { WIDTH_EXCEPTIONS = 0x80, WIDTH_BYTEWISE = 65, GAP_MAX = 255 };

static inline unsigned bits_of(uint64_t v)
{
    return v ? 64 - (unsigned)__builtin_clzll(v) : 0;
}

static inline uint64_t mask_of(unsigned width)
{
    return width ? UINT64_MAX >> (64 - width) : 0;
}

static inline uint64_t load64(const uint8_t *p)
{
    uint64_t v;

    memcpy(&v, p, 8);
    return v;
}

static inline size_t packed_bytes(size_t n, unsigned width)
{
    return (n * width + 7) / 8;
}

/* ---- writing ---- */

struct layout {
    size_t cost;
    unsigned width; /* or WIDTH_BYTEWISE */
    unsigned high_width;
    size_t n_values; /* bytewise: bytes of values */
};

static unsigned varint_len(uint64_t v)
{
    return v ? (bits_of(v) + 6) / 7 : 1;
}

/* The smallest layout, given how many values there are of each number of bits. */
static struct layout choose(const uint32_t n_of_bits[65], size_t n)
{
    unsigned most = 64;
    size_t above = 0, bytes = 0;

    while (most > 0 && n_of_bits[most] == 0)
        most--;
    struct layout best = {.cost = 1 + packed_bytes(n, most), .width = most};
    for (unsigned w = most; w > 0; w--) {
        above += n_of_bits[w];
        bytes += (size_t)n_of_bits[w] * ((w + 7) / 8);
        size_t bridges = n / GAP_MAX, n_ex = above + (above < bridges ? bridges : 0);
        size_t cost =
            2 + varint_len(n_ex) + packed_bytes(n, w - 1) + n_ex + packed_bytes(n_ex, most - w + 1);
        if (cost < best.cost)
            best = (struct layout){.cost = cost, .width = w - 1, .high_width = most - w + 1};
    }
    /* Packed values read faster, so this has to pay. */
    size_t cost = 1 + varint_len(bytes) + (n + 1) / 2 + bytes;
    if (cost + cost / 16 < best.cost)
        best = (struct layout){.cost = cost, .width = WIDTH_BYTEWISE, .n_values = bytes};
    return best;
}

/* Bits appended to memory that has 8 spare bytes. */
struct bit_writer {
    uint8_t *to;
    uint64_t bits;
    unsigned n;
};

static inline void put_bits(struct bit_writer *w, uint64_t v, unsigned width)
{
    w->bits |= v << w->n;
    w->n += width;
    if (w->n < 64)
        return;
    memcpy(w->to, &w->bits, 8);
    w->to += 8;
    w->n -= 64;
    w->bits = w->n ? v >> (width - w->n) : 0;
}

static void add_packed(struct buf *out, const uint64_t *values, size_t n, unsigned width)
{
    size_t size = packed_bytes(n, width);
    struct bit_writer w = {.to = size ? buf_reserve(out, size + 8) : NULL};
    uint64_t mask = mask_of(width);

    if (!w.to)
        return;
    for (size_t i = 0; i < n; i++)
        put_bits(&w, values[i] & mask, width);
    memcpy(w.to, &w.bits, 8);
    out->len += size;
}

/* Calls for each exception, bridges included; returns how many there are. */
static uint32_t add_gaps(struct buf *out, const uint64_t *values, size_t n, unsigned width)
{
    uint32_t n_ex = 0;
    size_t last = 0;

    for (size_t i = 0; i < n; i++) {
        if (values[i] >> width == 0)
            continue;
        for (; i - last > GAP_MAX; last += GAP_MAX, n_ex++)
            if (out)
                buf_add_byte(out, GAP_MAX);
        if (out)
            buf_add_byte(out, (uint8_t)(i - last));
        last = i;
        n_ex++;
    }
    return n_ex;
}

static void add_highs(struct buf *out, const uint64_t *values, size_t n, const struct layout *l,
                      uint32_t n_ex)
{
    size_t size = packed_bytes(n_ex, l->high_width), last = 0;
    struct bit_writer w = {.to = buf_reserve(out, size + 8)};

    if (!w.to)
        return;
    for (size_t i = 0; i < n; i++) {
        if (values[i] >> l->width == 0)
            continue;
        for (; i - last > GAP_MAX; last += GAP_MAX)
            put_bits(&w, 0, l->high_width);
        put_bits(&w, values[i] >> l->width, l->high_width);
        last = i;
    }
    memcpy(w.to, &w.bits, 8);
    out->len += size;
}

static void add_bytewise(struct buf *out, const uint64_t *values, size_t n, size_t n_values)
{
    size_t n_nibbles = (n + 1) / 2;
    uint8_t *nibbles = buf_reserve(out, n_nibbles + n_values + 8), *to = nibbles + n_nibbles;

    if (!nibbles)
        return;
    memset(nibbles, 0, n_nibbles);
    for (size_t i = 0; i < n; i++) {
        unsigned len = (bits_of(values[i]) + 7) / 8;
        nibbles[i / 2] |= (uint8_t)(len << (i & 1) * 4);
        memcpy(to, &values[i], 8);
        to += len;
    }
    out->len += n_nibbles + n_values;
}

void bitpack_encode(const uint64_t *values, size_t n, struct buf *out)
{
    uint32_t n_of_bits[65] = {0};

    for (size_t i = 0; i < n; i++)
        n_of_bits[bits_of(values[i])]++;
    struct layout l = choose(n_of_bits, n);
    if (l.width == WIDTH_BYTEWISE) {
        buf_add_byte(out, WIDTH_BYTEWISE);
        add_varint(out, l.n_values);
        add_bytewise(out, values, n, l.n_values);
        return;
    }
    if (l.high_width == 0) {
        buf_add_byte(out, (uint8_t)l.width);
        add_packed(out, values, n, l.width);
        return;
    }
    uint32_t n_ex = add_gaps(NULL, values, n, l.width);
    buf_add_byte(out, (uint8_t)(l.width | WIDTH_EXCEPTIONS));
    add_varint(out, n_ex);
    buf_add_byte(out, (uint8_t)l.high_width);
    add_packed(out, values, n, l.width);
    add_gaps(out, values, n, l.width);
    add_highs(out, values, n, &l, n_ex);
}

/* ---- reading ---- */

/* Takes n bytes off the reader's front; NULL when there are not as many. */
static const uint8_t *take(struct bytes *in, size_t n)
{
    const uint8_t *p = in->data;

    if (n > in->len)
        return NULL;
    in->data += n;
    in->len -= n;
    return p;
}

static int open_bytewise(struct bytes *in, size_t n, struct bitpack *p)
{
    uint64_t n_values;

    if (!take_varint(in, &n_values))
        return -EBADMSG;
    p->low = take(in, n / 2 + (n & 1));
    p->gaps = p->low && n_values <= in->len ? take(in, (size_t)n_values) : NULL;
    return p->gaps ? 0 : -EBADMSG;
}

static int open_packed(struct bytes *in, size_t n, struct bitpack *p)
{
    uint64_t n_ex = 0;

    if (p->width & WIDTH_EXCEPTIONS) {
        const uint8_t *high_width;

        p->width &= 0x7f;
        if (!take_varint(in, &n_ex) || n_ex == 0 || n_ex > n || !(high_width = take(in, 1)))
            return -EBADMSG;
        p->high_width = *high_width;
        if (p->high_width == 0 || p->high_width > 64 || p->width + p->high_width > 64)
            return -EBADMSG;
    }
    if (p->width > 64)
        return -EBADMSG;
    p->n_exceptions = (uint32_t)n_ex;
    p->low = take(in, packed_bytes(n, p->width));
    p->gaps = p->low ? take(in, (size_t)n_ex) : NULL;
    p->high = p->gaps ? take(in, packed_bytes((size_t)n_ex, p->high_width)) : NULL;
    return p->high ? 0 : -EBADMSG;
}

int bitpack_open(struct bytes *in, size_t n, struct bitpack *ret)
{
    struct bytes rest = *in;
    const uint8_t *width = take(&rest, 1);

    if (!width || n > UINT32_MAX)
        return -EBADMSG;
    struct bitpack p = {.width = *width, .end = in->data + in->len};
    int r = p.width == WIDTH_BYTEWISE ? open_bytewise(&rest, n, &p) : open_packed(&rest, n, &p);
    if (r < 0)
        return r;
    *ret = p;
    *in = rest;
    return 0;
}

void bitpack_start(const struct bitpack *p, struct bitpack_cursor *ret)
{
    *ret = (struct bitpack_cursor){
        .p = p, .pos = p->gaps, .next_patch = p->n_exceptions ? p->gaps[0] : SIZE_MAX};
}

/*
 * Eight values of `width` bits, which fill `width` bytes; up to 8 bytes more are read. Always
 * inlined so that for a constant width all shifts are constants.
 */
static inline __attribute__((always_inline)) void unpack8(const uint8_t *p, unsigned width,
                                                          uint64_t *out)
{
    uint64_t mask = UINT64_MAX >> (64 - width);

    if (width <= 8) {
        uint64_t all = load64(p);
        for (unsigned j = 0; j < 8; j++)
            out[j] = all >> j * width & mask;
        return;
    }
    for (unsigned j = 0; j < 8; j++) {
        unsigned at = j * width, shift = at & 7;
        uint64_t v = load64(p + at / 8) >> shift;
        if (width > 57 && shift + width > 64)
            v |= (uint64_t)p[at / 8 + 8] << (64 - shift);
        out[j] = v & mask;
    }
}

#define UNPACK(w)                                                                                  \
    case w:                                                                                        \
        for (; n > 0; n--, p += (w), out += 8)                                                     \
            unpack8(p, (w), out);                                                                  \
        break

/* n groups of eight. */
static void unpack_groups(const uint8_t *p, unsigned width, size_t n, uint64_t *out)
{
    switch (width) {
        UNPACK(1);
        UNPACK(2);
        UNPACK(3);
        UNPACK(4);
        UNPACK(5);
        UNPACK(6);
        UNPACK(7);
        UNPACK(8);
        UNPACK(9);
        UNPACK(10);
        UNPACK(11);
        UNPACK(12);
        UNPACK(13);
        UNPACK(14);
        UNPACK(15);
        UNPACK(16);
    default:
        for (; n > 0; n--, p += width, out += 8)
            unpack8(p, width, out);
        break;
    }
}

/* Groups near the end of what may be read are copied out first. */
static void unpack_low(const struct bitpack_cursor *c, size_t n, uint64_t *ret)
{
    unsigned width = c->p->width;
    const uint8_t *from = c->p->low + c->row / 8 * width;
    size_t n_groups = (n + 7) / 8, readable = (size_t)(c->p->end - from);
    size_t n_fast = readable < 8 ? 0 : (readable - 8) / width;

    if (n_fast > n_groups)
        n_fast = n_groups;
    unpack_groups(from, width, n_fast, ret);
    for (size_t g = n_fast; g < n_groups; g++) {
        uint8_t copy[64 + 8] = {0};
        size_t left = readable - g * width;

        memcpy(copy, from + g * width, left < sizeof(copy) ? left : sizeof(copy));
        unpack8(copy, width, ret + g * 8);
    }
}

static inline uint64_t high_part(const struct bitpack *p, uint32_t i)
{
    size_t at = (size_t)i * p->high_width;
    const uint8_t *from = p->high + at / 8;
    size_t readable = (size_t)(p->end - from);
    unsigned shift = at & 7;
    uint8_t copy[16] = {0};

    if (readable < 9) {
        memcpy(copy, from, readable);
        from = copy;
    }
    uint64_t v = load64(from) >> shift;
    if (shift + p->high_width > 64)
        v |= (uint64_t)from[8] << (64 - shift);
    return v & mask_of(p->high_width);
}

static void patch(struct bitpack_cursor *c, size_t n, uint64_t *ret)
{
    const struct bitpack *p = c->p;
    size_t end = c->row + n;

    while (c->next_patch < end) {
        ret[c->next_patch - c->row] |= high_part(p, c->n_patched) << p->width;
        c->n_patched++;
        if (c->n_patched == p->n_exceptions)
            c->next_patch = SIZE_MAX;
        else
            c->next_patch += p->gaps[c->n_patched];
    }
}

static void next_bytewise(struct bitpack_cursor *c, size_t n, uint64_t *ret)
{
    static const uint64_t masks[16] = {
        0,          0xff,         0xffff,         0xffffff,
        0xffffffff, 0xffffffffff, 0xffffffffffff, 0xffffffffffffff,
        UINT64_MAX,
    };
    static const uint8_t lens[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
    const uint8_t *nibbles = c->p->low + c->row / 2, *pos = c->pos, *end = c->p->end;

    for (size_t i = 0; i < n; i++) {
        unsigned nibble = nibbles[i / 2] >> (i & 1) * 4 & 15;
        size_t len = lens[nibble], readable = (size_t)(end - pos);
        uint64_t v = 0;

        if (readable >= 8) {
            v = load64(pos);
        } else {
            memcpy(&v, pos, readable);
            len = len < readable ? len : readable;
        }
        ret[i] = v & masks[nibble];
        pos += len;
    }
    c->pos = pos;
}

void bitpack_next(struct bitpack_cursor *c, size_t n, uint64_t *ret)
{
    if (c->p->width == WIDTH_BYTEWISE) {
        next_bytewise(c, n, ret);
    } else {
        if (c->p->width == 0)
            memset(ret, 0, n * sizeof(*ret));
        else
            unpack_low(c, n, ret);
        patch(c, n, ret);
    }
    c->row += n;
}

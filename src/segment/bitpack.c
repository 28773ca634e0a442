#include "segment/bitpack.h"

#include <errno.h>

#include "segment/varint.h"

enum {
    WIDTH_EXCEPTIONS = 0x80,
    WIDTH_MAX = 64,
    WIDTH_BYTEWISE = 65,
    WIDTH_UNARY = 66,
    UNARY_WIDTH_MAX = 31,
    UNARY_MAX = 255,
    GAP_MAX = 255,
};

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

struct choice {
    size_t cost; /* in bytes */
    enum bitpack_layout layout;
    unsigned width;
    unsigned high_width; /* packed */
    size_t n_rest;       /* others */
};

static unsigned varint_len(uint64_t v)
{
    return v ? (bits_of(v) + 6) / 7 : 1;
}

/* The best of packed and bytewise, given how many values there are of each number of bits. */
static struct choice choose_fixed(const uint32_t n_of_bits[65], unsigned most, size_t n)
{
    struct choice best = {.cost = 1 + packed_bytes(n, most), .width = most};
    size_t n_above = 0, n_bytes = 0, n_bridges = n / GAP_MAX;

    for (unsigned w = most; w-- > 0;) {
        n_above += n_of_bits[w + 1];
        n_bytes += (size_t)n_of_bits[w + 1] * (w / 8 + 1);
        size_t n_ex = n_above + (n_above < n_bridges ? n_bridges : 0);
        size_t cost =
            2 + varint_len(n_ex) + packed_bytes(n, w) + n_ex + packed_bytes(n_ex, most - w);
        if (cost < best.cost)
            best = (struct choice){.cost = cost, .width = w, .high_width = most - w};
    }
    /* Packed values read faster, so this has to pay. */
    size_t cost = 1 + varint_len(n_bytes) + (n + 1) / 2 + n_bytes;
    if (cost + cost / 16 < best.cost)
        best = (struct choice){.cost = cost, .layout = BITPACK_BYTEWISE, .n_rest = n_bytes};
    return best;
}

/* The best width for unary high parts: near the binary logarithm of the mean. */
static struct choice choose_unary(const uint64_t *values, size_t n, unsigned most)
{
    struct choice best = {.cost = SIZE_MAX};
    uint64_t sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += values[i];
    unsigned first = bits_of(n > 0 ? sum / n : 0);
    for (unsigned w = first > 2 ? first - 2 : 0; w <= first && w <= UNARY_WIDTH_MAX; w++) {
        uint64_t zeros = 0;
        if (mask_of(most) >> w > UNARY_MAX)
            continue;
        for (size_t i = 0; i < n; i++)
            zeros += values[i] >> w;
        size_t n_rest = (size_t)(zeros + n + 7) / 8;
        size_t cost = 1 + varint_len(n_rest) + packed_bytes(n, w) + n_rest;
        if (cost < best.cost)
            best = (struct choice){
                .cost = cost, .layout = BITPACK_UNARY, .width = w, .n_rest = n_rest};
    }
    return best;
}

static struct choice choose(const uint64_t *values, size_t n)
{
    uint32_t n_of_bits[65] = {0};
    unsigned most = 64;

    for (size_t i = 0; i < n; i++)
        n_of_bits[bits_of(values[i])]++;
    while (most > 0 && n_of_bits[most] == 0)
        most--;
    struct choice best = choose_fixed(n_of_bits, most, n);
    if (most == 0 || most > 32) /* sums of larger ones may not fit */
        return best;
    struct choice unary = choose_unary(values, n, most);
    return unary.cost + unary.cost / 16 < best.cost ? unary : best;
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

static void add_highs(struct buf *out, const uint64_t *values, size_t n, const struct choice *l,
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

static void add_unary(struct buf *out, const uint64_t *values, size_t n, const struct choice *l)
{
    uint8_t *bits = buf_reserve(out, l->n_rest);
    uint64_t at = 0;

    if (!bits)
        return;
    memset(bits, 0, l->n_rest);
    for (size_t i = 0; i < n; i++, at++) {
        at += values[i] >> l->width;
        bits[at / 8] |= (uint8_t)(1u << at % 8);
    }
    out->len += l->n_rest;
}

static void encode_packed(const uint64_t *values, size_t n, const struct choice *l, struct buf *out)
{
    if (l->high_width == 0) {
        buf_add_byte(out, (uint8_t)l->width);
        add_packed(out, values, n, l->width);
        return;
    }
    uint32_t n_ex = add_gaps(NULL, values, n, l->width);
    buf_add_byte(out, (uint8_t)(l->width | WIDTH_EXCEPTIONS));
    add_varint(out, n_ex);
    buf_add_byte(out, (uint8_t)l->high_width);
    add_packed(out, values, n, l->width);
    add_gaps(out, values, n, l->width);
    add_highs(out, values, n, l, n_ex);
}

void bitpack_encode(const uint64_t *values, size_t n, struct buf *out)
{
    struct choice l = choose(values, n);

    switch (l.layout) {
    case BITPACK_PACKED:
        encode_packed(values, n, &l, out);
        break;
    case BITPACK_BYTEWISE:
        buf_add_byte(out, WIDTH_BYTEWISE);
        add_varint(out, l.n_rest);
        add_bytewise(out, values, n, l.n_rest);
        break;
    case BITPACK_UNARY:
        buf_add_byte(out, (uint8_t)(WIDTH_UNARY + l.width));
        add_varint(out, l.n_rest);
        add_packed(out, values, n, l.width);
        add_unary(out, values, n, &l);
        break;
    }
}

/* ---- reading ---- */

/* Takes n bytes off the front of *in; NULL when there are not as many. */
static const uint8_t *take(struct bytes *in, uint64_t n)
{
    const uint8_t *p = in->data;

    if (n > in->len)
        return NULL;
    in->data += n;
    in->len -= (size_t)n;
    return p;
}

/* Bytewise and unary: n_rest, low, rest. */
static int open_with_rest(struct bytes *in, size_t n_low, struct bitpack *p)
{
    uint64_t n_rest;

    if (!take_varint(in, &n_rest) || n_rest > UINT32_MAX)
        return -EBADMSG;
    p->n_rest = (uint32_t)n_rest;
    p->low = take(in, n_low);
    p->rest = p->low ? take(in, n_rest) : NULL;
    return p->rest ? 0 : -EBADMSG;
}

static int open_packed(struct bytes *in, size_t n, struct bitpack *p)
{
    p->low = take(in, packed_bytes(n, p->width));
    p->rest = p->low ? take(in, p->n_exceptions) : NULL;
    p->high = p->rest ? take(in, packed_bytes(p->n_exceptions, p->high_width)) : NULL;
    return p->high ? 0 : -EBADMSG;
}

static int open_with_exceptions(struct bytes *in, size_t n, struct bitpack *p)
{
    uint64_t n_ex;

    if (!take_varint(in, &n_ex) || n_ex == 0 || n_ex > n || !take_byte(in, &p->high_width))
        return -EBADMSG;
    if (p->high_width == 0 || p->width + p->high_width > WIDTH_MAX)
        return -EBADMSG;
    p->n_exceptions = (uint32_t)n_ex;
    return open_packed(in, n, p);
}

static int open_layout(struct bytes *in, size_t n, struct bitpack *p)
{
    uint8_t kind;

    if (!take_byte(in, &kind))
        return -EBADMSG;
    if (kind & WIDTH_EXCEPTIONS) {
        p->width = (uint8_t)(kind & ~WIDTH_EXCEPTIONS);
        return open_with_exceptions(in, n, p);
    }
    if (kind <= WIDTH_MAX) {
        p->width = kind;
        return open_packed(in, n, p);
    }
    if (kind == WIDTH_BYTEWISE) {
        p->layout = BITPACK_BYTEWISE;
        return open_with_rest(in, n / 2 + (n & 1), p);
    }
    p->layout = BITPACK_UNARY;
    p->width = (uint8_t)(kind - WIDTH_UNARY);
    if (p->width > UNARY_WIDTH_MAX)
        return -EBADMSG;
    return open_with_rest(in, packed_bytes(n, p->width), p);
}

int bitpack_open(struct bytes *in, size_t n, struct bitpack *ret)
{
    struct bytes rest = *in;

    /* Filled in place: copying what was just written piece by piece would wait for the pieces. */
    *ret = (struct bitpack){.end = in->len ? in->data + in->len : in->data};
    if (n > UINT32_MAX)
        return -EBADMSG;
    int r = open_layout(&rest, n, ret);
    if (r < 0)
        return r;
    *in = rest;
    return 0;
}

void bitpack_start(const struct bitpack *p, struct bitpack_cursor *ret)
{
    *ret = (struct bitpack_cursor){.p = p,
                                   .pos = p->rest,
                                   .next_patch = p->n_exceptions ? p->rest[0] : SIZE_MAX,
                                   .base = 256 - 64};
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
            c->next_patch += p->rest[c->n_patched];
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

/* For every byte where its 1s are, a byte each, and how many: bit 7 down to 0, without and with. */
#define ONES_0(l) (l), (l) << 8
#define ONES_1(l) ONES_0(l), ONES_0((l) << 8 | 1)
#define ONES_2(l) ONES_1(l), ONES_1((l) << 8 | 2)
#define ONES_3(l) ONES_2(l), ONES_2((l) << 8 | 3)
#define ONES_4(l) ONES_3(l), ONES_3((l) << 8 | 4)
#define ONES_5(l) ONES_4(l), ONES_4((l) << 8 | 5)
#define ONES_6(l) ONES_5(l), ONES_5((l) << 8 | 6)
#define ONES_7(l) ONES_6(l), ONES_6((l) << 8 | 7)
static const uint64_t ones_at[256] = {ONES_7((uint64_t)0)};

#define COUNT_2(n) (n), (n) + 1, (n) + 1, (n) + 2
#define COUNT_4(n) COUNT_2(n), COUNT_2((n) + 1), COUNT_2((n) + 1), COUNT_2((n) + 2)
#define COUNT_6(n) COUNT_4(n), COUNT_4((n) + 1), COUNT_4((n) + 1), COUNT_4((n) + 2)
#define COUNT_8(n) COUNT_6(n), COUNT_6((n) + 1), COUNT_6((n) + 1), COUNT_6((n) + 2)
static const uint8_t n_ones[256] = {COUNT_8(0)};

#define EVERY_BYTE 0x0101010101010101u

/* Where the 1s of a word are, when it begins at bit `base`, and how many; writes 8 bytes more. No
 * sum of bytes here exceeds 255: base is a multiple of 64. */
static inline size_t word_bits(uint64_t word, uint8_t base, uint8_t *ret)
{
    uint64_t first = EVERY_BYTE * base;
    size_t n = 0;

    for (unsigned k = 0; k < 8; k++) {
        uint8_t b = (uint8_t)(word >> k * 8);
        uint64_t bits = ones_at[b] + first + EVERY_BYTE * k * 8;
        memcpy(ret + n, &bits, 8);
        n += n_ones[b];
    }
    return n;
}

static inline uint64_t load_up_to_64(const uint8_t *p, const uint8_t *end)
{
    uint64_t v = 0;

    if (end - p >= 8)
        return load64(p);
    memcpy(&v, p, (size_t)(end - p));
    return v;
}

/*
 * The bits of the next n 1s, modulo 256; `ret` has room for 72 more. Returns how many there were: n
 * unless the data is damaged. After a chunk that is not whole nothing follows.
 */
static size_t unary_bits(struct bitpack_cursor *c, size_t n, uint8_t *ret)
{
    const uint8_t *pos = c->pos, *end = c->p->rest + c->p->n_rest;
    uint64_t word = c->pending;
    uint8_t base = c->base;
    size_t i = word ? word_bits(word, base, ret) : 0, before = 0;

    while (i < n && pos < end) {
        word = load_up_to_64(pos, end);
        pos = end - pos < 8 ? end : pos + 8;
        base = (uint8_t)(base + 64);
        before = i;
        i += word_bits(word, base, ret + i);
    }
    for (size_t used = before; used < n && word && n == BITPACK_CHUNK; used++)
        word &= word - 1;
    c->pos = pos;
    c->pending = word;
    c->base = base;
    return i < n ? i : n;
}

/* Loops over this many at once, some of them beyond the end, have no rest to do one by one. */
#define ROUND      BITPACK_ROUND
#define ROUNDED(n) (((n) + (ROUND - 1)) & ~(size_t)(ROUND - 1))

#define SMALL_ROOM BITPACK_SMALL_ROOM

_Static_assert(BITPACK_CHUNK % ROUND == 0, "rounds of a chunk are in its room");

/* Where 1s are missing, the rest of the high parts is 0; so is what is behind n up to a round. */
static inline void unary_highs(struct bitpack_cursor *c, size_t n, uint8_t high[SMALL_ROOM])
{
    uint8_t bits[1 + BITPACK_CHUNK + 72];

    bits[0] = (uint8_t)(c->next - 1);
    size_t found = unary_bits(c, n, bits + 1);
    c->next = (uint8_t)(bits[found] + 1);
    memset(bits + 1 + found, 0, ROUND);
    for (size_t i = 0; i < ROUNDED(found); i++)
        high[i] = (uint8_t)(bits[i + 1] - bits[i] - 1);
    if (found < n)
        memset(high + found, 0, n - found);
    memset(high + n, 0, ROUND);
}

static void next_unary(struct bitpack_cursor *c, size_t n, uint64_t *ret)
{
    uint8_t high[SMALL_ROOM];
    unsigned width = c->p->width;

    unary_highs(c, n, high);
    if (width == 0) {
        for (size_t i = 0; i < n; i++)
            ret[i] = high[i];
        return;
    }
    unpack_low(c, n, ret);
    for (size_t i = 0; i < n; i++)
        ret[i] |= (uint64_t)high[i] << width;
}

static void next_packed(struct bitpack_cursor *c, size_t n, uint64_t *ret)
{
    if (c->p->width == 0)
        memset(ret, 0, n * sizeof(*ret));
    else
        unpack_low(c, n, ret);
    patch(c, n, ret);
}

void bitpack_next(struct bitpack_cursor *c, size_t n, uint64_t *ret)
{
    switch (c->p->layout) {
    case BITPACK_PACKED:
        next_packed(c, n, ret);
        break;
    case BITPACK_BYTEWISE:
        next_bytewise(c, n, ret);
        break;
    default:
        next_unary(c, n, ret);
        break;
    }
    c->row += n;
}

/* ---- small values ---- */

/* The lowest `width` bits of every lane of `lanes` bits. */
static inline uint64_t lane_mask(unsigned width, unsigned lanes)
{
    return mask_of(width) * (UINT64_MAX / mask_of(lanes));
}

/* Moves the upper half of what stands in every lane to the upper half of the lane. */
static inline uint64_t spread(uint64_t v, unsigned width, unsigned lanes)
{
    uint64_t low = lane_mask(width, lanes), high = low << (lanes / 2);

    return (v & low) | (v << (lanes / 2 - width) & high);
}

/* n groups of eight values of up to 8 bits, a byte each. */
static void unpack_bytes(const uint8_t *p, unsigned width, size_t n, uint8_t *out)
{
    for (; n > 0; n--, p += width, out += 8) {
        uint64_t v = load64(p);
        v = spread(spread(spread(v, width * 4, 64), width * 2, 32), width, 16);
        memcpy(out, &v, 8);
    }
}

/* The low bits of the next n values, anything behind them up to a round. */
static void small_low(const struct bitpack_cursor *c, size_t n, uint8_t *ret)
{
    unsigned width = c->p->width;
    const uint8_t *from = c->p->low + c->row / 8 * width;
    size_t n_groups = (n + 7) / 8, readable = (size_t)(c->p->end - from);
    size_t n_fast = readable < 8 ? 0 : (readable - 8) / width;

    if (n_fast > n_groups)
        n_fast = n_groups;
    memset(ret + n, 0, ROUND);
    unpack_bytes(from, width, n_fast, ret);
    for (size_t g = n_fast; g < n_groups; g++) {
        uint8_t copy[8] = {0};
        size_t left = readable - g * width;

        memcpy(copy, from + g * width, left < sizeof(copy) ? left : sizeof(copy));
        unpack_bytes(copy, width, 1, ret + g * 8);
    }
}

bool bitpack_is_small(const struct bitpack *p)
{
    return p->layout == BITPACK_UNARY
               ? p->width <= 7
               : p->layout == BITPACK_PACKED && p->width <= 8 && p->width + p->high_width <= 15;
}

static void small_patch(struct bitpack_cursor *c, size_t n, uint16_t *ret)
{
    const struct bitpack *p = c->p;
    size_t end = c->row + n;

    while (c->next_patch < end) {
        ret[c->next_patch - c->row] |= (uint16_t)(high_part(p, c->n_patched) << p->width);
        c->n_patched++;
        if (c->n_patched == p->n_exceptions)
            c->next_patch = SIZE_MAX;
        else
            c->next_patch += p->rest[c->n_patched];
    }
}

void bitpack_next_small(struct bitpack_cursor *c, size_t n, uint16_t *ret)
{
    uint8_t low[SMALL_ROOM], high[SMALL_ROOM];
    unsigned width = c->p->width;

    if (c->p->layout == BITPACK_UNARY)
        unary_highs(c, n, high);
    else
        memset(high, 0, ROUNDED(n));
    if (width == 0) {
        for (size_t i = 0; i < ROUNDED(n); i++)
            ret[i] = high[i];
    } else {
        /* A product, since a shift would be done in 32 bits. */
        uint16_t scale = (uint16_t)(1u << width);
        small_low(c, n, low);
        for (size_t i = 0; i < ROUNDED(n); i++)
            ret[i] = (uint16_t)(low[i] + (uint16_t)(high[i] * scale));
    }
    memset(ret + n, 0, ROUND * sizeof(*ret));
    if (c->p->layout == BITPACK_PACKED)
        small_patch(c, n, ret);
    c->row += n;
}

#include "segment/run.h"

#include <errno.h>

#include "base/bisect.h"
#include "base/cleanup.h"
#include "segment/varint.h"

enum { COLUMN_MULTIPLE = 1 << SCALED_FLAGS_SHIFT, COLUMN_OF_SHIFT = 3, COLUMN_OF_MAX = 31 };

/* ---- writing ---- */

static bool keys_ascend(const uint32_t *keys, size_t n)
{
    bool ok = true;

    for (size_t i = 1; i < n; i++)
        ok &= keys[i - 1] < keys[i];
    return ok;
}

/* The factor that makes column `of` the column v, or 0. */
static uint64_t find_multiple(const int64_t *v, const int64_t *of, size_t n)
{
    size_t first = 0;

    while (first < n && of[first] <= 0)
        first++;
    if (first == n || v[first] % of[first] != 0)
        return 0;
    uint64_t factor = (uint64_t)(v[first] / of[first]);
    for (size_t i = 0; i < n; i++)
        if ((uint64_t)of[i] * factor != (uint64_t)v[i])
            return 0;
    return factor;
}

static void encode_column(const int64_t *const *values, size_t n, unsigned col, uint64_t *steps,
                          struct buf *out)
{
    for (unsigned of = 0; of < col && of <= COLUMN_OF_MAX; of++) {
        uint64_t factor = find_multiple(values[col], values[of], n);
        if (factor == 0)
            continue;
        buf_add_byte(out, (uint8_t)(COLUMN_MULTIPLE | of << COLUMN_OF_SHIFT));
        add_varint(out, zigzag((int64_t)factor));
        return;
    }
    scaled_encode(values[col], n, 0, steps, out);
}

static void encode_keys(const uint32_t *keys, size_t n, uint64_t *steps, struct buf *out)
{
    add_varint(out, keys[0]);
    steps[0] = 0;
    for (size_t i = 1; i < n; i++)
        steps[i] = keys[i] - keys[i - 1] - 1;
    bitpack_encode(steps, n, out);
}

int run_encode(const uint32_t *keys, const int64_t *const *values, size_t n, unsigned n_cols,
               struct buf *out)
{
    CLEANUP(buf_done) struct buf scratch = {.budget = out->budget};
    size_t start = out->len;

    if (n_cols > RUN_COLS_MAX || !keys_ascend(keys, n))
        return -EINVAL;
    if (n > RUN_ROWS_MAX)
        return -E2BIG;
    uint64_t *steps = n ? (uint64_t *)(void *)buf_reserve(&scratch, n * sizeof(*steps)) : NULL;
    if (n && !steps)
        return -ENOBUFS;
    add_varint(out, n_cols);
    add_varint(out, n);
    if (n > 0) {
        encode_keys(keys, n, steps, out);
        for (unsigned c = 0; c < n_cols; c++)
            encode_column(values, n, c, steps, out);
    }
    if (!buf_full(out))
        return 0;
    out->len = start;
    return -ENOBUFS;
}

/* ---- opening ---- */

static bool open_keys(struct bytes *in, struct run *r)
{
    uint64_t first;

    if (!take_varint(in, &first) || first > UINT32_MAX)
        return false;
    r->first_key = (uint32_t)first;
    return bitpack_open(in, r->n, &r->steps) == 0;
}

static bool open_column(struct bytes *in, struct run *r, unsigned col)
{
    struct scaled *c = &r->cols[col];
    uint64_t factor;
    uint8_t flags;

    if (!take_byte(in, &flags))
        return false;
    if (!(flags & COLUMN_MULTIPLE))
        return scaled_open(in, flags, r->n, c) == 0;
    unsigned of = flags >> COLUMN_OF_SHIFT;
    if (of >= col || !take_varint(in, &factor))
        return false;
    factor = (uint64_t)unzigzag(factor);
    *c = r->cols[of];
    c->base *= factor;
    c->factor *= factor;
    return true;
}

int run_open(struct bytes *in, struct run *ret)
{
    struct bytes rest = *in;
    uint64_t n_cols, n;

    if (!take_varint(&rest, &n_cols) || !take_varint(&rest, &n))
        return -EBADMSG;
    if (n_cols > RUN_COLS_MAX || n > RUN_ROWS_MAX)
        return -EBADMSG;
    ret->n = (size_t)n;
    ret->n_cols = (unsigned)n_cols;
    if (n > 0 && !open_keys(&rest, ret))
        return -EBADMSG;
    for (unsigned c = 0; n > 0 && c < ret->n_cols; c++)
        if (!open_column(&rest, ret, c))
            return -EBADMSG;
    ret->encoded = bytes_head(*in, in->len - rest.len);
    *in = rest;
    return 0;
}

/* ---- reading ---- */

struct key_cursor {
    size_t left; /* rows */
    uint64_t key;
    struct bitpack_cursor steps;
};

static void keys_start(const struct run *r, struct key_cursor *ret)
{
    ret->left = r->n;
    ret->key = (uint64_t)r->first_key - 1;
    if (r->n > 0)
        bitpack_start(&r->steps, &ret->steps);
}

/*
 * The next keys, up to a chunk; *ret_n is 0 at the end. False when they do not fit 32 bits: those
 * given out ascend, so that the last is the largest.
 */
static bool keys_next(struct key_cursor *c, uint32_t ret[BITPACK_CHUNK], size_t *ret_n)
{
    size_t n = c->left < BITPACK_CHUNK ? c->left : BITPACK_CHUNK;
    uint64_t steps[BITPACK_CHUNK], sum = c->key + 1, all = 0;

    *ret_n = n;
    if (n == 0)
        return true;
    bitpack_next(&c->steps, n, steps);
    for (size_t i = 0; i < n; i++) {
        sum += steps[i];
        all |= steps[i];
        ret[i] = (uint32_t)(sum + i);
    }
    c->key = sum + n - 1;
    c->left -= n;
    return (all | c->key) >> 32 == 0;
}

/* Bits are collected by word first: marking one by one would wait for the store before each time,
 * and a branch on whether the word is a new one would often be guessed wrong. */
static void mark(uint64_t *marks, const uint32_t *keys, size_t n)
{
    uint32_t words[BITPACK_CHUNK], word = keys[0] / 64;
    uint64_t bits[BITPACK_CHUNK], now = 0;
    size_t at = 0;

    for (size_t i = 0; i < n; i++) {
        uint64_t is_new = (word ^ keys[i] / 64) != 0;
        word = keys[i] / 64;
        now = (now & (is_new - 1)) | (uint64_t)1 << keys[i] % 64;
        at += is_new;
        words[at] = word;
        bits[at] = now;
    }
    for (size_t i = 0; i <= at; i++)
        marks[words[i]] |= bits[i];
}

static void add_values(const struct scaled *col, const uint64_t *steps, const uint32_t *keys,
                       size_t n, uint64_t *sums)
{
    uint64_t base = col->base, factor = col->factor;

    for (size_t i = 0; i < n; i++)
        sums[keys[i]] += base + factor * steps[i]; /* NOLINT: whoever calls has filled n of them */
}

/* What nearly all runs are: distances and values of up to 16 bits. Keys are not kept: the last one
 * says whether all of a chunk are in bounds. */
static bool add_small(const struct run *r, unsigned col, uint64_t *sums, size_t n_sums)
{
    uint64_t base = r->cols[col].base, factor = r->cols[col].factor;
    uint64_t key = (uint64_t)r->first_key - 1;
    struct bitpack_cursor keys, values;
    uint16_t steps[BITPACK_SMALL_ROOM], v[BITPACK_SMALL_ROOM];

    bitpack_start(&r->steps, &keys);
    bitpack_start(&r->cols[col].steps, &values);
    for (size_t left = r->n, n; left > 0; left -= n) {
        uint32_t sum = 0;
        n = left < BITPACK_CHUNK ? left : BITPACK_CHUNK;
        bitpack_next_small(&keys, n, steps);
        bitpack_next_small(&values, n, v);
        /* Added here, where it is done for many at once, and not to each key below. */
        for (size_t i = 0; i < ((n + BITPACK_ROUND - 1) & ~(size_t)(BITPACK_ROUND - 1)); i++) {
            sum += steps[i];
            steps[i]++;
        }
        if (key + sum + n >= n_sums)
            return false;
#pragma GCC unroll 4
        for (size_t i = 0; i < n; i++) {
            key += steps[i];
            sums[key] += base + factor * v[i];
        }
    }
    return true;
}

bool run_add(const struct run *r, unsigned col, int64_t *sums, size_t n_sums)
{
    if (r->n > 0 && bitpack_is_small(&r->steps) && bitpack_is_small(&r->cols[col].steps))
        return add_small(r, col, (uint64_t *)sums, n_sums);
    return run_add_marked(r, col, sums, n_sums, NULL);
}

bool run_add_marked(const struct run *r, unsigned col, int64_t *sums, size_t n_sums,
                    uint64_t *marks)
{
    uint64_t steps[BITPACK_CHUNK];
    uint32_t keys[BITPACK_CHUNK];
    struct bitpack_cursor values;
    struct key_cursor c;
    size_t n;

    keys_start(r, &c);
    if (r->n > 0)
        bitpack_start(&r->cols[col].steps, &values);
    while (keys_next(&c, keys, &n)) {
        if (n == 0)
            return true;
        if (keys[n - 1] >= n_sums)
            return false;
        bitpack_next(&values, n, steps);
        add_values(&r->cols[col], steps, keys, n, (uint64_t *)sums);
        if (marks)
            mark(marks, keys, n);
    }
    return false;
}

/* Multiples of the column read before share its steps, which are then read once. */
static void add_columns(const struct run *r, struct bitpack_cursor *values, const uint32_t *keys,
                        size_t n, int64_t *const *sums)
{
    uint64_t steps[BITPACK_CHUNK];
    const uint8_t *read = NULL;

    for (unsigned c = 0; c < r->n_cols; c++) {
        const struct scaled *col = &r->cols[c];
        if (!sums[c])
            continue;
        if (col->steps.low != read)
            bitpack_next(&values[c], n, steps);
        read = col->steps.low;
        add_values(col, steps, keys, n, (uint64_t *)sums[c]);
    }
}

bool run_add_all(const struct run *r, int64_t *const *sums, size_t n_sums, uint64_t *marks)
{
    struct bitpack_cursor values[RUN_COLS_MAX];
    uint32_t keys[BITPACK_CHUNK];
    struct key_cursor c;
    size_t n;

    keys_start(r, &c);
    for (unsigned col = 0; col < r->n_cols && r->n > 0; col++)
        bitpack_start(&r->cols[col].steps, &values[col]);
    while (keys_next(&c, keys, &n)) {
        if (n == 0)
            return true;
        if (keys[n - 1] >= n_sums)
            return false;
        add_columns(r, values, keys, n, sums);
        if (marks)
            mark(marks, keys, n);
    }
    return false;
}

bool run_keys(const struct run *r, uint32_t *ret)
{
    uint32_t keys[BITPACK_CHUNK];
    struct key_cursor c;
    size_t n;

    keys_start(r, &c);
    while (keys_next(&c, keys, &n)) {
        if (n == 0)
            return true;
        memcpy(ret, keys, n * sizeof(*ret));
        ret += n;
    }
    return false;
}

void run_values(const struct run *r, unsigned col, int64_t *ret)
{
    if (r->n > 0)
        scaled_read(&r->cols[col], r->n, ret);
}

int64_t run_sum(const struct run *r, unsigned col)
{
    const struct scaled *column = &r->cols[col];
    uint64_t v[BITPACK_CHUNK], sum = 0;
    struct bitpack_cursor c;

    if (r->n == 0)
        return 0;
    bitpack_start(&column->steps, &c);
    for (size_t left = r->n, n; left > 0; left -= n) {
        n = left < BITPACK_CHUNK ? left : BITPACK_CHUNK;
        bitpack_next(&c, n, v);
        for (size_t i = 0; i < n; i++)
            sum += v[i];
    }
    return (int64_t)(column->base * r->n + column->factor * sum);
}

static uint64_t sum_masked(const uint32_t *keys, const uint64_t *v, size_t n,
                           const uint64_t *bitmap, size_t n_bits, uint64_t *ret_n)
{
    uint64_t sum = 0, count = 0;

    if (keys[n - 1] >= n_bits)
        n = BISECT(n, i, keys[i] < n_bits);
    for (size_t i = 0; i < n; i++) {
        uint64_t bit = bitmap[keys[i] / 64] >> keys[i] % 64 & 1;
        sum += v[i] & (0 - bit);
        count += bit;
    }
    *ret_n += count;
    return sum;
}

bool run_sum_masked(const struct run *r, unsigned col, const uint64_t *bitmap, size_t n_bits,
                    int64_t *ret)
{
    const struct scaled *column = &r->cols[col];
    uint64_t v[BITPACK_CHUNK], sum = 0, count = 0;
    uint32_t keys[BITPACK_CHUNK];
    struct bitpack_cursor steps;
    struct key_cursor c;
    size_t n;

    if (r->n == 0) {
        *ret = 0;
        return true;
    }
    keys_start(r, &c);
    bitpack_start(&column->steps, &steps);
    while (keys_next(&c, keys, &n)) {
        if (n == 0) {
            *ret = (int64_t)(column->base * count + column->factor * sum);
            return true;
        }
        bitpack_next(&steps, n, v);
        sum += sum_masked(keys, v, n, bitmap, n_bits, &count);
    }
    return false;
}

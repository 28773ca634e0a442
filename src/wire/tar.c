#include "wire/tar.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define BLOCK    512
#define PAX_MAX  ((uint64_t)16 << 10)
#define SKIP_MAX ((size_t)16 << 10)

/* Where fields of a header stand. */
enum { NAME = 0, SIZE = 124, SUM = 148, TYPE = 156, MAGIC = 257, PREFIX = 345 };
enum { NAME_LEN = 100, SIZE_LEN = 12, SUM_LEN = 8, PREFIX_LEN = 155 };

/* All of n bytes. 1, 0 when there was nothing at all, -EBADMSG when it ends midway. */
static int read_whole(struct input *in, void *to, size_t n, struct error *err)
{
    size_t got = 0;

    while (got < n) {
        ssize_t more = input_read(in, (uint8_t *)to + got, n - got, err);
        if (more < 0)
            return (int)more;
        if (more == 0 && got == 0)
            return 0;
        if (more == 0)
            return error_set(err, -EBADMSG, "%s: the tar ends midway", input_name(in));
        got += (size_t)more;
    }
    return 1;
}

static int skip(struct input *in, uint64_t n, struct error *err)
{
    uint8_t scratch[SKIP_MAX];

    while (n > 0) {
        size_t part = n < sizeof(scratch) ? (size_t)n : sizeof(scratch);
        int r = read_whole(in, scratch, part, err);
        if (r <= 0)
            return r < 0 ? r : error_set(err, -EBADMSG, "%s: the tar ends midway", input_name(in));
        n -= part;
    }
    return 0;
}

/* An octal number with blanks around it; or, with the first bit set, a binary one. */
static bool read_number(const uint8_t *field, size_t len, uint64_t *ret)
{
    uint64_t v = 0;
    size_t i = 0;

    if (field[0] & 0x80) {
        for (i = 1; i < len - 8; i++)
            if (field[i] != 0)
                return false;
        for (; i < len; i++)
            v = v << 8 | field[i];
        *ret = v;
        return field[0] == 0x80 && v <= INT64_MAX;
    }
    while (i < len && field[i] == ' ')
        i++;
    for (; i < len && field[i] >= '0' && field[i] <= '7'; i++)
        v = v << 3 | (uint64_t)(field[i] - '0');
    *ret = v;
    return i == len || field[i] == ' ' || field[i] == '\0';
}

static bool sum_is_right(const uint8_t *block)
{
    uint64_t said, sum = 0;

    for (size_t i = 0; i < BLOCK; i++)
        sum += i >= SUM && i < SUM + SUM_LEN ? ' ' : block[i];
    return read_number(block + SUM, SUM_LEN, &said) && said == sum;
}

static bool is_zero(const uint8_t *block)
{
    for (size_t i = 0; i < BLOCK; i++)
        if (block[i] != 0)
            return false;
    return true;
}

static uint64_t padding_of(uint64_t size)
{
    return (BLOCK - size % BLOCK) % BLOCK;
}

/* The name of a header that no record before it named. */
static void join_name(struct tar_reader *t, const uint8_t *block)
{
    bool has_prefix = memcmp(block + MAGIC, "ustar", 6) == 0 && block[PREFIX] != 0;

    snprintf(t->name, sizeof(t->name), "%.*s%s%.*s", has_prefix ? PREFIX_LEN : 0,
             (const char *)block + PREFIX, has_prefix ? "/" : "", NAME_LEN,
             (const char *)block + NAME);
}

/* ---- Records that stand before an entry */

static int read_long_name(struct tar_reader *t, uint64_t size, struct error *err)
{
    if (size == 0 || size > TAR_NAME_MAX)
        return error_set(err, -EBADMSG, "%s: a name of %llu bytes in the tar", input_name(t->in),
                         (unsigned long long)size);
    int r = read_whole(t->in, t->name, (size_t)size, err);
    if (r <= 0)
        return r < 0 ? r : error_set(err, -EBADMSG, "%s: the tar ends midway", input_name(t->in));
    t->name[size] = '\0';
    t->has_name = true;
    return skip(t->in, padding_of(size), err);
}

static void take_pax(struct tar_reader *t, struct bytes key, struct bytes value)
{
    if (bytes_are(key, "path") && value.len <= TAR_NAME_MAX) {
        memcpy(t->name, value.data, value.len);
        t->name[value.len] = '\0';
        t->has_name = true;
    } else if (bytes_are(key, "size")) {
        t->has_size = bytes_to_u64(value, &t->size) && t->size <= INT64_MAX;
    }
}

/* "27 path=some/name\n" each: the number is the record's length, itself included. */
static bool parse_pax(struct tar_reader *t, struct bytes rest)
{
    while (rest.len > 0) {
        const uint8_t *blank = bytes_find_byte(rest, ' ');
        uint64_t len;
        size_t digits = blank ? (size_t)(blank - rest.data) : 0;
        if (!blank || !bytes_to_u64(bytes_head(rest, digits), &len) || len <= digits + 1 ||
            len > rest.len)
            return false;
        struct bytes record = bytes_from(bytes_head(rest, (size_t)len - 1), digits + 1);
        const uint8_t *equals = bytes_find_byte(record, '=');
        if (!equals)
            return false;
        size_t key = (size_t)(equals - record.data);
        take_pax(t, bytes_head(record, key), bytes_from(record, key + 1));
        rest = bytes_from(rest, (size_t)len);
    }
    return true;
}

static int read_pax(struct tar_reader *t, uint64_t size, struct error *err)
{
    uint8_t text[PAX_MAX];

    if (size > sizeof(text))
        return error_set(err, -EBADMSG, "%s: a pax header of %llu bytes", input_name(t->in),
                         (unsigned long long)size);
    int r = size > 0 ? read_whole(t->in, text, (size_t)size, err) : 1;
    if (r <= 0)
        return r < 0 ? r : error_set(err, -EBADMSG, "%s: the tar ends midway", input_name(t->in));
    if (!parse_pax(t, (struct bytes){text, (size_t)size}))
        return error_set(err, -EBADMSG, "%s: a pax header that makes no sense", input_name(t->in));
    return skip(t->in, padding_of(size), err);
}

/* ---- Entries */

/* 1: a file. 0: something else, which was read or passed over. */
static int take_header(struct tar_reader *t, const uint8_t *block, struct tar_entry *ret,
                       struct error *err)
{
    uint64_t size;
    char type = (char)block[TYPE];

    if (!sum_is_right(block) || !read_number(block + SIZE, SIZE_LEN, &size))
        return error_set(err, -EBADMSG, "%s: this is no tar, or it is damaged", input_name(t->in));
    if (type == 'L')
        return read_long_name(t, size, err);
    if (type == 'x')
        return read_pax(t, size, err);
    if (t->has_size)
        size = t->size;
    if (!t->has_name)
        join_name(t, block);
    t->has_name = t->has_size = false;
    t->left = size;
    t->padding = padding_of(size);
    *ret = (struct tar_entry){.name = t->name, .size = size};
    return type == '0' || type == '\0' || type == '7';
}

int tar_next(struct tar_reader *t, struct tar_entry *ret, struct error *err)
{
    uint8_t block[BLOCK];
    int r = 0;

    while (r == 0 && !t->ended) {
        r = skip(t->in, t->left, err);
        if (r == 0)
            r = skip(t->in, t->padding, err);
        t->left = t->padding = 0;
        if (r < 0)
            break;
        r = read_whole(t->in, block, sizeof(block), err);
        t->ended = r <= 0 || is_zero(block);
        if (r > 0)
            r = t->ended ? 0 : take_header(t, block, ret, err);
    }
    t->ended |= r < 0;
    return r;
}

ssize_t tar_read(struct tar_reader *t, void *to, size_t size, struct error *err)
{
    if (size > t->left)
        size = (size_t)t->left;
    if (size == 0)
        return 0;
    ssize_t n = input_read(t->in, to, size, err);
    if (n == 0)
        return error_set(err, -EBADMSG, "%s: the tar ends midway", input_name(t->in));
    t->left -= n > 0 ? (uint64_t)n : 0;
    return n;
}

#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A borrowed run of bytes; whoever hands it out says for how long. Not NUL-terminated. */
struct bytes {
    const uint8_t *data;
    size_t len;
};

/* A string literal, or any NUL-terminated string, as bytes. */
#define BYTES(s) ((struct bytes){(const uint8_t *)(s), sizeof(s) - 1})

static inline struct bytes bytes_of(const char *s)
{
    return (struct bytes){(const uint8_t *)s, strlen(s)};
}

static inline bool bytes_equal(struct bytes a, struct bytes b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

/* <0, 0 or >0, byte by byte, the shorter first; the second is for qsort() and bsearch() over struct
 * bytes. */
int bytes_compare(struct bytes a, struct bytes b);
int bytes_compare_items(const void *a, const void *b);

static inline bool bytes_are(struct bytes a, const char *s)
{
    return bytes_equal(a, bytes_of(s));
}

static inline bool bytes_start_with(struct bytes a, struct bytes prefix)
{
    return a.len >= prefix.len && memcmp(a.data, prefix.data, prefix.len) == 0;
}

/* The part from `from` on; empty when a is shorter. */
static inline struct bytes bytes_from(struct bytes a, size_t from)
{
    if (from > a.len)
        from = a.len;
    return (struct bytes){from ? a.data + from : a.data, a.len - from};
}

static inline struct bytes bytes_head(struct bytes a, size_t n)
{
    return (struct bytes){a.data, n < a.len ? n : a.len};
}

/* Where `needle` first stands in a, or NULL. */
static inline const uint8_t *bytes_find(struct bytes a, struct bytes needle)
{
    return a.len == 0 ? NULL : memmem(a.data, a.len, needle.data, needle.len);
}

static inline const uint8_t *bytes_find_last_byte(struct bytes a, uint8_t c)
{
    return a.len > 0 ? memrchr(a.data, c, a.len) : NULL;
}

static inline const uint8_t *bytes_find_byte(struct bytes a, uint8_t c)
{
    return a.len == 0 ? NULL : memchr(a.data, c, a.len);
}

/* Without the spaces, tabs, CRs and newlines at both ends. */
struct bytes bytes_trim(struct bytes a);

/* Takes the next line off *rest, without its "\n" or "\r\n". False at the end. */
bool bytes_next_line(struct bytes *rest, struct bytes *ret_line);

/*
 * Whole-string numbers: true and *ret set only when all of `a` is one number in range.
 * Hex takes an optional 0x.
 */
bool bytes_to_u64(struct bytes a, uint64_t *ret);
bool bytes_to_i64(struct bytes a, int64_t *ret);
bool bytes_to_hex(struct bytes a, uint64_t *ret);
bool bytes_to_double(struct bytes a, double *ret);

/* "64MiB", "4k", "1GB", "123": K, M, G and T are powers of 1024 however they are spelled. */
bool bytes_to_size(struct bytes a, uint64_t *ret);

/* "250ms", "30s", "5m", "1h30m", "2d", "1w", "1y" (365 days), in nanoseconds. */
bool bytes_to_duration(struct bytes a, int64_t *ret);

/* How many letters must be put in, left out or changed to make b of a, for "did you mean". SIZE_MAX
 * when one is longer than 64. */
size_t bytes_distance(struct bytes a, struct bytes b);

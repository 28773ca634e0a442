#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/error.h"
#include "symbols/elf_file.h"

/*
 * A large part of a file that is read here and there: room for all of it is set aside, at addresses
 * that stay, but only what lazy_bytes_need() was called for is there, and only until
 * lazy_bytes_trim(). What could not be read is zeros, and `failed` is set.
 */
struct lazy_bytes {
    const struct elf_file *file;
    uint64_t offset; /* in the file */
    uint8_t *data;
    size_t size;
    uint8_t *is_there; /* by piece */
    size_t n_there;    /* pieces */
    bool failed;
};

#define LAZY_PIECE ((size_t)16 << 10)

/* -EBADMSG when the part is not inside the file, -ENOMEM. The file must outlive it. */
int lazy_bytes_open(struct lazy_bytes *l, const struct elf_file *f, uint64_t offset, uint64_t size,
                    struct error *err);
void lazy_bytes_close(struct lazy_bytes *l); /* a zeroed one is fine */

/* Reads what is missing of n bytes at p; what lies outside is not touched. */
void lazy_bytes_need(struct lazy_bytes *l, const uint8_t *p, size_t n);

/* Gives memory back once it is more than a few megabytes. */
void lazy_bytes_trim(struct lazy_bytes *l);

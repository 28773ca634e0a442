#pragma once

#include "base/budget.h"
#include "base/bytes.h"
#include "base/error.h"
#include "symbols/elf_file.h"

/*
 * A part of a file, read in pieces: at most SECTION_WINDOW_BYTES of it are in memory at a time.
 * Meant for going through it from front to back.
 */
#define SECTION_WINDOW_BYTES ((size_t)256 << 10)

struct section_window {
    struct elf_file *file;
    uint64_t offset, size; /* in the file */
    struct bytes all;      /* of files that are in memory, or unpacked: all of it */
    uint8_t *piece;
    uint64_t piece_at; /* within the part */
    size_t piece_len;
};

/* -EBADMSG when the part is not inside the file, -ENOBUFS; the window is zeroed then. The file must
 * outlive the window. */
int section_window_open(struct section_window *w, struct elf_file *f, uint64_t offset,
                        uint64_t size, struct error *err);
/* Of bytes that are there already. */
void section_window_of(struct section_window *w, struct elf_file *f, struct bytes all);
void section_window_close(struct section_window *w); /* a zeroed one is fine */

/* Bytes [at, at + n), or fewer at the end; they stay until the next call. n is at most
 * SECTION_WINDOW_BYTES. -EBADMSG when the file was cut short, or an errno of the file system. */
int section_window_get(struct section_window *w, uint64_t at, size_t n, struct bytes *ret,
                       struct error *err);

/* The same into the caller's room, leaving the window where it is. */
int section_window_copy(struct section_window *w, uint64_t at, size_t n, uint8_t *to,
                        struct bytes *ret, struct error *err);

#pragma once

#include <stddef.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/error.h"

/*
 * One block of bytes as one zstd frame. Whoever keeps it knows how long it was: nothing is unpacked
 * that could be larger than that. Each thread keeps its working memory until it ends.
 */

/* Appends `in` packed to `out`; level 1 (fast) to 19 (small). -ENOMEM, or -ENOBUFS when the budget
 * of `out` is spent; `out` is then as it was. */
int zstd_pack(struct bytes in, int level, struct buf *out);

/* Unpacks into `to`, which has room for original_len bytes. -EBADMSG when it is damaged or not as
 * long as that. */
int zstd_unpack(struct bytes in, size_t original_len, void *to, struct error *err);

/* The same of one block of zlib's format, as compressed sections of ELF files have it. */
int zlib_unpack(struct bytes in, size_t original_len, void *to, struct error *err);

#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "symbols/binary.h"
#include "symbols/lookup.h"

/*
 * Answers of earlier runs, one file per build id: address -> frames. A file is only believed when
 * its checksum holds and it was made from the very same binary and debug file (names, sizes,
 * times); anything else is ignored and replaced. Files are at most SYMBOL_CACHE_FILE_MAX long; a
 * folder that holds more than SYMBOL_CACHE_TOTAL_MAX loses its oldest files.
 *
 * The layout (numbers are little-endian, texts are NUL-terminated):
 *
 *     "vesta-symbols-1\n"  u64 checksum of all that follows
 *     u32 length of stamp, stamp         what the answers were made from
 *     u32 number of texts, texts         text 0 is ""
 *     u32 number of addresses, each:     u64 address, u32 frames, and per frame, innermost first,
 *                                        u32 name, file, line, column, start line
 */
#define SYMBOL_CACHE_FILE_MAX  ((size_t)32 << 20)
#define SYMBOL_CACHE_TOTAL_MAX ((size_t)512 << 20)

struct symbol_cache;

/* -ENOENT when the binary has no build id to be known by. Makes the folder when it is missing. */
int symbol_cache_open(const char *dir, struct binary *b, struct symbol_cache **ret);
void symbol_cache_close(struct symbol_cache *c); /* NULL is fine */
DEFINE_CLEANUP(struct symbol_cache *, symbol_cache_close)

/* True when the address is known; *ret is then its frames (or NULL: known to have none), valid
 * until symbol_cache_close(). */
bool symbol_cache_get(const struct symbol_cache *c, uint64_t va, struct code_frame **ret);

/* The frames are borrowed until symbol_cache_save(). */
void symbol_cache_put(struct symbol_cache *c, uint64_t va, struct code_frame *innermost);

/* Writes the file anew if something was put; other runs see the old or the new one, never half. */
int symbol_cache_save(struct symbol_cache *c);

#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "segment/block.h"

/*
 * Blocks of files kept for the next reader, the least recently used dropped first. It never holds
 * more bytes than its limit; a block that was dropped lives on for those who still use it.
 *
 * Thread-safe. A reader that misses reads the block itself, checks it, and puts it here:
 *
 *     struct block *b = block_cache_get(cache, file, offset);
 *     if (!b) { b = ...; block_cache_put(cache, file, offset, b); }
 *     ...
 *     block_unref(b);
 */
struct block_cache;

/* NULL when there is no memory. */
struct block_cache *block_cache_new(size_t limit_bytes);
void block_cache_free(struct block_cache *c); /* NULL is fine */
DEFINE_CLEANUP(struct block_cache *, block_cache_free)

/* A reference to the block, or NULL. */
struct block *block_cache_get(struct block_cache *c, uint64_t file, uint64_t offset);

/* Keeps a reference of its own, unless the block is there already or too large. */
void block_cache_put(struct block_cache *c, uint64_t file, uint64_t offset, struct block *b);

/* Drops all blocks of a file, which was removed or replaced. */
void block_cache_forget(struct block_cache *c, uint64_t file);

/* Drops what was used least until at most `limit_bytes` are held, now and from now on. */
void block_cache_set_limit(struct block_cache *c, size_t limit_bytes);

struct block_cache_stats {
    size_t n_blocks;
    size_t bytes; /* with what keeping them costs */
    size_t limit;
    uint64_t hits, misses;
};

struct block_cache_stats block_cache_stats(struct block_cache *c);

#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/fs.h"
#include "segment/block.h"

/*
 * A file of blocks, written once and then immutable: DIR/ID.seg. What the blocks mean is the
 * caller's; so is remembering where they stand (struct block_ref). One of them, the footer, is
 * found from the end of the file: it holds the refs of the others. The layout is in block_file.c.
 *
 * A damaged file is never more than an error (-EBADMSG) that names the file and what is wrong.
 */
#define BLOCK_FILE_VERSION 1

/* The largest block, packed or not. */
#define BLOCK_BYTES_MAX ((uint32_t)64 << 20)

/* Where a block stands. Whoever refers to a block stores this, so that a reference also checks what
 * it refers to. */
struct block_ref {
    uint64_t offset;
    uint32_t len;     /* in the file */
    uint32_t raw_len; /* 0: stored as it is, else zstd of this many bytes */
    uint64_t sum;     /* checksum64 of what is in the file */
};

#define BLOCK_REF_BYTES 24
void block_ref_encode(struct block_ref ref, uint8_t to[BLOCK_REF_BYTES]);
struct block_ref block_ref_decode(const uint8_t from[BLOCK_REF_BYTES]);

/* Of the content. */
static inline uint32_t block_ref_size(struct block_ref ref)
{
    return ref.raw_len ? ref.raw_len : ref.len;
}

/*
 * Writing. Not thread-safe. The file is DIR/tmp-ID until block_writer_finish() has synced it,
 * renamed it to DIR/ID.seg and synced DIR. block_writer_free() without that removes it. Uses about
 * 256 KiB and what packing one block takes.
 */
struct block_writer;

int block_writer_new(struct fs *fs, const char *dir, uint64_t id, uint16_t kind,
                     struct block_writer **ret, struct error *err);
void block_writer_free(struct block_writer *w); /* NULL is fine */
DEFINE_CLEANUP(struct block_writer *, block_writer_free)

/* Adds a block, packed when may_pack and that makes it smaller. -EFBIG over BLOCK_BYTES_MAX. After
 * any other error the writer is of no more use. */
int block_writer_add(struct block_writer *w, struct bytes content, bool may_pack,
                     struct block_ref *ret, struct error *err);

/* The bytes of the file so far. */
uint64_t block_writer_bytes(const struct block_writer *w);

/* Adds the footer and makes the file what it will be. *ret_bytes is its size. */
int block_writer_finish(struct block_writer *w, struct bytes footer, uint64_t *ret_bytes,
                        struct error *err);

/*
 * Reading. An open file may be used by any number of threads. Opening reads the last bytes only.
 */
struct block_file;
struct block_cache; /* segment/block_cache.h */

/* -EBADMSG when it is not a file of this id, kind and version, or cut, or larger than it was. */
int block_file_open(struct fs *fs, const char *dir, uint64_t id, uint16_t kind,
                    struct block_file **ret, struct error *err);
void block_file_close(struct block_file *f); /* NULL is fine */
DEFINE_CLEANUP(struct block_file *, block_file_close)

uint64_t block_file_id(const struct block_file *f);
uint64_t block_file_bytes(const struct block_file *f);
struct block_ref block_file_footer(const struct block_file *f);

/* The block, from the cache (NULL: none) or the file. The caller gets a reference. -EBADMSG when
 * the ref does not fit the file or the content is not what it was. */
int block_file_read(struct block_file *f, struct block_ref ref, struct block_cache *cache,
                    struct block **ret, struct error *err);

/* What opening does not look at: the first bytes. */
int block_file_check_header(struct block_file *f, struct error *err);

/* Reads every byte of the file and checks them against the checksum of the whole: finds a change
 * anywhere, without knowing what the blocks mean. */
int block_file_check_all(struct block_file *f, struct error *err);

#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/fs.h"
#include "wire/inflate.h"

/*
 * Requests that could not be sent yet, kept as files of one folder: first in, first out, over
 * restarts. Each file has a checksum and is written whole or not at all. What is over the cap is
 * made room for by dropping the oldest. Belongs to one thread, and the folder to one spool at a
 * time.
 */
struct spool;

#define SPOOL_FILES_MAX 65536

struct spool_item {
    enum codec codec; /* how `packed` is packed */
    size_t raw_len;   /* unpacked */
    struct bytes packed;
    uint64_t number; /* of its file; set by spool_peek() */
};

/* Whoever counts. */
struct spool_counts {
    uint64_t files, bytes; /* there now */
    uint64_t kept;         /* ever put in, by us */
    uint64_t dropped;      /* of these and older ones: no room */
    uint64_t damaged;      /* files that could not be read */
};

/* The folder `dir` of `fs`, made where it is not there; -EBUSY when another has it. `fs` must
 * outlive the spool. */
int spool_open(struct fs *fs, const char *dir, uint64_t max_bytes, struct spool **ret,
               struct error *err);
void spool_close(struct spool *s); /* NULL is fine; what is in it stays */
DEFINE_CLEANUP(struct spool *, spool_close)

/* Puts one behind the others, durably. -ENOSPC, -EIO...: it is not in; -EFBIG: larger than the cap.
 * Dropping others for it is not a failure. */
int spool_put(struct spool *s, const struct spool_item *item, struct error *err);

/* The oldest, borrowed until the next call: 1, or 0 when there is none. Files that are damaged, or
 * cannot be read, are removed and counted on the way. */
int spool_peek(struct spool *s, struct spool_item *ret);

/* Removes the one that spool_peek() gave, unless it has been dropped since. */
void spool_remove(struct spool *s, uint64_t number);

void spool_counts(const struct spool *s, struct spool_counts *ret);

#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/fs.h"

/*
 * A file that grows by chunks: dictionaries, series. How much of it counts is not in the file: the
 * manifest names a length, and what stands behind it (a chunk whose manifest was never written) is
 * written over by the next chunk. The layout is in chunk_log.c.
 *
 * One thread appends at a time; reading up to a length that was returned needs no lock.
 */
#define CHUNK_LOG_VERSION 1

/* The largest chunk, packed or not. */
#define CHUNK_BYTES_MAX ((uint32_t)64 << 20)

struct chunk_log {
    struct fs *fs;
    const char *path; /* "dict/0000000012.dict" */
    uint64_t id;      /* ties the content to the file */
};

/*
 * Writes a chunk at `at`, packed when that makes it smaller, and makes it durable. `at` is the
 * length that counts: 0 begins the file (anything of that name goes), else what the last append
 * returned. *ret_end is the new length. After a failure what stood before `at` is as it was.
 * -EFBIG over CHUNK_BYTES_MAX, -EBADMSG when the file is shorter than `at`.
 */
int chunk_log_append(const struct chunk_log *log, uint64_t at, struct bytes payload,
                     uint64_t *ret_end, struct error *err);

/* The same with a list behind it, unless that is empty: what can be read without the chunks, to
 * know whether they have to be. */
int chunk_log_append_listed(const struct chunk_log *log, uint64_t at, struct bytes payload,
                            struct bytes list, uint64_t *ret_end, struct error *err);

struct chunk_visitor {
    /* A chunk at `offset`; the payload is borrowed until this returns. Anything but 0 ends the
     * reading and is returned by it. */
    int (*chunk)(void *arg, uint64_t offset, struct bytes payload, struct error *err);
    void *arg;
    int (*list)(void *arg, uint64_t offset, struct bytes list, struct error *err); /* or NULL */
};

struct chunk_report {
    uint64_t n_chunks;  /* lists too */
    uint64_t n_bad;     /* damaged places, a chunk or more each */
    uint64_t first_bad; /* offset of the first */
    uint64_t bad_bytes; /* in them; what the file lacks included */
    uint64_t good_end;  /* behind the last good chunk */
    bool is_header_bad; /* the first bytes of the file are damaged; its chunks need them not */
};

static inline bool chunk_report_is_clean(const struct chunk_report *r)
{
    return r->n_bad == 0 && !r->is_header_bad;
}

/*
 * Calls back for each good chunk before `end`, in order. Damage is no error, but told in *ret,
 * which is right as far as reading came when this fails. -EPROTONOSUPPORT for a version that this
 * program does not know.
 */
int chunk_log_read(const struct chunk_log *log, uint64_t end, struct chunk_visitor visitor,
                   struct chunk_report *ret, struct error *err);

/* Calls visitor.list for each list before `end`, in order, and steps over the chunks unread. Damage
 * in its way is -EBADMSG. */
int chunk_log_read_lists(const struct chunk_log *log, uint64_t end, struct chunk_visitor visitor,
                         struct error *err);

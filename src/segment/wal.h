#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/fs.h"

/*
 * The write-ahead log: DIR/ID.wal, records appended in groups, each group durable with one sync.
 * What records mean is the caller's; the layout is in wal.c.
 *
 * A file is written by one process and never continued by another: after a crash it is read, and a
 * new one is begun.
 */
#define WAL_VERSION 1

/* The longest payload of a record. */
#define WAL_RECORD_BYTES_MAX ((uint32_t)64 << 20)

/*
 * Writing: one thread at a time.
 *
 *     wal_add(...); wal_add(...); r = wal_commit(wal, &err);
 *
 * A log that cannot know what is on disk is dead: it takes nothing any more, says so, and there is
 * no way back but to open the store again.
 */
struct wal;

/* Makes the file and its name durable. -EEXIST when it is there. */
int wal_create(struct fs *fs, const char *dir, uint64_t id, struct wal **ret, struct error *err);

/* Drops what was not committed. NULL is fine. */
void wal_free(struct wal *w);
DEFINE_CLEANUP(struct wal *, wal_free)

/* Adds a record to the group. -EFBIG when it is over WAL_RECORD_BYTES_MAX. */
int wal_add(struct wal *w, uint8_t type, uint64_t seq, struct bytes payload, struct error *err);

/* The size of the group so far. */
size_t wal_group_bytes(const struct wal *w);

/* Drops the group. */
void wal_drop(struct wal *w);

/*
 * Writes the group with one write and one sync. When this fails none of its records counts (though
 * after a crash some may be found), and the group is dropped. After a failed write the log can be
 * used again if the file could be cut to what it was; after a failed sync it is dead.
 */
int wal_commit(struct wal *w, struct error *err);

bool wal_is_dead(const struct wal *w);

/* The size of the file: what was committed. */
uint64_t wal_bytes(const struct wal *w);
uint64_t wal_id(const struct wal *w);

/*
 * Reading.
 *
 * Damage costs the records that it touches and no others: reading goes on at the next record whose
 * checksums hold. Damage with nothing good behind it is a torn tail: what was being written when
 * the process or the machine stopped, so nothing that was acknowledged, unless the disk lost it.
 * Records of other files, left on the disk, are not accepted.
 */
struct wal_record {
    uint64_t seq;
    uint64_t offset; /* in the file */
    uint8_t type;
    struct bytes payload; /* until the callback returns */
};

struct wal_visitor {
    /* Anything but 0 ends the reading and is returned by it. */
    int (*record)(void *arg, const struct wal_record *record, struct error *err);
    void *arg;
};

struct wal_report {
    uint64_t n_records;
    uint64_t bytes;         /* of the file */
    uint64_t n_skipped;     /* damaged places with good records behind, a record or more each */
    uint64_t skipped_bytes; /* in them */
    uint64_t torn_bytes;    /* of the tail; zeros at the end of the file do not count */
    bool is_cut;            /* the tail is the beginning of a record: what a write leaves that was
                               stopped; bytes that changed later do not look like that */
    uint64_t good_bytes;    /* up to the end of the last good record */
    bool is_header_bad;     /* the first bytes of the file are damaged; its records need them not */
};

/*
 * Calls back for each good record in the order of the file. Memory: about the largest record, at
 * least 1 MiB. Damage is no error, but told in *ret, which is filled in as far as reading came even
 * on failure: -EPROTONOSUPPORT for a version that this program does not know, else what the file
 * system or the callback said.
 */
int wal_read(struct fs *fs, const char *dir, uint64_t id, struct wal_visitor visitor,
             struct wal_report *ret, struct error *err);

#pragma once

#include "base/buf.h"
#include "store_local/local_internal.h"
#include "store_local/records.h"

/*
 * Group commit: records wait in a queue; the first thread that finds nobody writing takes all of
 * them, writes and syncs them as one, links each, and wakes the others.
 *
 *     struct commit_item item = {0};
 *     struct buf *b = commit_begin(&item);  ...encode...  commit_end(&item, RECORD_X);
 *     r = commit_run(l, &item, err);        0: durable and linked; item.records[i].linked
 *     commit_item_done(&item);
 *
 * A failed write fails everything that waits, also what came later: it may refer to definitions in
 * what failed. A failed sync stops writing for good. Rotation happens only between groups.
 */
struct commit_record {
    enum record_type type;
    size_t offset, len; /* in the item's bytes */
    uint64_t seq;
    int linked; /* 0, 1 when it was there already, or why it could not be linked */
};

struct commit_item {
    struct commit_item *next;
    struct buf bytes;
    struct commit_record *records;
    size_t n_records, cap_records;
    bool is_done;
    int result;
    struct error err;
};

struct commit *commit_new(void);
void commit_free(struct commit *c); /* NULL is fine */

/* Where the next record is to be encoded, then what it is. */
struct buf *commit_begin(struct commit_item *item);
void commit_end(struct commit_item *item, enum record_type type);
void commit_item_done(struct commit_item *item);

/* With local->lock held, which is released while it waits or writes. 0, or what made it fail: then
 * nothing of it is visible. */
int commit_run(struct local *l, struct commit_item *item, struct error *err);

/*
 * Freezes `head`: it becomes `frozen`, whose rows are in WALs up to `frozen_wal`, and a new head
 * begins. Waits until no group is being written. With both locks held and nothing frozen. -EROFS
 * when writing has stopped. Returns 1, or 0 when there was nothing: no rows and no WAL. A WAL of
 * which nothing became visible counts: it may hold definitions that others rely on, and second
 * copies of profiles, which must not be found again once the first ones are erased.
 */
int local_rotate(struct local *l, struct error *err);

/*
 * Installs a version that version_prepare() made and that holds what was frozen, drops `frozen`,
 * and deletes the WALs up to version->flushed_wal. With upkeep_lock held, without the lock.
 */
void local_flushed(struct local *l, struct version *version);

/* Treats as not yet logged whatever no file but a WAL has: after a failed write, and after a
 * restart, since what was read from a WAL may never have been synced. With the lock held. */
void local_forget_logged(struct local *l);

/* Waits until no group is being written, and lets none begin until commit_resume(). With the lock
 * held. */
void commit_pause(struct local *l);
void commit_resume(struct local *l);

#pragma once

#include "base/buf.h"
#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "store_local/local_internal.h"

/*
 * Versions: what the manifest says, in memory. A version never changes once it is published; a
 * change makes a new one from the current one and an edit, writes it as the manifest, and swaps it
 * in. A reader holds the version it began with, and with it every file that version names: a file
 * that left the manifest is unlinked when the last version naming it goes.
 *
 * Only the holder of `upkeep_lock` publishes (and recovery, before there is anybody else), so a
 * publisher may read l->version without the lock. Live versions form a list from l->version through
 * `older`.
 */
#define VERSION_FORMAT 1

/* An empty one with one reference, for a new directory. */
struct version *version_new(void);

/* The manifest's content. */
void version_encode(const struct version *v, struct buf *out);

/*
 * -EBADMSG saying what is wrong; -EPROTONOSUPPORT naming both formats when it was written by a
 * newer one. *ret has one reference, which becomes l->version's.
 */
int version_decode(struct bytes content, struct version **ret, struct error *err);

/* The current version with a reference; takes the lock. */
struct version *version_acquire(struct local *l);
/* The same with the lock held. */
struct version *version_ref(struct version *v);

/* Gives a reference back; takes the lock, and unlinks outside it what nobody needs any more. NULL
 * is fine. */
void version_release(struct local *l, struct version *v);

/* Frees a version that was decoded and never became l->version. NULL is fine. */
void version_discard(struct version *v);
DEFINE_CLEANUP(struct version *, version_discard)

/* What changes. Ids and pointers are borrowed for the call; added segments are taken over when it
 * succeeds. */
struct version_edit {
    struct segment *const *add;
    size_t n_add;
    const struct segment *const *remove; /* of the current version: they are condemned */
    size_t n_remove;

    const struct epoch_entry *epochs; /* new, or in place of those with the same id */
    size_t n_epochs;
    const uint64_t *dead_epochs; /* their files are unlinked once the manifest is written */
    size_t n_dead_epochs;

    const struct tenant_entry *tenants; /* new, or in place of those with the same id */
    size_t n_tenants;

    const struct tombstone *tombstone; /* NULL: none; its seq is the current tombstone_seq + 1 */
    bool prunes_tombstones; /* drops those that have been applied to every segment they concern */

    uint64_t flushed_wal; /* 0: as it is */
    uint64_t disk_limit;  /* 0: as it is */
};

/*
 * Writes the manifest of the new version and swaps it in. Call with upkeep_lock held and the lock
 * not. On failure nothing has changed in memory; on disk the manifest is the old one or, when only
 * the last sync failed, perhaps the new one: then writing has stopped for good (local_die()).
 */
int version_publish(struct local *l, const struct version_edit *edit, struct error *err);

/*
 * The same in two steps, for whoever must change something else in the same moment (a flush drops
 * its memtable): version_prepare() writes the manifest, version_install() swaps, with the lock
 * held, and yields the version before, to be given to version_release() without the lock. What was
 * prepared must be installed.
 */
int version_prepare(struct local *l, const struct version_edit *edit, struct version **ret,
                    struct error *err);
struct version *version_install(struct local *l, struct version *v);

/* A number for a new file; with the lock held. */
uint64_t local_new_id(struct local *l);

/* Frees a segment that never was in a version. NULL is fine. */
void segment_free(struct segment *s);
DEFINE_CLEANUP(struct segment *, segment_free)

/* Whether any live version has a segment of this epoch; with the lock held. */
bool version_uses_epoch(const struct local *l, uint64_t epoch);

const struct epoch_entry *version_epoch(const struct version *v, uint64_t id);
const struct tenant_entry *version_tenant(const struct version *v, uint32_t id);

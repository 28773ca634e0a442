#pragma once

#include "base/buf.h"
#include "store_local/local_internal.h"

/*
 * An epoch: the names, places and stacks of one service for some time, in a dictionary that only
 * grows. Rows refer to it by node and attribute set; ids never change. See local_internal.h for the
 * struct. Everything here is called with local->lock held unless it says otherwise.
 */

/* With an empty dictionary that is resident. */
struct epoch *epoch_new(uint64_t id, uint32_t tenant, struct bytes service, int64_t created_ns);
/* One that the manifest names; its dictionary is not read before it is needed. */
struct epoch *epoch_new_in_file(const struct epoch_entry *entry);
/* No reader may be left. NULL is fine. */
void epoch_free(struct epoch *e);
DEFINE_CLEANUP(struct epoch *, epoch_free)

/* The epoch of this id, or NULL. */
struct epoch *local_epoch(struct local *l, uint64_t id);
/* Makes it known to the store, which owns it from now on. False when there is no memory. */
bool local_add_epoch(struct local *l, struct epoch *e);

/*
 * Makes the dictionary resident, reading its file where it is not. Releases the lock while reading:
 * what the caller knew of other state may have changed. The epoch cannot be evicted before the
 * matching epoch_release().
 */
int epoch_acquire(struct local *l, struct epoch *e, struct error *err);
void epoch_release(struct local *l, struct epoch *e);

/*
 * A copy of the dictionary's tables as they are now, of an acquired epoch: its vecs may be read
 * without the lock until epoch_release(), while others add to the epoch. Its indexes may not be
 * used: nothing may be looked up or added through a view.
 */
struct dict epoch_view(const struct epoch *e);

/* The bytes of memory it takes. */
size_t epoch_bytes(const struct epoch *e);

/* Whether its dictionary could be dropped: all of it is in its file and nobody reads it. */
bool epoch_is_idle(const struct epoch *e);
/* Drops dictionaries of idle epochs, the least recently used first, until `want` bytes came back.
 * Returns how many did. */
size_t local_evict_epochs(struct local *l, size_t want);

struct epoch_mark epoch_mark_of(const struct dict *d);
bool epoch_mark_equal(const struct epoch_mark *a, const struct epoch_mark *b);
/* Every table of a is at least as long as that of b. */
bool epoch_mark_covers(const struct epoch_mark *a, const struct epoch_mark *b);
void epoch_mark_max(struct epoch_mark *to, const struct epoch_mark *other);

/*
 * What was added between two marks, as bytes: a record of the WAL, or a chunk of the dictionary's
 * file. Reads only elements below `to`, so that a view does. The layout is in epoch_codec.c.
 */
void epoch_encode(const struct dict *d, const struct epoch_mark *from, const struct epoch_mark *to,
                  struct buf *out);

/* The marks at the front of such bytes. */
int epoch_encoded_marks(struct bytes in, struct epoch_mark *ret_from, struct epoch_mark *ret_to);

/*
 * Adds what such bytes hold. Elements that are there already are not looked at. -EBADMSG when the
 * bytes are malformed or begin beyond the end of the dictionary (-ESTALE: something before them is
 * missing), -ENOBUFS when the dictionary's budget is spent. The dictionary may have grown by then,
 * but is sound.
 */
int epoch_apply(struct epoch *e, struct bytes in, struct error *err);

/* Brings the hashes up to the dictionary. False when the budget is spent. */
bool epoch_update_hashes(struct epoch *e);

/* A mapping of the same binary (build id or else file, offset, size in pages), whose start may
 * differ; 0 when there is none. `m` is in ids of the epoch. */
uint32_t epoch_find_binary(struct epoch *e, const struct mapping *m);

/* Mixes numbers into a hash that is the same everywhere and always. */
static inline uint64_t stable_mix(uint64_t a, uint64_t b)
{
    unsigned __int128 m = (unsigned __int128)(a ^ 0x9E3779B97F4A7C15u) * (b ^ 0xD1B54A32D192ED03u);
    return (uint64_t)m ^ (uint64_t)(m >> 64);
}

/* Reads dict/ID.dict up to file_len into `into`, without the lock; damage goes to the log and what
 * was read before it stays. Used by epoch_acquire(). */
int epoch_read_file(struct local *l, struct epoch *into, uint64_t file_len, struct error *err);

#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "base/arena.h"
#include "base/budget.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/idset.h"
#include "base/random.h"
#include "base/vec.h"
#include "profile/dict.h"
#include "store/store.h"
#include "store_local/local.h"

/*
 * How the embedded store hangs together: who owns what, and under which lock. Only store_local
 * includes this. The parts, each in its own file:
 *
 *     epoch       one dictionary: a service's names and stacks
 *     epoch_names    which functions it has, without reading it
 *     series_table   a tenant's series
 *     memtable    rows not yet in a segment
 *     source_map  a source's names and stacks as those of an epoch
 *     append      prepare     commit   one write for many     link   what makes records visible
 *     recover     opening: the manifest, then the WAL through the same link
 *     version     what the manifest names: segments, epochs, tenants, tombstones
 *     part        the layout of a segment of profiles  flush, compact, rollup write them
 *     aggregate   sums over a snapshot                 found   single profiles
 *     spans       the span table
 *
 * `local->lock` guards everything here that is not said to be immutable. It is never held while
 * something is written or synced.
 */
#define HOUR_NS   ((int64_t)3600 * 1000000000)
#define DAY_NS    (24 * HOUR_NS)
#define MINUTE_NS ((int64_t)60 * 1000000000)

/* Hours that are told apart when something changes: six weeks. */
#define CHANGE_HOURS 1024

#define EPOCH_NODES_MAX     (1u << 18)
#define EPOCH_BYTES_MAX     ((size_t)24 << 20)
#define EPOCH_AGE_MAX_NS    DAY_NS
#define EPOCH_ATTR_SETS_MAX 4096

/* How many elements each table of a dictionary has. */
struct epoch_mark {
    uint32_t strings, functions, mappings, locations, lines, attributes, attr_sets, attr_ids, nodes;
};

struct epoch {
    uint64_t id;
    uint32_t tenant; /* id */
    char *service;
    int64_t created_ns;

    /* NULL while not resident. Its budget is in keep mode. */
    struct dict *dict;
    struct budget budget;
    struct budget_keep keep;
    /* Stable hashes, the same in every epoch and process. Guarded by the lock: not for views. */
    VEC(uint64_t) node_hash; /* of whole stacks */
    VEC(uint64_t) location_hash, attrs_hash;
    struct idset binaries; /* mappings by what they are, wherever they were loaded */
    uint32_t binaries_seen;

    struct epoch_mark logged, durable, flushed;
    bool is_defined_logged, is_defined_durable; /* its EPOCH record */
    bool is_damaged;    /* part of its file could not be read: nothing is added to it any more */
    uint64_t file_len;  /* of dict/ID.dict, as the manifest has it */
    uint32_t readers;   /* views of it may be in use */
    uint32_t pins;      /* appends about to add to it: must stay resident */
    bool is_loading;    /* somebody reads the file; `committed` is signalled then */
    int64_t used_at;    /* monotonic: for eviction */
    uint32_t memtables; /* unflushed memtables with rows in it */
};

/* One series of a tenant, or a group of series. Immutable but for the marked fields. */
struct series {
    uint32_t id;    /* from 1, per tenant */
    uint32_t group; /* the series that sums up this one's group; 0: none */
    bool is_group, is_instant;
    const struct label *labels;
    uint32_t n_labels, n_types;
    const struct store_type *types;
    struct store_type period_type;
    uint64_t hash;

    bool is_logged, is_durable, is_flushed; /* its SERIES record (lock) */
    int64_t max_start_ns; /* no row of it starts later, anywhere (lock); INT64_MAX: not known */
};

struct series_table; /* series_table.h */

struct service {
    char *name;
    struct epoch *open; /* receives appends; NULL: none yet */
};

/*
 * Where a tenant's data begin: what starts earlier was removed and never comes back, whatever the
 * clock says later. They only rise.
 */
struct floors {
    int64_t profiles_ns, spans_ns; /* 0: nothing was removed yet */
};

struct tenant {
    uint32_t id; /* from 1 */
    char *name;
    struct series_table *series;
    VEC(struct service) services;
    struct store_policy policy; /* zeros: the defaults */
    struct floors floors;       /* as the manifest has them */
    bool is_logged, is_durable, is_flushed;
    uint64_t series_file_len; /* of series/ID.series, as the manifest has it */
};

/*
 * A profile in memory. Immutable once linked; lives in its memtable's arena. The payload is what a
 * segment will hold, byte for byte.
 */
struct row {
    const struct row *older; /* of the same series and memtable, linked before this one */
    uint64_t seq;
    struct epoch *epoch;
    int64_t start_ns, duration_ns, period;
    uint64_t content_hash;
    uint8_t id[16];
    bool has_id;
    uint32_t n_samples;
    const int64_t *totals; /* per type of the series */
    struct bytes payload;  /* per attribute set: varint id, run (segment/run.h) */
    struct bytes side;     /* links and times (store_local/side.h); empty: none */
};

struct memtable;    /* memtable.h */
struct wal;         /* segment/wal.h */
struct block_cache; /* segment/block_cache.h */
struct pool;        /* base/pool.h */

enum segment_kind { SEGMENT_PROFILES = 1, SEGMENT_SPANS = 2 };

/* A file that the manifest names. Immutable but for refs, opened lazily. */
struct segment {
    uint32_t refs;     /* versions and snapshots that hold it (lock) */
    bool is_condemned; /* unlink when refs reach 0 (lock) */
    uint64_t id;
    enum segment_kind kind;
    struct span_file *_Atomic spans; /* of kind spans: span_file.h; opened by the first reader */
    uint32_t tenant;
    uint8_t tier;
    int64_t window_start_ns, window_len_ns;
    int64_t min_ns, max_ns; /* of starts */
    uint64_t n_rows, n_samples, bytes;
    uint64_t tombstone_seq; /* tombstones up to this one have been applied to it */
    uint64_t *epochs;
    uint32_t n_epochs;
    struct segment_file *_Atomic file; /* part.h; opened by the first reader */
    atomic_bool is_bad;                /* could not be opened: named once in the log */
    bool is_damaged;                   /* a merge met damage in it: left out of later ones (lock) */
};

struct tombstone {
    uint64_t seq;
    uint32_t tenant;
    int64_t from_ns, to_ns;
    char *selector;
};

struct epoch_entry { /* of the manifest */
    uint64_t id, file_len;
    uint32_t tenant;
    char *service;
    int64_t created_ns;
    struct epoch_mark mark;
};

struct tenant_entry {
    uint32_t id;
    char *name;
    uint64_t series_file_len;
    struct store_policy policy;
    struct floors floors;
};

/* What the manifest says. Immutable once published; a new one replaces it whole. */
struct version {
    uint32_t refs;                 /* (lock) */
    struct version *older, *newer; /* the live ones, from local->version (lock) */
    uint64_t generation;
    uint64_t next_id;       /* files and epochs */
    uint64_t flushed_wal;   /* WAL files up to this one are in segments */
    uint64_t tombstone_seq; /* the newest ever given */
    uint64_t disk_limit;    /* chosen when the directory was made */
    VEC(struct segment *) segments;
    VEC(struct tombstone) tombstones;
    VEC(struct epoch_entry) epochs;
    VEC(struct tenant_entry) tenants;
    struct budget budget; /* of these vecs */
};

/* The queue of the group commit: append.c. */
struct commit;

struct local {
    struct store store; /* first: the seam casts */
    struct local_options options;
    struct fs *fs;
    const struct clock *clock;
    struct random random;
    struct fs_file *lock_file;
    struct block_cache *cache;
    struct pool *pool; /* of queries */

    pthread_mutex_t lock;
    pthread_cond_t committed; /* a group was committed, or space came back */

    struct version *version;
    VEC(struct tenant) tenants;
    VEC(struct epoch *) epochs; /* all that the manifest or a memtable knows; ascending id */
    struct memtable *head;
    struct memtable *frozen; /* being flushed, or NULL */
    struct wal *wal;
    struct commit *commit;
    uint64_t next_seq; /* of records */
    uint64_t next_id;
    uint64_t last_wal;   /* the newest there is or was: rows of `head` are in it or older ones */
    bool keeps_unnamed;  /* the manifest is an old one: what it does not name may be data */
    uint64_t frozen_wal; /* rows of `frozen` are in WALs up to this one */

    size_t memory_used;        /* epochs, as of the last append */
    size_t source_bytes;       /* what senders decode into, and its translation */
    int64_t memory_checked_at; /* monotonic */
    bool flush_wanted;         /* memory is short: the next upkeep flushes */
    struct budget budget;      /* tables above; not limited, only counted */

    /* Writing has stopped for good (a failed sync): every append is refused with this. */
    bool is_dead;
    /* What was replayed is not in segments yet: it may be in no file that was synced, so nothing
     * may be answered that relies on it. */
    bool is_unsettled;
    struct error trouble;
    int64_t space_checked_at; /* monotonic */
    bool is_full;

    pthread_mutex_t upkeep_lock; /* one flush or compaction at a time; taken before `lock` */
    pthread_t background;
    bool has_background, is_closing;
    pthread_cond_t wake;

    int64_t trusted_now_ns, trusted_at_mono; /* retention.c: a clock that does not jump */
    uint32_t jump_passes;
    int64_t flushed_at, expired_at; /* monotonic: upkeep.c; 0: not yet */

    uint64_t n_appended, n_duplicates, n_rejected, n_lost;

    /* changes.c: profiles that became visible, counted; the last of each hour (modulo). */
    uint64_t n_changes, hour_changes[CHANGE_HOURS];
};

static inline struct local *local_of(struct store *s)
{
    return (struct local *)s;
}

/* The share of the memory limit that cached blocks may take. */
static inline size_t local_cache_bytes(const struct local *l)
{
    return l->options.memory_limit / 4;
}

/* Beyond this share sources begin anew. */
static inline size_t local_source_bytes(const struct local *l)
{
    return l->options.memory_limit / 4;
}

void local_log(struct local *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Stops writing for good and says why. Takes no lock: call with it held. */
void local_die(struct local *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/*
 * Whether writing has stopped; a sync that failed, whoever asked for it, stops it now. To be asked
 * after one's own sync and before what was synced is shown, answered or relied on to delete
 * something. `why` (NULL: not known) is what is said then. With the lock held.
 */
bool local_is_dead(struct local *l, const struct error *why);
int local_dead_error(const struct local *l, struct error *err); /* -EROFS */

struct tenant *local_tenant(struct local *l, uint32_t id);

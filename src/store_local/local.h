#pragma once

#include "base/clock.h"
#include "base/fs.h"
#include "store/store.h"

/*
 * The embedded store: one data directory, one process that writes it. See docs/store.md for what
 * lies in the directory and why.
 */
#define LOCAL_MAX_AGE_NS      (30 * (int64_t)86400000000000)
#define LOCAL_MAX_SPAN_AGE_NS (7 * (int64_t)86400000000000)

struct local_options {
    struct fs *fs;             /* the data directory; the store takes it over */
    const struct clock *clock; /* NULL: the real one */
    uint64_t seed;             /* of file and other random names; 0: from the system */

    bool read_only;   /* no lock, nothing written: what is in the WAL is replayed into memory */
    bool must_exist;  /* no new store is made */
    bool background;  /* a thread of its own does the upkeep */
    unsigned threads; /* of a query; 0: as many as there are cores, 1: none are made */

    size_t memory_limit;       /* epochs, memtables and cached blocks; default 256 MiB */
    size_t query_memory_limit; /* of one query; default 128 MiB */
    uint64_t disk_limit;       /* 0: 80 % of free + own space when the directory was made */
    uint64_t disk_reserve;     /* refuse writes below this much free space; 0: 64 MiB or 1 % */
    int64_t max_age_ns;        /* 0: LOCAL_MAX_AGE_NS, 30 days */
    int64_t max_span_age_ns;   /* 0: LOCAL_MAX_SPAN_AGE_NS, 7 days */
    int64_t max_future_ns;     /* default 1 hour */
    uint32_t max_series;       /* per tenant; default 100,000 */

    /* What one tenant may have instead; 0: max_series. May be NULL. Called from any thread that
     * appends; must not call the store. */
    uint32_t (*max_series_of)(void *ctx, struct bytes tenant);
    void *max_series_ctx;

    /* What people should know: recovery, retention, trouble. May be NULL. Called from any thread;
     * must not call the store. */
    void (*log)(void *ctx, const char *text);
    void *log_ctx;
};

/*
 * Opens or makes the store. -EBUSY when another process has it, -EPROTONOSUPPORT when it was
 * written by a newer format, -ENOENT with must_exist. The fs is closed with the store, also when
 * this fails.
 */
int local_open(const struct local_options *options, struct store **ret, struct error *err);

/*
 * What needs the directory for itself: -EBUSY when a process has it. Both take over and free the
 * fs. What was done goes to `report`, what is lost by it as bad.
 *
 * local_repair() puts what is damaged or unnamed aside into lost/, keeps every profile and span
 * that can be read, and writes a manifest of what is left, also where there was none; verifying
 * finds the store sound then. local_upgrade() makes a store of an older format one of this
 * program's.
 */
int local_repair(struct fs *fs, store_report_fn report, void *ctx, struct error *err);
int local_upgrade(struct fs *fs, store_report_fn report, void *ctx, struct error *err);

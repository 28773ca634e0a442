#pragma once

#include "store_local/local_internal.h"

/*
 * Checking a data directory: every byte of every file that the manifest names, and everything that
 * one of them says of another. Nothing of an open store is used, only its directory, so the same
 * code serves a store that is being written, one that is read beside its writer, and repair.
 *
 * The work is done in a store that was never opened (local_new()): its version is what the manifest
 * says, its series tables are those of the files, its cache is none, so that what is checked is
 * what is on disk.
 */
struct verify {
    struct local *l;
    store_report_fn report;
    void *ctx;
    uint64_t n_bad;   /* findings so far */
    uint64_t in_file; /* of them in this file: a rotten one does not fill the screen */
    char file[128];   /* empty: none */
    int64_t told_at;  /* monotonic: of the last progress line */
};

/* Findings of one file, whose name stands before each; NULL: of none. */
void verify_begin_file(struct verify *v, const char *name);
void verify_bad(struct verify *v, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Something to know that is no damage. */
void verify_note(struct verify *v, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/*
 * One segment of l->version, or one that repair asks about: all of its bytes, then what they mean,
 * against the manifest's entry, the series tables and the marks of the epochs. 0 when it was
 * looked at (findings are told), -ENOENT when there is no such file, -ENOMEM.
 */
int verify_segment(struct verify *v, struct segment *s, struct error *err);

/*
 * Profiles that stand in two places, which would count twice. on_pair, if not NULL, is called for
 * each instead of telling it.
 */
struct verify_twice {
    struct segment *a, *b; /* a has the lower id, or they are the same */
    uint32_t series;
    int64_t start_ns;
};
typedef void (*verify_twice_fn)(void *arg, const struct verify_twice *twice);
int verify_rows_once(struct verify *v, verify_twice_fn on_pair, void *arg, struct error *err);

/*
 * What a file of names or of series holds; `entry` says how much of it counts. 0, or -ENOENT,
 * -ENOMEM. The names come as an epoch of the caller's, with *ret_good, the length up to which they
 * were read; series go into l's tables.
 */
int verify_dict(struct verify *v, const struct epoch_entry *entry, struct epoch **ret,
                uint64_t *ret_good, struct error *err);
int verify_series(struct verify *v, const struct tenant_entry *entry, struct error *err);

/* store_verify(). */
int local_verify(struct store *s, store_report_fn report, void *ctx, struct error *err);

#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "profile/profile.h"
#include "store/selector.h"

/*
 * The seam between what asks and what keeps: profiles and spans go in, sums come out. A backend
 * implements `struct store_ops`; everything above uses the functions below and knows no backend.
 *
 * Aggregation happens below the seam and answers carry ids of their own (a result-local
 * dictionary), so a remote engine may do the work. All functions may be called from any thread at
 * once, unless said otherwise. Times are nanoseconds since 1970, ranges are [from, to).
 *
 * A *series* is a label set with the sample types that are measured together, their period, and
 * whether values are counted over a window (delta: cpu, allocations) or found at a moment (instant:
 * live heap, goroutines). A profile belongs to one series and wholly to its start time.
 */
struct store {
    const struct store_ops *ops;
};

#define STORE_TENANT_MAX     64 /* [A-Za-z0-9._-], not "." or ".." */
#define STORE_DEFAULT_TENANT "default"

struct store_type {
    struct bytes name, unit;
};

struct store_series {
    uint64_t id;
    const struct label *labels; /* sorted by name */
    size_t n_labels;
    const struct store_type *types;
    size_t n_types;
    struct store_type period_type;
    bool is_instant;
};

/*
 * ---- Appending
 *
 * A source is where one thread decodes into: its set's dictionary lives long, so that the names and
 * stacks which every profile of a process repeats are looked up and translated once. Decode into
 * source->set, append, then store_source_reset(): profiles go, the dictionary stays until it has
 * grown past a limit or the store is short of memory.
 */
enum store_role { STORE_NAMES, STORE_PATHS, STORE_VALUES, STORE_ROLES };

/* By string id of the source's dictionary: the string to keep in its stead, 0 for itself. */
struct store_rewrite {
    const uint32_t *to;
    size_t n;
};

struct store_source {
    struct budget budget;
    struct profile_set *set;
    uint64_t generation; /* changes whenever the dictionary was thrown away */
    bool is_too_large;   /* set by the backend: the next reset throws the dictionary away */
    void *backend;       /* translations, owned by the backend */
    struct store *store;

    /* What is kept of names of functions, of paths, and of values of attributes, for whoever masks
     * them; borrowed. May grow with the dictionary, and change only when that is thrown away. */
    struct store_rewrite rewrites[STORE_ROLES];
};

int store_source_new(struct store *store, size_t memory_limit, struct store_source **ret,
                     struct error *err);
void store_source_reset(struct store_source *source);
void store_source_free(struct store_source *source); /* NULL is fine */
DEFINE_CLEANUP(struct store_source *, store_source_free)

struct store_incoming {
    const struct profile *profile; /* over the source's dictionary */
    const struct label *labels;    /* normalized; must hold service.name */
    size_t n_labels;
    bool is_instant;
    bool has_id;
    uint8_t id[16]; /* OTLP profile_id, a push's ID: the same one twice is stored once */

    /* Without an id, equal content of one moment is stored once; senders whose labels are the same
     * (processes of one container) are told apart by this. The same on every machine. */
    uint64_t sender;
};

enum store_verdict { STORE_STORED, STORE_DUPLICATE, STORE_REJECTED };

struct store_outcome {
    enum store_verdict verdict;
    int code; /* of a rejection: -EINVAL, -ERANGE (its time), -EDQUOT (too many series)... */
    struct error why;
};

/* What a sample was taken in, for correlation. Strings are borrowed for the call. */
struct store_span {
    struct bytes service, name;
    uint8_t trace_id[16], span_id[8], parent_id[8]; /* zero: none */
    int64_t start_ns, duration_ns;
    uint8_t kind, status;           /* OTLP's numbers */
    const struct label *attributes; /* the chosen ones */
    size_t n_attributes;
};

/* ---- Asking */

/* The profiles of a tenant that match in a range. */
struct store_scope {
    struct bytes tenant;
    const struct selector *selector; /* NULL: any */
    int64_t from_ns, to_ns;
};

enum plan_what {
    PLAN_STACKS,    /* one profile per group and step */
    PLAN_TOTALS,    /* one number per group and step, no stacks read */
    PLAN_FUNCTIONS, /* flat and cumulative value per function, group and step */
    PLAN_FUNCTION,  /* flat and cumulative value of the functions named `function`, as numbers */
};

/* What several moments of an instant series mean together. Series are always added up. */
enum plan_instant { INSTANT_AVERAGE, INSTANT_LAST, INSTANT_PEAK, INSTANT_SUM };

struct store_plan {
    struct bytes tenant;
    const struct selector *selector; /* no type: every type of the series that match */
    int64_t from_ns, to_ns;
    int64_t step_ns; /* 0: one step, the whole range; steps are aligned to 1970 */
    enum plan_what what;
    enum plan_instant instant;

    const struct bytes *group_by; /* label names */
    size_t n_group_by;

    /* Sample attributes (thread.name...): all must hold. Those that rollups do not keep make the
     * plan read raw rows. */
    const struct matcher *attributes;
    size_t n_attributes;

    /* Only samples taken in this trace, or this span of it. Reads the side table. */
    bool has_trace, has_span;
    uint8_t trace_id[16], span_id[8];

    struct bytes function; /* PLAN_FUNCTION: a function's exact name */
    bool by_sample_time;   /* PLAN_TOTALS: place samples by their own times where they have one */
    bool raw_only;         /* ignore rollups: for tests and measurements */

    unsigned threads;       /* 0: as many as there are cores */
    size_t memory_limit;    /* 0: the store's default for a query */
    atomic_bool *cancelled; /* may be NULL; looked at every few milliseconds */
};

/* One number, or one profile, of an answer. */
struct store_cell {
    uint32_t group;   /* into groups */
    int64_t start_ns; /* of the step */
    int64_t value;    /* PLAN_TOTALS, PLAN_FUNCTION (cumulative): of the first selected type */
    int64_t flat;     /* PLAN_FUNCTION */
    uint64_t n_profiles;
    struct profile *profile; /* PLAN_STACKS, PLAN_FUNCTIONS: in the answer's set */
};

/*
 * PLAN_FUNCTIONS answers with profiles of single frames: two columns, the type's flat and
 * cumulative value, and a stack of one location for each function name.
 */
struct store_answer {
    struct budget budget;
    struct profile_set *set; /* dictionary and profiles of the cells */
    bool borrows_set;
    VEC(struct label *) groups;   /* n_group_by labels each */
    VEC(struct store_cell) cells; /* by group, then start */

    /* What was read to answer, for people and for tests. */
    uint64_t rows_read, samples_read, blocks_read, rollup_rows_read;
    bool is_incomplete; /* some file could not be read: `trouble` says which */
    struct error trouble;
};

struct store_answer *store_answer_new(size_t memory_limit);
/* An answer into a set that the caller has and keeps. */
struct store_answer *store_answer_over(struct profile_set *set);
void store_answer_free(struct store_answer *answer); /* NULL is fine */
DEFINE_CLEANUP(struct store_answer *, store_answer_free)

/* What a plan would cost, from indexes alone. */
struct store_estimate {
    uint64_t series, rows, samples, bytes;
};

/* A profile as it is kept. Valid during the sink's call. */
struct store_found {
    const struct store_series *series;
    int64_t start_ns, duration_ns, period;
    bool has_id;
    uint8_t id[16];
    const int64_t *totals;         /* per type */
    const struct profile *profile; /* NULL unless asked for; with links and times */
};

/* Sinks return 0 to go on, anything else to stop: that is then the call's result. */
typedef int (*store_found_fn)(void *ctx, const struct store_found *found);
typedef int (*store_span_fn)(void *ctx, const struct store_span *span);
typedef int (*store_series_fn)(void *ctx, const struct store_series *series);

struct store_find {
    struct bytes tenant;
    const struct selector *selector; /* NULL: any */
    int64_t from_ns, to_ns;
    bool has_id, has_trace, has_span;
    uint8_t id[16], trace_id[16], span_id[8];
    bool with_samples;
    enum plan_instant instant; /* with samples, of stores that hand sums over: what moments make */
    size_t limit;              /* 0: none */
    atomic_bool *cancelled;
};

struct store_span_find {
    struct bytes tenant;
    struct bytes service, name; /* empty: any */
    int64_t from_ns, to_ns;
    bool has_trace, has_span;
    uint8_t trace_id[16], span_id[8];
    int64_t min_duration_ns;
    size_t limit; /* 0: none */
    atomic_bool *cancelled;
};

/* ---- Keeping */

struct store_policy {
    int64_t max_age_ns;      /* 0: the store's default */
    int64_t max_span_age_ns; /* 0: the store's default */
    uint64_t max_bytes;      /* 0: the store's default */
};

struct store_stat {
    uint64_t tenants, series, profiles, samples, spans, segments, epochs, tombstones;
    uint64_t disk_bytes, segment_bytes, dict_bytes, wal_bytes, limit_bytes, free_bytes;
    uint64_t head_bytes, head_limit, cache_bytes;
    int64_t first_ns, last_ns;
    uint64_t appended, duplicates, rejected, lost_records; /* since it was opened */
    bool is_read_only;
    char trouble[256]; /* why, when writing has stopped */
};

enum store_upkeep {
    UPKEEP_STEP,   /* the next bounded piece of due work */
    UPKEEP_SETTLE, /* flush, then compact all that may be, ready or not */
    UPKEEP_FLUSH,  /* only what is in memory */
    UPKEEP_EXPIRE, /* only retention */
};

/* A finding of verify: what, where, and whether data is lost by it. */
typedef void (*store_report_fn)(void *ctx, bool is_bad, const char *text);

struct store_ops {
    void (*close)(struct store *s);
    int (*source_attach)(struct store_source *source, struct error *err);
    void (*source_detach)(struct store_source *source);
    /* It may take less memory now than when it was last appended from. */
    void (*source_was_reset)(struct store_source *source);
    int (*append)(struct store_source *source, struct bytes tenant, const struct store_incoming *in,
                  size_t n, struct store_outcome *ret, struct error *err);
    int (*append_spans)(struct store *s, struct bytes tenant, const struct store_span *spans,
                        size_t n, struct error *err);
    int (*series)(struct store *s, const struct store_scope *scope, store_series_fn sink, void *ctx,
                  struct error *err);
    int (*estimate)(struct store *s, const struct store_plan *plan, struct store_estimate *ret,
                    struct error *err);
    int (*aggregate)(struct store *s, const struct store_plan *plan, struct store_answer *ret,
                     struct error *err);
    int (*profiles)(struct store *s, const struct store_find *find, store_found_fn sink, void *ctx,
                    struct error *err);
    int (*spans)(struct store *s, const struct store_span_find *find, store_span_fn sink, void *ctx,
                 struct error *err);
    int (*erase)(struct store *s, const struct store_scope *scope, struct error *err);
    int (*set_policy)(struct store *s, struct bytes tenant, const struct store_policy *policy,
                      struct error *err);
    void (*get_policy)(struct store *s, struct bytes tenant, struct store_policy *ret);
    int (*upkeep)(struct store *s, enum store_upkeep what, struct error *err);
    int (*verify)(struct store *s, store_report_fn report, void *ctx, struct error *err);
    int (*backup)(struct store *s, const char *to_dir, struct error *err);
    void (*stat)(struct store *s, struct store_stat *ret);
    uint64_t (*changes)(struct store *s, const struct store_scope *scope);
};

void store_close(struct store *s); /* NULL is fine; flushes what it can */
DEFINE_CLEANUP(struct store *, store_close)

/*
 * Durable when it returns 0: then every profile has its outcome in ret[0..n). A profile that cannot
 * be taken (no service.name, too far in the future, too many labels...) is rejected alone. On a
 * negative result nothing was stored: -ENOSPC (refused before the disk is full; later tries may
 * succeed), -EAGAIN (the memory budget is full; try again), -EROFS (writing has stopped), -EIO.
 */
int store_append(struct store_source *source, struct bytes tenant, const struct store_incoming *in,
                 size_t n, struct store_outcome *ret, struct error *err);
int store_append_spans(struct store *s, struct bytes tenant, const struct store_span *spans,
                       size_t n, struct error *err);

/* The series that match and have data in the range, in no order. */
int store_series(struct store *s, const struct store_scope *scope, store_series_fn sink, void *ctx,
                 struct error *err);
int store_estimate(struct store *s, const struct store_plan *plan, struct store_estimate *ret,
                   struct error *err);

/* Adds to `ret`, so that two selections may share a dictionary. -ECANCELED when cancelled, -ENOBUFS
 * past the memory limit, which the text names. Nothing found is an answer without cells. */
int store_aggregate(struct store *s, const struct store_plan *plan, struct store_answer *ret,
                    struct error *err);
int store_profiles(struct store *s, const struct store_find *find, store_found_fn sink, void *ctx,
                   struct error *err);
int store_spans(struct store *s, const struct store_span_find *find, store_span_fn sink, void *ctx,
                struct error *err);

/* Hides the profiles that match now (a selector must be given), at once and for good; space comes
 * back with upkeep. Spans are of no series and stay until their age limit
 * (store_policy.max_span_age_ns), also where a selector names only their service. */
int store_erase(struct store *s, const struct store_scope *scope, struct error *err);

/* Replaces a tenant's policy as a whole. -ENOENT before its first profile. */
int store_set_policy(struct store *s, struct bytes tenant, const struct store_policy *policy,
                     struct error *err);

/* What was set; zeros where nothing was. */
void store_get_policy(struct store *s, struct bytes tenant, struct store_policy *ret);

/* 1: did something and there may be more; 0: nothing is due. */
int store_upkeep(struct store *s, enum store_upkeep what, struct error *err);

/* Checks every checksum and reference; bad things go to `report`. 0 sound, -EUCLEAN not. */
int store_verify(struct store *s, store_report_fn report, void *ctx, struct error *err);
int store_backup(struct store *s, const char *to_dir, struct error *err);
void store_stat(struct store *s, struct store_stat *ret);

/*
 * A number that is another one once a question about profiles of the scope may be answered
 * otherwise than before: some came in, were erased or have expired. Asked before the question
 * itself it says, later, whether an answer is still good. It may change for no reason, and has no
 * meaning after the store was closed.
 */
uint64_t store_changes(struct store *s, const struct store_scope *scope);

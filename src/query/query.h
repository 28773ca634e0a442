#pragma once

#include <stdatomic.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "profile/frames.h"
#include "query/name_tag_filters.h"
#include "store/store.h"

/*
 * Questions to a store, and their answers. A question is a selection (tenant, selector, range) and
 * what to keep of it; every answer below starts from one.
 *
 * Flame trees and tables of a merged profile: query/flame_cut.h, query/tables.h. Times as people
 * write them: query/time_range.h.
 */
struct query {
    struct store *store;
    struct bytes tenant; /* empty: the default one */
    const struct selector *selector;
    int64_t from_ns, to_ns;
    enum plan_instant instant;
    struct query_filters filters;

    /* Of merges: only the profile of this id; only samples taken in this trace, or this span. */
    bool has_id, has_trace, has_span;
    uint8_t id[16], trace_id[16], span_id[8];
    bool
        with_labels; /* of merges: samples keep their labels, which takes reading single profiles */

    /* Gives names to what has none in a merged answer, before filters look at it; may be NULL. */
    int (*resolve)(void *ctx, struct profile_set *set, struct error *err);
    void *resolve_ctx;

    /* Where a merge finds its profile instead of in the store: a file that came with the question.
     * Adds one profile to the set, with names and of the selector's type, and says how many were
     * added up for it; NULL: the store. */
    int (*supply)(void *ctx, const struct query *q, struct profile_set *set, struct profile **ret,
                  uint64_t *ret_n, struct error *err);
    void *supply_ctx;

    unsigned threads;       /* 0: as many as there are cores */
    size_t memory_limit;    /* 0: QUERY_MEMORY */
    atomic_bool *cancelled; /* may be NULL */
    struct error *trouble;  /* may be NULL; set where a merge or a timeline is incomplete */
};

#define QUERY_MEMORY ((size_t)1 << 30)

/*
 * The selection merged into one profile. Everything lives in the answer. Without data: -ENODATA,
 * saying what was looked for.
 *
 * Sums of a store are over stacks and have no labels of samples. Where the filters ask for those,
 * or one profile is meant, profiles are read one by one: slower.
 */
struct merged {
    struct store_answer *answer;
    struct profile *profile;
    uint64_t n_profiles; /* how many were added up; 0: not known */
    struct buf warnings; /* filters that matched nothing, one line each */
};
int query_merge(const struct query *q, struct merged *ret, struct error *err);
void merged_done(struct merged *m);

/* The same into a set that the caller has; the set owns the profile. Filters are not applied. */
int query_merge_into(const struct query *q, struct profile_set *set, struct profile **ret,
                     struct error *err);

/* The selection as a question for single profiles. */
struct store_find query_find(const struct query *q);

/* -ENODATA, naming the selection and the range. */
int query_nothing(const struct query *q, struct error *err);

/* For people: returns r, and where that is -ENODATA adds to its text why: the range, or what label,
 * value or type there is instead. Asks the store a few times. */
int query_explain(const struct query *q, int r, struct error *err);

/* -ENODATA: no series of the selection has this label. Says which there are. */
int query_no_label(const struct query *q, struct bytes label, struct error *err);

/* Two selections over one dictionary, so that they can be subtracted and compared. Either side may
 * be empty, but not both. */
struct merged_pair {
    struct store_answer *answer;
    struct profile *before, *after; /* never NULL */
    uint64_t n_profiles[2];         /* of each side; 0: none, or not known */
};
int query_pair(const struct query *before, const struct query *after, struct merged_pair *ret,
               struct error *err);
void merged_pair_done(struct merged_pair *m);

/* The columns of both sides that `type` names; NULL is the default. -EINVAL when a side does not
 * have it. */
int query_pair_types(const struct merged_pair *pair, const char *type, uint32_t ret[2],
                     struct error *err);

/* One profile with the two columns before and after, of that type; it lives in the pair's answer.
 */
int query_pair_join(const struct merged_pair *pair, const char *type, struct profile **ret,
                    struct error *err);

/* ---- Two selections compared, function by function */

struct difference_row {
    uint32_t name, file;     /* strings: the function, or what frames are told apart by */
    int64_t flat[2], cum[2]; /* before, after */
};

/* Largest first, by flat values, where those do not differ by cumulative ones; names from A on. */
enum difference_order {
    DIFFERENCE_BY_CHANGE, /* absolute */
    DIFFERENCE_BY_SHARE,  /* in points of the share of the whole */
    DIFFERENCE_BY_RATIO,  /* times as much, or as little; what is on one side alone before all */
    DIFFERENCE_BY_NAME,
};

enum difference_only { DIFFERENCE_ALL, DIFFERENCE_ONLY_BEFORE, DIFFERENCE_ONLY_AFTER };

struct difference_options {
    const char *type; /* the sample type; NULL is the default */
    struct frame_options frames;
    enum difference_order order;
    enum difference_only only;
};

struct difference {
    struct budget *budget;
    const struct dict *dict;
    uint32_t type[2]; /* the columns compared */
    int64_t total[2];
    VEC(struct difference_row) rows;
};

/* -EINVAL when a side does not have the type. */
int query_difference(const struct merged_pair *pair, const struct difference_options *o,
                     struct difference *ret, struct error *err);
void difference_done(struct difference *d);

/* A change in three ways: absolute; in points of share of the whole; and as a ratio, after over
 * before (infinite for what is new, NAN for what is on neither side). */
struct change {
    int64_t absolute;
    double share, ratio;
};
struct change difference_change(const struct difference *d, const int64_t value[2]);

/* ---- Values over time */

struct timeline_point {
    int64_t start_ns;
    int64_t value;
    int64_t flat; /* of function series */
    uint64_t n_profiles;
};

struct timeline_series {
    const struct label *labels; /* the values of group_by */
    size_t first, n;            /* points */
    int64_t total;
};

struct timeline {
    struct store_answer *answer;
    int64_t step_ns;
    size_t n_group_by;
    VEC(struct timeline_series) series; /* largest total first */
    VEC(struct timeline_point) points;  /* only where there is something */
};

struct timeline_options {
    int64_t step_ns;              /* 0 chooses one that makes about 120 points */
    const struct bytes *group_by; /* label names */
    size_t n_group_by;
    /* Only this function, flat and cumulative (`value`), of any name that was ever seen: nothing is
     * declared before. NULL: everything. */
    const char *function;
};

/* Value per step, grouped by labels. */
int query_timeline(const struct query *q, const struct timeline_options *o, struct timeline *ret,
                   struct error *err);
void timeline_done(struct timeline *t);

/*
 * A range as cells: columns of `column_ns`, each cut into `rows` of equal length from bottom to
 * top, as a subsecond heat map has them. Samples stand where their own times say, else where their
 * profile starts.
 */
struct heat_map {
    int64_t start_ns, column_ns;
    size_t n_columns, n_rows;
    int64_t *cells; /* [column * n_rows + row] */
    int64_t max;
    size_t bytes;
    struct budget budget;
};
int query_heat(const struct query *q, int64_t column_ns, size_t n_rows, struct heat_map *ret,
               struct error *err);
void heat_done(struct heat_map *h);

/* The same of values that the caller has: an empty map over the question's range, and a value that
 * goes into it; what lies outside goes to the edge before, or nowhere. */
int heat_begin(const struct query *q, int64_t column_ns, size_t n_rows, struct heat_map *ret,
               struct error *err);
void heat_add(struct heat_map *h, int64_t at_ns, int64_t value);

/* ---- What there is */

/* A sorted list without repetitions. */
struct name_list {
    struct budget budget;
    struct arena text;
    VEC(struct bytes) names;
};
int query_label_names(const struct query *q, struct name_list *ret, struct error *err);
int query_label_values(const struct query *q, struct bytes label, struct name_list *ret,
                       struct error *err);

/* "cpu:nanoseconds", as selectors take them. */
int query_types(const struct query *q, struct name_list *ret, struct error *err);
void name_list_done(struct name_list *l);

#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "profile/dict.h"

/*
 * A profile: samples over a dictionary, in columns. Sample i is
 *
 *     node[i]                       its stack
 *     values[t][i], t < n_types     what was measured, one column per sample type
 *     attrs[i]                      its labels (an attribute set of the dictionary)
 *     link[i]                       the span it was taken in
 *     time_ns[i]                    when, UTC; 0 when not known
 *
 * The last three columns exist only once a sample needed them: read them with the accessors below.
 * One sample is one row: a format that lists many times for one stack adds a row for each.
 *
 * A profile borrows its dictionary, which must outlive it; many profiles share one.
 */
#define PROFILE_TYPES_MAX 64

/* What a column counts, for instance "cpu" in "nanoseconds". Both are strings. */
struct value_type {
    uint32_t type;
    uint32_t unit;
};

struct profile {
    struct dict *dict;
    size_t charged; /* what the budget paid for this struct: a file may hold very many */

    uint32_t n_types;
    struct value_type types[PROFILE_TYPES_MAX];
    uint32_t default_type; /* string: the type to show first, 0 when the source does not say */

    size_t n_samples;
    size_t cap; /* rows that fit the columns */
    uint32_t *node;
    int64_t *values[PROFILE_TYPES_MAX];
    uint32_t *attrs;   /* NULL: all 0 */
    uint32_t *link;    /* NULL: all 0 */
    uint64_t *time_ns; /* NULL: all 0 */

    int64_t time_unix_ns; /* start of the window */
    int64_t duration_ns;
    struct value_type period_type;
    int64_t period;
    uint32_t drop_frames, keep_frames; /* strings: regular expressions */
    uint32_t doc_url;                  /* string */
    uint32_t default_mapping;          /* the main binary: mapping id, or 0 */
    VEC(uint32_t) comments;            /* strings */
    VEC(uint32_t) mappings;            /* mapping ids in the order the source listed them */

    /* What OTLP says around a profile; zero elsewhere. */
    uint8_t profile_id[16];
    uint32_t resource_attrs, scope_attrs, profile_attrs; /* attribute sets */
    uint32_t resource_schema_url, scope_schema_url;      /* strings */
    uint32_t scope_name, scope_version;                  /* strings */
    uint32_t dropped_attributes, resource_dropped_attributes, scope_dropped_attributes;
    uint32_t resource_entities;           /* string: the EntityRef fields as they came */
    uint32_t resource_index, scope_index; /* which resource and scope of its message */
    uint32_t original_format;             /* string */
    uint32_t original_payload;            /* string holding bytes */
    bool is_cumulative;                   /* old OTLP layouts: values since process start */
};

/* Never NULL. The dictionary's budget pays for it and its columns, and fails when it is spent. */
struct profile *profile_new(struct dict *d);
void profile_free(struct profile *p); /* NULL is fine */
DEFINE_CLEANUP(struct profile *, profile_free)

/*
 * Adds a sample type and returns its column index. An equal type is found rather than added again.
 * Past PROFILE_TYPES_MAX the last column is returned and the budget fails. May be called with
 * samples present: they have 0 in the new column.
 */
uint32_t profile_add_type(struct profile *p, uint32_t type, uint32_t unit);
uint32_t profile_add_ctype(struct profile *p, const char *type, const char *unit);

/* One sample. The caller fills in what it has; `values` has n_types numbers. */
struct sample {
    uint32_t node;
    uint32_t attrs;
    uint32_t link;
    uint64_t time_ns;
    const int64_t *values;
};
bool profile_add(struct profile *p, const struct sample *s);

/* The same for a profile of one type, with no labels: the usual case of the simple formats. */
bool profile_add_value(struct profile *p, uint32_t node, int64_t value);

/* Room for n more samples, so that the columns grow once. */
bool profile_reserve(struct profile *p, size_t n);

/* Makes the attrs column exist, so that it can be written to. */
bool profile_need_attrs(struct profile *p);
/* The same for the link column. */
bool profile_need_links(struct profile *p);

/*
 * A copy with only the columns columns[0..n), over the same dictionary; columns NULL is all of
 * them. NULL when the budget is spent.
 */
struct profile *profile_copy(const struct profile *p, const uint32_t *columns, uint32_t n);

/* Copies row `from` over row `to`. Filters keep rows by moving them down, then cut n_samples. */
void profile_move_row(struct profile *p, size_t from, size_t to);

static inline uint32_t profile_attrs(const struct profile *p, size_t i)
{
    return p->attrs ? p->attrs[i] : 0;
}

static inline uint32_t profile_link(const struct profile *p, size_t i)
{
    return p->link ? p->link[i] : 0;
}

static inline uint64_t profile_time_ns(const struct profile *p, size_t i)
{
    return p->time_ns ? p->time_ns[i] : 0;
}

/* Sum of a column (wraps like the machine does). */
int64_t profile_total(const struct profile *p, uint32_t type);

/* Whether the values of a column are found at a moment, as its name says: live heap, goroutines. */
bool profile_type_is_instant(const struct profile *p, uint32_t type);

/*
 * The column that a user means by `name`: its number, its type, or its type without "inuse_" (as
 * old heap profiles have it). NULL or "" is the default. -ENODATA when there is no column at all,
 * -EINVAL with the names there are.
 */
int profile_find_index(const struct profile *p, const char *name, uint32_t *ret, struct error *err);

/* The column to show when none was asked for: default_type, else the last, as pprof does. */
uint32_t profile_default_index(const struct profile *p);

/* Whether its values were found at a moment (live heap, goroutines), not counted over a window. */
bool profile_is_instant(const struct profile *p);

/*
 * What a file or a request holds: profiles over one dictionary, under one budget. Decoders append
 * to a set, so several files may be read into one.
 */
struct profile_set {
    struct budget *budget;
    struct dict *dict;
    VEC(struct profile *) profiles;

    /* Things the source said that the model does not keep, one sentence each, for people. */
    VEC(char *) notes;
};

/* The budget must outlive the set. */
struct profile_set *profile_set_new(struct budget *budget);
void profile_set_free(struct profile_set *s); /* NULL is fine */
DEFINE_CLEANUP(struct profile_set *, profile_set_free)

/* A new empty profile at the end of the set, which owns it; NULL when the budget is spent. */
struct profile *profile_set_add(struct profile_set *s);

/* Drops the profiles from index n on (a decoder that failed midway). The dictionary keeps its
 * entries. */
void profile_set_truncate(struct profile_set *s, size_t n);

/* Adds a note unless an equal one is there. The hundredth says that there were more. */
void profile_set_note(struct profile_set *s, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

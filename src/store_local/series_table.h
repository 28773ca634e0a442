#pragma once

#include "base/buf.h"
#include "store_local/local_internal.h"

/*
 * The series of one tenant: found by what defines them, known by a dense id from 1. A series never
 * moves and never goes. Called with local->lock held, but see series_table_list().
 */
struct series_table;

struct series_table *series_table_new(void);
void series_table_free(struct series_table *t); /* NULL is fine */
DEFINE_CLEANUP(struct series_table *, series_table_free)

/* What makes a series. Labels are sorted by name. */
struct series_key {
    const struct label *labels;
    size_t n_labels;
    const struct store_type *types;
    size_t n_types;
    struct store_type period_type;
    bool is_instant, is_group;
};

uint32_t series_table_len(const struct series_table *t);                    /* ids are 1 ... this */
uint32_t series_table_n_groups(const struct series_table *t);               /* of those, groups */
struct series *series_table_get(const struct series_table *t, uint32_t id); /* NULL: no such id */
struct series *series_table_find(const struct series_table *t, const struct series_key *key);

/*
 * Adds a series that is not there, with the next id; strings are copied. NULL when there is no
 * memory.
 */
struct series *series_table_add(struct series_table *t, const struct series_key *key,
                                uint32_t group);

size_t series_table_bytes(const struct series_table *t);

/*
 * The series by id - 1, as many as there are now; the array and the immutable fields of the series
 * may be read without the lock for as long as the store is open.
 */
struct series *const *series_table_list(const struct series_table *t, uint32_t *ret_n);

/* A definition as bytes: in a record of the WAL, or in a chunk of series/TENANT.series (several
 * back to back). */
void series_encode(const struct series *s, struct buf *out);

/* The first chunk of series/TENANT.series begins with the tenant's name, for the day on which the
 * manifest is gone: as a definition of the id 0. */
void series_encode_tenant(struct bytes name, struct buf *out);
/* Takes it off *in, if that is what comes next. */
bool series_take_tenant(struct bytes *in, struct bytes *ret_name);

/*
 * Takes one definition off *in and adds it, or finds it there already. -EBADMSG when it is
 * malformed or its id is another series', -ESTALE when a smaller id is missing, -ENOBUFS without
 * memory.
 */
int series_apply(struct series_table *t, struct bytes *in, struct series **ret, struct error *err);

/* The same where definitions between may be missing: series nobody can ask for take their place, so
 * that ids keep their meaning. */
int series_apply_sparse(struct series_table *t, struct bytes *in, struct series **ret,
                        struct error *err);

/* Makes all ids up to this one exist in the same way. False when there is no memory. */
bool series_table_pad(struct series_table *t, uint32_t up_to);

#pragma once

#include "store_local/local_internal.h"
#include "store_local/records.h"

/*
 * What a durable record does to the store: the same code for one that was just written and for one
 * that is read back after a restart. With the lock held.
 *
 * Returns 0, 1 when it was there already (a profile that was stored before; a definition's second
 * copy), -ESTALE when something it refers to is not known (another record was lost), -EBADMSG when
 * it is malformed, -ENOMEM. Nothing changed when it is negative.
 */
enum link_mode {
    LINK_WRITTEN,  /* this process wrote it: ids are right, definitions are in memory */
    LINK_REPLAYED, /* read back: everything is checked */
};

int local_link(struct local *l, enum link_mode mode, enum record_type type, uint64_t seq,
               struct bytes payload, struct error *err);

/* 1 when the same profile is stored already, 0 when not, or why that cannot be told. */
int local_is_stored(struct local *l, uint32_t tenant, const struct series *series, int64_t start_ns,
                    const uint8_t *id, uint64_t content_hash);

/* Whether a payload is what rows of this series may hold: runs of n_types columns, attribute sets
 * ascending, ids below the ends of the dictionary's tables. Reads up to 8 bytes behind it. */
bool payload_is_sound(struct bytes payload, uint32_t n_types, uint32_t n_nodes,
                      uint32_t n_attr_sets);

/* The same of its links and times: -EBADMSG, or -ENOBUFS when there is no memory to look. */
#define SIDE_BYTES_MAX ((size_t)1 << 30)
int check_side(struct bytes in, uint32_t n_types, uint32_t n_nodes, uint32_t n_attr_sets,
               struct error *err);

/* The tenant of this name, or NULL. */
struct tenant *local_find_tenant(struct local *l, struct bytes name);
/* Makes one; NULL without memory. Moves the others: pointers to tenants do not live on. */
struct tenant *local_add_tenant(struct local *l, uint32_t id, struct bytes name);
/* The entry of a service, made when it is not there; NULL without memory. Moves the others. */
struct service *tenant_service(struct local *l, struct tenant *t, struct bytes name);

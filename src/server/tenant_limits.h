#pragma once

#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "config/server_config.h"

/*
 * What a tenant may use at a time: bytes and profiles a second (a bucket of each that holds ten
 * seconds' worth), queries at once. The config says it for all, the catalog for one of them.
 * Tenants that are not known yet get a place; when every place is taken by tenants that are busy or
 * have limits of their own, the rest share one.
 *
 * Any thread may call anything; nothing waits long.
 */
struct tenant_limits;
struct catalog;

struct tenant_limit_values { /* 0: none */
    uint64_t bytes_per_s, profiles_per_s;
    uint32_t series_max, queries_max;
};

struct tenant_limits *tenant_limits_new(const struct server_config *config,
                                        const struct clock *clock);
void tenant_limits_free(struct tenant_limits *l); /* NULL is fine */
DEFINE_CLEANUP(struct tenant_limits *, tenant_limits_free)

/* Takes the limits of `config` (NULL: as before) and of the catalog (NULL: none). What was used
 * stays used. */
int tenant_limits_reload(struct tenant_limits *l, const struct server_config *config,
                         struct catalog *catalog, struct error *err);

/* What holds for this tenant. */
struct tenant_limit_values tenant_limits_of(struct tenant_limits *l, struct bytes tenant);

/* Takes from the buckets, or nothing and -EAGAIN with the limit in words and, in
 * *ret_retry_after_ms, when to try again. What is larger than a whole bucket passes when the bucket
 * is full, and is paid for afterwards. */
int limits_take_ingest(struct tenant_limits *l, struct bytes tenant, uint64_t bytes,
                       uint64_t profiles, int64_t *ret_retry_after_ms, struct error *err);

/* -EAGAIN when the tenant has its most running; else limits_end_query() is due. */
int limits_begin_query(struct tenant_limits *l, struct bytes tenant, struct error *err);
void limits_end_query(struct tenant_limits *l, struct bytes tenant);

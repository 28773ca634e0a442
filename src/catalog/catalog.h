#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/error.h"

/*
 * What people edit: tenants, tokens, deployments, saved views and rules, in one SQLite file. The
 * store keeps no data here and works without it: whoever opens a catalog that is missing, corrupt
 * or too new goes on without what it holds.
 *
 * Any thread may call anything; calls on one catalog take turns. Several processes may have the
 * same file open. Failures are -EAGAIN (another process kept it locked for 5 s), -EBADMSG (the file
 * is damaged), -ENOSPC, -EROFS, -EIO, -ENOMEM, -E2BIG (over a limit below, which the text names).
 */
struct catalog;

#define CATALOG_VERSION  3 /* of the schema; older files are brought up to it when opened */
#define CATALOG_NAME_MAX 1024
#define CATALOG_JSON_MAX ((size_t)1 << 20)
#define CATALOG_HASH_MIN 32 /* SHA-256 or stronger */
#define CATALOG_HASH_MAX 64

/* Opens the file, making it when it is not there. -EPROTONOSUPPORT when it was written by a newer
 * version, -EBADMSG when it is not a sound SQLite file. */
int catalog_open(const char *path, struct catalog **ret, struct error *err);
void catalog_close(struct catalog *c); /* NULL is fine */
DEFINE_CLEANUP(struct catalog *, catalog_close)

/*
 * Strings given are borrowed for the call, strings in rows for the call of the sink. Sinks return 0
 * to go on, anything else to stop: that is then the call's result. They must not call the catalog.
 *
 * Putting replaces what has the same key. Deleting what is not there is -ENOENT, as is finding it.
 */
struct catalog_tenant {
    struct bytes name;                   /* key */
    int64_t max_age_ns, max_span_age_ns; /* 0: the store's default */
    uint64_t max_bytes;
    uint64_t bytes_per_s, profiles_per_s; /* 0: the server's default, here and below */
    uint64_t series_max, queries_max;
};

typedef int (*catalog_tenant_fn)(void *ctx, const struct catalog_tenant *tenant);

int catalog_put_tenant(struct catalog *c, const struct catalog_tenant *tenant, struct error *err);
int catalog_find_tenant(struct catalog *c, struct bytes name, catalog_tenant_fn sink, void *ctx,
                        struct error *err);
int catalog_list_tenants(struct catalog *c, catalog_tenant_fn sink, void *ctx, struct error *err);
/* With all that is the tenant's in this catalog. */
int catalog_delete_tenant(struct catalog *c, struct bytes name, struct error *err);

/* A tenant that a deployment, token or document is the first to name is made, with defaults. */
struct catalog_deployment {
    struct bytes tenant, id; /* key */
    struct bytes service, version, commit, branch, environment;
    int64_t start_ns;
};

typedef int (*catalog_deployment_fn)(void *ctx, const struct catalog_deployment *deployment);

int catalog_put_deployment(struct catalog *c, const struct catalog_deployment *deployment,
                           struct error *err);

struct catalog_range {
    struct bytes service; /* empty: all */
    int64_t from_ns, to_ns;
};

/* Those that started in [from, to), oldest first. */
int catalog_list_deployments(struct catalog *c, struct bytes tenant,
                             const struct catalog_range *range, catalog_deployment_fn sink,
                             void *ctx, struct error *err);

/* The secret is never here, only its hash. */
struct catalog_token {
    struct bytes id; /* key */
    struct bytes tenant, name, hash;
    int64_t created_ns, expires_ns, revoked_ns; /* the last two, 0: never */
    uint32_t roles;                             /* bits; what they mean is for others to say */
};

typedef int (*catalog_token_fn)(void *ctx, const struct catalog_token *token);

/* -EEXIST when the id is taken: tokens are never replaced. */
int catalog_add_token(struct catalog *c, const struct catalog_token *token, struct error *err);
int catalog_find_token(struct catalog *c, struct bytes id, catalog_token_fn sink, void *ctx,
                       struct error *err);
/* Of all tenants when `tenant` is empty. */
int catalog_list_tokens(struct catalog *c, struct bytes tenant, catalog_token_fn sink, void *ctx,
                        struct error *err);
/* Revoking again keeps the first time. */
int catalog_revoke_token(struct catalog *c, struct bytes id, int64_t when_ns, struct error *err);

/* A number that differs from that of an earlier call when anything was changed in between, here or
 * by another process. Costs no more than a look at the file. */
int catalog_change_count(struct catalog *c, uint64_t *ret, struct error *err);

/* Saved views, rules, settings of clients: JSON text; what it means is for others to say. */
enum catalog_kind { CATALOG_VIEW = 1, CATALOG_RULE = 2, CATALOG_SETTING = 3 };

struct catalog_document {
    enum catalog_kind kind; /* key, with... */
    struct bytes tenant, name;
    struct bytes json;
    int64_t updated_ns;
};

typedef int (*catalog_document_fn)(void *ctx, const struct catalog_document *document);

/* -EINVAL when it is not JSON. */
int catalog_put_document(struct catalog *c, const struct catalog_document *document,
                         struct error *err);
int catalog_find_document(struct catalog *c, const struct catalog_document *key,
                          catalog_document_fn sink, void *ctx, struct error *err);
/* By name. */
int catalog_list_documents(struct catalog *c, enum catalog_kind kind, struct bytes tenant,
                           catalog_document_fn sink, void *ctx, struct error *err);
int catalog_delete_document(struct catalog *c, const struct catalog_document *key,
                            struct error *err);

#pragma once

#include "base/error.h"
#include "server/token.h"

struct buf;
struct call;
struct catalog;
struct server;

/*
 * What an administrator does, over HTTP (admin.c) or with the data directory at hand (the command
 * line).
 */
#define CATALOG_FILE "catalog.db" /* of a data directory */
#define AUDIT_FILE   "audit.log"

struct token_wish {
    struct bytes name, tenant; /* TENANT_ANY: may name any */
    unsigned roles;
    int64_t lifetime_ns; /* 0: until it is revoked */
};

/* -EINVAL when a wish cannot be. The row is in the catalog when this returns. */
int admin_create_token(struct catalog *catalog, const struct token_wish *wish,
                       struct token_made *ret, struct error *err);

/* Hands the tenants' policies of the catalog to the store: for a server that starts, and whenever
 * the catalog has changed. */
void admin_apply_policies(struct server *s);

/* Writes an action of a call to the audit log, before it is done: on failure it is not. */
int admin_note(struct call *c, const char *action, struct bytes tenant, struct buf *what,
               struct error *err);

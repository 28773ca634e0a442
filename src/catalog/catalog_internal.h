#pragma once

#include <pthread.h>
#include <sqlite3.h>

#include "catalog/catalog.h"

/* The statements, in the order of their texts in catalog.c. */
enum statement {
    PUT_TENANT,
    FIND_TENANT,
    LIST_TENANTS,
    DELETE_TENANT,
    PUT_DEPLOYMENT,
    LIST_DEPLOYMENTS,
    ADD_TOKEN,
    FIND_TOKEN,
    LIST_TOKENS,
    REVOKE_TOKEN,
    PUT_DOCUMENT,
    FIND_DOCUMENT,
    LIST_DOCUMENTS,
    DELETE_DOCUMENT,
    DATA_VERSION,
    STATEMENT_COUNT,
};

struct catalog {
    sqlite3 *db;
    pthread_mutex_t lock; /* the statements */
    sqlite3_stmt *statements[STATEMENT_COUNT];
};

/* Brings the schema up to CATALOG_VERSION. */
int catalog_migrate(sqlite3 *db, struct error *err);

/* Says what was attempted and what SQLite has to say to it, as a negative errno. */
int catalog_error(sqlite3 *db, int rc, const char *what, struct error *err);

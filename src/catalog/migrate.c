#include <errno.h>

#include "catalog/catalog_internal.h"

/*
 * The schema, as the steps that lead to it: steps[v] makes version v + 1 of version v. A step that
 * was ever released does not change; what comes later is a new step and a higher CATALOG_VERSION.
 */
static const char *const steps[] = {
    "CREATE TABLE tenants ("
    " name TEXT PRIMARY KEY,"
    " max_age_ns INTEGER NOT NULL DEFAULT 0,"
    " max_span_age_ns INTEGER NOT NULL DEFAULT 0,"
    " max_bytes INTEGER NOT NULL DEFAULT 0) STRICT, WITHOUT ROWID;"
    "CREATE TABLE deployments ("
    " tenant TEXT NOT NULL REFERENCES tenants ON DELETE CASCADE,"
    " id TEXT NOT NULL, service TEXT NOT NULL, version TEXT NOT NULL, commit_id TEXT NOT NULL,"
    " branch TEXT NOT NULL, environment TEXT NOT NULL, start_ns INTEGER NOT NULL,"
    " PRIMARY KEY (tenant, id)) STRICT, WITHOUT ROWID;"
    "CREATE INDEX deployments_by_start ON deployments (tenant, start_ns);"
    "CREATE TABLE tokens ("
    " id TEXT PRIMARY KEY, tenant TEXT NOT NULL REFERENCES tenants ON DELETE CASCADE,"
    " name TEXT NOT NULL, hash BLOB NOT NULL, created_ns INTEGER NOT NULL,"
    " expires_ns INTEGER NOT NULL, revoked_ns INTEGER NOT NULL) STRICT, WITHOUT ROWID;"
    "CREATE INDEX tokens_by_tenant ON tokens (tenant);"
    /* Whoever names a tenant first makes it. */
    "CREATE TRIGGER deployment_tenant BEFORE INSERT ON deployments BEGIN"
    " INSERT OR IGNORE INTO tenants (name) VALUES (NEW.tenant); END;"
    "CREATE TRIGGER token_tenant BEFORE INSERT ON tokens BEGIN"
    " INSERT OR IGNORE INTO tenants (name) VALUES (NEW.tenant); END;",

    "CREATE TABLE documents ("
    " kind INTEGER NOT NULL, tenant TEXT NOT NULL REFERENCES tenants ON DELETE CASCADE,"
    " name TEXT NOT NULL, json TEXT NOT NULL,"
    " updated_ns INTEGER NOT NULL, PRIMARY KEY (tenant, kind, name)) STRICT, WITHOUT ROWID;"
    "CREATE TRIGGER document_tenant BEFORE INSERT ON documents BEGIN"
    " INSERT OR IGNORE INTO tenants (name) VALUES (NEW.tenant); END;",

    /* Tokens from before roles may ingest and read. */
    "ALTER TABLE tokens ADD COLUMN roles INTEGER NOT NULL DEFAULT 3;"
    "ALTER TABLE tenants ADD COLUMN bytes_per_s INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE tenants ADD COLUMN profiles_per_s INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE tenants ADD COLUMN series_max INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE tenants ADD COLUMN queries_max INTEGER NOT NULL DEFAULT 0;",
};
_Static_assert(ARRAY_SIZE(steps) == CATALOG_VERSION, "a step for every version");

static int read_version(sqlite3 *db, int *ret, struct error *err)
{
    sqlite3_stmt *s = NULL;
    int rc = sqlite3_prepare_v2(db, "PRAGMA user_version", -1, &s, NULL);

    if (rc == SQLITE_OK)
        rc = sqlite3_step(s);
    if (rc == SQLITE_ROW)
        *ret = sqlite3_column_int(s, 0);
    int r = rc == SQLITE_ROW ? 0 : catalog_error(db, rc, "read the version of the catalog", err);
    sqlite3_finalize(s);
    return r;
}

static int run(sqlite3 *db, const char *sql, struct error *err)
{
    int rc = sqlite3_exec(db, sql, NULL, NULL, NULL);

    return rc == SQLITE_OK ? 0 : catalog_error(db, rc, "bring the catalog up to date", err);
}

/* One step in a transaction of its own; the version is read inside it, as another process may have
 * gone the same way meanwhile. */
static int step(sqlite3 *db, int *version, struct error *err)
{
    char set[64];
    int r = read_version(db, version, err);

    if (r < 0 || *version >= CATALOG_VERSION)
        return r;
    if (*version < 0)
        return error_set(err, -EBADMSG, "could not open the catalog: its version is %d", *version);
    r = run(db, steps[*version], err);
    sqlite3_snprintf(sizeof(set), set, "PRAGMA user_version = %d", *version + 1);
    return r < 0 ? r : run(db, set, err);
}

int catalog_migrate(sqlite3 *db, struct error *err)
{
    int version = 0, r = read_version(db, &version, err);

    while (r == 0 && version < CATALOG_VERSION) {
        r = run(db, "BEGIN IMMEDIATE", err);
        if (r < 0)
            return r;
        r = step(db, &version, err);
        if (r == 0)
            r = run(db, "COMMIT", err);
        if (r < 0)
            sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
        else
            r = read_version(db, &version, err);
    }
    if (r == 0 && version > CATALOG_VERSION)
        return error_set(err, -EPROTONOSUPPORT,
                         "could not open the catalog: it is of version %d, this program knows "
                         "versions up to %d",
                         version, CATALOG_VERSION);
    return r;
}

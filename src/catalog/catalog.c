#include <errno.h>

#include "catalog/catalog_internal.h"

#define BUSY_TIMEOUT_MS 5000

#define TENANT_COLUMNS                                                                             \
    "name, max_age_ns, max_span_age_ns, max_bytes,"                                                \
    " bytes_per_s, profiles_per_s, series_max, queries_max"
#define DEPLOYMENT_COLUMNS "tenant, id, service, version, commit_id, branch, environment, start_ns"
#define TOKEN_COLUMNS      "id, tenant, name, hash, created_ns, expires_ns, revoked_ns, roles"
#define DOCUMENT_COLUMNS   "kind, tenant, name, json, updated_ns"

static const struct {
    const char *what; /* "could not ..." */
    const char *sql;
} texts[STATEMENT_COUNT] = {
    [PUT_TENANT] = {"save the tenant",
                    "INSERT INTO tenants (" TENANT_COLUMNS ")"
                    " VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO"
                    " UPDATE SET max_age_ns = excluded.max_age_ns,"
                    " max_span_age_ns = excluded.max_span_age_ns, max_bytes = excluded.max_bytes,"
                    " bytes_per_s = excluded.bytes_per_s, profiles_per_s = excluded.profiles_per_s,"
                    " series_max = excluded.series_max, queries_max = excluded.queries_max"},
    [FIND_TENANT] = {"find the tenant", "SELECT " TENANT_COLUMNS " FROM tenants WHERE name = ?"},
    [LIST_TENANTS] = {"list the tenants", "SELECT " TENANT_COLUMNS " FROM tenants ORDER BY name"},
    [DELETE_TENANT] = {"delete the tenant", "DELETE FROM tenants WHERE name = ?"},
    [PUT_DEPLOYMENT] = {"save the deployment",
                        "INSERT INTO deployments (" DEPLOYMENT_COLUMNS ")"
                        " VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET"
                        " service = excluded.service, version = excluded.version,"
                        " commit_id = excluded.commit_id, branch = excluded.branch,"
                        " environment = excluded.environment, start_ns = excluded.start_ns"},
    [LIST_DEPLOYMENTS] = {"list the deployments",
                          "SELECT " DEPLOYMENT_COLUMNS " FROM deployments WHERE tenant = ?1"
                          " AND (?2 = '' OR service = ?2) AND start_ns >= ?3 AND start_ns < ?4"
                          " ORDER BY start_ns, id"},
    [ADD_TOKEN] = {"save the token", "INSERT INTO tokens (" TOKEN_COLUMNS ")"
                                     " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"},
    [FIND_TOKEN] = {"find the token", "SELECT " TOKEN_COLUMNS " FROM tokens WHERE id = ?"},
    [LIST_TOKENS] = {"list the tokens", "SELECT " TOKEN_COLUMNS " FROM tokens WHERE ?1 = ''"
                                        " OR tenant = ?1 ORDER BY created_ns, id"},
    [REVOKE_TOKEN] = {"revoke the token",
                      "UPDATE tokens SET revoked_ns = iif(revoked_ns = 0, ?2, revoked_ns)"
                      " WHERE id = ?1"},
    [PUT_DOCUMENT] = {"save the document",
                      "INSERT INTO documents (" DOCUMENT_COLUMNS ") SELECT ?1, ?2, ?3, ?4, ?5"
                      " WHERE json_valid(?4) ON CONFLICT DO UPDATE SET json = excluded.json,"
                      " updated_ns = excluded.updated_ns"},
    [FIND_DOCUMENT] = {"find the document", "SELECT " DOCUMENT_COLUMNS " FROM documents"
                                            " WHERE kind = ? AND tenant = ? AND name = ?"},
    [LIST_DOCUMENTS] = {"list the documents", "SELECT " DOCUMENT_COLUMNS " FROM documents"
                                              " WHERE kind = ? AND tenant = ? ORDER BY name"},
    [DELETE_DOCUMENT] = {"delete the document",
                         "DELETE FROM documents WHERE kind = ? AND tenant = ? AND name = ?"},
    [DATA_VERSION] = {"look at the catalog", "PRAGMA data_version"},
};

static int errno_of(int rc)
{
    switch (rc & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return -EAGAIN;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_FORMAT:
    case SQLITE_ERROR: /* the tables are not what they should be: statements are constant */
    case SQLITE_MISMATCH:
        return -EBADMSG;
    case SQLITE_FULL:
        return -ENOSPC;
    case SQLITE_READONLY:
        return -EROFS;
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_AUTH:
        return -EACCES;
    case SQLITE_NOMEM:
        return -ENOMEM;
    case SQLITE_TOOBIG:
        return -E2BIG;
    case SQLITE_CONSTRAINT:
        return rc == SQLITE_CONSTRAINT_PRIMARYKEY || rc == SQLITE_CONSTRAINT_UNIQUE ? -EEXIST
                                                                                    : -EINVAL;
    default:
        return -EIO;
    }
}

int catalog_error(sqlite3 *db, int rc, const char *what, struct error *err)
{
    int r = errno_of(rc);

    if (r == -EEXIST)
        return error_set(err, r, "could not %s: there is one with this id", what);
    return error_set(err, r, "could not %s: %s", what, db ? sqlite3_errmsg(db) : "out of memory");
}

/* Sets what a connection is to be like. The first statement is also the first to read the file. */
static int prepare_connection(sqlite3 *db, struct error *err)
{
    static const char *const settings[] = {
        "PRAGMA foreign_keys = ON",  "PRAGMA trusted_schema = OFF", "PRAGMA cell_size_check = ON",
        "PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL",
    };

    sqlite3_extended_result_codes(db, 1);
    sqlite3_busy_timeout(db, BUSY_TIMEOUT_MS);
    sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, (int *)NULL);
    for (size_t i = 0; i < ARRAY_SIZE(settings); i++) {
        int rc = sqlite3_exec(db, settings[i], NULL, NULL, NULL);
        /* Two that turn the same new file to WAL: SQLite does not wait there, so as not to hang. */
        for (int tries = 0; (rc & 0xff) == SQLITE_BUSY && tries < BUSY_TIMEOUT_MS / 10; tries++) {
            sqlite3_sleep(10);
            rc = sqlite3_exec(db, settings[i], NULL, NULL, NULL);
        }
        if (rc != SQLITE_OK)
            return catalog_error(db, rc, "open the catalog", err);
    }
    return 0;
}

static int check_pages(sqlite3 *db, struct error *err)
{
    sqlite3_stmt *s = NULL;
    int rc = sqlite3_prepare_v2(db, "PRAGMA quick_check(1)", -1, &s, NULL), r = 0;

    if (rc == SQLITE_OK)
        rc = sqlite3_step(s);
    const char *verdict = rc == SQLITE_ROW ? (const char *)sqlite3_column_text(s, 0) : NULL;
    if (rc != SQLITE_ROW)
        r = catalog_error(db, rc, "check the catalog", err);
    else if (!verdict || strcmp(verdict, "ok") != 0)
        r = error_set(err, -EBADMSG, "could not open the catalog: it is damaged: %s",
                      verdict ? verdict : "no verdict");
    sqlite3_finalize(s);
    return r;
}

int catalog_open(const char *path, struct catalog **ret, struct error *err)
{
    CLEANUP(catalog_closep) struct catalog *c = calloc(1, sizeof(*c));

    if (!c)
        return error_set(err, -ENOMEM, "could not open the catalog: out of memory");
    pthread_mutex_init(&c->lock, NULL);
    int rc = sqlite3_open_v2(path, &c->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL);
    int r = rc == SQLITE_OK ? prepare_connection(c->db, err)
                            : catalog_error(c->db, rc, "open the catalog", err);
    if (r == 0)
        r = check_pages(c->db, err);
    if (r == 0)
        r = catalog_migrate(c->db, err);
    if (r < 0)
        return error_prefix(err, r, "\"%s\"", path);
    *ret = TAKE_PTR(c);
    return 0;
}

void catalog_close(struct catalog *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < STATEMENT_COUNT; i++)
        sqlite3_finalize(c->statements[i]);
    sqlite3_close(c->db);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

/* One use of a statement: values are bound in order, the first that cannot be is remembered. */
struct use {
    struct catalog *c;
    sqlite3_stmt *s;
    enum statement which;
    int n, rc;
};

static void use_begin(struct catalog *c, enum statement which, struct use *ret)
{
    *ret = (struct use){.c = c, .which = which};
    pthread_mutex_lock(&c->lock);
    if (!c->statements[which])
        ret->rc = sqlite3_prepare_v3(c->db, texts[which].sql, -1, SQLITE_PREPARE_PERSISTENT,
                                     &c->statements[which], NULL);
    ret->s = c->statements[which];
}

static void bound(struct use *u, int rc)
{
    if (u->rc == SQLITE_OK)
        u->rc = rc;
}

static void use_text(struct use *u, struct bytes s)
{
    if (u->s)
        bound(u, sqlite3_bind_text64(u->s, ++u->n, s.len ? (const char *)s.data : "", s.len,
                                     SQLITE_STATIC, SQLITE_UTF8));
}

static void use_blob(struct use *u, struct bytes s)
{
    if (u->s)
        bound(u, sqlite3_bind_blob64(u->s, ++u->n, s.data, s.len, SQLITE_STATIC));
}

static void use_number(struct use *u, int64_t v)
{
    if (u->s)
        bound(u, sqlite3_bind_int64(u->s, ++u->n, v));
}

/* The next row: 1, 0 at the end, or negative. */
static int use_step(struct use *u, struct error *err)
{
    int rc = u->rc != SQLITE_OK ? u->rc : sqlite3_step(u->s);

    if (rc == SQLITE_ROW || rc == SQLITE_DONE)
        return rc == SQLITE_ROW;
    return catalog_error(u->c->db, rc, texts[u->which].what, err);
}

static void use_end(struct use *u)
{
    if (u->s) {
        sqlite3_reset(u->s);
        sqlite3_clear_bindings(u->s);
    }
    pthread_mutex_unlock(&u->c->lock);
}

/* For what changes rows: -ENOENT when it must change one and did not. */
static int use_run(struct use *u, bool must_change, struct error *err)
{
    int r = use_step(u, err);

    if (r == 0 && must_change && sqlite3_changes(u->c->db) == 0)
        r = error_set(err, -ENOENT, "could not %s: there is none of this name",
                      texts[u->which].what);
    use_end(u);
    return r;
}

/* Calls the sink of a kind of row, whose types only `row` knows. */
typedef int (*row_fn)(sqlite3_stmt *s, const void *sink, void *ctx);

static int use_rows(struct use *u, row_fn row, const void *sink, void *ctx, struct error *err)
{
    bool is_find = u->which == FIND_TENANT || u->which == FIND_TOKEN || u->which == FIND_DOCUMENT;
    int r, n = 0;

    while ((r = use_step(u, err)) > 0) {
        n = 1;
        r = row(u->s, sink, ctx);
        if (r != 0)
            break;
    }
    if (r == 0 && n == 0 && is_find)
        r = error_set(err, -ENOENT, "could not %s: there is none of this name",
                      texts[u->which].what);
    use_end(u);
    return r;
}

static struct bytes column_bytes(sqlite3_stmt *s, int i)
{
    const uint8_t *data = sqlite3_column_blob(s, i); /* text as it was given, NULs and all */
    int len = sqlite3_column_bytes(s, i);

    return data ? (struct bytes){data, (size_t)len} : (struct bytes){0};
}

/* ---- What may be given */

static int check_len(struct bytes s, size_t max, const char *of, struct error *err)
{
    return s.len <= max ? 0
                        : error_set(err, -E2BIG, "%s is %zu bytes long, more than the limit of %zu",
                                    of, s.len, max);
}

static int check_key(struct bytes s, const char *of, struct error *err)
{
    return s.len > 0 ? check_len(s, CATALOG_NAME_MAX, of, err)
                     : error_set(err, -EINVAL, "%s is missing", of);
}

/* ---- Tenants */

static int tenant_row(sqlite3_stmt *s, const void *sink, void *ctx)
{
    struct catalog_tenant t = {
        .name = column_bytes(s, 0),
        .max_age_ns = sqlite3_column_int64(s, 1),
        .max_span_age_ns = sqlite3_column_int64(s, 2),
        .max_bytes = (uint64_t)sqlite3_column_int64(s, 3),
        .bytes_per_s = (uint64_t)sqlite3_column_int64(s, 4),
        .profiles_per_s = (uint64_t)sqlite3_column_int64(s, 5),
        .series_max = (uint64_t)sqlite3_column_int64(s, 6),
        .queries_max = (uint64_t)sqlite3_column_int64(s, 7),
    };

    return (*(const catalog_tenant_fn *)sink)(ctx, &t);
}

int catalog_put_tenant(struct catalog *c, const struct catalog_tenant *tenant, struct error *err)
{
    const uint64_t limits[] = {
        (uint64_t)tenant->max_age_ns,
        (uint64_t)tenant->max_span_age_ns,
        tenant->max_bytes,
        tenant->bytes_per_s,
        tenant->profiles_per_s,
        tenant->series_max,
        tenant->queries_max,
    };
    bool fits = true;
    struct use u;
    int r = check_key(tenant->name, "the name of the tenant", err);

    if (r < 0)
        return r;
    for (size_t i = 0; i < ARRAY_SIZE(limits); i++)
        fits = fits && limits[i] <= INT64_MAX;
    if (!fits)
        return error_set(err, -EINVAL,
                         "could not save the tenant: a limit is negative or over %lld",
                         (long long)INT64_MAX);
    use_begin(c, PUT_TENANT, &u);
    use_text(&u, tenant->name);
    for (size_t i = 0; i < ARRAY_SIZE(limits); i++)
        use_number(&u, (int64_t)limits[i]);
    return use_run(&u, false, err);
}

int catalog_find_tenant(struct catalog *c, struct bytes name, catalog_tenant_fn sink, void *ctx,
                        struct error *err)
{
    struct use u;

    use_begin(c, FIND_TENANT, &u);
    use_text(&u, name);
    return use_rows(&u, tenant_row, &sink, ctx, err);
}

int catalog_list_tenants(struct catalog *c, catalog_tenant_fn sink, void *ctx, struct error *err)
{
    struct use u;

    use_begin(c, LIST_TENANTS, &u);
    return use_rows(&u, tenant_row, &sink, ctx, err);
}

int catalog_delete_tenant(struct catalog *c, struct bytes name, struct error *err)
{
    struct use u;

    use_begin(c, DELETE_TENANT, &u);
    use_text(&u, name);
    return use_run(&u, true, err);
}

/* ---- Deployments */

static int deployment_row(sqlite3_stmt *s, const void *sink, void *ctx)
{
    struct catalog_deployment d = {
        .tenant = column_bytes(s, 0),
        .id = column_bytes(s, 1),
        .service = column_bytes(s, 2),
        .version = column_bytes(s, 3),
        .commit = column_bytes(s, 4),
        .branch = column_bytes(s, 5),
        .environment = column_bytes(s, 6),
        .start_ns = sqlite3_column_int64(s, 7),
    };

    return (*(const catalog_deployment_fn *)sink)(ctx, &d);
}

int catalog_put_deployment(struct catalog *c, const struct catalog_deployment *deployment,
                           struct error *err)
{
    const struct catalog_deployment *d = deployment;
    const struct bytes strings[] = {d->tenant, d->id,     d->service,    d->version,
                                    d->commit, d->branch, d->environment};
    static const char *const names[] = {
        "the tenant of the deployment",      "the id of the deployment",
        "the service of the deployment",     "the version of the deployment",
        "the commit of the deployment",      "the branch of the deployment",
        "the environment of the deployment",
    };
    struct use u;
    int r = 0;

    for (size_t i = 0; i < ARRAY_SIZE(strings) && r == 0; i++)
        r = i < 3 ? check_key(strings[i], names[i], err)
                  : check_len(strings[i], CATALOG_NAME_MAX, names[i], err);
    if (r < 0)
        return r;
    use_begin(c, PUT_DEPLOYMENT, &u);
    for (size_t i = 0; i < ARRAY_SIZE(strings); i++)
        use_text(&u, strings[i]);
    use_number(&u, d->start_ns);
    return use_run(&u, false, err);
}

int catalog_list_deployments(struct catalog *c, struct bytes tenant,
                             const struct catalog_range *range, catalog_deployment_fn sink,
                             void *ctx, struct error *err)
{
    struct use u;

    use_begin(c, LIST_DEPLOYMENTS, &u);
    use_text(&u, tenant);
    use_text(&u, range->service);
    use_number(&u, range->from_ns);
    use_number(&u, range->to_ns);
    return use_rows(&u, deployment_row, &sink, ctx, err);
}

/* ---- Tokens */

static int token_row(sqlite3_stmt *s, const void *sink, void *ctx)
{
    struct catalog_token t = {
        .id = column_bytes(s, 0),
        .tenant = column_bytes(s, 1),
        .name = column_bytes(s, 2),
        .hash = column_bytes(s, 3),
        .created_ns = sqlite3_column_int64(s, 4),
        .expires_ns = sqlite3_column_int64(s, 5),
        .revoked_ns = sqlite3_column_int64(s, 6),
        .roles = (uint32_t)sqlite3_column_int64(s, 7),
    };

    return (*(const catalog_token_fn *)sink)(ctx, &t);
}

int catalog_add_token(struct catalog *c, const struct catalog_token *token, struct error *err)
{
    struct use u;
    int r = check_key(token->id, "the id of the token", err);

    if (r == 0)
        r = check_key(token->tenant, "the tenant of the token", err);
    if (r == 0)
        r = check_len(token->name, CATALOG_NAME_MAX, "the name of the token", err);
    if (r < 0)
        return r;
    if (token->hash.len < CATALOG_HASH_MIN || token->hash.len > CATALOG_HASH_MAX)
        return error_set(err, -EINVAL,
                         "could not save the token: its hash is %zu bytes long, not %d to %d",
                         token->hash.len, CATALOG_HASH_MIN, CATALOG_HASH_MAX);
    use_begin(c, ADD_TOKEN, &u);
    use_text(&u, token->id);
    use_text(&u, token->tenant);
    use_text(&u, token->name);
    use_blob(&u, token->hash);
    use_number(&u, token->created_ns);
    use_number(&u, token->expires_ns);
    use_number(&u, token->revoked_ns);
    use_number(&u, token->roles);
    return use_run(&u, false, err);
}

int catalog_find_token(struct catalog *c, struct bytes id, catalog_token_fn sink, void *ctx,
                       struct error *err)
{
    struct use u;

    use_begin(c, FIND_TOKEN, &u);
    use_text(&u, id);
    return use_rows(&u, token_row, &sink, ctx, err);
}

int catalog_list_tokens(struct catalog *c, struct bytes tenant, catalog_token_fn sink, void *ctx,
                        struct error *err)
{
    struct use u;

    use_begin(c, LIST_TOKENS, &u);
    use_text(&u, tenant);
    return use_rows(&u, token_row, &sink, ctx, err);
}

int catalog_revoke_token(struct catalog *c, struct bytes id, int64_t when_ns, struct error *err)
{
    struct use u;

    use_begin(c, REVOKE_TOKEN, &u);
    use_text(&u, id);
    use_number(&u, when_ns);
    return use_run(&u, true, err);
}

int catalog_change_count(struct catalog *c, uint64_t *ret, struct error *err)
{
    struct use u;

    /* One counts what others did, the other what this connection did. */
    use_begin(c, DATA_VERSION, &u);
    int r = use_step(&u, err);
    if (r > 0)
        *ret =
            (uint64_t)sqlite3_column_int64(u.s, 0) << 32 ^ (uint64_t)sqlite3_total_changes64(c->db);
    use_end(&u);
    return r < 0 ? r : 0;
}

/* ---- Saved views and rules */

static int document_row(sqlite3_stmt *s, const void *sink, void *ctx)
{
    struct catalog_document d = {
        .kind = (enum catalog_kind)sqlite3_column_int(s, 0),
        .tenant = column_bytes(s, 1),
        .name = column_bytes(s, 2),
        .json = column_bytes(s, 3),
        .updated_ns = sqlite3_column_int64(s, 4),
    };

    return (*(const catalog_document_fn *)sink)(ctx, &d);
}

static void use_document(struct catalog *c, enum statement which, enum catalog_kind kind,
                         struct bytes tenant, struct use *ret)
{
    use_begin(c, which, ret);
    use_number(ret, kind);
    use_text(ret, tenant);
}

int catalog_put_document(struct catalog *c, const struct catalog_document *document,
                         struct error *err)
{
    struct use u;
    int r = check_key(document->tenant, "the tenant of the document", err);

    if (r == 0)
        r = check_key(document->name, "the name of the document", err);
    if (r == 0)
        r = check_len(document->json, CATALOG_JSON_MAX, "the JSON of the document", err);
    if (r < 0)
        return r;
    /* SQLite's check would end at a NUL. */
    bool has_nul = bytes_find_byte(document->json, 0) != NULL;
    use_document(c, PUT_DOCUMENT, document->kind, document->tenant, &u);
    use_text(&u, document->name);
    use_text(&u, has_nul ? BYTES("") : document->json);
    use_number(&u, document->updated_ns);
    r = use_run(&u, true, err);
    return r == -ENOENT ? error_set(err, -EINVAL, "could not save the document: it is not JSON")
                        : r;
}

int catalog_find_document(struct catalog *c, const struct catalog_document *key,
                          catalog_document_fn sink, void *ctx, struct error *err)
{
    struct use u;

    use_document(c, FIND_DOCUMENT, key->kind, key->tenant, &u);
    use_text(&u, key->name);
    return use_rows(&u, document_row, &sink, ctx, err);
}

int catalog_list_documents(struct catalog *c, enum catalog_kind kind, struct bytes tenant,
                           catalog_document_fn sink, void *ctx, struct error *err)
{
    struct use u;

    use_document(c, LIST_DOCUMENTS, kind, tenant, &u);
    return use_rows(&u, document_row, &sink, ctx, err);
}

int catalog_delete_document(struct catalog *c, const struct catalog_document *key,
                            struct error *err)
{
    struct use u;

    use_document(c, DELETE_DOCUMENT, key->kind, key->tenant, &u);
    use_text(&u, key->name);
    return use_run(&u, true, err);
}

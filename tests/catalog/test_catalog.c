#include <errno.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdint.h>

#include "base/buf.h"
#include "catalog/catalog.h"
#include "lib/test.h"

/* A file in a directory of its own, which goes at the end. */
struct place {
    char dir[64], path[96];
};

static void place_done(struct place *p)
{
    char command[128];

    snprintf(command, sizeof(command), "rm -rf %s", p->dir);
    if (system(command) != 0)
        printf("# could not remove %s\n", p->dir);
}

static void place_init(struct place *p)
{
    snprintf(p->dir, sizeof(p->dir), "/tmp/test_catalog.XXXXXX");
    if (!mkdtemp(p->dir))
        abort();
    snprintf(p->path, sizeof(p->path), "%s/catalog.db", p->dir);
}

#define PLACE(p)                                                                                   \
    CLEANUP(place_done) struct place p;                                                            \
    place_init(&p)

static struct catalog *open_catalog(struct test *t, const char *path)
{
    struct catalog *c = NULL;
    struct error err = {0};

    CHECK_INT(t, catalog_open(path, &c, &err), 0);
    CHECK_STR(t, err.text, "");
    if (!c)
        abort();
    return c;
}

static void run_sql(struct test *t, const char *path, const char *sql)
{
    sqlite3 *db = NULL;
    char *why = NULL;

    CHECK_INT(t, sqlite3_open(path, &db), SQLITE_OK);
    CHECK_INT(t, sqlite3_exec(db, sql, NULL, NULL, &why), SQLITE_OK);
    if (why)
        printf("# %s\n", why);
    sqlite3_free(why);
    sqlite3_close(db);
}

/* Sinks write what they are given as text, so that a test compares one string. */
static void add_text(struct buf *to, struct bytes s)
{
    buf_add_bytes(to, s);
    buf_add_byte(to, ' ');
}

static int take_tenant(void *ctx, const struct catalog_tenant *tenant)
{
    add_text(ctx, tenant->name);
    buf_addf(ctx, "%" PRId64 " %" PRId64 " %" PRIu64, tenant->max_age_ns, tenant->max_span_age_ns,
             tenant->max_bytes);
    if (tenant->bytes_per_s)
        buf_addf(ctx, " uses %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, tenant->bytes_per_s,
                 tenant->profiles_per_s, tenant->series_max, tenant->queries_max);
    buf_add_byte(ctx, ';');
    return 0;
}

static int take_deployment(void *ctx, const struct catalog_deployment *d)
{
    const struct bytes strings[] = {d->tenant, d->id,     d->service,    d->version,
                                    d->commit, d->branch, d->environment};

    for (size_t i = 0; i < ARRAY_SIZE(strings); i++)
        add_text(ctx, strings[i]);
    buf_addf(ctx, "%" PRId64 ";", d->start_ns);
    return 0;
}

static int take_token(void *ctx, const struct catalog_token *token)
{
    add_text(ctx, token->id);
    add_text(ctx, token->tenant);
    add_text(ctx, token->name);
    buf_addf(ctx, "%zu:%02x %" PRId64 " %" PRId64 " %" PRId64 " roles %u;", token->hash.len,
             token->hash.data[0], token->created_ns, token->expires_ns, token->revoked_ns,
             token->roles);
    return 0;
}

static int take_document(void *ctx, const struct catalog_document *d)
{
    buf_addf(ctx, "%d ", (int)d->kind);
    add_text(ctx, d->tenant);
    add_text(ctx, d->name);
    add_text(ctx, d->json);
    buf_addf(ctx, "%" PRId64 ";", d->updated_ns);
    return 0;
}

static int stop_at_once(void *ctx, const struct catalog_tenant *tenant)
{
    (void)tenant;
    ++*(int *)ctx;
    return -ECANCELED;
}

#define TEXT CLEANUP(buf_done) struct buf

static void keeps_tenants_and_their_limits(struct test *t)
{
    PLACE(p);
    CLEANUP(catalog_closep) struct catalog *c = open_catalog(t, p.path);
    struct catalog_tenant a = {BYTES("acme"), 1, 2, 3}, b = {BYTES("beta"), 0, 0, INT64_MAX};
    struct error err = {0};
    TEXT all = {0}, one = {0};
    int calls = 0;

    CHECK_INT(t, catalog_put_tenant(c, &b, &err), 0);
    CHECK_INT(t, catalog_put_tenant(c, &a, &err), 0);
    a.max_bytes = 7;
    CHECK_INT(t, catalog_put_tenant(c, &a, &err), 0);
    CHECK_INT(t, catalog_list_tenants(c, take_tenant, &all, &err), 0);
    CHECK_STR(t, buf_cstr(&all), "acme 1 2 7;beta 0 0 9223372036854775807;");
    CHECK_INT(t, catalog_find_tenant(c, BYTES("acme"), take_tenant, &one, &err), 0);
    CHECK_STR(t, buf_cstr(&one), "acme 1 2 7;");
    CHECK_INT(t, catalog_list_tenants(c, stop_at_once, &calls, &err), -ECANCELED);
    CHECK_INT(t, calls, 1);

    CHECK_INT(t, catalog_find_tenant(c, BYTES("none"), take_tenant, &one, &err), -ENOENT);
    CHECK_STR(t, err.text, "could not find the tenant: there is none of this name");
    CHECK_INT(t, catalog_delete_tenant(c, BYTES("none"), &err), -ENOENT);
    CHECK_STR(t, err.text, "could not delete the tenant: there is none of this name");
    b.max_bytes = UINT64_MAX;
    CHECK_INT(t, catalog_put_tenant(c, &b, &err), -EINVAL);
    CHECK_STR(t, err.text,
              "could not save the tenant: a limit is negative or over 9223372036854775807");
    b = (struct catalog_tenant){.name = BYTES("x"), .max_age_ns = -1};
    CHECK_INT(t, catalog_put_tenant(c, &b, &err), -EINVAL);
    b = (struct catalog_tenant){.max_age_ns = 1};
    CHECK_INT(t, catalog_put_tenant(c, &b, &err), -EINVAL);
    CHECK_STR(t, err.text, "the name of the tenant is missing");
}

static void lists_deployments_of_a_service_in_a_range(struct test *t)
{
    PLACE(p);
    CLEANUP(catalog_closep) struct catalog *c = open_catalog(t, p.path);
    struct catalog_deployment d = {
        .tenant = BYTES("acme"),
        .id = BYTES("d1"),
        .service = BYTES("checkout"),
        .version = BYTES("1.2"),
        .commit = BYTES("abc"),
        .branch = BYTES("main"),
        .environment = BYTES("prod"),
        .start_ns = 100,
    };
    struct error err = {0};
    TEXT of_one = {0}, of_all = {0}, tenants = {0};

    CHECK_INT(t, catalog_put_deployment(c, &d, &err), 0);
    d.id = BYTES("d2");
    d.start_ns = 50;
    CHECK_INT(t, catalog_put_deployment(c, &d, &err), 0);
    d.id = BYTES("d3");
    d.service = BYTES("cart");
    d.version = d.branch = (struct bytes){0};
    CHECK_INT(t, catalog_put_deployment(c, &d, &err), 0);
    d.start_ns = 99; /* the same again, corrected */
    CHECK_INT(t, catalog_put_deployment(c, &d, &err), 0);

    struct catalog_range range = {BYTES("checkout"), 50, 100};
    CHECK_INT(t, catalog_list_deployments(c, d.tenant, &range, take_deployment, &of_one, &err), 0);
    CHECK_STR(t, buf_cstr(&of_one), "acme d2 checkout 1.2 abc main prod 50;");
    range = (struct catalog_range){{0}, 51, 101};
    CHECK_INT(t, catalog_list_deployments(c, d.tenant, &range, take_deployment, &of_all, &err), 0);
    CHECK_STR(t, buf_cstr(&of_all),
              "acme d3 cart  abc  prod 99;acme d1 checkout 1.2 abc main prod 100;");
    CHECK_INT(t, catalog_list_tenants(c, take_tenant, &tenants, &err), 0);
    CHECK_STR(t, buf_cstr(&tenants), "acme 0 0 0;");

    d.service = (struct bytes){0};
    CHECK_INT(t, catalog_put_deployment(c, &d, &err), -EINVAL);
    CHECK_STR(t, err.text, "the service of the deployment is missing");
}

static void keeps_hashes_of_tokens_and_when_they_ended(struct test *t)
{
    PLACE(p);
    CLEANUP(catalog_closep) struct catalog *c = open_catalog(t, p.path);
    uint8_t hash[65] = {0xee};
    struct catalog_token token = {
        .id = BYTES("k1"),
        .tenant = BYTES("acme"),
        .name = BYTES("agent"),
        .hash = {hash, 32},
        .created_ns = 5,
        .expires_ns = 10,
        .roles = 5,
    };
    struct error err = {0};
    TEXT text = {0};

    CHECK_INT(t, catalog_add_token(c, &token, &err), 0);
    CHECK_INT(t, catalog_add_token(c, &token, &err), -EEXIST);
    CHECK_STR(t, err.text, "could not save the token: there is one with this id");
    CHECK_INT(t, catalog_find_token(c, BYTES("k1"), take_token, &text, &err), 0);
    CHECK_INT(t, catalog_revoke_token(c, BYTES("k1"), 7, &err), 0);
    CHECK_INT(t, catalog_revoke_token(c, BYTES("k1"), 9, &err), 0);
    CHECK_INT(t, catalog_list_tokens(c, BYTES("acme"), take_token, &text, &err), 0);
    CHECK_STR(t, buf_cstr(&text),
              "k1 acme agent 32:ee 5 10 0 roles 5;k1 acme agent 32:ee 5 10 7 roles 5;");
    CHECK_INT(t, catalog_revoke_token(c, BYTES("k2"), 9, &err), -ENOENT);
    CHECK_INT(t, catalog_find_token(c, BYTES("k2"), take_token, &text, &err), -ENOENT);
    CHECK_STR(t, err.text, "could not find the token: there is none of this name");

    token.id = BYTES("k3");
    token.hash.len = 31;
    CHECK_INT(t, catalog_add_token(c, &token, &err), -EINVAL);
    CHECK_STR(t, err.text, "could not save the token: its hash is 31 bytes long, not 32 to 64");
    token.hash.len = 65;
    CHECK_INT(t, catalog_add_token(c, &token, &err), -EINVAL);
    token.tenant = (struct bytes){0};
    CHECK_INT(t, catalog_add_token(c, &token, &err), -EINVAL);
    CHECK_STR(t, err.text, "the tenant of the token is missing");
}

static void keeps_what_a_tenant_may_use(struct test *t)
{
    PLACE(p);
    CLEANUP(catalog_closep) struct catalog *c = open_catalog(t, p.path);
    struct catalog_tenant a = {.name = BYTES("a"),
                               .bytes_per_s = 1,
                               .profiles_per_s = 2,
                               .series_max = 3,
                               .queries_max = 4};
    struct error err = {0};
    TEXT text = {0};

    CHECK_INT(t, catalog_put_tenant(c, &a, &err), 0);
    CHECK_INT(t, catalog_find_tenant(c, BYTES("a"), take_tenant, &text, &err), 0);
    CHECK_STR(t, buf_cstr(&text), "a 0 0 0 uses 1 2 3 4;");
    a.queries_max = UINT64_MAX;
    CHECK_INT(t, catalog_put_tenant(c, &a, &err), -EINVAL);
}

static void lists_the_tokens_of_all_tenants(struct test *t)
{
    PLACE(p);
    CLEANUP(catalog_closep) struct catalog *c = open_catalog(t, p.path);
    uint8_t hash[32] = {1};
    struct catalog_token token = {
        .id = BYTES("k1"), .tenant = BYTES("a"), .hash = {hash, 32}, .created_ns = 1};
    struct error err = {0};
    TEXT text = {0};

    CHECK_INT(t, catalog_add_token(c, &token, &err), 0);
    token.id = BYTES("k2");
    token.tenant = BYTES("*");
    CHECK_INT(t, catalog_add_token(c, &token, &err), 0);
    CHECK_INT(t, catalog_list_tokens(c, (struct bytes){0}, take_token, &text, &err), 0);
    CHECK_STR(t, buf_cstr(&text), "k1 a  32:01 1 0 0 roles 0;k2 *  32:01 1 0 0 roles 0;");
}

static void counts_changes_of_its_own_and_of_others(struct test *t)
{
    PLACE(p);
    CLEANUP(catalog_closep) struct catalog *c = open_catalog(t, p.path);
    struct catalog_tenant a = {.name = BYTES("a")};
    struct error err = {0};
    uint64_t first = 0, same = 0, own = 0, other = 0;

    CHECK_INT(t, catalog_change_count(c, &first, &err), 0);
    CHECK_INT(t, catalog_change_count(c, &same, &err), 0);
    CHECK(t, first == same);
    CHECK_INT(t, catalog_put_tenant(c, &a, &err), 0);
    CHECK_INT(t, catalog_change_count(c, &own, &err), 0);
    CHECK(t, own != same);
    run_sql(t, p.path, "INSERT INTO tenants (name) VALUES ('b')");
    CHECK_INT(t, catalog_change_count(c, &other, &err), 0);
    CHECK(t, other != own && other != first);
}

static void keeps_views_apart_from_rules(struct test *t)
{
    PLACE(p);
    CLEANUP(catalog_closep) struct catalog *c = open_catalog(t, p.path);
    struct catalog_document d = {CATALOG_VIEW, BYTES("acme"), BYTES("cpu"), BYTES("{\"a\":1}"), 1};
    struct error err = {0};
    TEXT text = {0}, gone = {0};

    CHECK_INT(t, catalog_put_document(c, &d, &err), 0);
    d.kind = CATALOG_RULE;
    d.json = BYTES("[]");
    CHECK_INT(t, catalog_put_document(c, &d, &err), 0);
    d.updated_ns = 2;
    CHECK_INT(t, catalog_put_document(c, &d, &err), 0);
    CHECK_INT(t, catalog_list_documents(c, CATALOG_VIEW, d.tenant, take_document, &text, &err), 0);
    CHECK_INT(t, catalog_find_document(c, &d, take_document, &text, &err), 0);
    CHECK_STR(t, buf_cstr(&text), "1 acme cpu {\"a\":1} 1;2 acme cpu [] 2;");
    CHECK_INT(t, catalog_delete_document(c, &d, &err), 0);
    CHECK_INT(t, catalog_delete_document(c, &d, &err), -ENOENT);
    CHECK_INT(t, catalog_find_document(c, &d, take_document, &gone, &err), -ENOENT);

    static const struct bytes not_json[] = {BYTES(""), BYTES("{"), BYTES("{}\0 or so")};
    for (size_t i = 0; i < ARRAY_SIZE(not_json); i++) {
        d.json = not_json[i];
        CHECK_INT(t, catalog_put_document(c, &d, &err), -EINVAL);
        CHECK_STR(t, err.text, "could not save the document: it is not JSON");
    }
    d.name = (struct bytes){0};
    CHECK_INT(t, catalog_put_document(c, &d, &err), -EINVAL);

    CHECK_INT(t, catalog_delete_tenant(c, BYTES("acme"), &err), 0);
    CHECK_INT(t, catalog_list_documents(c, CATALOG_VIEW, d.tenant, take_document, &gone, &err), 0);
    CHECK_STR(t, buf_cstr(&gone), "");
}

static void takes_any_string_as_nothing_but_a_string(struct test *t)
{
    static const struct bytes hostile[] = {
        BYTES("'; DROP TABLE tenants; --"),
        BYTES("\" OR 1=1"),
        BYTES("a\0b"),
        BYTES("a"),
        BYTES("\xff\xfe\x80"),
        BYTES("?1"),
        BYTES("%s%n"),
        BYTES("\n"),
    };
    PLACE(p);
    CLEANUP(catalog_closep) struct catalog *c = open_catalog(t, p.path);
    struct error err = {0};

    for (size_t i = 0; i < ARRAY_SIZE(hostile); i++) {
        struct catalog_tenant tenant = {.name = hostile[i], .max_bytes = i + 1};
        CHECK_INT(t, catalog_put_tenant(c, &tenant, &err), 0);
    }
    for (size_t i = 0; i < ARRAY_SIZE(hostile); i++) {
        TEXT got = {0}, want = {0};
        CHECK_INT(t, catalog_find_tenant(c, hostile[i], take_tenant, &got, &err), 0);
        take_tenant(&want, &(struct catalog_tenant){.name = hostile[i], .max_bytes = i + 1});
        CHECK(t, bytes_equal(buf_bytes(&got), buf_bytes(&want)));
    }
}

static void names_the_limit_that_a_value_is_over(struct test *t)
{
    PLACE(p);
    CLEANUP(catalog_closep) struct catalog *c = open_catalog(t, p.path);
    CLEANUP(freep) uint8_t *big = malloc(CATALOG_JSON_MAX + 1);
    struct bytes name = {big, CATALOG_NAME_MAX + 1};
    struct error err = {0};

    memset(big, ' ', CATALOG_JSON_MAX + 1);
    CHECK_INT(t, catalog_put_tenant(c, &(struct catalog_tenant){.name = name}, &err), -E2BIG);
    CHECK_STR(t, err.text,
              "the name of the tenant is 1025 bytes long, more than the limit of 1024");
    struct catalog_document d = {CATALOG_VIEW, BYTES("a"), BYTES("b"), {big, CATALOG_JSON_MAX + 1}};
    CHECK_INT(t, catalog_put_document(c, &d, &err), -E2BIG);
    CHECK_STR(t, err.text,
              "the JSON of the document is 1048577 bytes long, more than the limit of 1048576");
    struct catalog_deployment dep = {
        .tenant = BYTES("a"), .id = BYTES("b"), .service = BYTES("c"), .branch = name};
    CHECK_INT(t, catalog_put_deployment(c, &dep, &err), -E2BIG);
    CHECK_STR(t, err.text,
              "the branch of the deployment is 1025 bytes long, more than the limit of 1024");
    struct catalog_token token = {.id = BYTES("a"), .tenant = BYTES("b"), .name = name};
    CHECK_INT(t, catalog_add_token(c, &token, &err), -E2BIG);
    token.id = name;
    CHECK_INT(t, catalog_add_token(c, &token, &err), -E2BIG);
}

/* What version 1 was: a file made by the program that knew no documents. */
static void brings_an_old_file_up_to_date_and_keeps_its_rows(struct test *t)
{
    PLACE(p);
    struct error err = {0};
    TEXT text = {0};

    catalog_close(open_catalog(t, p.path));
    run_sql(t, p.path,
            "DROP TABLE documents; ALTER TABLE tokens DROP COLUMN roles;"
            "ALTER TABLE tenants DROP COLUMN bytes_per_s;"
            "ALTER TABLE tenants DROP COLUMN profiles_per_s;"
            "ALTER TABLE tenants DROP COLUMN series_max;"
            "ALTER TABLE tenants DROP COLUMN queries_max; PRAGMA user_version = 1;"
            "INSERT INTO tenants (name, max_age_ns) VALUES ('old', 9);"
            "INSERT INTO tokens VALUES ('t', 'old', 'n', zeroblob(32), 1, 0, 0)");
    CLEANUP(catalog_closep) struct catalog *c = open_catalog(t, p.path);
    CHECK_INT(t, catalog_find_tenant(c, BYTES("old"), take_tenant, &text, &err), 0);
    CHECK_STR(t, buf_cstr(&text), "old 9 0 0;");
    buf_clear(&text);
    CHECK_INT(t, catalog_list_tokens(c, BYTES("old"), take_token, &text, &err), 0);
    CHECK_STR(t, buf_cstr(&text), "t old n 32:00 1 0 0 roles 3;");
    struct catalog_document d = {CATALOG_VIEW, BYTES("old"), BYTES("v"), BYTES("1"), 1};
    CHECK_INT(t, catalog_put_document(c, &d, &err), 0);
}

static void begins_in_an_empty_file_or_database(struct test *t)
{
    PLACE(p);

    fclose(fopen(p.path, "w"));
    catalog_close(open_catalog(t, p.path));
    catalog_close(open_catalog(t, p.path));
    unlink(p.path);
    run_sql(t, p.path, "PRAGMA journal_mode = DELETE; VACUUM");
    catalog_close(open_catalog(t, p.path));
}

static void refuses_by_name_what_it_cannot_use(struct test *t)
{
    static const struct {
        const char *sql;
        int r;
        const char *why;
    } cases[] = {
        {"PRAGMA user_version = 4", -EPROTONOSUPPORT,
         "could not open the catalog: it is of version 4, this program knows versions up to 3"},
        {"PRAGMA user_version = -1", -EBADMSG, "could not open the catalog: its version is -1"},
        {"PRAGMA user_version = 1", -EBADMSG,
         "could not bring the catalog up to date: table documents already exists"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        PLACE(p);
        struct catalog *c = NULL;
        struct error err = {0};
        char want[512];
        catalog_close(open_catalog(t, p.path));
        run_sql(t, p.path, cases[i].sql);
        CHECK_INT(t, catalog_open(p.path, &c, &err), cases[i].r);
        CHECK(t, c == NULL);
        snprintf(want, sizeof(want), "\"%s\": %s", p.path, cases[i].why);
        CHECK_STR(t, err.text, want);
    }
}

static void says_that_a_path_cannot_be_opened(struct test *t)
{
    PLACE(p);
    struct catalog *c = NULL;
    struct error err = {0};
    char path[128];

    snprintf(path, sizeof(path), "%s/none/catalog.db", p.dir);
    CHECK_INT(t, catalog_open(path, &c, &err), -EACCES);
    CHECK(t, strstr(err.text, "could not open the catalog: unable to open database file") != NULL);
}

static void write_file(const char *path, struct bytes content)
{
    CLEANUP(fclosep) FILE *f = fopen(path, "w");

    if (!f || fwrite(content.data, 1, content.len, f) != content.len)
        abort();
}

/* Any bytes may be wrong: opening fails with words, or all calls work or fail; nothing crashes. */
static void a_damaged_file_is_an_error_and_no_more(struct test *t)
{
    PLACE(p);
    CLEANUP(catalog_closep) struct catalog *made = open_catalog(t, p.path);
    struct catalog_tenant tenant = {.name = BYTES("acme")};
    static uint8_t content[1 << 18];
    int n_refused = 0;

    CHECK_INT(t, catalog_put_tenant(made, &tenant, NULL), 0);
    catalog_close(TAKE_PTR(made));
    FILE *from = fopen(p.path, "r");
    size_t len = fread(content, 1, sizeof(content), from);
    fclose(from);
    for (size_t round = 0; round < 60; round++) {
        uint8_t *at = content + round * len / 60, was[16];
        memcpy(was, at, sizeof(was));
        memset(at, (int)(round * 37 + 1), sizeof(was));
        write_file(p.path, (struct bytes){content, len});
        memcpy(at, was, sizeof(was));

        CLEANUP(catalog_closep) struct catalog *c = NULL;
        struct error err = {0};
        int r = catalog_open(p.path, &c, &err);
        CHECK(t, r == 0 || (r < 0 && err.text[0] && !c));
        n_refused += r < 0;
        TEXT text = {0};
        if (r == 0 && catalog_list_tenants(c, take_tenant, &text, &err) < 0)
            CHECK(t, err.text[0]);
    }
    CHECK(t, n_refused > 0);

    write_file(p.path, BYTES("this is a letter, and by no means a database of any kind"));
    struct catalog *c = NULL;
    struct error err = {0};
    CHECK_INT(t, catalog_open(p.path, &c, &err), -EBADMSG);
    CHECK(t, strstr(err.text, "could not open the catalog: file is not a database") != NULL);
}

/* The schema was changed behind our back while we had it open. */
static void a_call_that_fails_says_which(struct test *t)
{
    PLACE(p);
    CLEANUP(catalog_closep) struct catalog *c = open_catalog(t, p.path);
    struct error err = {0};
    TEXT text = {0};

    run_sql(t, p.path, "ALTER TABLE tokens RENAME TO others");
    CHECK_INT(t, catalog_list_tokens(c, BYTES("a"), take_token, &text, &err), -EBADMSG);
    CHECK_STR(t, err.text, "could not list the tokens: no such table: tokens");
    CHECK_INT(t, catalog_find_token(c, BYTES("a"), take_token, &text, &err), -EBADMSG);
    CHECK_INT(t, catalog_revoke_token(c, BYTES("a"), 1, &err), -EBADMSG);
    CHECK_STR(t, err.text, "could not revoke the token: no such table: tokens");
}

struct opener {
    pthread_t thread;
    const char *path;
    struct catalog *shared; /* NULL: one of its own */
    int id, r;
};

static void *open_and_put(void *arg)
{
    struct opener *o = arg;
    CLEANUP(catalog_closep) struct catalog *own = NULL;
    struct error err = {0};
    char name[16];

    o->r = o->shared ? 0 : catalog_open(o->path, &own, &err);
    for (int i = 0; i < 5 && o->r == 0; i++) {
        snprintf(name, sizeof(name), "t%d-%d", o->id, i);
        struct catalog_tenant tenant = {.name = bytes_of(name)};
        o->r = catalog_put_tenant(o->shared ? o->shared : own, &tenant, &err);
    }
    if (o->r < 0)
        printf("# %s\n", err.text);
    return NULL;
}

static int count_tenant(void *ctx, const struct catalog_tenant *tenant)
{
    *(int *)ctx += tenant->name.len > 0;
    return 0;
}

static void put_from_threads(struct test *t, const char *path, struct catalog *shared)
{
    struct opener openers[4];
    int n = 0;

    for (int i = 0; i < 4; i++) {
        openers[i] = (struct opener){.path = path, .shared = shared, .id = i};
        CHECK_INT(t, pthread_create(&openers[i].thread, NULL, open_and_put, &openers[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(openers[i].thread, NULL);
        CHECK_INT(t, openers[i].r, 0);
    }
    CLEANUP(catalog_closep) struct catalog *c = open_catalog(t, path);
    CHECK_INT(t, catalog_list_tenants(c, count_tenant, &n, NULL), 0);
    CHECK_INT(t, n, 20);
}

static void several_may_open_and_change_it_at_once(struct test *t)
{
    PLACE(p);

    put_from_threads(t, p.path, NULL);
}

static void threads_may_share_one(struct test *t)
{
    PLACE(p);
    CLEANUP(catalog_closep) struct catalog *c = open_catalog(t, p.path);

    put_from_threads(t, p.path, c);
}

static const struct test_case cases[] = {
    TEST(keeps_tenants_and_their_limits),
    TEST(lists_deployments_of_a_service_in_a_range),
    TEST(keeps_hashes_of_tokens_and_when_they_ended),
    TEST(keeps_what_a_tenant_may_use),
    TEST(lists_the_tokens_of_all_tenants),
    TEST(counts_changes_of_its_own_and_of_others),
    TEST(keeps_views_apart_from_rules),
    TEST(takes_any_string_as_nothing_but_a_string),
    TEST(names_the_limit_that_a_value_is_over),
    TEST(brings_an_old_file_up_to_date_and_keeps_its_rows),
    TEST(begins_in_an_empty_file_or_database),
    TEST(refuses_by_name_what_it_cannot_use),
    TEST(says_that_a_path_cannot_be_opened),
    TEST(a_damaged_file_is_an_error_and_no_more),
    TEST(a_call_that_fails_says_which),
    TEST(several_may_open_and_change_it_at_once),
    TEST(threads_may_share_one),
};
TEST_MAIN(cases)

#include <errno.h>
#include <time.h>

#include "base/cleanup.h"
#include "catalog/catalog.h"
#include "lib/scratch.h"
#include "lib/set_clock.h"
#include "lib/test.h"
#include "server/auth.h"
#include "server/auth_table.h"
#include "server/call.h"
#include "server/token.h"
#include "wire/base64.h"

#define NOW_NS    ((int64_t)1800000000 * 1000000000)
#define HEADERS   8
#define SECOND_NS ((int64_t)1000000000)

/* A catalog in memory, a config, a clock. */
struct world {
    struct config *config;
    struct catalog *catalog;
    struct auth *auth;
    struct set_clock clock;
};

static void world_done(struct world *w)
{
    auth_free(w->auth);
    catalog_close(w->catalog);
    config_free(w->config);
}

static struct config *config_with(struct test *t, const char *const *flags)
{
    struct config_input in = {.args = flags};
    struct config *c = NULL;
    struct error err = {""};

    while (flags && flags[in.n_args])
        in.n_args++;
    CHECK_INT(t, server_config_load(&in, &c, &err), 0);
    CHECK_STR(t, err.text, "");
    return c;
}

static void world_init(struct world *w, struct test *t, const char *const *flags)
{
    struct error err = {""};

    *w = (struct world){.config = config_with(t, flags)};
    set_clock_init(&w->clock, NOW_NS);
    CHECK_INT(t, catalog_open(":memory:", &w->catalog, &err), 0);
    CHECK_INT(t, auth_new(server_config_of(w->config), w->catalog, &w->auth, &err), 0);
    CHECK_STR(t, err.text, "");
    auth_set_clock(w->auth, &w->clock.clock);
}

#define WORLD(w, t, ...)                                                                           \
    CLEANUP(world_done) struct world w;                                                            \
    world_init(&w, t, (const char *[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

/* Makes a token and has it read. */
static struct token_made add(struct world *w, struct test *t, const char *tenant, unsigned roles,
                             int64_t expires_ns)
{
    struct token_made made;
    struct error err = {""};

    CHECK_INT(t, token_make(&made, &err), 0);
    struct catalog_token row = {
        .id = bytes_of(made.id),
        .tenant = bytes_of(tenant),
        .name = BYTES("ci"),
        .hash = {made.hash, SHA256_BYTES},
        .created_ns = NOW_NS,
        .expires_ns = expires_ns,
        .roles = roles,
    };
    CHECK_INT(t, catalog_add_token(w->catalog, &row, &err), 0);
    CHECK_INT(t, auth_reload(w->auth, NULL, &err), 0);
    CHECK_STR(t, err.text, "");
    return made;
}

/* One request: "name: value" lines, from a peer. */
struct asked {
    const char *peer;
    const char *headers[HEADERS];
    const char *subject;
    unsigned role;
};

static int ask(struct world *w, const struct asked *q, struct auth_identity *who, struct error *err)
{
    struct http_header headers[HEADERS];
    struct http_request r = {
        .method = BYTES("GET"), .path = BYTES("/"), .headers = headers, .body_file = -1};

    for (; r.n_headers < HEADERS && q->headers[r.n_headers]; r.n_headers++) {
        struct bytes line = bytes_of(q->headers[r.n_headers]);
        size_t n = strcspn((const char *)line.data, ":");
        headers[r.n_headers] =
            (struct http_header){bytes_head(line, n), bytes_trim(bytes_from(line, n + 1))};
    }
    snprintf(r.peer, sizeof(r.peer), "%s", q->peer ? q->peer : "127.0.0.1:999");
    snprintf(r.peer_subject, sizeof(r.peer_subject), "%s", q->subject ? q->subject : "");
    return auth_check(w->auth, &r, q->role, who, err);
}

static int ask_with(struct world *w, const char *token, unsigned role, struct auth_identity *who,
                    struct error *err)
{
    char line[256];

    snprintf(line, sizeof(line), "authorization: Bearer %s", token);
    return ask(w, &(struct asked){.headers = {line}, .role = role}, who, err);
}

static void everyone_may_come_in_until_there_is_a_token(struct test *t)
{
    WORLD(w, t);
    struct auth_identity who = {0};
    struct error err = {""};
    struct asked q = {.role = ROLE_READ};

    CHECK(t, !auth_is_required(w.auth));
    CHECK_INT(t, ask(&w, &q, &who, &err), 0);
    CHECK_STR(t, who.tenant, "default");
    CHECK_STR(t, who.actor, "anonymous");
    CHECK_INT(t, who.roles, ROLE_INGEST | ROLE_READ | ROLE_ADMIN | ROLE_OPERATOR);
    add(&w, t, "acme", ROLE_INGEST, 0);
    CHECK(t, auth_is_required(w.auth));
    CHECK_INT(t, ask(&w, &q, &who, &err), -EACCES);
    CHECK_STR(t, err.text, "a token is needed: \"authorization: Bearer TOKEN\"");
    q.role = ROLE_ANYONE;
    CHECK_INT(t, ask(&w, &q, &who, &err), 0);
    CHECK_INT(t, who.roles, 0);
}

static void revoking_the_last_token_opens_nothing(struct test *t)
{
    WORLD(w, t);
    struct auth_identity who = {0};
    struct error err = {""};
    struct token_made made = add(&w, t, "acme", ROLE_READ, 0);

    CHECK_INT(t, ask_with(&w, made.text, ROLE_READ, &who, &err), 0);
    CHECK_INT(t, catalog_revoke_token(w.catalog, bytes_of(made.id), NOW_NS, &err), 0);
    CHECK_INT(t, auth_reload(w.auth, NULL, &err), 0);
    CHECK_INT(t, ask_with(&w, made.text, ROLE_READ, &who, &err), -EACCES);
    CHECK_STR(t, err.text, "the token was revoked");
    CHECK(t, auth_is_required(w.auth));
}

static void administration_without_tokens_is_for_this_machine(struct test *t)
{
    WORLD(w, t);
    static const struct {
        struct asked asked;
        int want;
    } cases[] = {
        {{.peer = "127.0.0.1:5"}, 0},
        {{.peer = "[::1]:5"}, 0},
        {{.peer = "unix:/run/vesta.sock"}, 0},
        {{.peer = "10.0.0.1:5"}, -EPERM},
        {{.peer = "[fe80::1]:5"}, -EPERM},
        {{.peer = "127.0.0.1:5", .headers = {"x-forwarded-for: 10.0.0.1"}}, -EPERM},
        {{.peer = "127.0.0.1:5", .headers = {"forwarded: for=10.0.0.1"}}, -EPERM},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct auth_identity who = {0};
        struct error err = {""};
        struct asked q = cases[i].asked;
        q.role = ROLE_ADMIN;
        CHECK_INT(t, ask(&w, &q, &who, &err), cases[i].want);
        if (cases[i].want)
            CHECK_STR(t, err.text,
                      "without a token, administration is for callers on the server's machine");
        q.role = ROLE_INGEST;
        CHECK_INT(t, ask(&w, &q, &who, &err), 0);
    }
}

static void a_token_comes_in_three_ways(struct test *t)
{
    WORLD(w, t);
    struct token_made made = add(&w, t, "acme", ROLE_INGEST | ROLE_READ, 0);
    CLEANUP(buf_done) struct buf pair = {0}, basic = {0}, alone = {0};
    char bearer[256], lower[256], key[256];

    snprintf(bearer, sizeof(bearer), "authorization: Bearer %s", made.text);
    snprintf(lower, sizeof(lower), "authorization: bearer   %s ", made.text);
    snprintf(key, sizeof(key), "x-api-key: %s", made.text);
    buf_addf(&pair, "tenant-or-user:%s", made.text);
    buf_add_str(&basic, "authorization: Basic ");
    base64_encode(buf_bytes(&pair), true, &basic);
    buf_clear(&pair);
    buf_addf(&pair, "%s:", made.text);
    buf_add_str(&alone, "authorization: Basic ");
    base64_encode(buf_bytes(&pair), true, &alone);
    const char *lines[] = {bearer, lower, key, buf_cstr(&basic), buf_cstr(&alone)};
    for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
        struct auth_identity who = {0};
        struct error err = {""};
        CHECK_INT(t, ask(&w, &(struct asked){.headers = {lines[i]}, .role = ROLE_READ}, &who, &err),
                  0);
        CHECK_STR(t, err.text, "");
        CHECK_STR(t, who.tenant, "acme");
        CHECK_STR(t, who.actor, "ci");
        CHECK_INT(t, who.roles, ROLE_INGEST | ROLE_READ);
    }
}

static void wrong_tokens_are_refused_in_words(struct test *t)
{
    WORLD(w, t);
    struct token_made made = add(&w, t, "acme", ROLE_READ, 0);
    struct token_made old = add(&w, t, "acme", ROLE_READ, NOW_NS);
    struct token_made later = add(&w, t, "acme", ROLE_READ, NOW_NS + 1);
    char other_secret[TOKEN_TEXT_MAX], other_id[TOKEN_TEXT_MAX];
    memcpy(other_secret, made.text, sizeof(other_secret));
    other_secret[strlen(other_secret) - 1] ^= 1;
    memcpy(other_id, made.text, sizeof(other_id));
    other_id[5] ^= 1;
    const struct {
        const char *token;
        int want;
        const char *why;
    } cases[] = {
        {"x", -EACCES, "the token is not known"},
        {"", -EACCES,
         "authorization is neither \"Bearer TOKEN\" nor \"Basic\" with the token as password"},
        {"vst_", -EACCES, "the token is not known"},
        {"vst__", -EACCES, "the token is not known"},
        {"vst_0123456789abcdef0_", -EACCES, "the token is not known"},
        {other_secret, -EACCES, "the token is not known"},
        {other_id, -EACCES, "the token is not known"},
        {old.text, -EACCES, "the token has expired"},
        {later.text, 0, ""},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct auth_identity who = {.actor = "untouched"};
        struct error err = {""};
        CHECK_INT(t, ask_with(&w, cases[i].token, ROLE_READ, &who, &err), cases[i].want);
        CHECK_STR(t, err.text, cases[i].why);
        CHECK_STR(t, who.actor, cases[i].want ? "untouched" : "ci");
    }
    set_clock_advance(&w.clock, 1);
    struct auth_identity who = {0};
    struct error err = {""};
    CHECK_INT(t, ask_with(&w, later.text, ROLE_READ, &who, &err), -EACCES);
}

static void headers_that_are_no_authorization_are_refused(struct test *t)
{
    WORLD(w, t, "--auth=on");
    static const char *const cases[] = {
        "authorization: Negotiate abc",
        "authorization: Basic !!!",
        "authorization: Bearer",
        "authorization: x",
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct auth_identity who = {0};
        struct error err = {""};
        CHECK_INT(t, ask(&w, &(struct asked){.headers = {cases[i]}, .role = ROLE_READ}, &who, &err),
                  -EACCES);
        CHECK_STR(t, err.text,
                  "authorization is neither \"Bearer TOKEN\" nor \"Basic\" with the token as "
                  "password");
    }
}

static void a_token_does_what_its_roles_say(struct test *t)
{
    WORLD(w, t);
    struct token_made ingest = add(&w, t, "acme", ROLE_INGEST, 0);
    struct token_made read = add(&w, t, "acme", ROLE_READ, 0);
    struct token_made admin = add(&w, t, "acme", ROLE_ADMIN, 0);
    const struct {
        const char *token;
        unsigned role;
        const char *why;
    } cases[] = {
        {ingest.text, ROLE_INGEST, NULL},
        {ingest.text, ROLE_READ, "this token may not do that: it has not the role \"read\""},
        {ingest.text, ROLE_ADMIN, "this token may not do that: it has not the role \"admin\""},
        {read.text, ROLE_READ, NULL},
        {read.text, ROLE_INGEST, "this token may not do that: it has not the role \"ingest\""},
        {admin.text, ROLE_INGEST, NULL},
        {admin.text, ROLE_READ, NULL},
        {admin.text, ROLE_ADMIN, NULL},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct auth_identity who = {0};
        struct error err = {""};
        CHECK_INT(t, ask_with(&w, cases[i].token, cases[i].role, &who, &err),
                  cases[i].why ? -EPERM : 0);
        CHECK_STR(t, err.text, cases[i].why ? cases[i].why : "");
    }
}

static void a_token_stays_with_its_tenant(struct test *t)
{
    WORLD(w, t, "--tenant-trust-header");
    struct token_made bound = add(&w, t, "acme", ROLE_READ, 0);
    struct token_made any = add(&w, t, TENANT_ANY, ROLE_READ, 0);
    char as_bound[256], as_any[256];
    snprintf(as_bound, sizeof(as_bound), "authorization: Bearer %s", bound.text);
    snprintf(as_any, sizeof(as_any), "authorization: Bearer %s", any.text);
    const struct {
        const char *token, *header;
        int want;
        const char *says; /* the tenant, or why not */
    } cases[] = {
        {as_bound, NULL, 0, "acme"},
        {as_bound, "x-scope-orgid: acme", 0, "acme"},
        {as_bound, "x-scope-orgid: beta", -EPERM,
         "this token is for the tenant \"acme\", not for \"beta\""},
        {as_any, NULL, 0, "default"},
        {as_any, "x-scope-orgid: beta", 0, "beta"},
        {as_any, "x-scope-orgid: ../beta", -EINVAL,
         "x-scope-orgid is no tenant: 1 to 64 letters, digits, '.', '_' or '-' are expected"},
        {as_any, "x-scope-orgid: *", -EINVAL,
         "x-scope-orgid is no tenant: 1 to 64 letters, digits, '.', '_' or '-' are expected"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct auth_identity who = {0};
        struct error err = {""};
        struct asked q = {.headers = {cases[i].token, cases[i].header}, .role = ROLE_READ};
        CHECK_INT(t, ask(&w, &q, &who, &err), cases[i].want);
        CHECK_STR(t, cases[i].want ? err.text : who.tenant, cases[i].says);
    }
}

static void a_tenant_header_counts_only_where_it_is_trusted(struct test *t)
{
    WORLD(closed, t);
    WORLD(open, t, "--tenant-trust-header", "--tenant-default=main");
    struct asked q = {.headers = {"x-scope-orgid: beta"}, .role = ROLE_READ};
    struct auth_identity who = {0};
    struct error err = {""};

    CHECK_INT(t, ask(&closed, &q, &who, &err), 0);
    CHECK_STR(t, who.tenant, "default");
    CHECK_INT(t, ask(&open, &q, &who, &err), 0);
    CHECK_STR(t, who.tenant, "beta");
    q.headers[0] = NULL;
    CHECK_INT(t, ask(&open, &q, &who, &err), 0);
    CHECK_STR(t, who.tenant, "main");
}

static void auth_on_lets_nobody_in_without_a_token(struct test *t)
{
    WORLD(w, t, "--auth=on");
    struct auth_identity who = {0};
    struct error err = {""};

    CHECK(t, auth_is_required(w.auth));
    CHECK_INT(t, ask(&w, &(struct asked){.role = ROLE_INGEST}, &who, &err), -EACCES);
}

static void auth_off_asks_nobody(struct test *t)
{
    WORLD(w, t, "--auth=off");
    struct auth_identity who = {0};
    struct error err = {""};

    add(&w, t, "acme", ROLE_READ, 0);
    CHECK(t, !auth_is_required(w.auth));
    CHECK_INT(t, ask_with(&w, "wrong", ROLE_READ, &who, &err), 0);
}

static void the_admin_token_of_the_config_may_do_everything(struct test *t)
{
    CLEANUP(scratch_done) struct scratch dir;
    char flag[600];
    struct auth_identity who = {0};
    struct error err = {""};

    scratch_init(&dir);
    FILE *f = fopen(scratch_name(&dir, "token"), "w");
    fputs("  correct-horse-battery-staple \nsecond line\n", f);
    fclose(f);
    snprintf(flag, sizeof(flag), "--admin-token-file=%s", dir.name);
    WORLD(w, t, flag);
    CHECK(t, auth_is_required(w.auth));
    CHECK_INT(t, ask_with(&w, "correct-horse-battery-staple", ROLE_ADMIN, &who, &err), 0);
    CHECK_STR(t, who.actor, "admin token");
    CHECK_INT(t, ask_with(&w, "correct-horse-battery-stapl", ROLE_ADMIN, &who, &err), -EACCES);
    CHECK_INT(t, ask_with(&w, "second line", ROLE_ADMIN, &who, &err), -EACCES);
}

static int open_with(struct test *t, const char *const *flags, struct catalog *catalog,
                     struct error *err)
{
    CLEANUP(config_freep) struct config *config = config_with(t, flags);
    CLEANUP(auth_freep) struct auth *a = NULL;

    return auth_new(server_config_of(config), catalog, &a, err);
}

static void a_check_that_cannot_be_made_keeps_the_server_from_starting(struct test *t)
{
    CLEANUP(catalog_closep) struct catalog *c = NULL;
    struct error err = {""};

    CHECK_INT(t, catalog_open(":memory:", &c, &err), 0);
    CHECK_INT(t, open_with(t, NULL, NULL, &err), -EIO);
    CHECK_STR(t, err.text,
              "tokens cannot be checked without the catalog; mend it, or say \"auth: off\" to let "
              "everyone in");
    CHECK_INT(t, open_with(t, (const char *[]){"--auth=off", NULL}, NULL, &err), 0);
    CHECK_INT(
        t, open_with(t, (const char *[]){"--admin-token=01234567890123456789", NULL}, NULL, &err),
        0);
    CHECK_INT(t, open_with(t, (const char *[]){"--admin-token=short", NULL}, c, &err), -EINVAL);
    CHECK_STR(t, err.text,
              "the admin token has 5 characters, fewer than the 20 that make it hard to guess");
    CHECK_INT(t, open_with(t, (const char *[]){"--admin-token-file=/nowhere/x", NULL}, c, &err),
              -ENOENT);
    CHECK_STR(t, err.text,
              "could not read admin_token_file \"/nowhere/x\": No such file or directory");
}

static void a_client_certificate_is_an_identity_when_the_config_says_so(struct test *t)
{
    WORLD(plain, t, "--auth=on");
    WORLD(w, t, "--auth=on", "--tls-cert-file=a", "--tls-key-file=b", "--tls-client-ca-file=c",
          "--tls-client-roles=ingest");
    struct asked q = {.subject = "CN=agent-7", .role = ROLE_INGEST};
    struct auth_identity who = {0};
    struct error err = {""};

    CHECK_INT(t, ask(&plain, &q, &who, &err), -EACCES);
    CHECK_INT(t, ask(&w, &q, &who, &err), 0);
    CHECK_STR(t, who.actor, "CN=agent-7");
    q.role = ROLE_READ;
    CHECK_INT(t, ask(&w, &q, &who, &err), -EACCES);
    q.subject = NULL;
    q.role = ROLE_INGEST;
    CHECK_INT(t, ask(&w, &q, &who, &err), -EACCES);
}

static void many_wrong_tokens_from_one_address_are_told_to_wait(struct test *t)
{
    WORLD(w, t);
    struct token_made made = add(&w, t, "acme", ROLE_READ, 0);
    struct auth_identity who = {0};
    struct error err = {""};
    struct asked q = {.peer = "10.1.1.1:1", .headers = {"x-api-key: guess"}, .role = ROLE_READ};
    char right[256];

    for (int i = 0; i < AUTH_FAILURES_MAX; i++) {
        q.peer = i % 2 ? "10.1.1.1:1" : "10.1.1.1:2";
        CHECK_INT(t, ask(&w, &q, &who, &err), -EACCES);
    }
    CHECK_INT(t, ask(&w, &q, &who, &err), -EAGAIN);
    CHECK_STR(t, err.text, "more than 20 wrong tokens came from this address; try again in 60 s");
    /* Others are not held up, nor is who has the right one, nor who has none. */
    q.peer = "10.1.1.2:1";
    CHECK_INT(t, ask(&w, &q, &who, &err), -EACCES);
    q.peer = "10.1.1.1:1";
    snprintf(right, sizeof(right), "x-api-key: %s", made.text);
    q.headers[0] = right;
    CHECK_INT(t, ask(&w, &q, &who, &err), 0);
    q.headers[0] = NULL;
    CHECK_INT(t, ask(&w, &q, &who, &err), -EACCES);
    q.headers[0] = "x-api-key: guess";
    set_clock_advance(&w.clock, AUTH_FAILURE_NS);
    CHECK_INT(t, ask(&w, &q, &who, &err), -EACCES);
}

static void neighbours_in_one_ipv6_network_are_one(struct test *t)
{
    static struct auth_failures f;

    for (int i = 0; i < AUTH_FAILURES_MAX; i++)
        CHECK_INT(t, auth_failures_add(&f, "[2001:db8::1]:1", 1), 0);
    CHECK(t, auth_failures_add(&f, "[2001:db8::ffff:2]:1", 1) > 0);
    CHECK_INT(t, auth_failures_add(&f, "[2001:db9::1]:1", 1), 0);
}

/* Another process adds and revokes; the watch finds out within two seconds. */
static void changes_by_others_are_noticed(struct test *t)
{
    CLEANUP(scratch_done) struct scratch dir;
    CLEANUP(catalog_closep) struct catalog *ours = NULL, *theirs = NULL;
    CLEANUP(config_freep) struct config *config = config_with(t, NULL);
    struct world w = {0};
    struct error err = {""};
    struct token_made made;

    scratch_init(&dir);
    CHECK_INT(t, catalog_open(scratch_name(&dir, "catalog.db"), &ours, &err), 0);
    CHECK_INT(t, catalog_open(dir.name, &theirs, &err), 0);
    CHECK_INT(t, auth_new(server_config_of(config), ours, &w.auth, &err), 0);
    CHECK_INT(t, auth_watch(w.auth, NULL, NULL, &err), 0);
    CHECK(t, !auth_is_required(w.auth));
    CHECK_INT(t, token_make(&made, &err), 0);
    struct catalog_token row = {.id = bytes_of(made.id),
                                .tenant = BYTES("acme"),
                                .hash = {made.hash, SHA256_BYTES},
                                .roles = ROLE_READ};
    CHECK_INT(t, catalog_add_token(theirs, &row, &err), 0);
    for (int i = 0; i < 200 && !auth_is_required(w.auth); i++)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    CHECK(t, auth_is_required(w.auth));
    auth_free(w.auth);
}

static void tenants_have_names_that_are_safe_everywhere(struct test *t)
{
    static const char *const sound[] = {"a", "Team-1_x.y", "...", "0"};
    static const char *const unsound[] = {"", ".", "..", "a/b", "a b", "\xc3\xa4", "*", "a\n"};
    char many[66];

    for (size_t i = 0; i < ARRAY_SIZE(sound); i++)
        CHECK(t, auth_tenant_is_sound(bytes_of(sound[i])));
    for (size_t i = 0; i < ARRAY_SIZE(unsound); i++)
        CHECK(t, !auth_tenant_is_sound(bytes_of(unsound[i])));
    memset(many, 'x', sizeof(many));
    CHECK(t, auth_tenant_is_sound((struct bytes){(const uint8_t *)many, 64}));
    CHECK(t, !auth_tenant_is_sound((struct bytes){(const uint8_t *)many, 65}));
}

static void tokens_are_long_random_and_have_a_form(struct test *t)
{
    struct token_made a, b;
    struct error err = {""};
    struct bytes id;
    CLEANUP(buf_done) struct buf text = {0};
    unsigned roles = 0;

    CHECK_INT(t, token_make(&a, &err), 0);
    CHECK_INT(t, token_make(&b, &err), 0);
    CHECK(t, strcmp(a.text, b.text) != 0 && strcmp(a.id, b.id) != 0);
    CHECK_INT(t, strlen(a.text), 4 + 16 + 1 + 64);
    CHECK(t, token_id(bytes_of(a.text), &id) && bytes_are(id, a.id));
    CHECK_INT(t, token_roles_parse(BYTES("read, ingest"), &roles, &err), 0);
    CHECK_INT(t, roles, ROLE_READ | ROLE_INGEST);
    token_roles_text(roles | ROLE_ADMIN, &text);
    CHECK_STR(t, buf_cstr(&text), "ingest,read,admin");
    CHECK_INT(t, token_roles_parse(BYTES("read,king"), &roles, &err), -EINVAL);
    CHECK_STR(t, err.text, "\"king\" is no role: they are ingest, read and admin");
    CHECK_INT(t, token_roles_parse(BYTES(""), &roles, &err), -EINVAL);
}

static const struct test_case cases[] = {
    TEST(everyone_may_come_in_until_there_is_a_token),
    TEST(revoking_the_last_token_opens_nothing),
    TEST(administration_without_tokens_is_for_this_machine),
    TEST(a_token_comes_in_three_ways),
    TEST(wrong_tokens_are_refused_in_words),
    TEST(headers_that_are_no_authorization_are_refused),
    TEST(a_token_does_what_its_roles_say),
    TEST(a_token_stays_with_its_tenant),
    TEST(a_tenant_header_counts_only_where_it_is_trusted),
    TEST(auth_on_lets_nobody_in_without_a_token),
    TEST(auth_off_asks_nobody),
    TEST(the_admin_token_of_the_config_may_do_everything),
    TEST(a_check_that_cannot_be_made_keeps_the_server_from_starting),
    TEST(a_client_certificate_is_an_identity_when_the_config_says_so),
    TEST(many_wrong_tokens_from_one_address_are_told_to_wait),
    TEST(neighbours_in_one_ipv6_network_are_one),
    TEST(changes_by_others_are_noticed),
    TEST(tenants_have_names_that_are_safe_everywhere),
    TEST(tokens_are_long_random_and_have_a_form),
};
TEST_MAIN(cases)

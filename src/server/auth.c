#include "server/auth.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <strings.h>
#include <time.h>

#include "base/must.h"
#include "catalog/catalog.h"
#include "server/auth_table.h"
#include "server/call.h"
#include "wire/base64.h"

#define EVERYTHING (ROLE_INGEST | ROLE_READ | ROLE_ADMIN) /* of one tenant */
#define TOKEN_MAX  ((size_t)512)                          /* bytes of what may be a token */
#define WATCH_NS   1000000000

struct auth {
    const struct clock *clock;
    struct catalog *catalog;

    pthread_rwlock_t lock; /* the table: held for a lookup, or for putting another in its place */
    struct auth_table *table;

    pthread_mutex_t reload_lock; /* one reading at a time */
    const struct server_config *config;
    uint64_t seen; /* the catalog's change count */

    pthread_mutex_t failure_lock;
    struct auth_failures failures;

    pthread_t watcher;
    bool is_watched;
    pthread_mutex_t stop_lock;
    pthread_cond_t stop;
    bool is_stopping;
    void (*changed)(void *ctx);
    void *changed_ctx;
};

/* ---- Life */

/* With reload_lock held, or before anyone else has `a`. */
static int read_table(struct auth *a, const struct server_config *config, struct error *err)
{
    struct auth_table *fresh = NULL;
    uint64_t seen = 0;
    /* Counted first: what changes meanwhile is read once more. */
    int r = a->catalog ? catalog_change_count(a->catalog, &seen, err) : 0;

    if (r == 0)
        r = auth_table_new(config, a->catalog, &fresh, err);
    if (r < 0)
        return r;
    pthread_rwlock_wrlock(&a->lock);
    struct auth_table *old = a->table;
    a->table = fresh;
    pthread_rwlock_unlock(&a->lock);
    auth_table_free(old);
    a->config = config;
    a->seen = seen;
    return 0;
}

int auth_new(const struct server_config *config, struct catalog *catalog, struct auth **ret,
             struct error *err)
{
    CLEANUP(auth_freep) struct auth *a = must_calloc(1, sizeof(*a));
    pthread_condattr_t monotonic;

    a->clock = clock_real();
    a->catalog = catalog;
    pthread_rwlock_init(&a->lock, NULL);
    pthread_mutex_init(&a->reload_lock, NULL);
    pthread_mutex_init(&a->failure_lock, NULL);
    pthread_mutex_init(&a->stop_lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&a->stop, &monotonic);
    pthread_condattr_destroy(&monotonic);
    int r = read_table(a, config, err);
    if (r < 0)
        return r;
    *ret = TAKE_PTR(a);
    return 0;
}

void auth_free(struct auth *a)
{
    if (!a)
        return;
    if (a->is_watched) {
        pthread_mutex_lock(&a->stop_lock);
        a->is_stopping = true;
        pthread_cond_signal(&a->stop);
        pthread_mutex_unlock(&a->stop_lock);
        pthread_join(a->watcher, NULL);
    }
    auth_table_free(a->table);
    pthread_rwlock_destroy(&a->lock);
    pthread_mutex_destroy(&a->reload_lock);
    pthread_mutex_destroy(&a->failure_lock);
    pthread_mutex_destroy(&a->stop_lock);
    pthread_cond_destroy(&a->stop);
    free(a);
}

void auth_set_clock(struct auth *a, const struct clock *clock)
{
    a->clock = clock;
}

int auth_reload(struct auth *a, const struct server_config *config, struct error *err)
{
    pthread_mutex_lock(&a->reload_lock);
    int r = read_table(a, config ? config : a->config, err);
    pthread_mutex_unlock(&a->reload_lock);
    return r;
}

/* Reads the tokens again when the catalog has changed. What cannot be read now is tried again: the
 * old table stays until then. */
static bool look(struct auth *a)
{
    uint64_t now = 0;
    bool is_new = false;

    pthread_mutex_lock(&a->reload_lock);
    if (catalog_change_count(a->catalog, &now, NULL) == 0 && now != a->seen)
        is_new = read_table(a, a->config, NULL) == 0;
    pthread_mutex_unlock(&a->reload_lock);
    return is_new;
}

static void *watch(void *arg)
{
    struct auth *a = arg;

    pthread_mutex_lock(&a->stop_lock);
    while (!a->is_stopping) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += WATCH_NS / 1000000000;
        pthread_cond_timedwait(&a->stop, &a->stop_lock, &until);
        if (a->is_stopping)
            break;
        pthread_mutex_unlock(&a->stop_lock);
        if (look(a) && a->changed)
            a->changed(a->changed_ctx);
        pthread_mutex_lock(&a->stop_lock);
    }
    pthread_mutex_unlock(&a->stop_lock);
    return NULL;
}

int auth_watch(struct auth *a, void (*changed)(void *ctx), void *ctx, struct error *err)
{
    if (!a->catalog)
        return 0; /* nothing to look at */
    a->changed = changed;
    a->changed_ctx = ctx;
    int r = -pthread_create(&a->watcher, NULL, watch, a);
    if (r < 0)
        return error_set(err, r, "could not watch the catalog: no thread to do it");
    a->is_watched = true;
    return 0;
}

/* Once there was a token, the server stays closed: revoking the last one opens nothing. */
static bool is_required(const struct auth_table *t)
{
    return t->mode == AUTH_ON || (t->mode == AUTH_AUTO && (t->n_tokens > 0 || t->has_admin));
}

bool auth_is_required(struct auth *a)
{
    pthread_rwlock_rdlock(&a->lock);
    bool required = is_required(a->table);
    pthread_rwlock_unlock(&a->lock);
    return required;
}

/* ---- What a request brings */

/* The rest of "SCHEME rest", when it is this scheme. */
static bool take_scheme(struct bytes value, const char *scheme, struct bytes *ret)
{
    size_t n = strlen(scheme);

    if (value.len <= n || strncasecmp((const char *)value.data, scheme, n) != 0 ||
        value.data[n] != ' ')
        return false;
    *ret = bytes_trim(bytes_from(value, n));
    return true;
}

/* The token of a request, in `scratch` when it had to be decoded: 1, or 0 when there is none. */
static int find_token(const struct http_request *r, struct buf *scratch, struct bytes *ret,
                      struct error *err)
{
    struct bytes value = http_header_value(r, "authorization"), rest;

    if (value.len == 0) {
        *ret = http_header_value(r, "x-api-key");
        return ret->len > 0;
    }
    if (value.len > 2 * TOKEN_MAX)
        return error_set(err, -EACCES, "the authorization is too long to be a token");
    if (take_scheme(value, "bearer", ret))
        return 1;
    if (!take_scheme(value, "basic", &rest) || !base64_decode(rest, scratch))
        return error_set(err, -EACCES,
                         "authorization is neither \"Bearer TOKEN\" nor \"Basic\" with the token "
                         "as password");
    struct bytes pair = buf_bytes(scratch);
    const uint8_t *colon = bytes_find_byte(pair, ':');
    struct bytes user = bytes_head(pair, colon ? (size_t)(colon - pair.data) : pair.len);
    struct bytes password = bytes_from(pair, colon ? user.len + 1 : pair.len);
    *ret = password.len > 0 ? password : user;
    return 1;
}

bool auth_tenant_is_sound(struct bytes tenant)
{
    if (tenant.len == 0 || tenant.len > TENANT_NAME_MAX || bytes_are(tenant, ".") ||
        bytes_are(tenant, ".."))
        return false;
    for (size_t i = 0; i < tenant.len; i++) {
        uint8_t c = tenant.data[i], letter = c | 0x20;
        if (!(letter >= 'a' && letter <= 'z') && !(c >= '0' && c <= '9') && c != '.' && c != '_' &&
            c != '-')
            return false;
    }
    return true;
}

static bool starts_with(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

/* A caller on this machine who is not a proxy for others. */
static bool is_local(const struct http_request *r)
{
    static const char *const forwarded[] = {"forwarded", "x-forwarded-for", "x-real-ip"};

    for (size_t i = 0; i < ARRAY_SIZE(forwarded); i++) {
        if (http_header_value(r, forwarded[i]).len > 0)
            return false;
    }
    return r->peer[0] == '\0' || starts_with(r->peer, "127.") || starts_with(r->peer, "[::1]") ||
           starts_with(r->peer, "[::ffff:127.") || starts_with(r->peer, "unix");
}

/* ---- Who it is */

static int name_tenant(const struct http_request *r, const char *bound, bool may_name,
                       const struct auth_table *t, char ret[TENANT_NAME_MAX + 1], struct error *err)
{
    struct bytes asked = http_header_value(r, "x-scope-orgid");
    bool is_bound = bound && strcmp(bound, TENANT_ANY) != 0;

    if (asked.len > 0 && (is_bound || may_name)) {
        if (!auth_tenant_is_sound(asked))
            return error_set(err, -EINVAL,
                             "x-scope-orgid is no tenant: 1 to 64 letters, digits, '.', '_' or '-' "
                             "are expected");
        if (is_bound && !bytes_are(asked, bound))
            return error_set(err, -EPERM, "this token is for the tenant \"%s\", not for \"%.*s\"",
                             bound, (int)asked.len, (const char *)asked.data);
    }
    if (is_bound)
        snprintf(ret, TENANT_NAME_MAX + 1, "%s", bound);
    else if (asked.len > 0 && may_name)
        snprintf(ret, TENANT_NAME_MAX + 1, "%.*s", (int)asked.len, (const char *)asked.data);
    else
        snprintf(ret, TENANT_NAME_MAX + 1, "%s", t->default_tenant);
    return 0;
}

static int by_token(const struct auth_table *t, const struct http_request *r, struct bytes text,
                    int64_t now_ns, struct auth_identity *ret, struct error *err)
{
    uint8_t hash[SHA256_BYTES];

    sha256(text, hash);
    if (t->has_admin && sha256_equal(hash, t->admin_hash)) {
        *ret = (struct auth_identity){.roles = EVERYTHING | ROLE_OPERATOR, .actor = "admin token"};
        return name_tenant(r, TENANT_ANY, true, t, ret->tenant, err);
    }
    const struct auth_token *token = auth_table_find(t, text, hash);
    if (!token)
        return error_set(err, -EACCES, "the token is not known");
    if (token->revoked_ns != 0)
        return error_set(err, -EACCES, "the token was revoked");
    if (token->expires_ns != 0 && token->expires_ns <= now_ns)
        return error_set(err, -EACCES, "the token has expired");
    *ret = (struct auth_identity){.roles = token->roles & EVERYTHING};
    bool is_any = strcmp(token->tenant, TENANT_ANY) == 0;
    if (token->roles & ROLE_ADMIN)
        ret->roles = EVERYTHING | (is_any ? ROLE_OPERATOR : 0);
    memcpy(ret->actor, token->name, sizeof(ret->actor));
    return name_tenant(r, token->tenant, is_any, t, ret->tenant, err);
}

/* Without a token: what the certificate, or nobody in particular, may do. */
static int by_itself(const struct auth_table *t, const struct http_request *r,
                     struct auth_identity *ret, struct error *err)
{
    bool is_open = !is_required(t);

    *ret = (struct auth_identity){.actor = "anonymous"};
    if (r->peer_subject[0]) {
        snprintf(ret->actor, sizeof(ret->actor), "%.*s", (int)sizeof(ret->actor) - 1,
                 r->peer_subject);
        ret->roles = t->client_roles & ROLE_ADMIN ? EVERYTHING : t->client_roles;
    }
    if (is_open)
        ret->roles |= is_local(r) ? EVERYTHING : ROLE_INGEST | ROLE_READ;
    if (ret->roles & ROLE_ADMIN)
        ret->roles |= ROLE_OPERATOR;
    return name_tenant(r, NULL, t->trusts_header, t, ret->tenant, err);
}

/* Whether the identity may do it, in words. */
static int check_role(const struct auth_table *t, const struct auth_identity *who, unsigned role,
                      bool has_token, struct error *err)
{
    const char *name = role & ROLE_ADMIN ? "admin" : role & ROLE_READ ? "read" : "ingest";

    if ((who->roles & role) == role)
        return 0;
    if (has_token)
        return error_set(err, -EPERM, "this token may not do that: it has not the role \"%s\"",
                         name);
    if (is_required(t))
        return error_set(err, -EACCES, "a token is needed: \"authorization: Bearer TOKEN\"");
    return error_set(err, -EPERM,
                     "without a token, administration is for callers on the server's machine");
}

/* One request: what it wants, and what was found. */
struct attempt {
    const struct http_request *request;
    unsigned role;
    bool has_token;
    struct auth_identity who;
};

static int check_with(const struct auth_table *t, int64_t now_ns, struct attempt *at,
                      struct error *err)
{
    CLEANUP(buf_done) struct buf scratch = {0};
    struct bytes text = {0};
    /* Where nobody is asked, tokens that clients send anyway are not looked at. */
    int found = is_required(t) ? find_token(at->request, &scratch, &text, err) : 0;

    at->has_token = found != 0;
    if (found < 0)
        return found;
    int n = found ? by_token(t, at->request, text, now_ns, &at->who, err)
                  : by_itself(t, at->request, &at->who, err);
    return n == 0 ? check_role(t, &at->who, at->role, at->has_token, err) : n;
}

static int count_failure(struct auth *a, const struct http_request *r, struct error *err)
{
    pthread_mutex_lock(&a->failure_lock);
    int64_t wait_ns = auth_failures_add(&a->failures, r->peer, clock_monotonic_ns(a->clock));
    pthread_mutex_unlock(&a->failure_lock);
    if (wait_ns <= 0)
        return -EACCES;
    return error_set(err, -EAGAIN,
                     "more than %d wrong tokens came from this address; try again in %lld s",
                     AUTH_FAILURES_MAX, (long long)((wait_ns + 999999999) / 1000000000));
}

int auth_check(struct auth *a, const struct http_request *r, unsigned role,
               struct auth_identity *ret, struct error *err)
{
    struct attempt at = {.request = r, .role = role};
    int64_t now_ns = clock_wall_ns(a->clock);

    pthread_rwlock_rdlock(&a->lock);
    int n = check_with(a->table, now_ns, &at, err);
    if (n < 0 && role == ROLE_ANYONE) { /* who it is does not matter */
        at.who = (struct auth_identity){.actor = "anonymous"};
        snprintf(at.who.tenant, sizeof(at.who.tenant), "%s", a->table->default_tenant);
        n = 0;
    }
    pthread_rwlock_unlock(&a->lock);
    if (n == -EACCES && at.has_token)
        n = count_failure(a, r, err);
    if (n == 0)
        *ret = at.who;
    return n;
}

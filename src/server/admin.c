#include "server/admin.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/must.h"
#include "catalog/catalog.h"
#include "query/time_range.h"
#include "server/audit.h"
#include "server/auth.h"
#include "server/call.h"
#include "server/routes.h"
#include "server/server_internal.h"
#include "server/tenant_limits.h"
#include "store/selector.h"
#include "wire/json.h"

/*
 * Administration over HTTP: tokens, tenants, erasing, the audit log. A token of one tenant with the
 * role admin looks after that tenant's tokens and data; what tenants may use is for those whose
 * token is of every tenant.
 */
#define AUDIT_LIMIT     100
#define AUDIT_LIMIT_MAX 10000

static bool is_operator(const struct call *c)
{
    return c->roles & ROLE_OPERATOR;
}

/* Whom a listing is about: one tenant, or all of them (empty). */
static struct bytes tenant_seen(const struct call *c)
{
    return is_operator(c) ? (struct bytes){0} : c->tenant;
}

static int need_catalog(const struct call *c, struct error *err)
{
    return c->server->catalog
               ? 0
               : error_set(err, -EIO, "the catalog could not be opened: see the log");
}

int admin_note(struct call *c, const char *action, struct bytes tenant, struct buf *what,
               struct error *err)
{
    const struct audit_event e = {
        .actor = c->actor,
        .peer = c->request->peer,
        .tenant = tenant,
        .action = action,
        .what = buf_bytes(what),
    };
    return audit_add(c->server->audit, &e, err);
}

static void reply_json(struct call *c, struct buf *body)
{
    buf_add_byte(body, '\n');
    http_reply_header(&c->reply, "cache-control", BYTES("no-store"));
    call_reply(c, "application/json", body);
}

/* ---- Bodies */

/* A request's JSON object, key by key; whatever is not known is refused. */
struct fields {
    struct call *c;
    struct input *in;
    struct json_reader *r;
};

static void fields_done(struct fields *f)
{
    json_reader_free(f->r);
    input_close(f->in);
}

static void fields_init(struct fields *f, struct call *c)
{
    *f = (struct fields){.c = c, .in = input_from_bytes(c->body, "the request", &c->budget)};
    f->r = json_reader_new(f->in, &c->budget);
}

/* A string that lives as long as the call. */
static struct bytes get_text(struct fields *f)
{
    struct bytes value = json_get_string(f->r);
    char *copy = arena_strdup(call_arena(f->c), value);

    return (struct bytes){(const uint8_t *)copy, copy ? value.len : 0};
}

static void get_duration(struct fields *f, int64_t *ret)
{
    struct bytes text = json_get_string(f->r);

    if (!json_failed(f->r) && !(bytes_are(text, "0") || bytes_to_duration(text, ret)))
        json_fail(f->r, "a duration such as \"30d\" is expected");
    else if (bytes_are(text, "0"))
        *ret = 0;
}

/* A number, or a text such as "10GiB". */
static void get_size(struct fields *f, uint64_t *ret)
{
    if (json_peek(f->r) != JSON_STRING) {
        *ret = json_get_u64(f->r);
        return;
    }
    if (!bytes_to_size(json_get_string(f->r), ret) && !json_failed(f->r))
        json_fail(f->r, "a size such as \"10GiB\" is expected");
}

static void unknown_field(struct fields *f, struct bytes key)
{
    json_fail(f->r, "there is no field \"%.*s\"", (int)(key.len < 40 ? key.len : 40),
              (const char *)key.data);
}

static int fields_end(struct fields *f, struct error *err)
{
    int r = json_finish(f->r, "the request", err);

    return r == -EBADMSG ? -EINVAL : r;
}

/* ---- Tokens */

/* "read,ingest" or ["read", "ingest"]. */
static void get_roles(struct fields *f, unsigned *ret)
{
    CLEANUP(buf_done) struct buf text = {0};
    struct error err;

    if (json_peek(f->r) == JSON_ARRAY) {
        json_enter_array(f->r);
        while (json_next_element(f->r)) {
            buf_add_str(&text, text.len ? "," : "");
            buf_add_bytes(&text, json_get_string(f->r));
        }
    } else {
        buf_add_bytes(&text, json_get_string(f->r));
    }
    if (!json_failed(f->r) && token_roles_parse(buf_bytes(&text), ret, &err) < 0)
        json_fail(f->r, "%s", err.text);
}

static int read_wish(struct call *c, struct token_wish *ret, struct error *err)
{
    CLEANUP(fields_done) struct fields f;
    struct token_wish wish = {.tenant = c->tenant};

    fields_init(&f, c);
    json_enter_object(f.r);
    for (struct bytes key; json_next_key(f.r, &key);) {
        if (bytes_are(key, "name"))
            wish.name = get_text(&f);
        else if (bytes_are(key, "tenant"))
            wish.tenant = get_text(&f);
        else if (bytes_are(key, "roles"))
            get_roles(&f, &wish.roles);
        else if (bytes_are(key, "expires_in"))
            get_duration(&f, &wish.lifetime_ns);
        else
            unknown_field(&f, key);
    }
    int r = fields_end(&f, err);
    if (r < 0)
        return r;
    if (!is_operator(c) && !bytes_equal(wish.tenant, c->tenant))
        return error_set(err, -EPERM, "this token makes tokens for its own tenant only");
    *ret = wish;
    return 0;
}

static void add_token(struct json_writer *w, const struct catalog_token *t)
{
    CLEANUP(buf_done) struct buf roles = {0};

    token_roles_text(t->roles, &roles);
    json_key(w, "id");
    json_string(w, t->id);
    json_key(w, "tenant");
    json_string(w, t->tenant);
    json_key(w, "name");
    json_string(w, t->name);
    json_key(w, "roles");
    json_string(w, buf_bytes(&roles));
    json_key(w, "created_ns");
    json_i64_string(w, t->created_ns);
    json_key(w, "expires_ns");
    json_i64_string(w, t->expires_ns);
    json_key(w, "revoked_ns");
    json_i64_string(w, t->revoked_ns);
}

static int create_token(struct call *c, struct error *err)
{
    CLEANUP(buf_done) struct buf body = {0}, what = {0};
    struct json_writer w = {.out = &body};
    struct token_wish wish = {0};
    struct token_made made;
    int r = need_catalog(c, err);

    if (r == 0)
        r = read_wish(c, &wish, err);
    if (r < 0)
        return r;
    buf_addf(&what, "name \"%.*s\", roles ", (int)wish.name.len, (const char *)wish.name.data);
    token_roles_text(wish.roles, &what);
    r = admin_note(c, "token.create", wish.tenant, &what, err);
    if (r == 0)
        r = admin_create_token(c->server->catalog, &wish, &made, err);
    if (r == 0)
        r = auth_reload(c->server->auth, NULL, err);
    if (r < 0)
        return r;
    json_begin_object(&w);
    json_key(&w, "id");
    json_cstring(&w, made.id);
    json_key(&w, "token");
    json_cstring(&w, made.text);
    json_key(&w, "tenant");
    json_string(&w, wish.tenant);
    json_end_object(&w);
    explicit_bzero(&made, sizeof(made));
    reply_json(c, &body);
    return 0;
}

static int list_one_token(void *ctx, const struct catalog_token *t)
{
    struct json_writer *w = ctx;

    json_begin_object(w);
    add_token(w, t);
    json_end_object(w);
    return 0;
}

static int list_tokens(struct call *c, struct error *err)
{
    CLEANUP(buf_done) struct buf body = {.budget = &c->budget};
    struct json_writer w = {.out = &body};
    int r = need_catalog(c, err);

    json_begin_object(&w);
    json_key(&w, "tokens");
    json_begin_array(&w);
    if (r == 0)
        r = catalog_list_tokens(c->server->catalog, tenant_seen(c), list_one_token, &w, err);
    json_end_array(&w);
    json_end_object(&w);
    if (r == 0 && buf_full(&body))
        r = buf_error(&body, err);
    if (r == 0)
        reply_json(c, &body);
    return r;
}

struct owner {
    struct call *c;
    char tenant[TENANT_NAME_MAX + 1];
};

static int take_owner(void *ctx, const struct catalog_token *t)
{
    struct owner *o = ctx;

    snprintf(o->tenant, sizeof(o->tenant), "%.*s", (int)t->tenant.len,
             (const char *)t->tenant.data);
    return 0;
}

static int revoke_token(struct call *c, struct error *err)
{
    CLEANUP(buf_done) struct buf body = {0}, what = {0};
    struct owner owner = {.c = c};
    int r = need_catalog(c, err);

    if (r == 0)
        r = catalog_find_token(c->server->catalog, c->rest, take_owner, &owner, err);
    /* To others a token of another tenant is none. */
    if (r == 0 && !is_operator(c) && !bytes_are(c->tenant, owner.tenant))
        r = error_set(err, -ENOENT, "could not find the token: there is none of this name");
    if (r < 0)
        return r;
    buf_addf(&what, "id %.*s", (int)c->rest.len, (const char *)c->rest.data);
    r = admin_note(c, "token.revoke", bytes_of(owner.tenant), &what, err);
    if (r == 0)
        r = catalog_revoke_token(c->server->catalog, c->rest, clock_wall_ns(clock_real()), err);
    if (r == 0)
        r = auth_reload(c->server->auth, NULL, err);
    if (r < 0)
        return r;
    buf_add_str(&body, "{}");
    reply_json(c, &body);
    return 0;
}

/* ---- Tenants */

static void add_tenant(struct json_writer *w, const struct catalog_tenant *t)
{
    const struct {
        const char *key;
        uint64_t value;
    } numbers[] = {
        {"max_bytes", t->max_bytes},
        {"bytes_per_second", t->bytes_per_s},
        {"profiles_per_second", t->profiles_per_s},
        {"series_max", t->series_max},
        {"queries_max", t->queries_max},
    };
    char text[DURATION_TEXT_MAX];

    json_begin_object(w);
    json_key(w, "name");
    json_string(w, t->name);
    json_key(w, "max_age");
    json_cstring(w, t->max_age_ns ? duration_text(t->max_age_ns, text) : "0");
    json_key(w, "max_span_age");
    json_cstring(w, t->max_span_age_ns ? duration_text(t->max_span_age_ns, text) : "0");
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
        json_key(w, numbers[i].key);
        json_u64(w, numbers[i].value);
    }
    json_end_object(w);
}

struct listing {
    struct json_writer w;
    struct bytes seen; /* empty: all */
};

static int list_one_tenant(void *ctx, const struct catalog_tenant *t)
{
    struct listing *l = ctx;

    if (!bytes_are(t->name, TENANT_ANY) && (l->seen.len == 0 || bytes_equal(l->seen, t->name)))
        add_tenant(&l->w, t);
    return 0;
}

static int list_tenants(struct call *c, struct error *err)
{
    CLEANUP(buf_done) struct buf body = {.budget = &c->budget};
    struct listing l = {.w = {.out = &body}, .seen = tenant_seen(c)};
    int r = need_catalog(c, err);

    json_begin_object(&l.w);
    json_key(&l.w, "tenants");
    json_begin_array(&l.w);
    if (r == 0)
        r = catalog_list_tenants(c->server->catalog, list_one_tenant, &l, err);
    json_end_array(&l.w);
    json_end_object(&l.w);
    if (r == 0 && buf_full(&body))
        r = buf_error(&body, err);
    if (r == 0)
        reply_json(c, &body);
    return r;
}

/* What is there already, for what the request leaves out. */
static int take_limits(void *ctx, const struct catalog_tenant *t)
{
    struct catalog_tenant *to = ctx;
    struct bytes name = to->name;

    *to = *t;
    to->name = name;
    return 0;
}

static int read_tenant(struct call *c, struct catalog_tenant *t, struct error *err)
{
    CLEANUP(fields_done) struct fields f;
    const struct {
        const char *key;
        uint64_t *size;
        int64_t *duration;
    } known[] = {
        {"max_age", NULL, &t->max_age_ns},
        {"max_span_age", NULL, &t->max_span_age_ns},
        {"max_bytes", &t->max_bytes, NULL},
        {"bytes_per_second", &t->bytes_per_s, NULL},
        {"profiles_per_second", &t->profiles_per_s, NULL},
        {"series_max", &t->series_max, NULL},
        {"queries_max", &t->queries_max, NULL},
    };

    fields_init(&f, c);
    json_enter_object(f.r);
    for (struct bytes key; json_next_key(f.r, &key);) {
        size_t i = 0;
        while (i < ARRAY_SIZE(known) && !bytes_are(key, known[i].key))
            i++;
        if (i == ARRAY_SIZE(known))
            unknown_field(&f, key);
        else if (known[i].size)
            get_size(&f, known[i].size);
        else
            get_duration(&f, known[i].duration);
    }
    return fields_end(&f, err);
}

static int apply_policy(void *ctx, const struct catalog_tenant *t)
{
    struct server *s = ctx;
    struct store_policy old, policy = {t->max_age_ns, t->max_span_age_ns, t->max_bytes};
    struct error err;

    store_get_policy(s->store, t->name, &old);
    if (old.max_age_ns == policy.max_age_ns && old.max_span_age_ns == policy.max_span_age_ns &&
        old.max_bytes == policy.max_bytes)
        return 0;
    int r = store_set_policy(s->store, t->name, &policy, &err);
    if (r < 0 && r != -ENOENT) /* one without profiles has nothing to keep */
        server_log(s, 3, "the policy of tenant \"%.*s\" stays as it is: %s", (int)t->name.len,
                   (const char *)t->name.data, err.text);
    return 0;
}

/* Copied first: the store syncs, and the catalog is locked while it is read. */
struct tenants {
    struct catalog_tenant *rows;
    size_t n;
};

static int copy_tenant(void *ctx, const struct catalog_tenant *t)
{
    struct tenants *all = ctx;

    if (!t->max_age_ns && !t->max_span_age_ns && !t->max_bytes)
        return 0; /* what was set elsewhere, by "vesta store policy", stays */
    all->rows = must_realloc(all->rows, (all->n + 1) * sizeof(*all->rows));
    all->rows[all->n] = *t;
    all->rows[all->n++].name = bytes_of(must_copy(t->name));
    return 0;
}

void admin_apply_policies(struct server *s)
{
    struct tenants all = {0};
    struct error err;

    if (s->catalog && catalog_list_tenants(s->catalog, copy_tenant, &all, &err) < 0)
        server_log(s, 3, "the policies of tenants stay as they are: %s", err.text);
    for (size_t i = 0; i < all.n; i++) {
        (void)apply_policy(s, &all.rows[i]);
        free((char *)all.rows[i].name.data);
    }
    free(all.rows);
}

static int put_tenant(struct call *c, struct error *err)
{
    CLEANUP(buf_done) struct buf body = {0}, what = {0};
    struct json_writer w = {.out = &body}, told = {.out = &what};
    struct catalog_tenant t = {.name = c->rest};
    int r = need_catalog(c, err);

    if (r < 0)
        return r;
    if (!is_operator(c))
        return error_set(err, -EPERM, "what tenants may use is for tokens of every tenant to say");
    if (!auth_tenant_is_sound(c->rest))
        return error_set(err, -EINVAL,
                         "the tenant is none: 1 to 64 letters, digits, '.', '_' or '-' are "
                         "expected");
    r = catalog_find_tenant(c->server->catalog, c->rest, take_limits, &t, err);
    if (r == 0 || r == -ENOENT)
        r = read_tenant(c, &t, err);
    if (r < 0)
        return r;
    add_tenant(&told, &t);
    r = admin_note(c, "tenant.put", c->rest, &what, err);
    if (r == 0)
        r = catalog_put_tenant(c->server->catalog, &t, err);
    if (r == 0)
        r = tenant_limits_reload(c->server->limits, NULL, c->server->catalog, err);
    if (r < 0)
        return r;
    (void)apply_policy(c->server, &t);
    add_tenant(&w, &t);
    reply_json(c, &body);
    return 0;
}

/* ---- Erasing */

struct erase_wish {
    struct bytes query, from, until;
    bool is_confirmed;
};

static int read_erase(struct call *c, struct erase_wish *ret, struct error *err)
{
    CLEANUP(fields_done) struct fields f;
    struct erase_wish wish = {.until = BYTES("now")};

    fields_init(&f, c);
    json_enter_object(f.r);
    for (struct bytes key; json_next_key(f.r, &key);) {
        if (bytes_are(key, "query"))
            wish.query = get_text(&f);
        else if (bytes_are(key, "from"))
            wish.from = get_text(&f);
        else if (bytes_are(key, "until"))
            wish.until = get_text(&f);
        else if (bytes_are(key, "confirm"))
            wish.is_confirmed = json_get_bool(f.r);
        else
            unknown_field(&f, key);
    }
    int r = fields_end(&f, err);
    if (r == 0 && (wish.query.len == 0 || wish.from.len == 0))
        r = error_set(err, -EINVAL,
                      "\"query\" (a selector; \"{}\" is everything) and \"from\" (a time; \"0\" is "
                      "since ever) are needed");
    if (r == 0)
        *ret = wish;
    return r;
}

static int count_one(void *ctx, const struct store_found *found)
{
    (void)found;
    ++*(uint64_t *)ctx;
    return 0;
}

static int read_scope(struct call *c, const struct erase_wish *wish, struct selector **ret_selector,
                      struct store_scope *ret, struct error *err)
{
    int64_t now_ns = clock_wall_ns(clock_real()), from = 0, until = 0;
    int r = selector_parse(wish->query, ret_selector, err);

    if (r == 0)
        r = time_parse(wish->from, now_ns, &from, err);
    if (r == 0)
        r = time_parse(wish->until, now_ns, &until, err);
    if (r == 0 && from >= until)
        r = error_set(err, -EINVAL, "the range ends before it begins");
    if (r == 0)
        *ret = (struct store_scope){c->tenant, *ret_selector, from, until};
    return r;
}

static int erase(struct call *c, struct error *err)
{
    CLEANUP(selector_freep) struct selector *selector = NULL;
    CLEANUP(buf_done) struct buf body = {0}, what = {0};
    struct json_writer w = {.out = &body};
    struct erase_wish wish = {0};
    struct store_scope scope;
    uint64_t n = 0;

    int r = read_erase(c, &wish, err);
    if (r == 0)
        r = read_scope(c, &wish, &selector, &scope, err);
    if (r < 0)
        return r;
    const struct store_find find = {.tenant = scope.tenant,
                                    .selector = selector,
                                    .from_ns = scope.from_ns,
                                    .to_ns = scope.to_ns,
                                    .cancelled = c->cancelled};
    r = store_profiles(c->server->store, &find, count_one, &n, err);
    if (r == 0 && wish.is_confirmed) {
        buf_addf(&what, "%" PRIu64 " profiles of %.*s from %.*s until %.*s", n, (int)wish.query.len,
                 (const char *)wish.query.data, (int)wish.from.len, (const char *)wish.from.data,
                 (int)wish.until.len, (const char *)wish.until.data);
        r = admin_note(c, "erase", c->tenant, &what, err);
        if (r == 0)
            r = store_erase(c->server->store, &scope, err);
    }
    if (r < 0)
        return r;
    json_begin_object(&w);
    json_key(&w, "profiles");
    json_u64(&w, n);
    json_key(&w, "erased");
    json_bool(&w, wish.is_confirmed);
    json_end_object(&w);
    reply_json(c, &body);
    return 0;
}

/* ---- The audit log */

static int show_audit(struct call *c, struct error *err)
{
    CLEANUP(buf_done) struct buf body = {.budget = &c->budget};
    struct bytes text;
    uint64_t limit = AUDIT_LIMIT;

    if (call_param(c, "limit", &text) && (!bytes_to_u64(text, &limit) || limit > AUDIT_LIMIT_MAX))
        return error_set(err, -EINVAL, "limit is a number up to %d", AUDIT_LIMIT_MAX);
    buf_add_str(&body, "{\"events\":");
    int r = audit_tail(c->server->audit, tenant_seen(c), (size_t)limit, &body, err);
    buf_add_byte(&body, '}');
    if (r == 0 && buf_full(&body))
        r = buf_error(&body, err);
    if (r == 0)
        reply_json(c, &body);
    return r;
}

#define ADMIN ROLE_ADMIN, LANE_QUERY, DIALECT_PLAIN, 1 << 20

const struct route admin_routes[] = {
    {"POST", "/api/v1/admin/tokens", ADMIN, create_token, 0,
     "Make a token; it is shown once. Body: name, tenant, roles (ingest, read, admin), expires_in",
     NULL},
    {"GET", "/api/v1/admin/tokens", ADMIN, list_tokens, 0, "Tokens, without their secrets", NULL},
    {"DELETE|POST", "/api/v1/admin/tokens/*", ADMIN, revoke_token, 0, "Revoke a token by its id",
     NULL},
    {"GET", "/api/v1/admin/tenants", ADMIN, list_tenants, 0, "Tenants with limits of their own",
     NULL},
    {"PUT|POST", "/api/v1/admin/tenants/*", ADMIN, put_tenant, 0,
     "Limits and retention of a tenant. Body: max_age, max_span_age, max_bytes, bytes_per_second, "
     "profiles_per_second, series_max, queries_max; 0 is the default",
     NULL},
    {"POST", "/api/v1/admin/erase", ADMIN, erase, 0,
     "Erase profiles for good. Body: query, from, until, confirm; without confirm they are counted",
     NULL},
    {"GET", "/api/v1/admin/audit", ADMIN, show_audit, 0, "Who changed what, newest first",
     "limit: number of events (100)"},
    {0},
};

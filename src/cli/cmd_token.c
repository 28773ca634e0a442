#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "catalog/catalog.h"
#include "cli/command.h"
#include "cli/remote.h"
#include "query/time_range.h"
#include "server/admin.h"
#include "server/audit.h"
#include "wire/json.h"

/*
 * `vesta token VERB`: with --data in the catalog of a data directory, which a running server
 * notices within two seconds; with --url through the server.
 */
struct place {
    struct catalog *catalog;
    struct audit *audit;
};

static void place_done(struct place *p)
{
    catalog_close(p->catalog);
    audit_close(p->audit);
}

/* A directory that is not there is made: tokens may come before the first start. */
static int place_open(const struct options *o, struct place *ret, struct error *err)
{
    char path[PATH_MAX];

    if (!o->data)
        return error_set(err, -EINVAL,
                         "say where: --data DIR (or VESTA_DATA), or --url URL (or VESTA_URL)");
    if (mkdir(o->data, 0700) < 0 && errno != EEXIST) {
        int r = -errno;
        return error_set(err, r, "could not make \"%s\": %m", o->data);
    }
    snprintf(path, sizeof(path), "%s/" AUDIT_FILE, o->data);
    int r = audit_open(path, &ret->audit, err);
    snprintf(path, sizeof(path), "%s/" CATALOG_FILE, o->data);
    return r < 0 ? r : catalog_open(path, &ret->catalog, err);
}

static int note(struct place *p, const char *action, struct bytes tenant, struct buf *what,
                struct error *err)
{
    const struct passwd *user = getpwuid(getuid());
    char actor[64];

    snprintf(actor, sizeof(actor), "%.50s", user ? user->pw_name : "unknown user");
    const struct audit_event e = {.actor = actor,
                                  .peer = "command line",
                                  .tenant = tenant,
                                  .action = action,
                                  .what = buf_bytes(what)};
    return audit_add(p->audit, &e, err);
}

/* ---- Create */

static int read_wish(const struct options *o, struct token_wish *ret, struct error *err)
{
    *ret = (struct token_wish){.name = bytes_of(o->name ? o->name : ""),
                               .tenant = bytes_of(o->tenant ? o->tenant : "default")};
    int r = token_roles_parse(bytes_of(o->roles ? o->roles : "ingest,read"), &ret->roles, err);
    if (r == 0 && o->expires)
        r = duration_parse(bytes_of(o->expires), &ret->lifetime_ns, err);
    return r;
}

static int create_here(const struct options *o, struct buf *out, struct error *err)
{
    CLEANUP(place_done) struct place p = {0};
    CLEANUP(buf_done) struct buf what = {0};
    struct token_wish wish;
    struct token_made made;

    int r = read_wish(o, &wish, err);
    if (r == 0)
        r = place_open(o, &p, err);
    if (r < 0)
        return r;
    buf_addf(&what, "name \"%s\", roles ", o->name ? o->name : "");
    token_roles_text(wish.roles, &what);
    r = note(&p, "token.create", wish.tenant, &what, err);
    if (r == 0)
        r = admin_create_token(p.catalog, &wish, &made, err);
    if (r < 0)
        return r;
    buf_addf(out, "%s\n", made.text);
    explicit_bzero(&made, sizeof(made));
    return 0;
}

/* ---- Through a server */

static int call_server(const struct options *o, const struct remote_call *call, struct budget *b,
                       struct http_answer *ret, struct error *err)
{
    CLEANUP(remote_done) struct remote remote = {0};
    struct options nobody = *o;

    nobody.tenant = NULL; /* the tenant is what it is about, not who asks */
    int r = remote_init(&remote, &nobody, err);
    if (r == 0)
        r = remote_call(&remote, call, b, ret, err);
    if (r == 0 && ret->status != 200) {
        r = remote_refusal(&remote, ret, err);
        http_answer_done(b, ret);
    }
    return r;
}

static void add_field(struct json_writer *w, const char *key, const char *value)
{
    if (!value)
        return;
    json_key(w, key);
    json_cstring(w, value);
}

/* The value of "token" in the answer. */
static int take_text(const struct http_answer *a, const char *wanted, struct budget *b,
                     struct buf *out, struct error *err)
{
    struct bytes text = {a->body.data.data, a->body.data.len};
    struct input *in = input_from_bytes(text, "the answer", b);
    struct json_reader *r = json_reader_new(in, b);

    json_enter_object(r);
    for (struct bytes key; json_next_key(r, &key);) {
        if (bytes_are(key, wanted)) {
            buf_add_bytes(out, json_get_string(r));
            buf_add_byte(out, '\n');
        } else {
            json_skip(r);
        }
    }
    int n = json_finish(r, "the answer", err);
    json_reader_free(r);
    input_close(in);
    return n;
}

static int create_there(const struct options *o, struct buf *out, struct error *err)
{
    CLEANUP(buf_done) struct buf body = {0};
    struct json_writer w = {.out = &body};
    struct http_answer answer = {0};
    struct budget b;

    budget_init(&b, BUDGET_DEFAULT_BYTES);
    json_begin_object(&w);
    add_field(&w, "name", o->name);
    add_field(&w, "tenant", o->tenant);
    add_field(&w, "roles", o->roles ? o->roles : "ingest,read");
    add_field(&w, "expires_in", o->expires);
    json_end_object(&w);
    const struct remote_call call = {.path = "/api/v1/admin/tokens",
                                     .body = buf_bytes(&body),
                                     .body_file = -1,
                                     .content_type = "application/json"};
    int r = call_server(o, &call, &b, &answer, err);
    if (r < 0)
        return r;
    r = take_text(&answer, "token", &b, out, err);
    http_answer_done(&b, &answer);
    return r;
}

static int run_create(const struct command *self, struct options *o)
{
    CLEANUP(buf_done) struct buf out = {0};
    struct error err = {""};

    if (o->n_args != 1)
        return command_usage(self, "token create takes options only");
    int r = o->url ? create_there(o, &out, &err) : create_here(o, &out, &err);
    if (r < 0)
        return command_fail(r, &err);
    int code = command_write(o, buf_bytes(&out), false);
    explicit_bzero(out.data, out.len);
    return code;
}

/* ---- List */

static const char *state_of(const struct catalog_token *t, int64_t now_ns)
{
    return t->revoked_ns                              ? "revoked"
           : t->expires_ns && t->expires_ns <= now_ns ? "expired"
                                                      : "good";
}

static int add_line(void *ctx, const struct catalog_token *t)
{
    CLEANUP(buf_done) struct buf roles = {0};
    char created[TIME_TEXT_MAX], expires[TIME_TEXT_MAX];
    int64_t now_ns = clock_wall_ns(clock_real()), day = (int64_t)86400 * 1000000000;

    token_roles_text(t->roles, &roles);
    buf_addf(ctx, "%-16.*s  %-12.*s  %-17s  %-7s  %.10s  %.10s  %.*s\n", (int)t->id.len,
             (const char *)t->id.data, (int)t->tenant.len, (const char *)t->tenant.data,
             buf_cstr(&roles), state_of(t, now_ns), time_text(t->created_ns / day * day, created),
             t->expires_ns ? time_text(t->expires_ns / day * day, expires) : "never     ",
             (int)t->name.len, (const char *)t->name.data);
    return 0;
}

static void add_head(struct buf *out)
{
    buf_addf(out, "%-16s  %-12s  %-17s  %-7s  %-10s  %-10s  %s\n", "id", "tenant", "roles", "state",
             "created", "expires", "name");
}

static int list_here(const struct options *o, struct buf *out, struct error *err)
{
    CLEANUP(place_done) struct place p = {0};
    int r = place_open(o, &p, err);

    if (r < 0)
        return r;
    add_head(out);
    return catalog_list_tokens(p.catalog, bytes_of(o->tenant ? o->tenant : ""), add_line, out, err);
}

/* One token of a server's answer, as a row. */
static void read_row(struct json_reader *r, struct arena *a, struct catalog_token *t)
{
    const struct {
        const char *key;
        struct bytes *text;
        int64_t *number;
    } fields[] = {
        {"id", &t->id, NULL},
        {"tenant", &t->tenant, NULL},
        {"name", &t->name, NULL},
        {"created_ns", NULL, &t->created_ns},
        {"expires_ns", NULL, &t->expires_ns},
        {"revoked_ns", NULL, &t->revoked_ns},
    };

    json_enter_object(r);
    for (struct bytes key; json_next_key(r, &key);) {
        size_t i = 0;
        while (i < ARRAY_SIZE(fields) && !bytes_are(key, fields[i].key))
            i++;
        if (i < ARRAY_SIZE(fields) && fields[i].text) {
            struct bytes value = json_get_string(r);
            char *copy = arena_strdup(a, value);
            *fields[i].text = (struct bytes){(const uint8_t *)copy, copy ? value.len : 0};
        } else if (i < ARRAY_SIZE(fields)) {
            *fields[i].number = json_get_i64(r);
        } else if (bytes_are(key, "roles")) {
            (void)token_roles_parse(json_get_string(r), &t->roles, NULL);
        } else {
            json_skip(r);
        }
    }
}

static int list_there(const struct options *o, struct buf *out, struct error *err)
{
    struct http_answer answer = {0};
    struct budget b;
    struct arena arena;

    budget_init(&b, BUDGET_DEFAULT_BYTES);
    arena_init(&arena, &b);
    const struct remote_call call = {.path = "/api/v1/admin/tokens", .body_file = -1};
    int r = call_server(o, &call, &b, &answer, err);
    if (r < 0)
        return r;
    struct bytes text = {answer.body.data.data, answer.body.data.len};
    struct input *in = input_from_bytes(text, "the answer", &b);
    struct json_reader *j = json_reader_new(in, &b);
    add_head(out);
    json_enter_object(j);
    for (struct bytes key; json_next_key(j, &key);) {
        if (!bytes_are(key, "tokens")) {
            json_skip(j);
            continue;
        }
        json_enter_array(j);
        while (json_next_element(j)) {
            struct catalog_token t = {0};
            read_row(j, &arena, &t);
            if (!o->tenant || bytes_are(t.tenant, o->tenant))
                (void)add_line(out, &t);
        }
    }
    r = json_finish(j, "the answer", err);
    json_reader_free(j);
    input_close(in);
    arena_done(&arena);
    http_answer_done(&b, &answer);
    return r;
}

static int run_list(const struct command *self, struct options *o)
{
    CLEANUP(buf_done) struct buf out = {0};
    struct error err = {""};

    if (o->n_args != 1)
        return command_usage(self, "token list takes options only");
    int r = o->url ? list_there(o, &out, &err) : list_here(o, &out, &err);
    return r < 0 ? command_fail(r, &err) : command_write(o, buf_bytes(&out), false);
}

/* ---- Revoke */

static int revoke_here(const struct options *o, const char *id, struct error *err)
{
    CLEANUP(place_done) struct place p = {0};
    CLEANUP(buf_done) struct buf what = {0};
    int r = place_open(o, &p, err);

    buf_addf(&what, "id %.40s", id);
    if (r == 0)
        r = note(&p, "token.revoke", (struct bytes){0}, &what, err);
    if (r == 0)
        r = catalog_revoke_token(p.catalog, bytes_of(id), clock_wall_ns(clock_real()), err);
    return r;
}

static int revoke_there(const struct options *o, const char *id, struct error *err)
{
    struct http_answer answer = {0};
    char path[128];
    struct budget b;

    if (strspn(id, "0123456789abcdef") != strlen(id) || strlen(id) > 64)
        return error_set(err, -EINVAL, "\"%.60s\" is no token's id", id);
    budget_init(&b, BUDGET_DEFAULT_BYTES);
    snprintf(path, sizeof(path), "/api/v1/admin/tokens/%s", id);
    const struct remote_call call = {
        .path = path, .body = BYTES("{}"), .body_file = -1, .content_type = "application/json"};
    int r = call_server(o, &call, &b, &answer, err);
    if (r == 0)
        http_answer_done(&b, &answer);
    return r;
}

static int run_revoke(const struct command *self, struct options *o)
{
    struct error err = {""};

    if (o->n_args != 2)
        return command_usage(self, "token revoke needs the id of one token");
    int r = o->url ? revoke_there(o, o->args[1], &err) : revoke_here(o, o->args[1], &err);
    return r < 0 ? command_fail(r, &err) : VESTA_EXIT_OK;
}

int cmd_token(const struct command *self, struct options *o)
{
    const char *verb = o->n_args > 0 ? o->args[0] : "";

    if (strcmp(verb, "create") == 0)
        return run_create(self, o);
    if (strcmp(verb, "list") == 0)
        return run_list(self, o);
    if (strcmp(verb, "revoke") == 0)
        return run_revoke(self, o);
    return command_usage(self, "token needs a verb: create, list or revoke");
}

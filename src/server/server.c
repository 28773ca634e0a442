#include "server/server.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/must.h"
#include "server/admin.h"
#include "server/audit.h"
#include "server/auth.h"
#include "server/control.h"
#include "server/deployments.h"
#include "server/dispatch.h"
#include "server/jobs.h"
#include "server/mask.h"
#include "server/names.h"
#include "server/self_profile.h"
#include "server/server_internal.h"
#include "server/sources.h"
#include "server/tenant_limits.h"
#include "store_local/local.h"
#include "wire/log.h"

/* ---- The log */

void server_log(struct server *s, int level, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    log_write((struct log_style){s->config->log_level, s->config->log_format}, level, fmt, ap);
    va_end(ap);
}

static void store_says(void *ctx, const char *text)
{
    server_log(ctx, 1, "store: %s", text);
}

static void http_says(void *ctx, int level, const char *text)
{
    server_log(ctx, level, "http: %s", text);
}

/* ---- Opening */

static uint32_t series_max_of(void *ctx, struct bytes tenant)
{
    const struct server *s = ctx;
    uint32_t max = s->limits ? tenant_limits_of(s->limits, tenant).series_max : 0;

    return max ? max : UINT32_MAX;
}

static int open_store(struct server *s, struct fs *fs, bool background, struct error *err)
{
    const struct server_config *c = s->config;
    struct local_options options = {
        .fs = fs,
        .background = background,
        .threads = background ? c->threads : 1,
        .memory_limit = c->memory_limit,
        .query_memory_limit = c->query_memory_limit,
        .disk_limit = c->disk_limit,
        .max_age_ns = c->retention_ns,
        .max_span_age_ns = c->span_retention_ns,
        .max_series_of = series_max_of,
        .max_series_ctx = s,
        .log = store_says,
        .log_ctx = s,
    };
    return local_open(&options, &s->store, err);
}

/* What people edit is not worth refusing to take profiles for, unless it says who may send them:
 * that is for auth_new() to say. */
static void open_catalog(struct server *s, const char *path)
{
    struct error err;
    if (catalog_open(path, &s->catalog, &err) < 0)
        server_log(s, 3, "going on without tokens, tenants and deployments: %s", err.text);
}

static int open_sources(struct server *s, const char *data_dir, struct error *err)
{
    CLEANUP(buf_done) struct buf path = {0};
    buf_addf(&path, "%s/sources", data_dir);
    return sources_open(buf_cstr(&path), &s->sources, err);
}

/* What needs neither disk nor network. */
static int open_parts(struct server *s, const char *data_dir, struct error *err)
{
    s->metrics = metrics_new();
    s->limits = tenant_limits_new(s->config, clock_real());
    s->control = control_new(s);
    s->deployments = deployments_new(s->catalog);
    int r = mask_new(s->config, &s->mask, err);
    if (r == 0)
        r = auth_new(s->config, s->catalog, &s->auth, err);
    if (r == 0 && s->catalog)
        r = tenant_limits_reload(s->limits, s->config, s->catalog, err);
    if (r == 0)
        r = names_open(s, data_dir, &s->names, err);
    return r == 0 && data_dir ? open_sources(s, data_dir, err) : r;
}

static struct server *server_new(const struct server_config *config)
{
    struct server *s = must_calloc(1, sizeof(*s));
    s->config = config;
    s->start_ns = clock_wall_ns(clock_real());
    return s;
}

int server_open(const struct server_config *config, struct fs *fs, struct server **ret,
                struct error *err)
{
    CLEANUP(server_stopp) struct server *s = server_new(config);

    open_catalog(s, ":memory:");
    int r = open_store(s, fs, false, err);
    if (r == 0)
        r = audit_open(NULL, &s->audit, err);
    if (r == 0)
        r = open_parts(s, NULL, err);
    if (r < 0)
        return r;
    *ret = TAKE_PTR(s);
    return 0;
}

/* ---- Listening */

#define LISTENS_MAX 64

struct listens {
    struct http_listen all[LISTENS_MAX];
    size_t n;
};

static void add_listens(struct listens *l, const struct config_list *list, bool is_tls)
{
    for (size_t i = 0; i < list->n && l->n < LISTENS_MAX; i++) {
        if (strcmp(list->items[i], "off") != 0)
            l->all[l->n++] = (struct http_listen){list->items[i], is_tls};
    }
}

static bool is_loopback(const char *address)
{
    return strncmp(address, "127.", 4) == 0 || strncmp(address, "[::1]", 5) == 0 ||
           strncmp(address, "localhost:", 10) == 0 || strncmp(address, "unix:", 5) == 0;
}

/* Data of others is not shown to everyone by accident: only a config that says who may ask, or an
 * operator who says so, opens a port to the world. */
static void warn_if_open(struct server *s, const struct listens *l)
{
    s->is_loopback_only = true;
    for (size_t i = 0; i < l->n; i++)
        s->is_loopback_only &= is_loopback(l->all[i].address);
    if (!s->is_loopback_only && !auth_is_required(s->auth))
        server_log(s, 2,
                   "anyone who can reach this port may read and write: make a token with "
                   "\"vesta token create --data %s\"",
                   s->config->data_dir);
}

static int listen_all(struct server *s, struct error *err)
{
    const struct server_config *c = s->config;
    bool is_tls = c->tls_cert_file[0] != '\0';
    struct listens l = {0};

    add_listens(&l, &c->listen, is_tls);
    add_listens(&l, &c->listen_otlp_grpc, is_tls);
    add_listens(&l, &c->listen_otlp_http, is_tls);
    warn_if_open(s, &l);
    struct http_server_options o = {
        .service = dispatch_service(s),
        .listens = l.all,
        .n_listens = l.n,
        .loops = c->threads,
        .cert_file = is_tls ? c->tls_cert_file : NULL,
        .key_file = is_tls ? c->tls_key_file : NULL,
        .client_ca_file = c->tls_client_ca_file[0] ? c->tls_client_ca_file : NULL,
        .connections_max = c->connections_max,
        .body_memory_max = c->body_memory,
        .body_limit = c->body_limit,
        .spool_dir = c->data_dir,
        .log = http_says,
        .log_ctx = s,
    };
    struct http_server *http = NULL;
    int r = http_server_start(&o, &http, err);
    s->http = http;
    return r;
}

static int make_data_dir(const char *path, struct error *err)
{
    if (mkdir(path, 0700) < 0 && errno != EEXIST) {
        int r = -errno;
        return error_set(err, r, "could not make the data directory \"%s\": %m", path);
    }
    return 0;
}

/* Tokens have been read again by then. */
static void catalog_changed(void *ctx)
{
    struct server *s = ctx;
    struct error err;

    if (tenant_limits_reload(s->limits, NULL, s->catalog, &err) < 0)
        server_log(s, 3, "the limits of tenants stay as they are: %s", err.text);
    admin_apply_policies(s);
}

int server_start(const struct server_config *config, struct server **ret, struct error *err)
{
    CLEANUP(server_stopp) struct server *s = server_new(config);
    CLEANUP(buf_done) struct buf path = {0};
    struct fs *fs = NULL;

    int r = make_data_dir(config->data_dir, err);
    if (r == 0)
        r = fs_real_new(config->data_dir, &fs, err);
    if (r == 0)
        r = open_store(s, fs, true, err);
    if (r == -EBUSY) {
        struct error why = *err;
        return error_set(err, r, "%s: %.300s; stop it, or choose another directory with --data",
                         config->data_dir, why.text);
    }
    if (r < 0)
        return error_prefix(err, r, "%s", config->data_dir);
    buf_addf(&path, "%s/" CATALOG_FILE, config->data_dir);
    open_catalog(s, buf_cstr(&path));
    admin_apply_policies(s);
    buf_clear(&path);
    buf_addf(&path, "%s/" AUDIT_FILE, config->data_dir);
    r = audit_open(buf_cstr(&path), &s->audit, err);
    if (r == 0)
        r = open_parts(s, config->data_dir, err);
    if (r == 0)
        r = jobs_start(s, &s->jobs, err);
    if (r == 0)
        r = auth_watch(s->auth, catalog_changed, s, err);
    if (r == 0)
        r = listen_all(s, err);
    if (r == 0 && config->self_profile)
        r = self_profiler_start(s, &s->self, err);
    if (r < 0)
        return r;
    server_log(s, 1, "vesta %s keeps profiles in %s; %s", VESTA_VERSION, config->data_dir,
               auth_is_required(s->auth) ? "everyone needs a token" : "nobody needs a token");
    for (size_t i = 0; server_address(s, i); i++)
        server_log(s, 1, "listening on %s", server_address(s, i));
    server_log(s, 1, "pages for a browser at %s://%s/", config->tls_cert_file[0] ? "https" : "http",
               server_address(s, 0));
    *ret = TAKE_PTR(s);
    return 0;
}

const char *server_address(const struct server *s, size_t i)
{
    return http_server_address(s->http, i);
}

/* ---- While it runs */

static void name_unchangeable(struct server *s, const struct server_config *to)
{
    size_t at = 0;

    for (const struct config_key *key;
         (key = config_next_change(&server_config_table, s->config, to, &at));) {
        if (!(key->flags & CONFIG_RELOADS))
            server_log(s, 2, "%s changes with a restart only", key->name);
    }
}

static int apply(struct server *s, const struct server_config *config, struct error *err)
{
    int r = auth_reload(s->auth, config, err);
    if (r == 0)
        r = tenant_limits_reload(s->limits, config, s->catalog, err);
    if (r == 0)
        r = mask_reload(s->mask, config, err);
    if (r == 0)
        r = http_server_reload(s->http, config->tls_cert_file, config->tls_key_file, err);
    return r;
}

int server_reload(struct server *s, const struct server_config *config, struct error *err)
{
    int r = apply(s, config, err);
    if (r < 0) {
        (void)apply(s, s->config, NULL); /* what was changed before the failure goes back */
        return r;
    }
    name_unchangeable(s, config);
    s->config = config;
    server_log(s, 1, "the configuration was read again");
    return 0;
}

void server_stop(struct server *s)
{
    if (!s)
        return;
    bool was_started = s->http;
    if (was_started)
        server_log(s, 1, "stopping");
    atomic_store(&s->is_draining, true);
    if (s->control)
        control_stop(s->control); /* answers who holds a long poll */
    if (s->http && http_server_drain(s->http, s->config->drain_timeout_ns) < 0)
        server_log(s, 2, "some requests were broken off after drain_timeout");
    self_profiler_stop(s->self);
    jobs_stop(s->jobs);
    http_server_free(s->http);
    names_close(s->names);
    sources_close(s->sources);
    control_free(s->control);
    auth_free(s->auth);
    audit_close(s->audit);
    tenant_limits_free(s->limits);
    deployments_free(s->deployments);
    mask_free(s->mask);
    store_close(s->store);
    catalog_close(s->catalog);
    metrics_free(s->metrics);
    if (was_started)
        server_log(s, 1, "stopped");
    free(s);
}

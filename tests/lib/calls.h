#pragma once

#include <string.h>

#include "base/cleanup.h"
#include "config/server_config.h"
#include "lib/sim_fs.h"
#include "lib/test.h"
#include "server/server.h"

/*
 * A server on a simulated disk, without a network, and requests to it. Change `config` between
 * calls_config() and calls_open(), or use calls_begin() for both.
 *
 *     struct calls c;
 *     calls_begin(t, &c);
 *     struct http_reply r = call_get(&c, "/api/v1/types?query=cpu");
 *     CHECK_INT(t, r.status, 200);
 *     http_reply_done(&r);
 *     calls_end(&c);
 */
struct calls {
    struct sim_fs *sim;
    struct config *loaded;
    struct server_config config;
    struct server *server;
};

static inline void calls_config(struct calls *c)
{
    struct error err = {""};
    *c = (struct calls){.sim = sim_fs_new(1)};
    if (server_config_load(&(struct config_input){0}, &c->loaded, &err) < 0) {
        printf("# %s\n", err.text);
        abort();
    }
    c->config = *server_config_of(c->loaded);
    c->config.log_level = "error";
}

static inline void calls_open(struct test *t, struct calls *c)
{
    struct error err = {""};
    int r = server_open(&c->config, sim_fs_fs(c->sim), &c->server, &err);
    if (r < 0) {
        printf("# %s\n", err.text);
        abort();
    }
    (void)t;
}

static inline void calls_begin(struct test *t, struct calls *c)
{
    calls_config(c);
    calls_open(t, c);
}

static inline void calls_end(struct calls *c)
{
    server_stop(c->server);
    config_free(c->loaded);
    sim_fs_free(c->sim);
}

/* `headers` alternate names and values up to NULL, and may be NULL. */
static inline struct http_reply call_send(struct calls *c, const char *method, const char *target,
                                          const char *const *headers, struct bytes body)
{
    struct http_header all[32];
    size_t n = 0;
    for (; headers && headers[2 * n]; n++)
        all[n] = (struct http_header){bytes_of(headers[2 * n]), bytes_of(headers[2 * n + 1])};
    const char *mark = strchr(target, '?');
    struct http_request q = {
        .method = bytes_of(method),
        .path = {(const uint8_t *)target, mark ? (size_t)(mark - target) : strlen(target)},
        .query = bytes_of(mark ? mark + 1 : ""),
        .authority = BYTES("localhost:4040"),
        .headers = all,
        .n_headers = n,
        .body = body,
        .body_file = -1,
        .body_len = body.len,
        .peer = "127.0.0.1:1",
    };
    struct http_reply reply = {0};
    server_handle(c->server, &q, &reply);
    if (reply.status == 0)
        reply.status = 200;
    return reply;
}

static inline struct http_reply call_get(struct calls *c, const char *target)
{
    return call_send(c, "GET", target, NULL, (struct bytes){0});
}

static inline struct http_reply call_post(struct calls *c, const char *target,
                                          const char *content_type, struct bytes body)
{
    const char *const headers[] = {"content-type", content_type, NULL};
    return call_send(c, "POST", target, headers, body);
}

/* Whether the body holds this text. */
static inline bool reply_has(const struct http_reply *r, const char *text)
{
    return bytes_find(buf_bytes(&r->body), bytes_of(text)) != NULL;
}

/* The value of a header, or an empty one. */
static inline struct bytes reply_header(const struct http_reply *r, const char *name)
{
    struct bytes rest = buf_bytes(&r->head);
    for (struct http_header h; http_reply_next(&rest, &h);)
        if (bytes_are(h.name, name))
            return h.value;
    return (struct bytes){0};
}

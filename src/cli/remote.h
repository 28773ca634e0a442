#pragma once

#include "cli/options.h"
#include "net/http_client.h"

/*
 * A Vesta server that a command talks to: where it is (--url), who we are (--token, --tenant, a
 * certificate), and how to put a question.
 */
#define REMOTE_DEFAULT_URL "http://127.0.0.1:4040"
#define REMOTE_HEADERS_MAX 16

struct remote {
    struct http_client_options http; /* may be changed before the first call */
    struct http_client *client;
    char *base;  /* "http://127.0.0.1:4040" */
    char *shown; /* the same for people: without a password, a socket by its path */
    char *socket;
    char *authorization;
    struct http_header headers[REMOTE_HEADERS_MAX];
    size_t n_headers;
};

/* Connects to nobody yet. -EINVAL for a URL or token that cannot be. remote_done() in any case. */
int remote_init(struct remote *r, const struct options *o, struct error *err);
void remote_done(struct remote *r);

struct remote_call {
    const char *path; /* "/api/v1/...?a=b" */
    struct bytes body;
    int body_file; /* as in struct http_fetch */
    uint64_t body_file_len;
    const char *content_type, *content_encoding; /* of the body; or NULL */
    const char *accept;                          /* or NULL */
};

/* GET, or POST with a body. 0 and any status, the body unpacked; errors name the server. */
int remote_call(struct remote *r, const struct remote_call *call, struct budget *b,
                struct http_answer *ret, struct error *err);

/* What a status other than 200 means to a command: -ENODATA (nothing matches), -ENOENT (no such
 * route), -EACCES (401 and 403, saying what to do), -EINVAL (400), -EAGAIN (429, 503...), else
 * -EIO; with what the server said. */
int remote_refusal(const struct remote *r, const struct http_answer *a, struct error *err);

/* Appends "&name=value", escaped. Lists of parameters begin with "&". */
void remote_param(struct buf *params, struct bytes name, struct bytes value);
/* A label of what is pushed: "&label.NAME=value", so that no name is taken for something else. */
void remote_label(struct buf *params, struct bytes name, struct bytes value);
void remote_param_i64(struct buf *params, const char *name, int64_t value);

/* Appends those of `more` whose names `params` does not have yet. */
void remote_param_missing(struct buf *params, struct bytes more);

/* Appends a path and its parameters. */
void remote_path(struct buf *out, const char *path, struct bytes params);

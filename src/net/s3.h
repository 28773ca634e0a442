#pragma once

#include "base/cleanup.h"
#include "net/http_client.h"

/*
 * Buckets that speak Amazon's S3 protocol: list, get, put, one request after another. Requests are
 * signed (signature version 4, path style). Belongs to one thread.
 */
struct s3;

/* Strings are borrowed until s3_free(). */
struct s3_options {
    const char *endpoint; /* "http://127.0.0.1:9000"; NULL: Amazon's for the region */
    const char *region;   /* NULL: us-east-1 */
    const char *access_key, *secret_key;
    const char *session_token;       /* or NULL */
    struct http_client_options http; /* certificates, timeouts */
};

/* -EINVAL without keys, or for a bad endpoint. */
int s3_new(const struct s3_options *o, struct s3 **ret, struct error *err);
void s3_free(struct s3 *s); /* NULL is fine */
DEFINE_CLEANUP(struct s3 *, s3_free)

#define S3_BUCKET_MAX 63
#define S3_KEY_MAX    1024

struct s3_place {
    char bucket[S3_BUCKET_MAX + 1];
    char key[S3_KEY_MAX + 1]; /* of objects, or what keys begin with; may be empty */
};

/* "s3://bucket/key" */
bool s3_is_url(const char *text);
int s3_parse(const char *url, struct s3_place *ret, struct error *err);

struct s3_object {
    const char *key;
    uint64_t size;
    int64_t modified_ns; /* 0: not known */
};

#define S3_LIST_MAX 100000

/* Objects whose keys begin with place->key, in order. A sink that returns other than 0 ends it with
 * that. -E2BIG past S3_LIST_MAX of them. */
typedef int (*s3_object_fn)(void *ctx, const struct s3_object *object);
int s3_list(struct s3 *s, const struct s3_place *place, s3_object_fn sink, void *ctx,
            struct error *err);

/* -ENOENT when there is none; -EACCES, -EAGAIN (too busy)... with what the server said. */
int s3_get(struct s3 *s, const struct s3_place *place, struct budget *b, struct http_body *ret,
           struct error *err);
int s3_put(struct s3 *s, const struct s3_place *place, struct bytes content,
           const char *content_type, struct error *err);

/* ---- For tests */

struct s3_signing {
    const char *method, *host;
    struct bytes path;          /* escaped */
    struct bytes query;         /* escaped, sorted by name */
    const char *time;           /* "20130524T000000Z" */
    const char *content_sha256; /* hex */
};

/* The value of the Authorization header. */
void s3_sign(const struct s3_options *o, const struct s3_signing *r, struct buf *out);

#include "cli/bucket.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/must.h"
#include "net/s3.h"

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

/* What is said counts more. */
static void take_environment(struct s3_options *o)
{
    if (!o->endpoint)
        o->endpoint = variable("AWS_ENDPOINT_URL_S3");
    if (!o->endpoint)
        o->endpoint = variable("AWS_ENDPOINT_URL");
    if (!o->region)
        o->region = variable("AWS_REGION");
    if (!o->region)
        o->region = variable("AWS_DEFAULT_REGION");
    if (!o->access_key)
        o->access_key = variable("AWS_ACCESS_KEY_ID");
    if (!o->secret_key)
        o->secret_key = variable("AWS_SECRET_ACCESS_KEY");
    if (!o->session_token)
        o->session_token = variable("AWS_SESSION_TOKEN");
}

static int open_bucket(const struct options *o, const char *url, struct s3 **ret,
                       struct s3_place *ret_place, struct error *err)
{
    struct s3_options s3 = {
        .endpoint = o->s3_endpoint, .region = o->s3_region, .http = {.silence_s = o->timeout}};

    take_environment(&s3);
    int r = s3_parse(url, ret_place, err);
    return r < 0 ? r : s3_new(&s3, ret, err);
}

int bucket_put(const struct options *o, const char *url, struct bytes content,
               const char *content_type, struct error *err)
{
    CLEANUP(s3_freep) struct s3 *s3 = NULL;
    struct s3_place place;

    int r = open_bucket(o, url, &s3, &place, err);
    return r < 0 ? r : s3_put(s3, &place, content, content_type, err);
}

/* ---- Pushing what is there */

struct kept {
    char *key;
    uint64_t size;
    int64_t modified_ns;
};

struct bucket {
    struct pusher *p;
    struct s3 *s3;
    struct s3_place place;
    struct budget budget;
    VEC(struct kept) objects; /* sorted by key, as they are listed */
};

static void bucket_done(struct bucket *b)
{
    for (size_t i = 0; i < b->objects.len; i++)
        free(b->objects.data[i].key);
    vec_done(&b->budget, &b->objects);
    s3_free(b->s3);
}

static int on_object(void *ctx, const struct s3_object *object)
{
    struct bucket *b = ctx;
    struct kept kept = {must_copy(bytes_of(object->key)), object->size, object->modified_ns};

    if (vec_push(&b->budget, &b->objects, kept))
        return 0;
    free(kept.key);
    return -ENOMEM;
}

static int by_key(const void *a, const void *b)
{
    const struct kept *x = a, *y = b;
    return strcmp(x->key, y->key);
}

static bool has_key(const struct bucket *b, const char *key, size_t len, const char *ending)
{
    char name[S3_KEY_MAX + 8];

    snprintf(name, sizeof(name), "%.*s%s", (int)len, key, ending);
    return b->objects.len > 0 && bsearch(&(struct kept){.key = name}, b->objects.data,
                                         b->objects.len, sizeof(struct kept), by_key);
}

static bool is_sidecar(const struct bucket *b, const char *key)
{
    size_t len = strlen(key);
    return len > 5 && strcmp(key + len - 5, ".json") == 0 && has_key(b, key, len - 5, "");
}

static int get(struct bucket *b, const char *key, const char *ending, struct http_body *ret,
               struct error *err)
{
    struct s3_place place = b->place;
    int n = snprintf(place.key, sizeof(place.key), "%s%s", key, ending);

    if (n < 0 || (size_t)n >= sizeof(place.key))
        return error_set(err, -ENAMETOOLONG, "the key is too long");
    return s3_get(b->s3, &place, &b->p->budget, ret, err);
}

static int read_sidecar(struct bucket *b, const char *key, struct sidecar *ret, struct error *err)
{
    struct http_body body = {0};

    if (!has_key(b, key, strlen(key), ".json"))
        return 0;
    int r = get(b, key, ".json", &body, err);
    if (r < 0)
        return r;
    r = sidecar_parse((struct bytes){body.data.data, body.data.len}, clock_wall_ns(clock_real()),
                      ret, err);
    http_body_done(&b->p->budget, &body);
    return r < 0 ? error_prefix(err, r, "\"%s.json\"", key) : 0;
}

static int push_object(struct bucket *b, const struct kept *object, struct error *err)
{
    CLEANUP(sidecar_done) struct sidecar sidecar = {0};
    struct http_body body = {0};

    int r = read_sidecar(b, object->key, &sidecar, err);
    if (r == 0)
        r = get(b, object->key, "", &body, err);
    if (r == 0 && body.data.len == 0)
        r = error_set(err, -EBADMSG, "is empty");
    if (r == -EAGAIN || r == -EACCES || http_should_retry(r, NULL))
        return r; /* the bucket, not this object */
    if (r < 0) {
        push_reject(b->p, object->key, err->text);
        return 0;
    }
    struct push_item item = {.name = object->key,
                             .content = {body.data.data, body.data.len},
                             .time_ns = object->modified_ns,
                             .sidecar = &sidecar};
    r = push_item(b->p, &item, err);
    http_body_done(&b->p->budget, &body);
    return r;
}

int bucket_push(struct pusher *p, const char *url, struct error *err)
{
    CLEANUP(bucket_done) struct bucket b = {.p = p};

    budget_init(&b.budget, (size_t)64 << 20);
    int r = open_bucket(p->o, url, &b.s3, &b.place, err);
    if (r == 0)
        r = s3_list(b.s3, &b.place, on_object, &b, err);
    if (r < 0)
        return r;
    if (b.objects.len == 0)
        return error_set(err, -ENODATA, "there is nothing under %s", url);
    qsort(b.objects.data, b.objects.len, sizeof(struct kept), by_key);
    p->n_of = b.objects.len;
    for (size_t i = 0; r >= 0 && i < b.objects.len; i++) {
        const struct kept *object = &b.objects.data[i];
        p->n_at = i;
        if (object->size > 0 && !is_sidecar(&b, object->key))
            r = push_object(&b, object, err);
    }
    return r;
}

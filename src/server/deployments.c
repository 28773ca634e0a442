#include "server/deployments.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/must.h"
#include "query/time_range.h"
#include "server/server_internal.h"
#include "wire/json.h"

#define SEEN_SLOTS 4096
#define SEEN_PROBE 8

/* Writing to the catalog is slow: versions that somebody makes up must not fill it. */
#define BURST       64
#define REFILL_NS   ((int64_t)1000000000)
#define ID_TEXT_MAX 32

/* Of one service within a month: one that has more makes its versions up, from the time say. */
#define MONTHLY_MAX 1000
#define DAY_NS      ((int64_t)86400 * 1000000000)

struct deployments {
    struct catalog *catalog;
    pthread_mutex_t lock;
    _Atomic(uint64_t) seen[SEEN_SLOTS]; /* hashes; 0 is free */
    int64_t refilled_ns;
    unsigned left;
};

struct deployments *deployments_new(struct catalog *catalog)
{
    struct deployments *d = must_calloc(1, sizeof(*d));
    d->catalog = catalog;
    d->left = BURST;
    pthread_mutex_init(&d->lock, NULL);
    return d;
}

void deployments_free(struct deployments *d)
{
    if (!d)
        return;
    pthread_mutex_destroy(&d->lock);
    free(d);
}

static bool was_seen(struct deployments *d, uint64_t hash)
{
    for (size_t i = 0; i < SEEN_PROBE; i++) {
        if (atomic_load_explicit(&d->seen[(hash + i) & (SEEN_SLOTS - 1)], memory_order_relaxed) ==
            hash)
            return true;
    }
    return false;
}

/* Where there is no room, one that was seen earlier goes: the catalog knows it. */
static void remember(struct deployments *d, uint64_t hash)
{
    size_t at = hash & (SEEN_SLOTS - 1);

    for (size_t i = 0; i < SEEN_PROBE; i++) {
        size_t k = (hash + i) & (SEEN_SLOTS - 1);
        if (atomic_load_explicit(&d->seen[k], memory_order_relaxed) == 0) {
            at = k;
            break;
        }
    }
    atomic_store_explicit(&d->seen[at], hash, memory_order_relaxed);
}

static bool take_turn(struct deployments *d)
{
    int64_t now = clock_monotonic_ns(clock_real());
    int64_t due = (now - d->refilled_ns) / REFILL_NS;

    if (due > 0) {
        d->left = due >= BURST - (int64_t)d->left ? BURST : d->left + (unsigned)due;
        d->refilled_ns = now;
    }
    if (d->left == 0)
        return false;
    d->left--;
    return true;
}

/* The same for the same deployment, whoever makes it. */
static void make_id(const struct catalog_deployment *d, int64_t salt, char ret[ID_TEXT_MAX])
{
    const struct bytes parts[] = {d->service, d->version, d->commit, d->environment, d->id};
    uint64_t h = (uint64_t)salt;

    for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
        h = checksum64_seeded(parts[i].data, parts[i].len, h + 1);
    snprintf(ret, ID_TEXT_MAX, "%016" PRIx64, h);
}

struct known {
    const struct catalog_deployment *wanted;
    bool found;
    size_t recent;
};

static bool agrees(struct bytes a, struct bytes b)
{
    return a.len == 0 || b.len == 0 || bytes_equal(a, b);
}

static int on_known(void *ctx, const struct catalog_deployment *d)
{
    struct known *k = ctx;
    const struct catalog_deployment *w = k->wanted;
    bool tells = (w->version.len > 0 && bytes_equal(w->version, d->version)) ||
                 (w->commit.len > 0 && bytes_equal(w->commit, d->commit)) ||
                 (w->id.len > 0 && bytes_equal(w->id, d->id));

    k->recent += d->start_ns > w->start_ns - 30 * DAY_NS;
    k->found |= tells && agrees(w->version, d->version) && agrees(w->commit, d->commit) &&
                agrees(w->environment, d->environment);
    return 0;
}

/* False when the catalog could not be asked or told: the next profile tries again. */
static bool put_new(struct deployments *d, struct catalog_deployment *found)
{
    struct known known = {.wanted = found};
    struct catalog_range all = {.service = found->service, .to_ns = INT64_MAX};
    char id[ID_TEXT_MAX];

    if (catalog_list_deployments(d->catalog, found->tenant, &all, on_known, &known, NULL) < 0)
        return false;
    if (known.found || known.recent >= MONTHLY_MAX)
        return true;
    make_id(found, 0, id);
    found->id = bytes_of(id);
    return catalog_put_deployment(d->catalog, found, NULL) == 0;
}

void deployments_saw(struct deployments *d, struct bytes tenant, const struct label *labels,
                     size_t n_labels, int64_t start_ns)
{
    struct catalog_deployment found = {
        .tenant = tenant,
        .service = label_value(labels, n_labels, BYTES(LABEL_SERVICE)),
        .version = label_value(labels, n_labels, BYTES(LABEL_VERSION)),
        .commit = label_value(labels, n_labels, BYTES("vcs.ref.head.revision")),
        .branch = label_value(labels, n_labels, BYTES("vcs.ref.head.name")),
        .environment = label_value(labels, n_labels, BYTES(LABEL_ENVIRONMENT)),
        .id = label_value(labels, n_labels, BYTES("deployment.id")),
        .start_ns = start_ns};
    const struct bytes parts[] = {tenant,       found.service,     found.version,
                                  found.commit, found.environment, found.id};
    uint64_t hash = 0;

    if (!d || !d->catalog || found.version.len + found.commit.len + found.id.len == 0)
        return;
    for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
        hash = hash_mix(hash, hash_bytes(parts[i].data, parts[i].len));
    hash |= 1;
    if (was_seen(d, hash))
        return;
    pthread_mutex_lock(&d->lock);
    if (!was_seen(d, hash) && take_turn(d) && put_new(d, &found))
        remember(d, hash);
    pthread_mutex_unlock(&d->lock);
}

/* ---- Routes */

static int no_catalog(struct error *err)
{
    return error_set(err, -EIO, "deployments are not kept: the catalog could not be opened");
}

static struct bytes keep(struct call *c, struct bytes s)
{
    const char *copy = arena_strdup(call_arena(c), s);
    return copy ? (struct bytes){(const uint8_t *)copy, s.len} : (struct bytes){0};
}

/* A time is a string as people write it, or a number since 1970. */
static struct bytes read_time(struct call *c, struct json_reader *r)
{
    return keep(c, json_peek(r) == JSON_NUMBER ? json_get_raw(r) : json_get_string(r));
}

static int read_deployment(struct call *c, struct catalog_deployment *d, struct bytes *time,
                           struct error *err)
{
    CLEANUP(input_closep) struct input *in = input_from_bytes(c->body, "body", &c->budget);
    CLEANUP(json_reader_freep) struct json_reader *r = json_reader_new(in, &c->budget);
    const struct {
        const char *name;
        struct bytes *to;
    } fields[] = {
        {"service", &d->service}, {"version", &d->version},         {"commit", &d->commit},
        {"branch", &d->branch},   {"environment", &d->environment}, {"id", &d->id},
    };

    json_enter_object(r);
    for (struct bytes key; json_next_key(r, &key);) {
        size_t i = 0;
        while (i < ARRAY_SIZE(fields) && !bytes_are(key, fields[i].name))
            i++;
        if (i < ARRAY_SIZE(fields))
            *fields[i].to = keep(c, json_get_string(r));
        else if (bytes_are(key, "time"))
            *time = read_time(c, r);
        else
            json_fail(r, "\"%.*s\" is no field of a deployment", (int)(key.len > 64 ? 64 : key.len),
                      (const char *)key.data);
    }
    return json_finish(r, "json", err);
}

static int post_deployment(struct call *c, struct error *err)
{
    struct catalog_deployment d = {.tenant = c->tenant};
    struct bytes time = {0};
    char id[ID_TEXT_MAX];
    int64_t now = clock_wall_ns(clock_real());

    int r = read_deployment(c, &d, &time, err);
    if (r < 0)
        return r;
    if (d.service.len == 0)
        return error_set(err, -EINVAL, "a deployment needs a \"service\"");
    d.start_ns = now;
    if (time.len > 0 && (r = time_parse(time, now, &d.start_ns, err)) < 0)
        return error_prefix(err, r, "\"time\"");
    if (!c->server->catalog)
        return no_catalog(err);
    if (d.id.len == 0) {
        make_id(&d, d.start_ns, id);
        d.id = bytes_of(id);
    }
    r = catalog_put_deployment(c->server->catalog, &d, err);
    if (r < 0)
        return r;
    CLEANUP(buf_done) struct buf out = {0};
    struct json_writer w = {.out = &out};
    json_begin_object(&w);
    json_key(&w, "id");
    json_string(&w, d.id);
    json_end_object(&w);
    call_reply(c, "application/json", &out);
    return 0;
}

static void put_text(struct json_writer *w, const char *key, struct bytes value)
{
    if (value.len == 0)
        return;
    json_key(w, key);
    json_string(w, value);
}

static int on_deployment(void *ctx, const struct catalog_deployment *d)
{
    struct json_writer *w = ctx;
    char text[TIME_TEXT_MAX];

    json_begin_object(w);
    put_text(w, "id", d->id);
    put_text(w, "service", d->service);
    put_text(w, "version", d->version);
    put_text(w, "commit", d->commit);
    put_text(w, "branch", d->branch);
    put_text(w, "environment", d->environment);
    put_text(w, "time", bytes_of(time_text(d->start_ns, text)));
    json_key(w, "time_ns");
    json_i64_string(w, d->start_ns);
    json_end_object(w);
    return buf_full(w->out) ? -ENOBUFS : 0;
}

static int param_time(struct call *c, const char *name, int64_t now, int64_t *ret,
                      struct error *err)
{
    struct bytes text;

    if (!call_param(c, name, &text) || text.len == 0)
        return 0;
    int r = time_parse(text, now, ret, err);
    return r < 0 ? error_prefix(err, r, "\"%s\"", name) : 0;
}

static int get_deployments(struct call *c, struct error *err)
{
    int64_t now = clock_wall_ns(clock_real());
    struct catalog_range range = {.from_ns = now - 30 * DAY_NS, .to_ns = now + DAY_NS};
    CLEANUP(buf_done) struct buf out = {.budget = &c->budget};
    struct json_writer w = {.out = &out};

    int r = param_time(c, "from", now, &range.from_ns, err);
    if (r == 0)
        r = param_time(c, "until", now, &range.to_ns, err);
    if (r < 0)
        return r;
    (void)call_param(c, "service", &range.service);
    if (!c->server->catalog)
        return no_catalog(err);
    json_begin_object(&w);
    json_key(&w, "deployments");
    json_begin_array(&w);
    r = catalog_list_deployments(c->server->catalog, c->tenant, &range, on_deployment, &w, err);
    if (buf_full(&out))
        return buf_error(&out, err);
    if (r < 0)
        return r;
    json_end_array(&w);
    json_end_object(&w);
    call_reply(c, "application/json", &out);
    return 0;
}

const struct route deployments_routes[] = {
    {.method = "POST",
     .path = "/api/v1/deployments",
     .role = ROLE_INGEST,
     .lane = LANE_QUERY,
     .handle = post_deployment,
     .summary = "tell of a deployment: service, version, commit, branch, environment, id, time"},
    {.method = "GET",
     .path = "/api/v1/deployments",
     .role = ROLE_READ,
     .lane = LANE_QUERY,
     .handle = get_deployments,
     .summary = "deployments, told and found in the stream",
     .params = "service: only of this service; from: time, now-30d; until: time"},
    {0},
};

#include "server/tenant_limits.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>

#include "base/hash.h"
#include "base/must.h"
#include "catalog/catalog.h"
#include "server/auth.h"

#define SHARDS       16
#define PLACES       256 /* of a shard */
#define BURST_S      10
#define SECOND_NS    1000000000
#define RETRY_MS_MAX 60000

/* What is left of a rate: below zero when something larger than the whole bucket was let through.
 */
struct bucket {
    int64_t level;
    int64_t since_ns; /* that it was level's */
    bool is_begun;
};

struct place {
    char name[TENANT_NAME_MAX + 1]; /* empty: free */
    uint64_t hash;                  /* of the name: looked at first */
    bool has_own;                   /* limits of the catalog */
    struct tenant_limit_values own; /* 0: as for all */
    struct bucket bytes, profiles;
    uint32_t queries; /* running */
    int64_t used_ns;
};

struct shard {
    pthread_mutex_t lock;
    struct tenant_limit_values standard;
    struct place places[PLACES];
    struct place shared; /* of those that found no place */
};

struct tenant_limits {
    const struct clock *clock;
    struct shard shards[SHARDS];
};

static struct tenant_limit_values of_config(const struct server_config *config)
{
    return (struct tenant_limit_values){
        .bytes_per_s = config->tenant_bytes_per_s,
        .profiles_per_s = config->tenant_profiles_per_s,
        .series_max = config->tenant_series_max,
        .queries_max = config->tenant_queries_max,
    };
}

struct tenant_limits *tenant_limits_new(const struct server_config *config,
                                        const struct clock *clock)
{
    struct tenant_limits *l = must_calloc(1, sizeof(*l));

    l->clock = clock;
    for (size_t i = 0; i < SHARDS; i++) {
        pthread_mutex_init(&l->shards[i].lock, NULL);
        l->shards[i].standard = of_config(config);
    }
    return l;
}

void tenant_limits_free(struct tenant_limits *l)
{
    if (!l)
        return;
    for (size_t i = 0; i < SHARDS; i++)
        pthread_mutex_destroy(&l->shards[i].lock);
    free(l);
}

/* ---- Places */

static struct shard *lock_shard(struct tenant_limits *l, struct bytes tenant)
{
    struct shard *s = &l->shards[hash_bytes(tenant.data, tenant.len) % SHARDS];

    pthread_mutex_lock(&s->lock);
    return s;
}

static bool can_have_place(struct bytes tenant)
{
    return tenant.len > 0 && tenant.len <= TENANT_NAME_MAX;
}

static struct place *find_place(struct shard *s, struct bytes tenant)
{
    uint64_t hash = hash_bytes(tenant.data, tenant.len);

    for (size_t i = 0; i < PLACES && can_have_place(tenant); i++) {
        if (s->places[i].hash == hash && bytes_are(tenant, s->places[i].name))
            return &s->places[i];
    }
    return NULL;
}

static struct place *make_place(struct shard *s, struct bytes tenant, int64_t now_ns)
{
    struct place *best = NULL;

    if (!can_have_place(tenant))
        return NULL;
    for (size_t i = 0; i < PLACES && !(best && !best->name[0]); i++) {
        struct place *p = &s->places[i];
        /* After so long a bucket without debts is full again: nothing is forgotten with it. */
        bool is_idle = p->queries == 0 && !p->has_own && p->bytes.level >= 0 &&
                       p->profiles.level >= 0 &&
                       now_ns - p->used_ns >= (int64_t)2 * BURST_S * SECOND_NS;
        if (!p->name[0] || (is_idle && (!best || p->used_ns < best->used_ns)))
            best = p;
    }
    if (!best)
        return NULL;
    *best = (struct place){.used_ns = now_ns, .hash = hash_bytes(tenant.data, tenant.len)};
    snprintf(best->name, sizeof(best->name), "%.*s", (int)tenant.len, (const char *)tenant.data);
    return best;
}

static struct place *place_of(struct shard *s, struct bytes tenant, int64_t now_ns)
{
    struct place *p = find_place(s, tenant);

    if (!p)
        p = make_place(s, tenant, now_ns);
    if (!p)
        p = &s->shared;
    p->used_ns = now_ns;
    return p;
}

static struct tenant_limit_values values_of(const struct shard *s, const struct place *p)
{
    struct tenant_limit_values v = s->standard;

    if (p && p->own.bytes_per_s)
        v.bytes_per_s = p->own.bytes_per_s;
    if (p && p->own.profiles_per_s)
        v.profiles_per_s = p->own.profiles_per_s;
    if (p && p->own.series_max)
        v.series_max = p->own.series_max;
    if (p && p->own.queries_max)
        v.queries_max = p->own.queries_max;
    return v;
}

struct tenant_limit_values tenant_limits_of(struct tenant_limits *l, struct bytes tenant)
{
    struct shard *s = lock_shard(l, tenant);
    struct tenant_limit_values v = values_of(s, find_place(s, tenant));

    pthread_mutex_unlock(&s->lock);
    return v;
}

/* ---- Limits of the catalog */

static uint32_t to_u32(uint64_t v)
{
    return v < UINT32_MAX ? (uint32_t)v : UINT32_MAX;
}

struct reading {
    struct tenant_limits *l;
    struct error *err;
};

static int take_tenant(void *ctx, const struct catalog_tenant *row)
{
    struct reading *reading = ctx;
    struct tenant_limits *l = reading->l;

    if (!row->bytes_per_s && !row->profiles_per_s && !row->series_max && !row->queries_max)
        return 0;
    int64_t now_ns = clock_monotonic_ns(l->clock);
    struct shard *s = lock_shard(l, row->name);
    struct place *p = find_place(s, row->name);
    if (!p)
        p = make_place(s, row->name, now_ns);
    if (p) {
        p->has_own = true;
        p->own = (struct tenant_limit_values){
            .bytes_per_s = row->bytes_per_s,
            .profiles_per_s = row->profiles_per_s,
            .series_max = to_u32(row->series_max),
            .queries_max = to_u32(row->queries_max),
        };
    }
    pthread_mutex_unlock(&s->lock);
    return p ? 0
             : error_set(reading->err, -E2BIG,
                         "too many tenants have limits of their own: about %d fit",
                         SHARDS * PLACES);
}

int tenant_limits_reload(struct tenant_limits *l, const struct server_config *config,
                         struct catalog *catalog, struct error *err)
{
    struct reading reading = {.l = l, .err = err};

    for (size_t i = 0; i < SHARDS; i++) {
        struct shard *s = &l->shards[i];
        pthread_mutex_lock(&s->lock);
        if (config)
            s->standard = of_config(config);
        for (size_t k = 0; k < PLACES; k++) {
            s->places[k].has_own = false;
            s->places[k].own = (struct tenant_limit_values){0};
        }
        pthread_mutex_unlock(&s->lock);
    }
    return catalog ? catalog_list_tenants(catalog, take_tenant, &reading, err) : 0;
}

/* ---- Rates */

static int64_t burst_of(uint64_t rate)
{
    return rate > INT64_MAX / 4 / BURST_S ? INT64_MAX / 4 : (int64_t)(rate * BURST_S);
}

static void refill(struct bucket *b, uint64_t rate, int64_t now_ns)
{
    int64_t burst = burst_of(rate);
    __int128 more = (__int128)rate * (now_ns - b->since_ns) / SECOND_NS;

    if (!b->is_begun || b->level + more >= burst) {
        *b = (struct bucket){.level = burst, .since_ns = now_ns, .is_begun = true};
    } else if (more > 0) {
        /* Only as much time passes as was paid out: slow rates lose nothing to rounding. */
        b->level += (int64_t)more;
        b->since_ns += (int64_t)(more * SECOND_NS / (__int128)rate);
    }
}

/* How long until n may be taken: 0 is now. */
static int64_t wait_ms(struct bucket *b, uint64_t rate, uint64_t n, int64_t now_ns)
{
    if (rate == 0)
        return 0;
    refill(b, rate, now_ns);
    int64_t burst = burst_of(rate), need = n < (uint64_t)burst ? (int64_t)n : burst;
    if (b->level >= need)
        return 0;
    __int128 ms = ((__int128)(need - b->level) * 1000 + (__int128)rate - 1) / (__int128)rate;
    return ms > RETRY_MS_MAX ? RETRY_MS_MAX : ms < 1 ? 1 : (int64_t)ms;
}

static void take(struct bucket *b, uint64_t rate, uint64_t n)
{
    if (rate > 0)
        b->level -= n < INT64_MAX / 4 ? (int64_t)n : INT64_MAX / 4;
}

int limits_take_ingest(struct tenant_limits *l, struct bytes tenant, uint64_t bytes,
                       uint64_t profiles, int64_t *ret_retry_after_ms, struct error *err)
{
    int64_t now_ns = clock_monotonic_ns(l->clock);
    struct shard *s = lock_shard(l, tenant);
    struct place *p = place_of(s, tenant, now_ns);
    struct tenant_limit_values v = values_of(s, p);
    int64_t for_bytes = wait_ms(&p->bytes, v.bytes_per_s, bytes, now_ns);
    int64_t for_profiles = wait_ms(&p->profiles, v.profiles_per_s, profiles, now_ns);

    if (for_bytes == 0 && for_profiles == 0) {
        take(&p->bytes, v.bytes_per_s, bytes);
        take(&p->profiles, v.profiles_per_s, profiles);
    }
    pthread_mutex_unlock(&s->lock);
    if (for_bytes == 0 && for_profiles == 0)
        return 0;
    *ret_retry_after_ms = for_bytes > for_profiles ? for_bytes : for_profiles;
    bool is_bytes = for_bytes >= for_profiles;
    return error_set(
        err, -EAGAIN,
        "the tenant \"%.*s\" sends more than its %llu %s a second (%s); %llu more came",
        (int)(tenant.len < TENANT_NAME_MAX ? tenant.len : TENANT_NAME_MAX),
        (const char *)tenant.data,
        (unsigned long long)(is_bytes ? v.bytes_per_s : v.profiles_per_s),
        is_bytes ? "bytes" : "profiles",
        is_bytes ? "tenant.bytes_per_second" : "tenant.profiles_per_second",
        (unsigned long long)(is_bytes ? bytes : profiles));
}

/* ---- Queries */

int limits_begin_query(struct tenant_limits *l, struct bytes tenant, struct error *err)
{
    int64_t now_ns = clock_monotonic_ns(l->clock);
    struct shard *s = lock_shard(l, tenant);
    struct place *p = place_of(s, tenant, now_ns);
    uint32_t max = values_of(s, p).queries_max;
    bool may = max == 0 || p->queries < max;

    p->queries += may;
    pthread_mutex_unlock(&s->lock);
    return may ? 0
               : error_set(err, -EAGAIN,
                           "the tenant \"%.*s\" has %u queries running, as many as it may "
                           "(tenant.queries_max)",
                           (int)(tenant.len < TENANT_NAME_MAX ? tenant.len : TENANT_NAME_MAX),
                           (const char *)tenant.data, max);
}

void limits_end_query(struct tenant_limits *l, struct bytes tenant)
{
    struct shard *s = lock_shard(l, tenant);
    struct place *p = find_place(s, tenant);

    /* One that began before the tenant had a place ends where it began. */
    if (!p || p->queries == 0)
        p = &s->shared;
    if (p->queries > 0)
        p->queries--;
    pthread_mutex_unlock(&s->lock);
}

/*
 * Shards, each with its lock, table, list and share of the limit, so that threads rarely wait for
 * each other. Small caches have few, that a share still holds several blocks.
 */
#include "segment/block_cache.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/hash.h"

#define SHARDS_MAX      16
#define SHARD_BYTES_MIN ((size_t)8 << 20)
#define BUCKETS_MIN     64

struct entry {
    uint64_t file, offset;
    struct block *block;
    struct entry *next_in_bucket;
    struct entry *newer, *older;
};

struct shard {
    _Alignas(64) pthread_mutex_t lock;
    struct entry **buckets; /* n_buckets, a power of two */
    size_t n_buckets;
    size_t n_entries;
    size_t bytes, limit;
    struct entry *newest, *oldest;
    uint64_t hits, misses;
};

struct block_cache {
    size_t n_shards;
    struct shard shards[];
};

static size_t cost_of(const struct block *b)
{
    return sizeof(*b) + b->len + BLOCK_PADDING + sizeof(struct entry);
}

struct block_cache *block_cache_new(size_t limit_bytes)
{
    size_t n = limit_bytes / SHARD_BYTES_MIN;

    n = n < 1 ? 1 : n > SHARDS_MAX ? SHARDS_MAX : n;
    size_t size = sizeof(struct block_cache) + n * sizeof(struct shard);
    CLEANUP(block_cache_freep) struct block_cache *c = aligned_alloc(64, (size + 63) / 64 * 64);
    if (!c)
        return NULL;
    memset(c, 0, size);
    for (; c->n_shards < n; c->n_shards++) {
        struct shard *s = &c->shards[c->n_shards];
        s->buckets = calloc(BUCKETS_MIN, sizeof(struct entry *));
        if (!s->buckets)
            return NULL;
        s->n_buckets = BUCKETS_MIN;
        s->limit = limit_bytes / n;
        pthread_mutex_init(&s->lock, NULL);
    }
    return TAKE_PTR(c);
}

static uint64_t key_hash(uint64_t file, uint64_t offset)
{
    return hash_mix(file * 0x9E3779B97F4A7C15u + 1, offset + 1);
}

static struct shard *shard_of(struct block_cache *c, uint64_t hash)
{
    return &c->shards[(hash >> 32) % c->n_shards];
}

static struct entry **find(struct shard *s, uint64_t file, uint64_t offset, uint64_t hash)
{
    struct entry **at = &s->buckets[hash & (s->n_buckets - 1)];

    while (*at && ((*at)->file != file || (*at)->offset != offset))
        at = &(*at)->next_in_bucket;
    return at;
}

static void list_remove(struct shard *s, struct entry *e)
{
    *(e->newer ? &e->newer->older : &s->newest) = e->older;
    *(e->older ? &e->older->newer : &s->oldest) = e->newer;
}

static void list_add(struct shard *s, struct entry *e)
{
    e->newer = NULL;
    e->older = s->newest;
    *(s->newest ? &s->newest->newer : &s->oldest) = e;
    s->newest = e;
}

static void drop(struct shard *s, struct entry *e)
{
    struct entry **at = find(s, e->file, e->offset, key_hash(e->file, e->offset));

    *at = e->next_in_bucket;
    list_remove(s, e);
    s->n_entries--;
    s->bytes -= cost_of(e->block);
    block_unref(e->block);
    free(e);
}

void block_cache_free(struct block_cache *c)
{
    for (size_t i = 0; c && i < c->n_shards; i++) {
        struct shard *s = &c->shards[i];
        while (s->oldest)
            drop(s, s->oldest);
        pthread_mutex_destroy(&s->lock);
        free(s->buckets);
    }
    free(c);
}

struct block *block_cache_get(struct block_cache *c, uint64_t file, uint64_t offset)
{
    uint64_t hash = key_hash(file, offset);
    struct shard *s = shard_of(c, hash);
    struct block *b = NULL;

    pthread_mutex_lock(&s->lock);
    struct entry *e = *find(s, file, offset, hash);
    if (e) {
        b = block_ref(e->block);
        list_remove(s, e);
        list_add(s, e);
        s->hits++;
    } else {
        s->misses++;
    }
    pthread_mutex_unlock(&s->lock);
    return b;
}

/* Twice the buckets; without memory for them, chains grow longer. */
static void grow(struct shard *s)
{
    size_t n = s->n_buckets * 2;
    struct entry **buckets = calloc(n, sizeof(struct entry *));

    if (!buckets)
        return;
    for (struct entry *e = s->newest; e; e = e->older) {
        struct entry **at = &buckets[key_hash(e->file, e->offset) & (n - 1)];
        e->next_in_bucket = *at;
        *at = e;
    }
    free(s->buckets);
    s->buckets = buckets;
    s->n_buckets = n;
}

static void make_room(struct shard *s, size_t n)
{
    while (s->oldest && s->bytes + n > s->limit)
        drop(s, s->oldest);
}

void block_cache_put(struct block_cache *c, uint64_t file, uint64_t offset, struct block *b)
{
    uint64_t hash = key_hash(file, offset);
    struct shard *s = shard_of(c, hash);
    size_t cost = cost_of(b);
    struct entry *e = malloc(sizeof(*e));

    if (!e)
        return;
    *e = (struct entry){.file = file, .offset = offset, .block = b};
    pthread_mutex_lock(&s->lock);
    if (cost <= s->limit && !*find(s, file, offset, hash)) {
        make_room(s, cost);
        if (s->n_entries >= s->n_buckets)
            grow(s);
        block_ref(b);
        *find(s, file, offset, hash) = e;
        list_add(s, e);
        s->n_entries++;
        s->bytes += cost;
        e = NULL;
    }
    pthread_mutex_unlock(&s->lock);
    free(e);
}

void block_cache_forget(struct block_cache *c, uint64_t file)
{
    for (size_t i = 0; i < c->n_shards; i++) {
        struct shard *s = &c->shards[i];
        pthread_mutex_lock(&s->lock);
        for (struct entry *e = s->newest, *older; e; e = older) {
            older = e->older;
            if (e->file == file)
                drop(s, e);
        }
        pthread_mutex_unlock(&s->lock);
    }
}

void block_cache_set_limit(struct block_cache *c, size_t limit_bytes)
{
    for (size_t i = 0; i < c->n_shards; i++) {
        struct shard *s = &c->shards[i];
        pthread_mutex_lock(&s->lock);
        s->limit = limit_bytes / c->n_shards;
        make_room(s, 0);
        pthread_mutex_unlock(&s->lock);
    }
}

struct block_cache_stats block_cache_stats(struct block_cache *c)
{
    struct block_cache_stats sum = {0};

    for (size_t i = 0; i < c->n_shards; i++) {
        struct shard *s = &c->shards[i];
        pthread_mutex_lock(&s->lock);
        sum.n_blocks += s->n_entries;
        sum.bytes += s->bytes;
        sum.limit += s->limit;
        sum.hits += s->hits;
        sum.misses += s->misses;
        pthread_mutex_unlock(&s->lock);
    }
    return sum;
}

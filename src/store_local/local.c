#include "store_local/local.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/must.h"
#include "base/pool.h"
#include "segment/block_cache.h"
#include "segment/wal.h"
#include "store_local/aggregate.h"
#include "store_local/append.h"
#include "store_local/backup.h"
#include "store_local/changes.h"
#include "store_local/commit.h"
#include "store_local/epoch.h"
#include "store_local/flush.h"
#include "store_local/found.h"
#include "store_local/local_ops.h"
#include "store_local/memtable.h"
#include "store_local/recover.h"
#include "store_local/retention.h"
#include "store_local/scout.h"
#include "store_local/series_table.h"
#include "store_local/spans.h"
#include "store_local/survey.h"
#include "store_local/tombstone.h"
#include "store_local/verify.h"
#include "store_local/version.h"

void local_log(struct local *l, const char *fmt, ...)
{
    char text[640];
    va_list args;

    if (!l->options.log)
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    l->options.log(l->options.log_ctx, text);
}

void local_die(struct local *l, const char *fmt, ...)
{
    va_list args;

    if (l->is_dead)
        return;
    l->is_dead = true;
    va_start(args, fmt);
    vsnprintf(l->trouble.text, sizeof(l->trouble.text), fmt, args);
    va_end(args);
    local_log(l, "writing has stopped: %s", l->trouble.text);
    pthread_cond_broadcast(&l->committed);
}

bool local_is_dead(struct local *l, const struct error *why)
{
    if (fs_is_in_doubt(l->fs))
        local_die(l, "%s", why && why->text[0] ? why->text : "a sync failed");
    return l->is_dead;
}

int local_dead_error(const struct local *l, struct error *err)
{
    return error_set(err, -EROFS, "writing has stopped: %.400s", l->trouble.text);
}

/* ---- Opening */

static void set_defaults(struct local_options *o)
{
    if (!o->clock)
        o->clock = clock_real();
    if (o->memory_limit == 0)
        o->memory_limit = (size_t)256 << 20;
    if (o->query_memory_limit == 0)
        o->query_memory_limit = (size_t)128 << 20;
    if (o->max_age_ns == 0)
        o->max_age_ns = LOCAL_MAX_AGE_NS;
    if (o->max_span_age_ns == 0)
        o->max_span_age_ns = LOCAL_MAX_SPAN_AGE_NS;
    if (o->max_future_ns == 0)
        o->max_future_ns = HOUR_NS;
    if (o->max_series == 0)
        o->max_series = 100000;
    if (o->threads == 0) {
        long n = sysconf(_SC_NPROCESSORS_ONLN);
        o->threads = n > 0 ? (unsigned)n : 1;
    }
}

struct local *local_new(const struct local_options *options)
{
    struct local *l = must_calloc(1, sizeof(*l));
    pthread_condattr_t attr;
    l->store.ops = &local_ops;
    l->options = *options;
    set_defaults(&l->options);
    l->fs = options->fs;
    fs_begin_anew(l->fs);
    l->clock = l->options.clock;
    random_init(&l->random, options->seed ? options->seed : random_seed_os());
    budget_init(&l->budget, SIZE_MAX / 2);
    pthread_mutex_init(&l->lock, NULL);
    pthread_mutex_init(&l->upkeep_lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&l->committed, &attr);
    pthread_cond_init(&l->wake, &attr);
    pthread_condattr_destroy(&attr);
    l->commit = commit_new();
    l->head = memtable_new();
    return l;
}

void local_free(struct local *l)
{
    if (!l)
        return;
    wal_free(l->wal);
    memtable_unref(l->head);
    memtable_unref(l->frozen);
    for (size_t i = 0; i < l->tenants.len; i++) {
        struct tenant *t = &l->tenants.data[i];
        for (size_t k = 0; k < t->services.len; k++)
            free(t->services.data[k].name);
        vec_done(&l->budget, &t->services);
        series_table_free(t->series);
        free(t->name);
    }
    for (size_t i = 0; i < l->epochs.len; i++)
        epoch_free(l->epochs.data[i]);
    vec_done(&l->budget, &l->tenants);
    vec_done(&l->budget, &l->epochs);
    version_release(l, l->version);
    commit_free(l->commit);
    block_cache_free(l->cache);
    pool_free(l->pool);
    fs_close(l->lock_file);
    pthread_cond_destroy(&l->committed);
    pthread_cond_destroy(&l->wake);
    pthread_mutex_destroy(&l->lock);
    pthread_mutex_destroy(&l->upkeep_lock);
    fs_free(l->fs);
    free(l);
}

int local_take_lock(struct local *l, struct error *err)
{
    char pid[32];

    int r = fs_open(l->fs, "LOCK", FS_WRITE | FS_CREATE, &l->lock_file, err);
    if (r == 0)
        r = fs_lock(l->lock_file, err);
    if (r < 0)
        return r;
    /* For whoever finds it taken. On a full disk the lock itself is enough. */
    int n = snprintf(pid, sizeof(pid), "%ld\n", (long)getpid());
    if (fs_pwrite(l->lock_file, pid, (size_t)n, 0, NULL) == 0)
        (void)fs_truncate(l->lock_file, (uint64_t)n, NULL);
    return 0;
}

static int make_dirs(struct local *l, struct error *err)
{
    static const char *const dirs[] = {"wal", "seg", "dict", "series"};
    int r = 0;

    for (size_t i = 0; i < ARRAY_SIZE(dirs) && r == 0; i++)
        r = fs_mkdir(l->fs, dirs[i], err);
    return r < 0 ? r : fs_sync_dir(l->fs, ".", err);
}

/* Whether there is a store, before anything is made. */
static int check_exists(struct local *l, struct error *err)
{
    int r = fs_exists(l->fs, "MANIFEST", err);

    if (r == 0)
        r = fs_exists(l->fs, "MANIFEST.old", err);
    if (r == 0)
        return error_set(err, -ENOENT, "there is no store here: MANIFEST is missing");
    return r < 0 ? r : 0;
}

static int open_store(struct local *l, struct error *err)
{
    bool writes = !l->options.read_only;
    int r = 0;

    l->cache = block_cache_new(local_cache_bytes(l));
    if (!l->cache)
        return error_set(err, -ENOMEM, "no memory for a cache");
    if (!writes || l->options.must_exist)
        r = check_exists(l, err);
    if (r == 0 && writes)
        r = local_take_lock(l, err);
    if (r == 0 && writes)
        r = make_dirs(l, err);
    if (r == 0)
        r = recover_manifest(l, err);
    if (r == 0)
        r = recover_tables(l, err);
    if (r == 0)
        r = recover_wals(l, err);
    if (r == 0 && writes)
        r = recover_settle(l, err);
    if (r == 0 && writes)
        recover_clean(l);
    (void)retention_now_ns(l); /* the first time that is believed */
    if (r == 0 && l->options.threads > 1)
        r = pool_new(l->options.threads, &l->pool, err);
    return r;
}

/* How often a store may change while it is being opened for reading. */
#define OPEN_TRIES 20

/* Whether somebody has published another manifest since l read its own: what was in a log then may
 * have been flushed before it was read here. */
static bool has_moved(struct local *l)
{
    CLEANUP(scout_freep) struct local *now = scout_new(l->fs, l->clock);
    struct manifest_report report = {0};

    return l->version && scout_manifest(now, &report, NULL) == 0 &&
           now->version->generation != l->version->generation;
}

int local_open(const struct local_options *options, struct store **ret, struct error *err)
{
    CLEANUP(local_freep) struct local *l = local_new(options);

    int r = open_store(l, err);
    for (int i = 1; options->read_only && i < OPEN_TRIES && has_moved(l); i++) {
        scout_free(TAKE_PTR(l));
        l = local_new(options);
        r = open_store(l, err);
    }
    if (r == 0 && options->background && !options->read_only)
        r = local_start_background(l, err);
    if (r < 0)
        return error_prefix(err, r, "could not open the store");
    *ret = &TAKE_PTR(l)->store;
    return 0;
}

void local_close(struct store *s)
{
    struct local *l = local_of(s);
    struct error err = {0};
    int r = 0;

    local_stop_background(l);
    if (!l->options.read_only && !l->is_dead) {
        pthread_mutex_lock(&l->upkeep_lock);
        do {
            r = local_flush(l, &err);
        } while (r > 0);
        pthread_mutex_unlock(&l->upkeep_lock);
    }
    if (r < 0)
        local_log(l, "%s; it stays in the WAL", err.text);
    local_free(l);
}

const struct store_ops local_ops = {
    .close = local_close,
    .source_attach = local_source_attach,
    .source_detach = local_source_detach,
    .source_was_reset = local_source_was_reset,
    .append = local_append,
    .append_spans = local_append_spans,
    .series = local_series,
    .estimate = local_estimate,
    .aggregate = local_aggregate,
    .profiles = local_profiles,
    .spans = local_spans,
    .erase = local_erase,
    .set_policy = local_set_policy,
    .get_policy = local_get_policy,
    .upkeep = local_upkeep,
    .verify = local_verify,
    .backup = local_backup,
    .stat = local_stat,
    .changes = local_changes,
};

#include "store_local/upkeep.h"

#include <errno.h>
#include <malloc.h>
#include <time.h>

#include "base/clock.h"
#include "store_local/compact.h"
#include "store_local/flush.h"
#include "store_local/local_ops.h"
#include "store_local/memtable.h"
#include "store_local/recover.h"
#include "store_local/retention.h"
#include "store_local/spans.h"

static bool is_flush_due(struct local *l)
{
    int64_t mono = clock_monotonic_ns(l->clock);

    pthread_mutex_lock(&l->lock);
    if (l->flushed_at == 0)
        l->flushed_at = mono;
    bool is_empty = memtable_is_empty(l->head) && !l->frozen && !l->is_unsettled;
    bool is_due =
        !is_empty && (l->frozen || l->is_unsettled || l->flush_wanted ||
                      mono - l->flushed_at >= UPKEEP_HEAD_AGE_NS ||
                      memtable_bytes(l->head) >= l->options.memory_limit / UPKEEP_HEAD_SHARE);
    if (is_empty)
        l->flushed_at = mono;
    pthread_mutex_unlock(&l->lock);
    return is_due;
}

/* What was freed in many small pieces goes back to the system: the next step may need it in another
 * thread, whose allocator has pages of its own. */
static void trim(void)
{
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

static int flush(struct local *l, struct error *err)
{
    pthread_mutex_lock(&l->lock);
    bool is_unsettled = l->is_unsettled;
    pthread_mutex_unlock(&l->lock);
    int r = is_unsettled ? recover_write_again(l, err) : local_flush(l, err);
    if (r < 0)
        return r;
    if (r > 0)
        trim();
    pthread_mutex_lock(&l->lock);
    l->flushed_at = clock_monotonic_ns(l->clock);
    l->flush_wanted = false;
    pthread_cond_broadcast(&l->committed);
    pthread_mutex_unlock(&l->lock);
    return r;
}

static int compact(struct local *l, bool all, struct error *err)
{
    struct compact_job job;

    pthread_mutex_lock(&l->lock);
    int64_t now = retention_now_ns(l);
    pthread_mutex_unlock(&l->lock);
    if (!compact_pick(l, now, all, &job))
        return spans_compact(l, now, all, err);
    int r = compact_run(l, &job, err);
    compact_job_done(&job);
    trim();
    /* A damaged input is left out next time, so that there is more to do, not an error. */
    return r == 0 || r == -EBADMSG ? 1 : r;
}

static int expire_when_due(struct local *l, struct error *err)
{
    int64_t mono = clock_monotonic_ns(l->clock);

    if (l->expired_at != 0 && mono - l->expired_at < RETENTION_PASS_NS)
        return 0;
    l->expired_at = mono;
    return retention_run(l, err);
}

static int step(struct local *l, struct error *err)
{
    int r = is_flush_due(l) ? flush(l, err) : 0;

    if (r == 0)
        r = expire_when_due(l, err);
    if (r == 0)
        r = compact(l, false, err);
    return r;
}

static int settle(struct local *l, struct error *err)
{
    int r = flush(l, err);

    if (r >= 0)
        r = retention_run(l, err);
    if (r >= 0)
        r = 1;
    while (r > 0)
        r = compact(l, true, err);
    return r;
}

/* What failed may have been a sync. */
static void notice(struct local *l, const struct error *err)
{
    pthread_mutex_lock(&l->lock);
    (void)local_is_dead(l, err);
    pthread_mutex_unlock(&l->lock);
}

int local_upkeep(struct store *s, enum store_upkeep what, struct error *err)
{
    struct local *l = local_of(s);
    int r;

    if (l->options.read_only)
        return error_set(err, -EROFS, "no upkeep: the store is open for reading only");
    pthread_mutex_lock(&l->upkeep_lock);
    switch (what) {
    case UPKEEP_FLUSH:
        r = flush(l, err);
        break;
    case UPKEEP_EXPIRE:
        r = retention_run(l, err);
        break;
    case UPKEEP_SETTLE:
        r = settle(l, err);
        break;
    default:
        r = step(l, err);
    }
    if (r < 0)
        notice(l, err);
    pthread_mutex_unlock(&l->upkeep_lock);
    return r;
}

/* ---- In the background */

#define IDLE_SECONDS    1
#define TROUBLE_SECONDS 10

/* Sleeps until something is wanted; false when the store is closing. The wait is in real time: a
 * simulated clock has no background thread. */
static bool wait_for_work(struct local *l, time_t seconds)
{
    int64_t now = clock_monotonic_ns(clock_real()); /* as `wake` was told to wait by */
    struct timespec until = {.tv_sec = (time_t)(now / 1000000000) + seconds};

    pthread_mutex_lock(&l->lock);
    if (!l->is_closing)
        pthread_cond_timedwait(&l->wake, &l->lock, &until);
    bool goes_on = !l->is_closing;
    pthread_mutex_unlock(&l->lock);
    return goes_on;
}

static void *background(void *local)
{
    struct local *l = local;
    int r = 0, before = 0;

    while (wait_for_work(l, r < 0 ? TROUBLE_SECONDS : IDLE_SECONDS)) {
        struct error err = {{0}};
        do {
            pthread_mutex_lock(&l->lock);
            bool is_closing = l->is_closing;
            pthread_mutex_unlock(&l->lock);
            r = is_closing ? 0 : local_upkeep(&l->store, UPKEEP_STEP, &err);
        } while (r > 0);
        if (r < 0 && r != before && r != -ECANCELED)
            local_log(l, "upkeep: %s", err.text);
        before = r;
    }
    return NULL;
}

int local_start_background(struct local *l, struct error *err)
{
    int r = pthread_create(&l->background, NULL, background, l);

    if (r != 0) {
        errno = r;
        return error_set(err, -r, "could not start the thread for upkeep: %m");
    }
    l->has_background = true;
    return 0;
}

void local_stop_background(struct local *l)
{
    pthread_mutex_lock(&l->lock);
    l->is_closing = true;
    pthread_cond_broadcast(&l->wake);
    pthread_mutex_unlock(&l->lock);
    if (l->has_background)
        pthread_join(l->background, NULL);
    l->has_background = false;
}

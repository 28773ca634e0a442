#include "relay/export.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/must.h"
#include "base/random.h"
#include "relay/export_internal.h"
#include "relay/spool.h"

#define MS             ((int64_t)1000 * 1000)
#define SECOND         (1000 * MS)
#define BACKOFF_FIRST  (1 * SECOND)
#define BACKOFF_MAX    (60 * SECOND)
#define DELAY_MIN      (500 * MS)
#define DELAY_MAX_MS   ((int64_t)10 * 60 * 1000) /* of what a server asks for */
#define DRAIN_PER_S    ((int64_t)1 << 20)        /* bytes of the spool, beside what is new */
#define DRAIN_GAP      (20 * MS)
#define DISK_FULL_WAIT (30 * SECOND)
#define LOG_GAP        (60 * SECOND)
#define STUCK_TRIES    10

static int64_t now_ns(void)
{
    return clock_monotonic_ns(clock_real());
}

/* ---- Items ---- */

static struct export_item *item_new(enum codec codec, struct bytes otlp)
{
    CLEANUP(buf_done) struct buf packed = {0};

    if (export_pack(codec, otlp, &packed) < 0)
        return NULL;
    struct export_item *item = must_realloc(NULL, sizeof(*item) + packed.len);
    *item = (struct export_item){.refs = 1, .codec = codec, .raw_len = otlp.len, .len = packed.len};
    memcpy(item->packed, packed.data, packed.len);
    return item;
}

static void item_unref(struct export_item *item)
{
    if (atomic_fetch_sub(&item->refs, 1) == 1)
        free(item);
}

/* ---- The queue; all of it under the lock ---- */

static void push(struct exporter *x, struct export_item *item, bool at_front)
{
    struct export_node *node = must_calloc(1, sizeof(*node));

    node->item = item;
    if (at_front) {
        node->next = x->first;
        x->first = node;
        x->last = x->last ? x->last : node;
    } else {
        if (x->last)
            x->last->next = node;
        else
            x->first = node;
        x->last = node;
    }
    x->queue_bytes += item->len;
    x->n_queued++;
}

static struct export_item *pop(struct exporter *x)
{
    struct export_node *node = x->first;
    struct export_item *item = node->item;

    x->first = node->next;
    if (!x->first)
        x->last = NULL;
    x->queue_bytes -= item->len;
    x->n_queued--;
    free(node);
    return item;
}

static void drop_oldest(struct exporter *x)
{
    while (x->first && x->queue_bytes > EXPORT_MEMORY_MAX) {
        item_unref(pop(x));
        x->counts.dropped++;
    }
}

/* At most one line in a while of each kind: a server that refuses everything is told of, not
 * chanted. */
static bool may_log(int64_t *last)
{
    int64_t now = now_ns();

    if (*last != 0 && now - *last < LOG_GAP)
        return false;
    *last = now;
    return true;
}

/* ---- On the exporter's thread ---- */

static void failed(struct exporter *x, const struct export_outcome *o)
{
    uint32_t steps = x->failures < 8 ? x->failures : 8;
    int64_t wait = BACKOFF_FIRST << steps, asked = o->delay_ms;

    wait = wait < BACKOFF_MAX ? wait : BACKOFF_MAX;
    wait = wait / 2 + (int64_t)random_below(&x->random, (uint64_t)wait / 2);
    if (asked >= 0) {
        asked = (asked < DELAY_MAX_MS ? asked : DELAY_MAX_MS) * MS;
        asked = asked > DELAY_MIN ? asked : DELAY_MIN; /* "at once" is no way to be busy */
        wait = asked + (int64_t)random_below(&x->random, (uint64_t)(asked / 10 + 50 * MS));
    }
    x->retry_at = now_ns() + wait;
    x->counts.retries++;
    bool is_news = strcmp(x->last_failure, o->text) != 0;
    snprintf(x->last_failure, sizeof(x->last_failure), "%s", o->text);
    if ((x->failures++ == 0 || is_news) && !x->is_stopping)
        relay_log(x->all->child, RELAY_WARNING, "%s: %s; trying again in %.1f s", x->target->name,
                  o->text, (double)wait / 1e9);
}

static void answered(struct exporter *x)
{
    if (x->failures > 0)
        relay_log(x->all->child, RELAY_INFO, "%s answers again", x->target->name);
    x->failures = 0;
    x->last_failure[0] = '\0';
    x->retry_at = 0;
}

/* True when it is done with; false when it is to be kept. */
static bool settle(struct exporter *x, size_t len, const struct export_outcome *o)
{
    if (o->result == EXPORT_RETRY) {
        failed(x, o);
        return false;
    }
    answered(x);
    if (o->result == EXPORT_REFUSED) {
        x->counts.refused++;
        if (may_log(&x->refusal_logged))
            relay_log(x->all->child, RELAY_WARNING, "%s refused a request, which is lost: %s",
                      x->target->name, o->text);
        return true;
    }
    x->counts.sent++;
    x->counts.sent_bytes += len;
    x->counts.rejected += o->rejected;
    if ((o->rejected > 0 || o->text[0]) && may_log(&x->partial_logged))
        relay_log(x->all->child, RELAY_WARNING, "%s kept a request without %llu profiles: %s",
                  x->target->name, (unsigned long long)o->rejected, o->text);
    return true;
}

static void send_packed(struct exporter *x, const struct export_packed *p, struct export_outcome *o)
{
    x->is_sending = true;
    pthread_mutex_unlock(&x->lock);
    export_send(x->sender, x->all->child->settings.codec, p, o);
    pthread_mutex_lock(&x->lock);
    x->is_sending = false;
}

static void send_first(struct exporter *x)
{
    struct export_item *item = pop(x);
    struct export_packed p = {item->codec, item->raw_len, {item->packed, item->len}};
    struct export_outcome o;

    send_packed(x, &p, &o);
    if (settle(x, item->len, &o)) {
        item_unref(item);
    } else {
        push(x, item, true);
        drop_oldest(x);
    }
}

static void count_spool(struct exporter *x)
{
    spool_counts(x->spool, &x->spooled);
}

/* One that fails again and again while others are taken stands in the way of all behind it. */
static bool is_stuck(struct exporter *x, uint64_t number)
{
    if (x->stuck_number != number) {
        x->stuck_number = number;
        x->stuck_tries = 0;
        x->stuck_since = x->counts.sent;
    }
    return ++x->stuck_tries >= STUCK_TRIES && x->counts.sent > x->stuck_since;
}

static void send_spooled(struct exporter *x)
{
    struct spool_item item;
    struct export_outcome o;

    if (spool_peek(x->spool, &item)) {
        struct export_packed p = {item.codec, item.raw_len, item.packed};
        int64_t pause = (int64_t)item.packed.len * SECOND / DRAIN_PER_S;
        send_packed(x, &p, &o);
        if (o.result == EXPORT_RETRY && is_stuck(x, item.number))
            o.result = EXPORT_REFUSED;
        if (settle(x, item.packed.len, &o))
            spool_remove(x->spool, item.number);
        x->drain_at = now_ns() + (pause > DRAIN_GAP ? pause : DRAIN_GAP);
    }
    count_spool(x);
}

/* Moves the first of the queue to the disk. */
static void spill(struct exporter *x)
{
    struct export_item *item = pop(x);
    struct spool_item kept = {
        .codec = item->codec, .raw_len = item->raw_len, .packed = {item->packed, item->len}};
    struct error err;

    x->is_sending = true;
    pthread_mutex_unlock(&x->lock);
    int r = spool_put(x->spool, &kept, &err);
    pthread_mutex_lock(&x->lock);
    x->is_sending = false;
    count_spool(x);
    if (r == 0 || r == -EFBIG) {
        x->counts.dropped += r == -EFBIG;
        item_unref(item);
        return;
    }
    x->counts.disk_failures++;
    x->spill_at = now_ns() + DISK_FULL_WAIT;
    if (may_log(&x->disk_logged))
        relay_log(x->all->child, RELAY_WARNING, "%s: the spool takes nothing, so memory has to: %s",
                  x->target->name, err.text);
    push(x, item, true);
    drop_oldest(x);
}

static bool should_spill(const struct exporter *x, int64_t now)
{
    return x->first && x->spool && now >= x->spill_at &&
           (x->failures > 0 || x->queue_bytes > EXPORT_MEMORY_MAX / 2);
}

static bool has_spooled(const struct exporter *x)
{
    return x->spool && x->spooled.files > 0;
}

static void wait_until(struct exporter *x, int64_t due)
{
    struct timespec t = {.tv_sec = due / SECOND, .tv_nsec = due % SECOND};

    if (due == INT64_MAX)
        pthread_cond_wait(&x->changed, &x->lock);
    else
        pthread_cond_timedwait(&x->changed, &x->lock, &t);
}

/* One thing that can be done now; else waits. */
static void step(struct exporter *x)
{
    int64_t now = now_ns(), due = INT64_MAX;

    if (should_spill(x, now)) {
        spill(x);
        return;
    }
    if (x->first)
        due = x->retry_at;
    else if (has_spooled(x))
        due = x->drain_at > x->retry_at ? x->drain_at : x->retry_at;
    if (now < due)
        wait_until(x, due);
    else if (x->first)
        send_first(x);
    else
        send_spooled(x);
}

static void *run(void *arg)
{
    struct exporter *x = arg;

    pthread_mutex_lock(&x->lock);
    while (!x->is_stopping)
        step(x);
    x->spill_at = 0;
    while (x->first && x->spool && x->spill_at == 0)
        spill(x);
    if (x->n_queued > 0)
        relay_log(x->all->child, RELAY_WARNING, "%s: ending with %zu requests not sent",
                  x->target->name, x->n_queued);
    pthread_mutex_unlock(&x->lock);
    return NULL;
}

/* ---- From other threads ---- */

void exporters_add(struct exporters *e, struct bytes otlp)
{
    struct export_item *item;

    if (e->n == 0 || otlp.len == 0)
        return;
    item = item_new(e->child->settings.codec == CODEC_GZIP ? CODEC_GZIP : CODEC_ZSTD, otlp);
    for (size_t i = 0; i < e->n; i++) {
        struct exporter *x = &e->list[i];
        pthread_mutex_lock(&x->lock);
        if (item) {
            atomic_fetch_add(&item->refs, 1);
            push(x, item, false);
            drop_oldest(x);
            pthread_cond_signal(&x->changed);
        } else {
            x->counts.dropped++;
        }
        pthread_mutex_unlock(&x->lock);
    }
    if (item)
        item_unref(item);
}

void exporters_hurry(struct exporters *e)
{
    for (size_t i = 0; i < e->n; i++) {
        struct exporter *x = &e->list[i];
        pthread_mutex_lock(&x->lock);
        x->retry_at = x->drain_at = 0;
        pthread_cond_signal(&x->changed);
        pthread_mutex_unlock(&x->lock);
    }
}

bool exporters_are_idle(struct exporters *e)
{
    bool are = true;

    for (size_t i = 0; i < e->n; i++) {
        struct exporter *x = &e->list[i];
        pthread_mutex_lock(&x->lock);
        are = are && !x->first && !x->is_sending;
        pthread_mutex_unlock(&x->lock);
    }
    return are;
}

/* ---- Starting and stopping ---- */

static void open_spool(struct exporter *x, uint64_t max)
{
    char dir[20];
    struct error err;

    if (!x->all->fs || !x->sender->ops->has_spool)
        return;
    snprintf(dir, sizeof(dir), "%016llx",
             (unsigned long long)checksum64(x->target->name, strlen(x->target->name)));
    if (spool_open(x->all->fs, dir, max, &x->spool, &err) < 0) {
        x->counts.disk_failures++;
        relay_log(x->all->child, RELAY_WARNING, "%s: what cannot be sent stays in memory: %s",
                  x->target->name, err.text);
        return;
    }
    count_spool(x);
    if (x->spooled.files > 0)
        relay_log(x->all->child, RELAY_INFO, "%s: %llu requests of earlier are to be sent",
                  x->target->name, (unsigned long long)x->spooled.files);
}

static int start_one(struct exporter *x, uint64_t spool_max, struct error *err)
{
    static const struct sender_ops *const senders[] = {
        [EXPORT_HTTP] = &http_sender, [EXPORT_GRPC] = &grpc_sender, [EXPORT_FILE] = &file_sender};
    pthread_condattr_t monotonic;

    pthread_mutex_init(&x->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&x->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    random_init(&x->random, random_seed_os());
    struct sender_options o = {x->all->child, x->target, &x->cancelled};
    x->sender = senders[x->target->kind]->make(&o);
    open_spool(x, spool_max);
    int r = pthread_create(&x->thread, NULL, run, x);
    if (r != 0)
        return error_set(err, -r, "could not start a thread: %s", strerror(r));
    x->is_running = true;
    (void)pthread_setname_np(x->thread, "vesta-export");
    return 0;
}

static void open_folder(struct exporters *e, const char *path)
{
    struct error err;

    if (path && path[0] && fs_real_new(path, &e->fs, &err) < 0) {
        e->fs = NULL;
        relay_log(e->child, RELAY_WARNING, "going on without a spool: %s", err.text);
    }
}

/* Whoever still runs may yet add something: the list itself stays. */
static void stop(void *part)
{
    struct exporters *e = part;
    struct timespec until;

    for (size_t i = 0; i < e->n; i++) {
        struct exporter *x = &e->list[i];
        pthread_mutex_lock(&x->lock);
        x->is_stopping = true;
        x->cancelled = 1;
        pthread_cond_signal(&x->changed);
        pthread_mutex_unlock(&x->lock);
    }
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec++;
    for (size_t i = 0; i < e->n; i++) {
        struct exporter *x = &e->list[i];
        if (x->is_running && pthread_timedjoin_np(x->thread, NULL, &until) != 0)
            continue; /* a name server does not answer: it ends with the process */
        x->sender->ops->free(x->sender);
        spool_close(x->spool);
    }
}

static int start(struct relay_child *c, void **ret, struct error *err)
{
    struct exporters *e = must_calloc(1, sizeof(*e));
    size_t n_spools = 0;
    int r = 0;

    e->child = c;
    open_folder(e, c->config->spool_dir);
    for (size_t i = 0; i < c->settings.n_targets; i++)
        n_spools += c->settings.targets[i].kind != EXPORT_FILE;
    for (size_t i = 0; r == 0 && i < c->settings.n_targets; i++) {
        struct exporter *x = &e->list[e->n++];
        x->all = e;
        x->target = &c->settings.targets[i];
        r = start_one(x, c->config->spool_max / (n_spools ? n_spools : 1), err);
    }
    if (r < 0) {
        stop(e);
        return r;
    }
    c->exporters = e;
    *ret = e;
    return 0;
}

const struct relay_part export_part = {.name = "exporters",
                                       .start = start,
                                       .stop = stop,
                                       .metrics = exporters_metrics,
                                       .status = exporters_status};

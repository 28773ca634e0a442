#include "server/jobs.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/must.h"
#include "server/ingest.h"
#include "server/mask.h"
#include "server/server_internal.h"

/* What a worker may decode into without asking; its dictionary is dropped at half of it. */
#define SHARE_BYTES ((size_t)32 << 20)

/* What a body of the largest size may become in memory. */
#define LARGE_FACTOR 3

struct queue {
    pthread_mutex_t lock;
    pthread_cond_t filled;
    struct job *first, *last;
    size_t n, max;
    bool is_ending;
};

struct worker_thread {
    pthread_t thread;
    struct queue *queue;
    struct worker worker;
};

struct jobs {
    struct server *server;
    struct queue queues[LANE_QUERY + 1];
    struct worker_thread *threads;
    size_t n_threads, n_started;
    unsigned streams_max;
    atomic_uint n_streams;
    /* The one large share of memory. */
    pthread_mutex_t large_lock;
};

static const char *const lane_names[] = {"quick", "ingest", "query"};

int worker_init(struct worker *w, struct server *s, bool ingests, struct error *err)
{
    *w = (struct worker){.server = s};
    if (!ingests)
        return 0;
    w->masked = mask_memory_new(s->mask);
    return store_source_new(s->store, SHARE_BYTES, &w->source, err);
}

void worker_done(struct worker *w)
{
    store_source_free(w->source);
    mask_memory_free(w->masked);
    buf_done(&w->scratch);
}

void worker_ration(struct worker *w)
{
    if (w->source)
        ingest_begin(w);
}

void worker_take_turn(struct worker *w)
{
    if (!w->has_turn && w->server->jobs)
        pthread_mutex_lock(&w->server->jobs->large_lock);
    w->has_turn = true;
}

bool worker_ration_more(struct worker *w)
{
    if (!w->source || w->has_large_share || !budget_failed(&w->source->budget))
        return false;
    worker_take_turn(w);
    w->has_large_share = true;
    w->source->budget.limit = SHARE_BYTES + LARGE_FACTOR * w->server->config->body_limit;
    ingest_begin(w);
    return true;
}

void worker_ration_end(struct worker *w)
{
    if (w->has_large_share) {
        profile_set_truncate(w->source->set, 0);
        w->source->is_too_large = true;
        w->source->budget.limit = SHARE_BYTES;
    }
    if (w->source)
        store_source_reset(w->source); /* what was large is not kept until the next request */
#ifdef __GLIBC__
    if (w->has_turn)
        malloc_trim(0); /* the next turn may be another thread's, with pages of its own */
#endif
    w->has_large_share = false;
    if (w->has_turn && w->server->jobs)
        pthread_mutex_unlock(&w->server->jobs->large_lock);
    w->has_turn = false;
}

static struct job *queue_take(struct queue *q)
{
    pthread_mutex_lock(&q->lock);
    while (!q->first && !q->is_ending)
        pthread_cond_wait(&q->filled, &q->lock);
    struct job *j = q->first;
    if (j) {
        q->first = j->next;
        q->n--;
    }
    pthread_mutex_unlock(&q->lock);
    return j;
}

static void *work(void *arg)
{
    struct worker_thread *t = arg;
    struct server *s = t->worker.server;

    for (struct job *j; (j = queue_take(t->queue));) {
        metrics_observe(s->metrics, METRIC_QUEUE_SECONDS, lane_names[j->call.route->lane],
                        clock_monotonic_ns(clock_real()) - j->queued_ns);
        job_run(j, &t->worker);
    }
    return NULL;
}

static void queue_init(struct queue *q, size_t max)
{
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->filled, NULL);
    q->max = max;
}

static void queue_end(struct queue *q)
{
    pthread_mutex_lock(&q->lock);
    q->is_ending = true;
    pthread_cond_broadcast(&q->filled);
    pthread_mutex_unlock(&q->lock);
}

static int start_threads(struct jobs *jobs, size_t n_ingest, struct error *err)
{
    for (size_t i = 0; i < jobs->n_threads; i++) {
        struct worker_thread *t = &jobs->threads[i];
        bool ingests = i < n_ingest;
        t->queue = &jobs->queues[ingests ? LANE_INGEST : LANE_QUERY];
        int r = worker_init(&t->worker, jobs->server, ingests, err);
        if (r == 0 && pthread_create(&t->thread, NULL, work, t) != 0) {
            worker_done(&t->worker);
            r = error_set(err, -EAGAIN, "could not start worker %zu of %zu", i + 1,
                          jobs->n_threads);
        }
        if (r < 0)
            return r;
        jobs->n_started++;
    }
    return 0;
}

int jobs_start(struct server *s, struct jobs **ret, struct error *err)
{
    const struct server_config *c = s->config;
    size_t cores = c->threads ? c->threads : (size_t)sysconf(_SC_NPROCESSORS_ONLN);
    size_t n_ingest = c->ingest_workers ? c->ingest_workers : 4 * cores;
    size_t n_query = c->query_workers ? c->query_workers : 2 * cores;
    struct jobs *jobs = must_calloc(1, sizeof(*jobs));

    jobs->server = s;
    pthread_mutex_init(&jobs->large_lock, NULL);
    for (size_t i = 0; i <= LANE_QUERY; i++)
        queue_init(&jobs->queues[i], c->queue_max);
    jobs->n_threads = n_ingest + n_query;
    jobs->streams_max = n_query > 1 ? (unsigned)n_query / 2 : 1;
    jobs->threads = must_calloc(jobs->n_threads, sizeof(*jobs->threads));
    int r = start_threads(jobs, n_ingest, err);
    if (r < 0) {
        jobs_stop(jobs);
        return r;
    }
    *ret = jobs;
    return 0;
}

bool jobs_submit(struct jobs *jobs, struct job *j)
{
    struct queue *q = &jobs->queues[j->call.route->lane];

    j->queued_ns = clock_monotonic_ns(clock_real());
    j->next = NULL;
    pthread_mutex_lock(&q->lock);
    bool is_taken = q->n < q->max && !q->is_ending;
    if (is_taken) {
        if (q->first)
            q->last->next = j;
        else
            q->first = j;
        q->last = j;
        q->n++;
        pthread_cond_signal(&q->filled);
    }
    pthread_mutex_unlock(&q->lock);
    return is_taken;
}

bool jobs_begin_stream(struct jobs *jobs)
{
    if (atomic_fetch_add(&jobs->n_streams, 1) < jobs->streams_max)
        return true;
    jobs_end_stream(jobs);
    return false;
}

void jobs_end_stream(struct jobs *jobs)
{
    atomic_fetch_sub(&jobs->n_streams, 1);
}

size_t jobs_waiting(struct jobs *jobs, enum lane lane)
{
    struct queue *q = &jobs->queues[lane];
    pthread_mutex_lock(&q->lock);
    size_t n = q->n;
    pthread_mutex_unlock(&q->lock);
    return n;
}

void jobs_stop(struct jobs *jobs)
{
    if (!jobs)
        return;
    for (size_t i = 0; i <= LANE_QUERY; i++)
        queue_end(&jobs->queues[i]);
    for (size_t i = 0; i < jobs->n_started; i++) {
        pthread_join(jobs->threads[i].thread, NULL);
        worker_done(&jobs->threads[i].worker);
    }
    for (size_t i = 0; i <= LANE_QUERY; i++) {
        pthread_mutex_destroy(&jobs->queues[i].lock);
        pthread_cond_destroy(&jobs->queues[i].filled);
    }
    pthread_mutex_destroy(&jobs->large_lock);
    free(jobs->threads);
    free(jobs);
}

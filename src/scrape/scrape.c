#include "scrape/scrape.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/must.h"
#include "scrape/scrape_internal.h"

#define SECOND_NS  ((int64_t)1000000000)
#define IDLE_NS    (30 * SECOND_NS)
#define BACKOFF_NS (300 * SECOND_NS) /* between tries of what is down, at most */
#define MEMORY_MAX ((uint64_t)64 << 20)
#define TOLD_AGAIN 32 /* failures in a row after which the log is told again */

int64_t scrape_now_ns(void)
{
    return clock_monotonic_ns(clock_real());
}

void scrape_say(struct scrape *s, int level, const char *text)
{
    if (s->o.log)
        s->o.log(s->o.arg, level, text);
}

static void wait_until(struct scrape *s, pthread_cond_t *cond, int64_t until_ns)
{
    struct timespec at = {.tv_sec = until_ns / SECOND_NS, .tv_nsec = until_ns % SECOND_NS};

    pthread_cond_timedwait(cond, &s->lock, &at);
}

/* ---- Workers */

/* When an entry is due next. What is down is tried less and less often; the phase of what works
 * stays the same, so that targets stay spread. */
static int64_t next_due(const struct entry *e, int64_t now)
{
    int64_t interval = e->kind->interval_ns, wait = interval;

    if (e->failures > 0) {
        for (unsigned i = 1; i < e->failures && wait < BACKOFF_NS; i++)
            wait *= 2;
        if (wait > BACKOFF_NS)
            wait = BACKOFF_NS > interval ? BACKOFF_NS : interval;
        return now + wait;
    }
    int64_t due = e->due_ns + interval;
    /* It took longer than its interval: those that were missed are not made up for. */
    if (due < now - interval)
        due = now;
    return due;
}

static struct job_counts *counts_of(struct scrape *s, const struct scrape_job *job)
{
    for (size_t i = 0; i < s->n_states; i++) {
        if (s->states[i].job == job)
            return &s->states[i].counts;
    }
    abort();
}

static void record(struct scrape *s, struct entry *e, const struct fetched *f)
{
    static const enum entry_state states[OUTCOMES] = {
        [OUTCOME_OK] = ENTRY_UP,      [OUTCOME_BUSY] = ENTRY_BUSY, [OUTCOME_TIMEOUT] = ENTRY_DOWN,
        [OUTCOME_LARGE] = ENTRY_DOWN, [OUTCOME_BAD] = ENTRY_DOWN,  [OUTCOME_DOWN] = ENTRY_DOWN,
    };
    const struct scrape_job *job = e->target->job;
    struct job_counts *counts = counts_of(s, job);

    counts->outcomes[e->kind - job->kinds][f->outcome]++;
    counts->bytes += f->bytes;
    counts->samples += f->n_samples;
    counts->resets += f->is_reset;
    e->state = states[f->outcome];
    e->took_ns = f->took_ns;
    e->bytes = f->bytes;
    e->scraped_ns = clock_wall_ns(clock_real());
    memcpy(e->error, f->error, sizeof(e->error));
    if (f->outcome == OUTCOME_OK) {
        e->n_ok++;
        e->failures = 0;
    } else {
        e->n_failed++;
        /* Whoever else takes a CPU profile will be done soon. */
        e->failures = f->outcome == OUTCOME_BUSY ? 0 : e->failures + 1;
    }
}

/* The first failure, and now and then one more. */
static void tell(struct scrape *s, const struct fetched *f, unsigned failures, bool was_down)
{
    if (failures == 1 || (failures > 0 && failures % TOLD_AGAIN == 0))
        scrape_say(s, LOG_LEVEL_WARN, f->error);
    else if (was_down && failures == 0)
        scrape_say(s, LOG_LEVEL_DEBUG, "a target that was down answers again");
}

/* Takes one entry and does it. The lock is held around it. */
static void run_entry(struct scrape *s, struct worker *w, struct entry *e)
{
    struct target *t = e->target;
    struct fetched f;
    bool was_down = e->failures > 0;

    e->is_running = true;
    t->n_running++;
    if (scrape_now_ns() - e->due_ns > e->kind->interval_ns / 2)
        counts_of(s, t->job)->late++;
    pthread_mutex_unlock(&s->lock);
    scrape_fetch(w, e, &f);
    pthread_mutex_lock(&s->lock);
    e->is_running = false;
    t->n_running--;
    bool is_gone = t->is_gone;
    if (is_gone && t->n_running == 0)
        target_drop(s, t);
    if (s->is_stopping || is_gone)
        return;
    record(s, e, &f);
    unsigned failures = e->failures;
    e->due_ns = next_due(e, scrape_now_ns());
    target_heap_push(s, e);
    pthread_cond_signal(&s->due);
    pthread_mutex_unlock(&s->lock);
    tell(s, &f, failures, was_down);
    pthread_mutex_lock(&s->lock);
}

static void *worker_run(void *arg);

/* One more, unless there are enough. */
static void start_worker(struct scrape *s)
{
    struct worker *w = NULL;
    pthread_attr_t attr;

    for (size_t i = 0; i < WORKERS_MAX && !w; i++) {
        if (s->workers[i].state != WORKER_RUNS)
            w = &s->workers[i];
    }
    if (!w)
        return;
    if (w->state == WORKER_ENDED)
        pthread_join(w->thread, NULL);
    w->state = WORKER_NONE;
    w->scrape = s;
    w->is_cancelled = 0;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, WORKER_STACK);
    if (pthread_create(&w->thread, &attr, worker_run, w) == 0)
        w->state = WORKER_RUNS;
    pthread_attr_destroy(&attr);
}

static void *worker_run(void *arg)
{
    struct worker *w = arg;
    struct scrape *s = w->scrape;

    pthread_mutex_lock(&s->lock);
    int64_t idle_since = scrape_now_ns();
    while (!s->is_stopping) {
        int64_t now = scrape_now_ns();
        if (s->n_heap > 0 && s->heap[0]->due_ns <= now) {
            struct entry *e = target_heap_pop(s);
            /* Somebody is left to wait for the next. */
            if (s->n_idle == 0)
                start_worker(s);
            run_entry(s, w, e);
            idle_since = scrape_now_ns();
            continue;
        }
        if (s->n_idle > 0 && now - idle_since > IDLE_NS)
            break;
        int64_t until = s->n_heap > 0 ? s->heap[0]->due_ns : INT64_MAX;
        s->n_idle++;
        wait_until(s, &s->due, until < now + IDLE_NS ? until : now + IDLE_NS);
        s->n_idle--;
    }
    w->state = WORKER_ENDED;
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* ---- The keeper */

static void add_found(void *arg, const struct tags *t)
{
    struct tags_list *found = arg;

    if (found->n < SCRAPE_TARGETS_MAX)
        tags_list_push(found, tags_copy(t));
}

static int64_t refresh(struct scrape *s, struct job_state *state)
{
    CLEANUP(buf_done) struct buf problems = {0};
    struct tags_list found = {0};
    struct bytes rest, line;

    if (!state->discover)
        return INT64_MAX;
    if (discover_refresh(state->discover, scrape_now_ns(), &problems)) {
        discover_each(state->discover, add_found, &found);
        target_set_sync(s, state, &found, &problems);
        tags_list_done(&found);
    }
    rest = buf_bytes(&problems);
    while (bytes_next_line(&rest, &line)) {
        CLEANUP(buf_done) struct buf text = {0};
        buf_add_bytes(&text, line);
        scrape_say(s, LOG_LEVEL_WARN, buf_cstr(&text));
    }
    return discover_next_ns(state->discover);
}

static void *keeper_run(void *arg)
{
    struct scrape *s = arg;

    pthread_mutex_lock(&s->lock);
    while (!s->is_stopping) {
        CLEANUP(buf_done) struct buf problems = {0};
        int64_t next = scrape_now_ns() + IDLE_NS;
        bool has_news = s->has_local_news;
        pthread_mutex_unlock(&s->lock);
        for (size_t i = 0; i < s->n_states; i++) {
            int64_t at = refresh(s, &s->states[i]);
            next = at < next ? at : next;
        }
        if (has_news)
            local_go_refresh(s, &problems);
        if (problems.len > 0)
            scrape_say(s, LOG_LEVEL_WARN, buf_cstr(&problems));
        pthread_mutex_lock(&s->lock);
        if (!s->is_stopping && !s->has_local_news)
            wait_until(s, &s->news, next);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* ---- All of it */

static void init_threads(struct scrape *s)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&s->lock, NULL);
    pthread_mutex_init(&s->turning, NULL);
    pthread_cond_init(&s->due, &attr);
    pthread_cond_init(&s->news, &attr);
    pthread_condattr_destroy(&attr);
}

int scrape_start(const struct scrape_options *o, struct scrape **ret, struct error *err)
{
    struct scrape_jobs jobs = {0};
    int r = scrape_jobs_parse(o->configs, &jobs, err);

    if (r < 0)
        return r;
    struct scrape *s = must_calloc(1, sizeof(*s));
    s->o = *o;
    s->jobs = jobs;
    if (s->o.memory_max == 0)
        s->o.memory_max = MEMORY_MAX;
    scrape_job_init(&s->local_job, "local");
    s->n_states = jobs.n + 1;
    s->states = must_calloc(s->n_states, sizeof(*s->states));
    for (size_t i = 0; i < jobs.n; i++)
        s->states[i] = (struct job_state){.job = &s->jobs.items[i],
                                          .discover = discover_new(&s->jobs.items[i])};
    s->states[jobs.n].job = &s->local_job;
    s->heap = must_calloc(1, sizeof(*s->heap));
    init_threads(s);
    pthread_mutex_lock(&s->lock);
    start_worker(s);
    s->has_keeper = pthread_create(&s->keeper, NULL, keeper_run, s) == 0;
    bool is_started = s->has_keeper && s->workers[0].state == WORKER_RUNS;
    pthread_mutex_unlock(&s->lock);
    if (!is_started) {
        scrape_stop(s);
        return error_set(err, -EAGAIN, "could not start the threads that scrape");
    }
    *ret = s;
    return 0;
}

static void stop_threads(struct scrape *s)
{
    pthread_mutex_lock(&s->lock);
    s->is_stopping = true;
    for (size_t i = 0; i < WORKERS_MAX; i++)
        s->workers[i].is_cancelled = 1;
    pthread_cond_broadcast(&s->due);
    pthread_cond_broadcast(&s->news);
    pthread_mutex_unlock(&s->lock);
    if (s->has_keeper)
        pthread_join(s->keeper, NULL);
    /* Nobody starts another now. */
    for (size_t i = 0; i < WORKERS_MAX; i++) {
        pthread_mutex_lock(&s->lock);
        bool was_started = s->workers[i].state != WORKER_NONE;
        pthread_mutex_unlock(&s->lock);
        if (was_started)
            pthread_join(s->workers[i].thread, NULL);
    }
}

void scrape_stop(struct scrape *s)
{
    if (!s)
        return;
    stop_threads(s);
    for (size_t i = 0; i < s->n_targets; i++)
        target_drop(s, s->targets[i]);
    for (size_t i = 0; i < s->n_states; i++)
        discover_free(s->states[i].discover);
    scrape_jobs_done(&s->jobs);
    free(s->targets);
    free(s->heap);
    free(s->states);
    free(s->ports);
    buf_done(&s->local_json);
    pthread_mutex_destroy(&s->lock);
    pthread_mutex_destroy(&s->turning);
    pthread_cond_destroy(&s->due);
    pthread_cond_destroy(&s->news);
    free(s);
}

void scrape_set_local(struct scrape *s, struct bytes json)
{
    if (!s->o.finds_local_go)
        return;
    pthread_mutex_lock(&s->lock);
    if (!bytes_equal(buf_bytes(&s->local_json), json)) {
        buf_clear(&s->local_json);
        buf_add_bytes(&s->local_json, json);
        s->has_local_news = true;
        pthread_cond_signal(&s->news);
    }
    pthread_mutex_unlock(&s->lock);
}

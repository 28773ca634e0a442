#pragma once

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "scrape/discover.h"
#include "scrape/scrape.h"
#include "scrape/scrape_config.h"
#include "scrape/tags.h"

/*
 * One thread, the keeper, finds targets; workers, as many as requests are under way up to a limit,
 * each take what is due next from a heap by time. A worker holds one request: CPU profiles take
 * their seconds, and waiting costs no more than a thread.
 *
 * `lock` guards all that changes, but for what a running entry's worker has to itself.
 */
#define WORKERS_MAX  64
#define WORKER_STACK ((size_t)512 << 10)

enum entry_state { ENTRY_NEW, ENTRY_UP, ENTRY_BUSY, ENTRY_DOWN, ENTRY_STATES };

struct target;

/* One kind of profile of one target. */
struct entry {
    struct target *target;
    const struct scrape_kind *kind;
    int64_t due_ns; /* monotonic */
    bool is_running;

    /* Of the worker that runs it: the last body of a cumulative kind. */
    struct buf last;
    int64_t last_ns;

    enum entry_state state;
    unsigned failures; /* in a row */
    uint64_t n_ok, n_failed;
    int64_t scraped_ns, took_ns; /* the last time */
    size_t bytes;
    char error[256];
};

struct target {
    const struct scrape_job *job;
    char *key;   /* no other has it */
    char *base;  /* "http://host:port/prefix" */
    char *query; /* "a=b&c=d", or "" */
    struct tags tags;
    bool is_gone, is_kept;
    unsigned n_running;
    struct entry *entries;
    size_t n_entries;
};

enum outcome {
    OUTCOME_OK,
    OUTCOME_BUSY,    /* somebody else is taking a CPU profile */
    OUTCOME_TIMEOUT, /* too slow */
    OUTCOME_LARGE,   /* over a limit */
    OUTCOME_BAD,     /* no profile */
    OUTCOME_DOWN,    /* nobody answers, or with an error */
    OUTCOMES,
};

/* What is counted of each job. */
struct job_counts {
    uint64_t outcomes[SCRAPE_KINDS_MAX][OUTCOMES];
    uint64_t bytes, samples, resets, late;
};

struct job_state {
    const struct scrape_job *job;
    struct discover *discover;
    struct job_counts counts;
    size_t n_dropped; /* by relabelling, when it was last done */
};

struct worker {
    struct scrape *scrape;
    pthread_t thread;
    enum { WORKER_NONE, WORKER_RUNS, WORKER_ENDED } state;
    volatile sig_atomic_t is_cancelled;
    bool is_over_memory;
    uint64_t received; /* of its request so far, as `receiving` counts it */
};

struct local_port {
    int64_t pid;
    uint16_t port;
    bool is_pprof, is_listed;
    int64_t again_ns; /* nobody answered: not before then is it asked again; else INT64_MAX */
};

struct scrape {
    struct scrape_options o;
    struct scrape_jobs jobs;
    struct scrape_job local_job;
    struct job_state *states; /* the jobs', and the local one behind them */
    size_t n_states;

    pthread_mutex_t lock;
    pthread_cond_t due, news; /* for workers; for the keeper */
    pthread_t keeper;
    bool has_keeper, is_stopping;
    struct worker workers[WORKERS_MAX];
    size_t n_idle;

    struct target **targets;
    size_t n_targets, n_over; /* those there were no room for */
    struct entry **heap;      /* by due_ns */
    size_t n_heap;

    struct buf local_json; /* what came last */
    bool has_local_news;
    struct local_port *ports; /* of the keeper: what was found out */
    size_t n_ports;

    /* Turning profiles around takes memory: one at a time. */
    pthread_mutex_t turning;
    _Atomic uint64_t receiving; /* bytes of answers on their way */
    _Atomic uint64_t kept;      /* bytes of last bodies */
};

int64_t scrape_now_ns(void); /* monotonic */
void scrape_say(struct scrape *s, int level, const char *text);

/* target_set.c: makes the targets of a job these, before relabelling. Those that were there before
 * go on as they were. Takes the lock. */
void target_set_sync(struct scrape *s, struct job_state *state, const struct tags_list *found,
                     struct buf *problems);
void target_drop(struct scrape *s, struct target *t);
/* Of the heap, with the lock held. */
void target_heap_push(struct scrape *s, struct entry *e);
struct entry *target_heap_pop(struct scrape *s);

/* scrape_fetch.c: one request and what becomes of its answer. */
struct fetched {
    enum outcome outcome;
    int64_t took_ns;
    size_t bytes, n_samples;
    bool is_reset;
    char error[256];
};
void scrape_fetch(struct worker *w, struct entry *e, struct fetched *ret);

/* local_go.c: on the keeper's thread. */
void local_go_refresh(struct scrape *s, struct buf *problems);
/* Whether what /debug/pprof/ answered is what Go's package answers. */
bool local_go_is_index(int status, struct bytes body);

#define LOG_LEVEL_DEBUG 0
#define LOG_LEVEL_INFO  1
#define LOG_LEVEL_WARN  2

#pragma once

#include <pthread.h>

#include "base/fs.h"
#include "base/random.h"
#include "relay/export.h"
#include "relay/spool.h"

/* What export.c and export_counts.c share. */
struct export_counts {
    uint64_t sent, sent_bytes; /* requests that were taken, and their size on the way */
    uint64_t retries;          /* tries that came to nothing, for now */
    uint64_t refused;          /* requests that the server will never take */
    uint64_t rejected;         /* profiles in requests that it took */
    uint64_t dropped;          /* requests for which there was no room in memory */
    uint64_t disk_failures;    /* times the spool could not be written */
};

struct export_node {
    struct export_node *next;
    struct export_item *item;
};

struct exporter {
    struct exporters *all;
    const struct export_target *target;
    struct sender *sender;
    struct spool *spool; /* NULL: none */
    pthread_t thread;
    bool is_running;
    volatile sig_atomic_t cancelled;

    pthread_mutex_t lock; /* of all that follows */
    pthread_cond_t changed;
    struct export_node *first, *last;
    size_t queue_bytes, n_queued;
    bool is_stopping, is_sending;
    uint32_t failures; /* in a row */
    char last_failure[512];
    int64_t retry_at, drain_at, spill_at; /* not before */
    int64_t refusal_logged, partial_logged, disk_logged;
    uint64_t stuck_number, stuck_since; /* the oldest of the spool, while it fails */
    uint32_t stuck_tries;
    struct random random;
    struct export_counts counts;
    struct spool_counts spooled;
};

struct exporters {
    struct relay_child *child;
    struct fs *fs; /* the spool's folder; NULL: none */
    struct exporter list[EXPORT_TARGETS_MAX];
    size_t n;
};

void exporters_metrics(void *part, struct buf *text);
void exporters_status(void *part, struct buf *json);

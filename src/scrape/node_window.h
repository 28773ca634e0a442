#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mask_rules.h"
#include "scrape/tags.h"

/*
 * One window of profiling in a Node process, through its inspector, which was opened for that and
 * is closed again whatever comes of the window. Blocks for as long as the window lasts.
 */
struct node_window {
    int fd;                        /* connected to the inspector; taken over */
    int stop_fd;                   /* readable: end the window now, within a second */
    uint32_t pid;                  /* what the process calls itself: no other is profiled */
    bool takes_cpu, takes_heap;    /* neither: the inspector is closed, nothing else */
    int64_t duration_ns;           /* of the window */
    int64_t sampling_ns;           /* between CPU samples */
    uint64_t heap_bytes;           /* between heap samples, on average */
    const struct tags *attributes; /* of the process */
    struct mask_matcher *mask;     /* of what may not be sent; NULL: none */
    uint64_t memory_max;           /* of one profile being turned around */
    void (*profiles)(void *arg, struct bytes otlp);
    void *arg;
};

struct node_window_result {
    size_t n_samples;  /* sent */
    bool is_inspector; /* whoever listens there speaks its protocol */
    bool is_closed;    /* the inspector said goodbye when it was told to close */
    bool is_own;       /* the program profiles itself, and nothing was taken */
    bool may_reopen;   /* the program has not come to handle the signal twice, and may yet */
};

/*
 * -EXDEV: the inspector is another process's, which is left alone; -EALREADY: is_own. Others as of
 * cdp_call() and v8_turn(). *ret is filled in whatever is returned.
 */
int node_window_run(const struct node_window *w, struct node_window_result *ret, struct error *err);

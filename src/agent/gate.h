#pragma once

#include <stdint.h>

#include "agent/governor.h"
#include "base/bytes.h"
#include "base/cleanup.h"

/*
 * Who may tell the agent what to do while it runs: a file, signals, and the server. Each becomes a
 * source of the governor; the governor decides (agent/governor.h). Belongs to one thread.
 */
struct gate;

struct gate_options {
    struct governor *governor; /* lives longer */
    const char *file;          /* "" or NULL: none. Copied */
    int64_t burst_ns;          /* of a burst that is asked for without a time */
    /* Something for the log: what was asked for, and what could not be understood. */
    void (*say)(void *arg, const char *text);
    void *arg;
};

struct gate *gate_new(const struct gate_options *o);
void gate_free(struct gate *g); /* NULL is fine */
DEFINE_CLEANUP(struct gate *, gate_free)

/*
 * Once a second. The file's first word is a mode, a second one how long ("burst 5m"), counted from
 * when the file was written, so that an agent that starts later does not begin anew. It counts
 * while it is there; an empty one says nothing; one that cannot be understood says nothing, and
 * that is told once. `now_ns` is monotonic, `wall_ns` the time of day.
 */
void gate_look(struct gate *g, int64_t now_ns, int64_t wall_ns);

/* SIGUSR1 switches off, and on again; SIGUSR2 is a burst. Others are ignored. For the loop, not for
 * a signal handler. */
void gate_signal(struct gate *g, int number, int64_t now_ns);

/* RELAY_DIRECTIVE: the server's word. Saying the same once more changes nothing. */
void gate_directive(struct gate *g, struct bytes json, int64_t now_ns, int64_t wall_ns);

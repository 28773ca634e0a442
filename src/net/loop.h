#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/error.h"

/*
 * An event loop: descriptors (epoll), timers and tasks, all run by the one thread that is in
 * loop_run(). Only loop_post() and loop_stop() may be called from other threads.
 */
struct loop;

/* The thing that this member of it lies in. */
#define OWNER_OF(member_pointer, type, member)                                                     \
    ((type *)(void *)((char *)(member_pointer)-offsetof(type, member)))

/* A descriptor that is watched. `ready` may forget, close and free its own and others. */
struct loop_io {
    int fd;
    void (*ready)(struct loop_io *io, uint32_t events); /* EPOLLIN... */
};

/* Work for the loop; belongs to the loop from when it is handed over until it runs. */
struct loop_task {
    struct loop_task *next;
    void (*run)(struct loop_task *task);
};

/*
 * Timers of one kind, in the order in which they fall due. Starting one looks for its place from
 * the end: at once when all of a kind last equally long.
 */
struct loop_timer {
    struct loop_timer *prev, *next;
    struct loop_timers *list; /* NULL: not running */
    int64_t due_ns;
};

struct loop_timers {
    struct loop_timer *first, *last;
    void (*expired)(struct loop_timer *timer); /* is not running any more */
    struct loop_timers *next_kind;
};

int loop_new(struct loop **ret, struct error *err);
void loop_free(struct loop *loop); /* NULL is fine */
DEFINE_CLEANUP(struct loop *, loop_free)

void loop_run(struct loop *loop); /* until loop_stop() */
void loop_stop(struct loop *loop);

/* Whether this is the thread that runs the loop. */
bool loop_is_mine(const struct loop *loop);

/* The monotonic time, as of this round. */
int64_t loop_now_ns(const struct loop *loop);

int loop_watch(struct loop *loop, struct loop_io *io, uint32_t events, struct error *err);
void loop_change(struct loop *loop, struct loop_io *io, uint32_t events);
void loop_forget(struct loop *loop, struct loop_io *io); /* before its descriptor is closed */

/* From any thread: runs the task in the loop's next round. False, and the task still the caller's,
 * when the loop has been closed. */
bool loop_post(struct loop *loop, struct loop_task *task);

/* Once loop_run() has returned: takes no more tasks, and runs those that were left on the caller's
 * thread. */
void loop_close(struct loop *loop);

/* From the loop's thread: runs it in the next round, behind what is ready by then. */
void loop_again(struct loop *loop, struct loop_task *task);

void loop_add_timers(struct loop *loop, struct loop_timers *list);
void loop_remove_timers(struct loop *loop, struct loop_timers *list); /* once none of it runs */
/* Starts it, or starts it anew. */
void loop_timer_start(struct loop_timers *list, struct loop_timer *timer, int64_t due_ns);
void loop_timer_stop(struct loop_timer *timer); /* one that is not running is fine */

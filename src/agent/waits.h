#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi/event.h"
#include "base/cleanup.h"

/*
 * Joins what the kernel's side tells of waiting threads in pieces: where one waits is told once,
 * that it still does (wall clock) or for how long it did (off-CPU) comes later. Belongs to one
 * thread.
 *
 * Threads in the same place share one copy of it. At most `threads_max` threads are remembered, in
 * at most `memory_max` bytes; those beyond are counted as `unknown_ns` when they say "again". A
 * thread is forgotten when its process ends, or after two minutes without a word.
 */
enum waits_type { WAITS_WALL, WAITS_OFF_CPU };

struct waits_calls {
    /* A sample and what it adds: the sample's own value_ns, tid and time_ns are to be ignored, but
     * for the tid. It lives until the call returns. */
    void (*count)(void *arg, enum waits_type type, const struct event_sample *sample,
                  uint64_t value_ns);
    /* At the end of a window: how long its threads were in each state, all together. Divided by
     * the window it is the average number of threads. May be NULL. */
    void (*threads)(void *arg, uint32_t tgid, const uint64_t ns[THREAD_STATES]);
    void *arg;
};

struct waits_limits {
    uint32_t threads_max; /* 0: 65,536 */
    size_t memory_max;    /* 0: 8 MiB */
};

struct waits;

struct waits *waits_new(const struct waits_calls *calls, const struct waits_limits *limits);
void waits_free(struct waits *w); /* NULL is fine */
DEFINE_CLEANUP(struct waits *, waits_free)

/*
 * Takes an event from the ring: samples of the wall clock and of waits, repeats, ends of waits.
 * False for others: they are not for here (ends of processes are looked at, and are others').
 */
bool waits_event(struct waits *w, const struct event_head *e);

/* Counts what threads that did not move have added up to and what waits that go on have lasted so
 * far, tells threads by state, and forgets those who
 * are gone. now_ns: CLOCK_MONOTONIC. */
void waits_end_window(struct waits *w, uint64_t now_ns);

struct waits_stats {
    size_t threads, places, bytes;
    uint64_t no_room;    /* samples that were counted, but could not be remembered */
    uint64_t unknown;    /* repeats and ends of what is not remembered */
    uint64_t unknown_ns; /* and the time they stood for */
};
void waits_stats(const struct waits *w, struct waits_stats *ret);

#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

/* Which stacks are one place in code: equal for stacks whose innermost frames are, and of fewer
 * frames at each higher level, from 1 to LEAKS_LEVELS. */
#define LEAKS_LEVELS 4
typedef uint64_t (*leaks_place_fn)(void *arg, uint32_t stack, unsigned level);

/*
 * Leak suspects: code whose memory is still there long after it was allocated, and becomes more and
 * more. Fed with all live memory again and again ("snapshots"), it says of which stacks that holds.
 *
 * A stack is a suspect when, over the last 2 N steps between snapshots (N is 3 by default):
 * - its live memory rises, by the trend of all of them (Mann and Kendall's test) and by what came
 *   and went over the last N, which must be more than 3.5 times the error that sampling makes;
 * - of what it allocated in each of the 2 N steps something is left (one may be empty): there is
 *   memory older than N steps, and it became more;
 * - it goes on: the last step added about as much as those before, and the last N not less than
 *   half of what the N before did.
 *
 * What has too few samples to be judged alone is judged together with other stacks of the same
 * place in code, by fewer and fewer of its innermost frames; those that were named already are left
 * out of it, so that a wrapper of malloc is not named for one of its callers.
 *
 * So these are not named: a cache that has filled, a pool that replaces what it holds, what lives
 * shortly. A cache that is being filled looks like a leak until it is full.
 *
 * Steps are as long as windows, or they begin shorter, so that a program of a few seconds can be
 * judged, and become longer with its life: two fifths of it and more are looked at then, and leaks
 * are found that are too slow to be seen in a few windows.
 */
struct leaks;

struct leaks_options {
    unsigned windows;     /* N; 0: 3 */
    uint64_t window_ns;   /* how long a window is */
    uint64_t step_ns;     /* the first step; 0: window_ns */
    uint64_t step_max_ns; /* steps become longer up to this; 0: they do not */
    unsigned min_samples; /* that must be left of 2 N steps; 0: 2 N */
    size_t max_memory;    /* 0: 16 MiB; what does not fit is not followed, and counted */
    leaks_place_fn place; /* NULL: each stack is judged alone */
    void *place_arg;
};

#define LEAKS_WINDOWS_DEFAULT 3
#define LEAKS_WINDOWS_MAX     16

struct leaks *leaks_new(const struct leaks_options *o);
void leaks_free(struct leaks *l); /* NULL is fine */
/* Forgets everything: numbers of stacks mean others from now on. */
void leaks_restart(struct leaks *l);
/* max_memory from now on; begins anew when there is more already. */
void leaks_set_memory(struct leaks *l, size_t max_memory);
DEFINE_CLEANUP(struct leaks *, leaks_free)

/* Whether it is time for a snapshot. Times are CLOCK_MONOTONIC. */
bool leaks_is_due(const struct leaks *l, uint64_t now_ns);

/* A snapshot: begun, told of every sampled object that is alive, ended. `stack` is any number that
 * stands for the same stack each time; `rate` as in struct preload_live. */
void leaks_begin(struct leaks *l, uint64_t now_ns);
void leaks_add(struct leaks *l, uint32_t stack, uint64_t size, uint32_t rate, uint64_t time_ns);
void leaks_end(struct leaks *l);

/* Objects of the last snapshot whose stacks are not followed: there was no room. Stacks of which
 * nothing is alive make room for others. */
uint64_t leaks_unfollowed(const struct leaks *l);

/* Whether steps are as long as windows: before that a verdict is early, and for programs that have
 * ended already. */
bool leaks_is_settled(const struct leaks *l);

struct leak_suspect {
    uint32_t stack;
    double bytes, objects; /* alive at the last snapshot, from this stack */
    double growth_per_s;   /* bytes */
    uint64_t watched_ns;   /* over how long */
};

/* As of the last snapshot, the fastest first; valid until the next. */
const struct leak_suspect *leaks_suspects(const struct leaks *l, size_t *ret_n);
const struct leak_suspect *leaks_find(const struct leaks *l, uint32_t stack);

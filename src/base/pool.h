#pragma once

#include <stddef.h>

#include "base/cleanup.h"
#include "base/error.h"

/*
 * Threads that share one piece of work. Several callers may run work on one pool at a time; a
 * caller works too, so that its work goes on however busy the others are, and n threads are n - 1
 * in the pool. Work may itself run more work on the pool.
 *
 * With 0 or 1 threads, or without a pool (NULL), everything happens in the caller, in order: what a
 * simulator needs.
 */
struct pool;

#define POOL_THREADS_MAX 1024

/* Returns 0, -EINVAL above the maximum, or -EAGAIN when the system has no more threads. */
int pool_new(size_t n_threads, struct pool **ret, struct error *err);
/* Nothing may be running. NULL is fine. */
void pool_free(struct pool *p);
DEFINE_CLEANUP(struct pool *, pool_free)

/* How many pieces can be worked on at once: at least 1. */
size_t pool_threads(const struct pool *p);

/* Calls fn(arg, i) once for every i below count, in any order and by any thread, and returns when
 * all have. What they wrote is visible to the caller then. */
void pool_run(struct pool *p, void (*fn)(void *arg, size_t i), void *arg, size_t count);

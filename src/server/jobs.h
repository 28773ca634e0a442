#pragma once

#include "server/call_internal.h"

/*
 * Queues with an end, and the threads that work them off: one queue for what comes in, one for what
 * is asked, so that neither waits for the other. A full queue refuses: nothing waits without bound.
 */
struct jobs;

int jobs_start(struct server *s, struct jobs **ret, struct error *err);

/* Takes the job over, or returns false when the lane's queue is full (or ending). */
bool jobs_submit(struct jobs *jobs, struct job *j);

/*
 * Whoever writes a reply in pieces waits for its client: half of the workers that answer questions
 * may, so that slow readers leave the others theirs. False when there are as many; else
 * jobs_end_stream() is due.
 */
bool jobs_begin_stream(struct jobs *jobs);
void jobs_end_stream(struct jobs *jobs);

/* How many wait now. */
size_t jobs_waiting(struct jobs *jobs, enum lane lane);

/* Finishes what waits, then ends the threads. NULL is fine. */
void jobs_stop(struct jobs *jobs);

/*
 * A worker outside of the queues, for server_handle() and what the server does by itself; with a
 * source when it is to ingest.
 */
int worker_init(struct worker *w, struct server *s, bool ingests, struct error *err);
void worker_done(struct worker *w);

/*
 * Memory for unpacking and decoding is rationed: most requests fit a small share, and those that do
 * not take turns with a large one. False when the request had all there is.
 */
#define WORKER_UNPACK_BYTES ((uint64_t)8 << 20) /* without a turn */
void worker_ration(struct worker *w);
void worker_take_turn(struct worker *w);   /* waits for it */
bool worker_ration_more(struct worker *w); /* waits for its turn */
void worker_ration_end(struct worker *w);

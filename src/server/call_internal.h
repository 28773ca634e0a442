#pragma once

#include <pthread.h>

#include "server/auth.h"
#include "server/call.h"
#include "wire/inflate.h"

/*
 * A call with what its parts are kept in: made when a request's head is here, freed once it has
 * been answered. One thread has it at a time: loop, queue, worker, and back.
 */
struct job {
    struct call call;
    struct job *next; /* in a queue */
    int64_t queued_ns;
    int64_t begun_ns;
    struct auth_identity identity;
    struct arena arena;
    struct unpacked plain; /* the body, unpacked */
    atomic_bool never;     /* what `cancelled` points at without a network */
    bool is_own;           /* asked by the server itself */
    bool is_kept;          /* the handler answers later */
    bool has_begun;        /* a reply in pieces */
    bool has_query_slot;
    struct rendezvous *waiting; /* who waits without a network */
};

/* For whoever waits in server_handle() for an answer that comes later. */
struct rendezvous {
    pthread_mutex_t lock;
    pthread_cond_t arrived;
    bool is_done;
    struct http_reply reply;
};

struct job *job_new(struct server *s, const struct http_request *request);
void job_free(struct job *j); /* NULL is fine */

/* What every reply carries. */
void call_add_usual_headers(struct call *c);

/* On a worker: unpacks, runs the handler, answers and frees (unless the handler keeps it). */
void job_run(struct job *j, struct worker *w);

/* Answers with what the handler left, or with the error; then frees. */
void job_finish(struct job *j, int r, const struct error *err);

#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "net/loop.h"

/*
 * A child process for work that may hang or be attacked: looking at other processes, and parsing
 * their files. It is asked one thing at a time over a socket, and killed when the answer is not
 * there in time; the next question starts another. It has only the capabilities, the memory and the
 * system calls that its kind names, no descriptors but its socket and what questions bring, and
 * dies with its parent. Where the parent is root it runs as nobody. What the parent shares with the
 * kernel or others for writing is not mapped in it.
 *
 * Of the side that asks, everything belongs to the loop's thread.
 */
#define WORKER_QUESTION_MAX ((size_t)64 << 10)
#define WORKER_ANSWER_MAX   ((size_t)160 << 10)
#define WORKER_FDS_MAX      3

struct worker_question {
    struct bytes data;
    int fds[WORKER_FDS_MAX]; /* closed behind the call; -1: none */
};

struct worker_answer {
    struct buf data; /* at most WORKER_ANSWER_MAX */
    int fd;          /* -1: none; closed once it is sent */
};

struct worker_kind {
    const char *name;      /* "vesta-parser", as ps shows it */
    int64_t deadline_ns;   /* of one question */
    uint64_t capabilities; /* that it keeps: bits 1 << CAP_... */
    uint64_t memory_max;   /* address space beyond what it begins with, and of one file that it
                              writes; 0: no limit of its own */
    bool may_open;         /* files and processes, to read; else only what it is handed: opening a
                              path then fails, and other system calls that it has no use for kill it */
    bool may_attach;       /* SIGUSR1 to processes, and TCP connections */
    bool may_enter;        /* networks of processes */

    /* In the child, for each question: 0 or a negative errno with words. */
    int (*serve)(void *state, const struct worker_question *q, struct worker_answer *a,
                 struct error *err);
    /* In the child, once, before it gives up what it may not keep; may be NULL. */
    void *(*start)(void *arg);
    void *start_arg;
};

struct worker;

int worker_new(struct loop *loop, const struct worker_kind *kind, struct worker **ret,
               struct error *err);
void worker_free(struct worker *w); /* NULL is fine; answers still due are -ECANCELED */
DEFINE_CLEANUP(struct worker *, worker_free)

/* So many that cannot be killed are enough: questions are then answered by -EAGAIN. */
#define WORKER_STUCK_MAX 8

/*
 * The answer to a question: r is what serve() returned, or -ETIMEDOUT (killed), -EPIPE (it died),
 * -EMSGSIZE, -EAGAIN, -ECANCELED; `text` is what went wrong. `data` lives until the callee returns
 * or asks again. `fd` belongs to the callee, -1 when there is none. The callee may free the worker.
 */
typedef void worker_done(void *arg, int r, struct bytes data, int fd, const char *text);

/* Queued behind others. fds[0..n) are duplicated: the caller keeps its own. -EAGAIN when
 * WORKER_QUEUE_MAX questions wait already. `done` is never called from within this call. */
#define WORKER_QUEUE_MAX 1024
int worker_ask(struct worker *w, struct bytes question, const int *fds, size_t n, worker_done *done,
               void *arg);

/* The same, waiting for the answer on this thread; for starting up and for tests. */
int worker_ask_now(struct worker *w, struct bytes question, const int *fds, size_t n,
                   struct buf *ret, int *ret_fd, struct error *err);

struct worker_stats {
    uint64_t asked, answered, refused; /* refused: serve() said no */
    uint64_t started;
    uint64_t killed; /* at a deadline */
    uint64_t died;   /* by itself: a crash, or a system call it may not make */
    size_t waiting;
    size_t stuck; /* killed, and not gone yet: the kernel waits for somebody on their behalf */
    int pid;      /* 0: none runs */
};
void worker_stats(const struct worker *w, struct worker_stats *ret);

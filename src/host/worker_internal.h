#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdnoreturn.h>
#include <sys/types.h>

#include "host/worker.h"

/*
 * What goes over the socket: one of these in front of each message. Both ends are one program; the
 * parent believes nothing of it all the same.
 */
struct worker_question_head {
    uint64_t number;
    uint32_t fds; /* bit i: fds[i] is among those sent along */
    uint32_t spare;
};

struct worker_answer_head {
    uint64_t number; /* of the question */
    int32_t result;
    uint32_t text_len; /* of what follows; the rest is data */
};

/* Where a child has its socket. */
#define WORKER_SOCKET 3

/* How a child ends that could not make itself safe: the parent says which step it was. */
enum worker_step {
    WORKER_STEP_SOCKET = 100,
    WORKER_STEP_LIMITS,
    WORKER_STEP_RIGHTS,
    WORKER_STEP_FILTER,
    WORKER_STEP_PARENT,
    WORKER_STEP_END,
};

/* The whole life of a child. */
noreturn void worker_child(const struct worker_kind *kind, int socket, pid_t parent);

/* From now on: only the system calls of a kind. */
int worker_filter(const struct worker_kind *kind);

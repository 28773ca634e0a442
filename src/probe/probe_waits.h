#pragma once

#include "probe/probe.h"

/* Threads that wait: what the rest of the room needs to know of probe_waits.c. */
struct probe_waits;

/* After loading: PROBE_OFF_CPU and PROBE_WALL, as far as they are there. */
int probe_waits_init(struct probe *p, struct error *err);
void probe_waits_done(struct probe *p);

/* The pid of the child that looks at threads, 0: none. */
int probe_waits_child(const struct probe *p);

/* The entry of a process changes: bits PROCESS_... before and from now on, 0 for no entry. */
void probe_waits_process(struct probe *p, uint32_t tgid, uint32_t before, uint32_t from_now);

/*
 * The child that reads the iterator over threads, and may hang in it: where it does, it is killed
 * and left behind, for memory that never answers cannot be waited for.
 */
struct looker {
    int program; /* the iterator's: borrowed */
    int socket;  /* -1: no child */
    int pid;
    bool is_asked; /* and has not answered */
};

int looker_start(struct looker *k, struct error *err);
/* Has it look once, at all threads of these processes, or of all when n is 0 (going through all is
 * what costs most); it must not be asked already. -EPIPE when it is gone. */
#define LOOKER_PROCESSES_MAX 16
int looker_ask(struct looker *k, const uint32_t *tgids, size_t n);
/* -EAGAIN while it has not answered, -EPIPE when it is gone, else what became of its look. */
int looker_answer(struct looker *k);
/* Kills it; returns its pid, to be waited for by whoever likes. */
int looker_kill(struct looker *k);

#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "abi/event.h"

/*
 * What a thread waited for, told from the names of the kernel's functions it waited in. Pure.
 */
enum wait_reason {
    WAIT_OTHER,
    WAIT_PREEMPTED, /* wanted to run, and another did */
    WAIT_FUTEX,
    WAIT_DISK,  /* a page, a block, a file system's journal */
    WAIT_FAULT, /* the memory it touched was not there */
    WAIT_SLEEP,
    WAIT_POLL, /* poll, select, epoll: for events */
    WAIT_SOCKET,
    WAIT_PIPE,
    WAIT_CHILD,
    WAIT_TIMER,
    WAIT_SIGNAL,
    WAIT_LOCK_FILE,   /* flock, fcntl */
    WAIT_KERNEL_LOCK, /* a lock of the kernel's own */
    WAIT_STOPPED,
    WAIT_REASONS,
};

/* Names innermost first; those that are not known may be NULL. */
enum wait_reason wait_reason_of(const char *const *kernel_names, size_t n, enum thread_state state);

/* As a frame for people: "[waiting: futex]", "[wants to run]". */
const char *wait_reason_frame(enum wait_reason r);

/* Frames of the profile of threads by state: "running", "sleeping"... */
const char *thread_state_name(enum thread_state s);

/*
 * Whether a wait is time lost to a lock: a futex wait that is not idleness, that is, whose user
 * frames (innermost first, demangled or not) are not those of waiting for work, for an event, for a
 * thread to end, or of a runtime that has nothing to run.
 */
bool wait_is_lock(enum wait_reason r, const char *const *user_names, size_t n);

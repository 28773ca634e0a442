#pragma once

#include <stddef.h>

#include "base/error.h"

/*
 * What the relay gives up before it opens anything: the user (where it is root and
 * another is named), every capability for good, new rights by exec, and the system calls
 * that a sender of profiles has no business with: exec, ptrace and reading other processes, BPF and
 * perf events, modules, mounts, namespaces, keys, io_uring. Of one thread, before others are
 * started.
 */
struct sandbox {
    const char *user;           /* to become, where we are root; NULL: stay */
    const char *const *folders; /* made for that user where they are not there */
    size_t n_folders;
};

int sandbox_enter(const struct sandbox *s, struct error *err);

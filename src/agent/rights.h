#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

/*
 * What the agent may do. It starts as root, or with capabilities of its own, and keeps five of
 * them; its workers and the relay are forked from it and keep fewer still.
 *
 * Before rights_drop(): /proc/kallsyms is opened (CAP_SYSLOG counts when it is opened, not when it
 * is read), probe_measure() is called, folders are made with rights_make_dir(), and commands that
 * are to be profiled are started. After it nothing is executed, whoever asks.
 */
struct rights_need {
    unsigned capability;
    const char *name;
    bool is_essential;      /* without it the machine cannot be profiled */
    bool is_for_start_only; /* given up once started */
    const char *lost;       /* what is lost without it */
};

extern const struct rights_need rights_needs[];
extern const size_t n_rights_needs;

/* Bits of what is effective now; and of what rights_drop() keeps. */
uint64_t rights_held(void);
uint64_t rights_kept(void);

/* A line for each that `held` lacks: "CAP_BPF is missing: ...". Returns whether an essential one
 * is among them. */
bool rights_add_missing(uint64_t held, struct buf *out);

/* Makes a folder and those above it, for `user` where we are root: it is theirs then, and only they
 * may read it. One that is there already is handed over only if it is root's. */
int rights_make_dir(const char *path, const char *user, struct error *err);

/*
 * Becomes `user` where this is root ("": stays), with all capabilities that it had: files that are
 * made from then on are theirs, and children are theirs from the start. For a process with one
 * thread. -ENOENT when there is no such user.
 */
int rights_become(const char *user, struct error *err);

/*
 * Gives up for good all capabilities but those kept, and those in `also`. No program that is
 * executed could get more (no_new_privs, and the bounding set is cut down where that is allowed);
 * memory is not dumped and cannot be attached to. For a process with one thread.
 */
int rights_drop(uint64_t also, struct error *err);

/*
 * Refuses, with EPERM, the system calls that neither the agent nor its children ever make:
 * executing, attaching, mounting, loading modules, opening by handle, io_uring, odd kinds of
 * sockets... With `enters_networks`, networks of other processes may be entered. It passes to all
 * children. -EINVAL where the kernel has no filters.
 */
int rights_filter(bool enters_networks, struct error *err);

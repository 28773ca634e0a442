#pragma once

#include <stdbool.h>
#include <sys/signalfd.h>
#include <sys/types.h>

#include "base/error.h"

/*
 * `vesta run` stands between a command and whoever started it: what it inherits the command
 * inherits, what it is sent the command is sent, and how the command stops or ends is how it does.
 */

/* What we were started with. main() calls it before it changes any of that. */
void run_signals_remember(void);

/* In the child: back to what was remembered. */
void run_signals_restore(void);

/* Signals are read from this descriptor from now on, and do nothing else. */
int run_signals_open(struct error *err);

/* Whether the command must be sent what came to us: it may have got it already. */
bool run_signals_is_for_command(const struct signalfd_siginfo *s, pid_t command);

/* The command was stopped. In front of a terminal we stop too, so that the shell takes over. */
void run_signals_stop_with(pid_t command);

/* Somebody has continued us, and may have forgotten the command. */
void run_signals_continue(pid_t command);

/* The command has ended: INT, TERM and HUP come to `handler` now, if they were not ignored before;
 * QUIT and TSTP do what they do. */
void run_signals_let_go(void (*handler)(int signo));

/* Ends us as a signal ended the command, without a second core file. Returns when that cannot be,
 * as for the first process of a container. A handler may call it. */
void run_signals_die_by(int signo);

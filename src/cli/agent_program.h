#pragma once

#include <stddef.h>

#include "base/error.h"

/*
 * vesta-agent, which profiles this machine: a program of its own that is run, not linked. It is the
 * one beside this program, else the one of PATH.
 */
#define AGENT_PATH_MAX 4096

/* -ENOENT with where it was looked for. */
int agent_program_find(char path[AGENT_PATH_MAX], struct error *err);

/* Runs it and waits; its exit code, 128 + the signal that ended it, or a negative errno. */
int agent_program_run(const char *path, const char *const *args, size_t n, struct error *err);

/* Starts it; its pid. It ends with this process. */
int agent_program_start(const char *path, const char *const *args, size_t n, struct error *err);

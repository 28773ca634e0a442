#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

/*
 * The command of `vesta run`: which library it must be given, and how it is started with it.
 */
#define RUN_PATH_MAX 4096

enum run_libc { RUN_LIBC_GLIBC, RUN_LIBC_MUSL, RUN_LIBC_NONE /* linked statically */ };

struct run_program {
    char path[RUN_PATH_MAX]; /* of the command, or of what interprets it */
    enum run_libc libc;
    bool is_setuid; /* the loader preloads nothing into it */
};

/* Looks the command up in PATH, and its interpreters. -ENOENT or -EACCES when there is no such
 * command, with words. */
int run_program_look(const char *command, struct run_program *ret, struct error *err);

/* Where the library is: a file, or a folder with one for each libc in it. */
struct run_library {
    char place[RUN_PATH_MAX];
    const char *inside; /* what LD_PRELOAD has behind the place: "" when it is a file */
};

/*
 * The library for programs of all libcs, when it can be had, else for those of this one:
 * VESTA_PRELOAD_LIBRARY (a file), else beside this program, else where it was installed.
 */
int run_library_find(enum run_libc libc, struct run_library *ret, struct error *err);

/* What the library is told by the environment. */
struct run_environment {
    const char *library, *folder;
    const char *types; /* NULL: all */
    uint32_t interval, lock_interval;
    bool is_off;
};

/* Many processes have many files: as many as we are allowed. The command gets what we had. */
void run_program_raise_files(void);

/* Starts the command, with this terminal, signals as we found them (run_signals.h) and an alarm
 * that was set for it. Its pid; or a negative errno when it could not be run. */
pid_t run_program_start(char *const *argv, const struct run_environment *e, struct error *err);

/* What a command that could not be run is told by shells: 127, or 126. */
int run_program_exit_code(int r);

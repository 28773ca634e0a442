#pragma once

#include "cli/options.h"

/*
 * A verb of the command line. To add one: write cli/cmd_<name>.c, add it to the table in main.c and
 * to meson.build, describe it in docs/cli.md.
 *
 * Exit codes: 0 ok, 1 error, 2 usage, 3 no data, 4 a threshold was breached, 75 a server does not
 * answer or is too busy.
 */
enum {
    VESTA_EXIT_OK = 0,
    VESTA_EXIT_ERROR = 1,
    VESTA_EXIT_USAGE = 2,
    VESTA_EXIT_NO_DATA = 3,
    VESTA_EXIT_BREACHED = 4,
    VESTA_EXIT_LATER = 75, /* nobody took it: try again later */
};

struct command {
    const char *name;
    const char *arguments; /* for the usage line: "[N] SOURCE..." */
    const char *summary;   /* one line */
    const char *details;   /* more lines for its own help, or NULL */
    unsigned groups;       /* enum option_group */

    /* Options are parsed and --help is dealt with. Returns an exit code; errors are printed by
     * command_fail(). */
    int (*run)(const struct command *self, struct options *o);
    int argument; /* for commands that share a function */
};

/* Prints "vesta: TEXT" and turns a negative errno into an exit code. */
int command_fail(int r, const struct error *err);

/* Prints a usage error and the way to the help; returns VESTA_EXIT_USAGE. */
int command_usage(const struct command *self, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* The n-th command, or NULL past the end: for help and completion. */
const struct command *command_at(size_t n);
const struct command *command_find(const char *name);

/* Writes a finished report or file: to o->output, or to standard output (refusing to put binary
 * data and pictures on a terminal). Returns an exit code. */
int command_write(const struct options *o, struct bytes content, bool is_binary);

int cmd_config(const struct command *self, struct options *o);
int cmd_convert(const struct command *self, struct options *o);
int cmd_diff(const struct command *self, struct options *o);
int cmd_flame(const struct command *self, struct options *o);
int cmd_get(const struct command *self, struct options *o);
int cmd_info(const struct command *self, struct options *o);
int cmd_merge(const struct command *self, struct options *o);
int cmd_push(const struct command *self, struct options *o);
int cmd_query(const struct command *self, struct options *o);
int cmd_record(const struct command *self, struct options *o);
int cmd_report(const struct command *self, struct options *o);
int cmd_run(const struct command *self, struct options *o);
int cmd_server(const struct command *self, struct options *o);
int cmd_shell(const struct command *self, struct options *o);
int cmd_store(const struct command *self, struct options *o);
int cmd_symbolize(const struct command *self, struct options *o);
int cmd_token(const struct command *self, struct options *o);
int cmd_up(const struct command *self, struct options *o);
int cmd_web(const struct command *self, struct options *o);

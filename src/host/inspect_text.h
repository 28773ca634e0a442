#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/bytes.h"

/*
 * Texts of /proc, as their own bounded readers: what a process calls itself, its files and its
 * arguments may hold anything.
 */

/* /proc/PID/stat. */
struct stat_text {
    struct bytes comm;
    char state;
    uint32_t parent;
    uint64_t flags; /* PF_... */
    uint64_t start_ticks, code_start, code_end, stack_start;
};
bool stat_read(struct bytes text, struct stat_text *ret);

/* /proc/PID/status: the effective user, and what the process calls itself in its own namespace. */
bool status_read(struct bytes text, uint32_t *ret_uid, uint32_t *ret_inner_pid);

/* Whether /proc/PID/status says that the process has a handler for a signal. */
bool status_catches(struct bytes text, int signal);

/* A line of /proc/PID/maps. The path is as written: newlines are \012, " (deleted)" is there. */
struct map_line {
    uint64_t begin, end, offset, inode;
    uint32_t major, minor;
    bool is_executable;
    struct bytes path;
};
bool map_line_read(struct bytes line, struct map_line *ret);

/* The path as people know it, at most `max` bytes, appended; true when it was deleted. */
bool map_path(struct bytes path, size_t max, struct buf *out);

/* Of an environment ("NAME=VALUE\0"...), the variables asked for, whole and within `max` bytes. */
void environ_pick(struct bytes text, const struct bytes *names, size_t n, size_t max,
                  struct buf *out);

/* The value of a variable that was picked; {0} when it is not there. */
struct bytes environ_get(struct bytes text, const char *name);

/* A line of /proc/PID/net/tcp or tcp6. */
struct tcp_line {
    bool is_listening;
    bool is_near;     /* on loopback, or any address */
    bool is_loopback; /* and not on any */
    bool is_v6;
    uint16_t port;
    uint64_t inode;
    uint8_t address[16]; /* in network order; 4 bytes unless is_v6 */
};
bool tcp_line_read(struct bytes line, struct tcp_line *ret);

/* Whether a command line of Node, or its NODE_OPTIONS, may say something about inspectors, or names
 * files that may. Anywhere in it: who is left alone without need loses little. */
bool node_speaks_of_inspector(struct bytes text);
/* Whether /proc/PID/cmdline is still what the program was started with, which had `argc` arguments:
 * process.title is written over it. False as well where arguments are empty. */
bool cmdline_is_kept(struct bytes cmdline, uint64_t argc);

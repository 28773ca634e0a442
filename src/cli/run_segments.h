#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "profile/profile.h"

/*
 * The processes of a run: whatever makes a segment in the folder is followed, from its first sample
 * to its last. One that has ended is read to its end, and its file goes.
 */
struct run_segments;

struct run_segments_options {
    const char *folder;
    uint64_t window_ns;
    unsigned leak_windows; /* 0: the default */
    uint32_t wanted, alloc_rate, lock_rate;
    bool is_on;
    const char *service; /* NULL: as OTEL_RESOURCE_ATTRIBUTES says, or else the command's name */
    const char *command;
    const char *const *labels; /* NAME=VALUE, of every resource */
    size_t n_labels;
    size_t max_memory; /* of a window's profiles */
};

struct run_segments *run_segments_new(const struct run_segments_options *o, struct error *err);
void run_segments_free(struct run_segments *s); /* NULL is fine */

/* Becomes readable when there may be a new segment. */
int run_segments_fd(const struct run_segments *s);

/* Looks for new ones, and takes what all of them have. Call it ten times a second. */
void run_segments_poll(struct run_segments *s);

/* Turns sampling on or off, everywhere. */
void run_segments_switch(struct run_segments *s, bool is_on);

/* A window's profiles: a set with a budget of its own. */
struct run_window {
    struct budget budget;
    struct profile_set *set;
    int64_t start_unix_ns, end_unix_ns;
};
void run_window_free(struct run_window *w); /* NULL is fine */

/* Ends the window and begins the next; NULL when nobody had anything to say. is_last: processes
 * that still run are left alone from now on, with sampling off. */
struct run_window *run_segments_end(struct run_segments *s, bool is_last);

struct run_counts {
    size_t processes;
    size_t failed;  /* segments that could not be read; why_failed is the last reason */
    size_t no_room; /* processes that could not make one */
    uint64_t apart; /* that did not reach the folder, as far as their parents know */
    struct error why_failed;
};
struct run_counts run_segments_counts(const struct run_segments *s);

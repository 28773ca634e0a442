#pragma once

#include "agent/publish.h"

/*
 * The libraries inside processes (libvesta-preload.so): what they hand over becomes profiles of the
 * agent's windows, with its names, identities and masks. A process that carries one is found by its
 * mappings; nothing has to be configured on either side.
 */
struct inside;

struct inside_options {
    struct process_table *processes;
    struct code_files *files;
    struct worker *inspector;
    uint32_t wanted;     /* PRELOAD_WANTS(...): what they are told; 0: they are left as they are */
    uint32_t alloc_rate; /* bytes; 0: as it is */
    int64_t window_ns;
    size_t memory_max; /* for all of them */
    double cpu_share;  /* of one CPU, for all of them; 0: 0.05. Whoever costs much more than others
                          is dropped when they cost more than that together */
    int64_t wait_max_ns; /* of a window; 0: a twentieth of it. Whoever's memory keeps us waiting for
                            longer is dropped: its owner can hold up those who write to it */
    void (*complain)(void *arg, const char *text);
    void *arg;
};

struct inside *inside_new(const struct inside_options *o);
void inside_free(struct inside *in); /* NULL is fine. Before the table and the worker are */

/* It was looked at: it may carry the library. When there is no room for more of its user's, it
 * waits until there is. */
void inside_learnt(struct inside *in, struct process *p);

/* The memory was found and opened: reads it from now on. Takes over the descriptor. `inode` tells
 * whether it is what the process had when it was looked at: -EAGAIN when not. */
int inside_open(struct inside *in, struct process *p, int fd, uint64_t inode, struct error *err);

/* It called exec. What the program before has handed over is published with this window, as that of
 * `former`. */
void inside_replaced(struct inside *in, struct process *p, struct process *former);

/* Off: they are told not to sample, until it is on again. */
void inside_switch(struct inside *in, bool is_on);

/* Several times a second. Not between inside_end() and inside_begin(). */
void inside_poll(struct inside *in, int64_t now_ns);

/* The window ends: what there is, is complete, and its names are asked for. Then it is published,
 * as often as it takes, and the next one begins. */
void inside_end(struct inside *in, int64_t now_ns);
void inside_publish(struct inside *in, const struct window *w, const struct publish_options *o,
                    struct profile_set *set);
void inside_begin(struct inside *in);

struct inside_stats {
    size_t processes, asked;
    size_t shut_out; /* that wait for room */
    size_t memory;   /* that they may use, all together */
    uint64_t records, lost, refused;
    uint64_t dropped; /* made no sense, or cost too much */
    uint64_t stalled; /* of those: kept us waiting */
};
void inside_stats(const struct inside *in, struct inside_stats *ret);

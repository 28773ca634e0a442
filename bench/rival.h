#pragma once

#include "base/buf.h"
#include "store_data.h"

/*
 * What the programs that put set R into other stores share: the set as plain rows, decoded before
 * anything is timed. Rivals are timed for storing and asking alone.
 */
struct rival_row {
    int64_t time_ns;
    uint32_t pod;
    uint32_t stack; /* into stacks */
    int64_t count, cpu;
};

struct rival_rows {
    struct data_r *r;
    struct budget budget;
    struct profile_set *set;
    struct rival_row *rows; /* in the order of set R: profile by profile */
    size_t n;
    uint32_t *stacks; /* nodes of the dictionary */
    size_t n_stacks;
    int64_t asked_cpu;     /* sum over the hour that is asked for... */
    int64_t asked_pod_cpu; /* ...and of pod 3 of it */
};

#define RIVAL_POD 3

void rival_load(int argc, char **argv, struct rival_rows *ret); /* ends the program on failure */
void rival_done(struct rival_rows *rows);

/* The names of a stack, innermost first, with ";" between them. */
void rival_stack_text(const struct rival_rows *rows, size_t stack, struct buf *out);

double rival_now(void); /* seconds of wall time: rivals have threads */
void rival_die(const char *what, const char *why) __attribute__((noreturn));

/* Runs `ask` a few times; the least time in milliseconds. It returns the sum that it found. */
double rival_ask(int64_t (*ask)(void *ctx, bool one_pod), void *ctx, bool one_pod, int64_t want);

/* Bytes of all files in a folder. */
uint64_t rival_disk_bytes(const char *dir);

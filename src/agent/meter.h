#pragma once

#include <stddef.h>
#include <stdint.h>

#include "agent/governor.h"
#include "base/cleanup.h"

/*
 * What the agent costs and how busy the host is, read once a second for a few microseconds. Belongs
 * to one thread.
 *
 * CPU is that of this process, of the children it is told of, and of children that have ended and
 * were waited for, so a worker that is killed costs what it cost. Memory is the sum of PSS, read
 * every half minute because that walks page tables, and moved by what RSS does in between.
 */
struct meter;

#define METER_CHILDREN_MAX 8

/* `proc` is where procfs is: "/proc". */
struct meter *meter_new(const char *proc);
void meter_free(struct meter *m); /* NULL is fine */
DEFINE_CLEANUP(struct meter *, meter_free)

/* Our other processes that run now; pids of 0 are none. Cheap when they are the same. */
void meter_set_children(struct meter *m, const int *pids, size_t n);

/*
 * Fills in now_ns, own_cpu, host_cpu and memory; the rest stays. `kernel_ns` and `kernel_bytes`
 * are what our BPF programs have run so far and what their maps take. The first reading has no CPU,
 * and one that cannot be made repeats the last.
 */
void meter_read(struct meter *m, int64_t now_ns, uint64_t kernel_ns, uint64_t kernel_bytes,
                struct governor_reading *ret);

struct meter_totals {
    uint64_t own_ns;    /* CPU of all our processes, and of programs in the kernel */
    uint64_t kernel_ns; /* of those, programs in the kernel */
    uint64_t memory;    /* as in the reading */
};
/* As of the last reading. */
void meter_totals(const struct meter *m, struct meter_totals *ret);

#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "abi/event.h"
#include "abi/unwind.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "unwind/unwind_table.h"

/*
 * The kernel's side of the agent: one BPF object, loaded with what this kernel can do, its maps and
 * its ring. Belongs to one thread.
 */
struct probe;

enum probe_feature {
    PROBE_CPU,     /* samples of what runs: perf events with BPF */
    PROBE_TABLES,  /* walks by tables: bpf_loop, Linux 5.17 */
    PROBE_WALL,    /* walks of threads that do not run: sleepable task iterators, Linux 6.1 */
    PROBE_OFF_CPU, /* tp_btf/sched_switch */
    PROBE_FAULTS,
    PROBE_LIFE,   /* exec and exit told */
    PROBE_CYCLES, /* a hardware counter */
    PROBE_OWN,    /* own processes and their children, by perf events without BPF */
    PROBE_FEATURES,
};

struct probe_feature_state {
    bool works;
    char why[160]; /* what was tried and what the kernel said, where it does not */
};

/* What this kernel and these rights allow; nothing stays loaded. For `doctor` and for
 * probe_open().*/
void probe_features(struct probe_feature_state ret[PROBE_FEATURES]);
const char *probe_feature_name(enum probe_feature f);

struct probe_options {
    uint64_t table_bytes; /* of rows; 0: 16 MiB */
    uint32_t processes;   /* 0: 8,192 */
    uint32_t mappings;    /* of all processes; 0: 131,072 */
    uint32_t files;       /* 0: 8,192 */
    uint64_t ring_bytes;  /* 0: 256 KiB for each 4 CPUs, at least 512 KiB */
    bool prefers_cycles;  /* hardware cycles, where there are any */
    bool no_tables;       /* frame pointers only, also where tables would work */
    bool no_bpf;          /* as where it is not allowed */
    uint32_t wanted; /* 1 << PROBE_WALL, _OFF_CPU, _FAULTS: what may be switched on later; the rest
                        is there where it works */
};

/*
 * Where BPF is not allowed, own processes are sampled by perf events instead: CPU only, those that
 * probe_attach() names and what they start, no time in the kernel, and the innermost 32 KiB of each
 * stack. -EPERM with what is missing where that is not allowed either, -EOPNOTSUPP with which
 * kernel feature.
 */
int probe_open(const struct probe_options *o, struct probe **ret, struct error *err);
void probe_close(struct probe *p); /* NULL is fine */
DEFINE_CLEANUP(struct probe *, probe_close)

bool probe_has(const struct probe *p, enum probe_feature f);
/* What this probe has to do without, in words for the log; NULL where it has BPF. */
const char *probe_lacks(const struct probe *p);
/* Has a process, and all that it starts from now on, sampled. With BPF all are anyway. -ESRCH,
 * -EACCES (another user's), -ENOSPC, -EMFILE. */
int probe_attach(struct probe *p, uint32_t pid, struct error *err);
struct unwind_settings *probe_settings(struct probe *p); /* shared with the programs: just write */

/* Switches. A rate of 0 is off. Rates above 999 are refused. Samples of all CPUs that are online;
 * call again with the same rate once in a while: CPUs that have come are taken in. */
int probe_set_cpu_rate(struct probe *p, uint32_t hz, struct error *err);
int probe_set_faults(struct probe *p, uint32_t period,
                     struct error *err); /* one of so many; 0: off */
int probe_set_off_cpu(struct probe *p, bool on, struct error *err);
/*
 * Has a child look once at all threads of processes that have one of `bits` (PROCESS_WALL,
 * PROCESS_OFF_CPU, PROCESS_THREADS), and returns at once; what it finds comes out of the ring.
 * Call it at each tick. A thread found waiting stands for the time since the last look at
 * PROCESS_WALL (settings.wall_tick_ns at the first). Off-CPU wants a look 5 times a second.
 * A look that is not over when the next is asked for makes that one be left out; one that hangs is
 * given up after 2 s, and the process it hung at is not looked at again: -ETIMEDOUT says which.
 */
int probe_walk_threads(struct probe *p, uint32_t bits, struct error *err);

/* Readable when a good part of the ring is full; else drain every so often. */
int probe_fd(const struct probe *p);
/* Hands out what is in the ring; returns how many events. Damaged ones are counted, not handed
 * out.*/
typedef void probe_event(void *arg, const struct event_head *e);
size_t probe_drain(struct probe *p, probe_event *event, void *arg);

/*
 * Files: a number for each, shared by processes; 0 is never one. A new file is WANTED: its
 * `last_used` moves once a walk would need it, and then somebody should put a table.
 * -ENOSPC when no number is free.
 */
int probe_file_new(struct probe *p, uint32_t *ret);
/* Publishes a table, replacing one that was there. -ENOSPC when there is no room for it: evict.
 * -ENOMEM. */
int probe_file_put(struct probe *p, uint32_t file, const struct unwind_view *v);
void probe_file_clear(struct probe *p, uint32_t file); /* back to WANTED */
void probe_file_free(struct probe *p, uint32_t file);  /* no process maps it any more */
const struct unwind_file *probe_file(const struct probe *p, uint32_t file);
uint64_t probe_table_bytes(const struct probe *p); /* used by tables */

/*
 * A process and its mappings (sorted, not overlapping); what the value says about mappings is
 * filled in here. Replaces the entry; walks see the old or the new one. -ENOSPC when maps are full,
 * -EINVAL when not sorted.
 */
int probe_process_put(struct probe *p, uint32_t tgid, const struct unwind_process *value,
                      const struct unwind_mapping *mappings, uint32_t n);
void probe_process_drop(struct probe *p, uint32_t tgid);

struct probe_stats {
    uint64_t samples[SAMPLE_KINDS];
    uint64_t ends[UNWIND_END_COUNT]; /* of user walks */
    uint64_t lost;                   /* the ring was full */
    uint64_t damaged;
    int looker; /* pid of our child that looks at threads, 0: none; its program runs in its own CPU
                   time and is not in run_ns */
    uint64_t run_ns, runs; /* of all our programs as the kernel measures it; of those that sample by
                              their own watch before probe_measure() */
    uint64_t walk_ns;
    uint64_t map_bytes; /* of all maps, as the kernel counts */
};
void probe_stats(struct probe *p, struct probe_stats *ret);
/* Has the kernel measure run_ns from now on (it costs tens of ns for each run). */
int probe_measure(struct probe *p, struct error *err);

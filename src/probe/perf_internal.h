#pragma once

#include <linux/perf_event.h>

#include "probe/perf_backend.h"
#include "probe/probe_internal.h"

/* What the files of the backend without BPF share. */

#define PERF_STACK_BYTES  32768 /* copied of each stack up to 99 Hz, where rings have room... */
#define PERF_STACK_FAST   16384 /* ...and beyond that */
#define PERF_ATTACHED_MAX 256
#define PERF_HELD_BYTES   ((size_t)4 << 20)
#define PERF_HELD_NS      INT64_C(2000000000)
#define PERF_THREADS_MAX  65536
#define PERF_BUCKETS      1024

/* What samples carry, in this order; other records end with the last three of TID, TIME, CPU. */
#define PERF_SAMPLE_BITS                                                                           \
    (PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU |                       \
     PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER)
#define PERF_RECORD_TAIL 24

/* Of one CPU; all events of that CPU write into it. */
struct perf_ring {
    int fd;    /* of an event of our own that never counts; -1: none */
    void *map; /* struct perf_event_mmap_page, then the data */
    uint64_t page, bytes;
    uint64_t at, end; /* what this drain reads */
};

/* Events of a process and of all that were forked off it since: closing one ends it for them all,
 * so they stay until the last has ended. */
struct perf_family {
    int *fds;
    size_t n, cap;
    uint32_t members;
};

struct perf_process {
    uint32_t tgid;
    uint32_t parent;
    uint64_t start_ns;                /* CLOCK_BOOTTIME; 0: nothing is known yet */
    uint64_t code_start, stack_start; /* UINT64_MAX: not known */
    char comm[16];
    bool has_entry;
    struct unwind_process value;
    struct perf_family *family; /* NULL: not sampled */
    uint64_t attached_ns;       /* CLOCK_BOOTTIME: what was forked since is sampled, too */
    int64_t first_ns;           /* monotonic: when this code was first sampled */
    struct probe_told told[2];  /* by PROCESS_EVENT_SEEN, _REMAP */
    bool main_is_gone;          /* the first thread has ended; others may go on */
    struct perf_process *next;
};

struct perf_thread {
    uint32_t tgid, tid;
    char comm[16];
    struct perf_thread *next;
};

/* A sample as it came. */
struct perf_sample {
    uint32_t tgid, tid, cpu;
    int64_t time_ns;
    bool is_32_bit;
    uint64_t pc, sp, fp, lr;
    const uint8_t *stack; /* from sp up */
    uint64_t stack_len;
};

/* One whose process or tables are not known yet: they soon are. */
struct perf_held {
    struct perf_sample sample;
    uint64_t tried; /* backend.changes then */
    struct perf_held *next;
    uint8_t stack[];
};

struct perf_backend {
    struct perf_ring *rings; /* by CPU */
    uint32_t n_rings;
    int epoll;
    uint32_t rate, stack_bytes;
    size_t attached;
    struct perf_process *processes[PERF_BUCKETS];
    struct perf_thread *threads[PERF_BUCKETS];
    size_t n_processes, processes_max, n_threads;
    struct perf_held *held, **held_end; /* oldest first */
    size_t held_bytes;
    uint64_t changes; /* of processes and tables */
    int64_t now_ns;   /* of this drain, monotonic */
    int64_t boot_ahead_ns;
    int64_t swept_ns;
    size_t drained;
    uint64_t samples, lost, damaged, ends[UNWIND_END_COUNT];
    uint64_t walks, walk_ns;
    struct unwind_memo *memos;
    uint8_t *record; /* 64 KiB: one that wraps */
    struct {
        struct event_sample sample;
        __u64 addresses[UNWIND_ADDRESSES_MAX];
    } out;
};

/* perf_ring.c */
int perf_rings_open(struct probe *p, struct error *err);
void perf_rings_close(struct perf_backend *b);
/* Rings for CPUs that have come; returns how many, or negative errno. */
int perf_rings_renew(struct probe *p, struct error *err);
/* The next record of all rings by time, as they are when this begins; it lives until the next call.
 * NULL: none is left. */
void perf_rings_begin(struct perf_backend *b);
const struct perf_event_header *perf_rings_next(struct perf_backend *b);
/* An event of a thread (0: ourselves) on a CPU; a descriptor or negative errno. */
int perf_event_for(struct perf_event_attr *attr, pid_t tid, int cpu);
struct perf_event_attr perf_attr(uint32_t stack_bytes);

/* perf_process.c */
struct perf_process *perf_process_find(const struct perf_backend *b, uint32_t tgid);
struct perf_process *perf_process_get(struct perf_backend *b, uint32_t tgid); /* NULL: too many */
/* Frees those about whom nothing is kept. Nobody else does: callbacks may drop any process. */
void perf_processes_trim(struct perf_backend *b);
/* What holds of p as it runs now: its entry, or that of its parent when it was forked and did not
 * call exec, as with BPF. NULL: not known. */
const struct unwind_process *perf_process_entry(const struct perf_backend *b,
                                                const struct perf_process *p, bool *ret_is_own);
/* Reads from /proc who it is now. */
void perf_process_renew(struct perf_process *p);
/* What /proc says; false when it is gone. */
struct perf_stat {
    uint32_t parent;
    uint64_t start_ns, code_start, stack_start;
    char state;
    char comm[16];
};
bool perf_read_stat(uint32_t tgid, struct perf_stat *ret);
void perf_processes_done(struct perf_backend *b);
void perf_thread_name(struct perf_backend *b, uint32_t tgid, uint32_t tid, const char *comm);
const char *perf_thread_comm(const struct perf_backend *b, uint32_t tid); /* NULL: not known */
void perf_thread_forget(struct perf_backend *b, uint32_t tid);
void perf_family_join(struct perf_process *p, struct perf_family *f);
void perf_family_leave(struct perf_backend *b, struct perf_process *p);

/* perf_sample.c */
/* False when it is damaged. */
bool perf_sample_parse(const struct perf_event_header *h, struct perf_sample *ret);
/* Walks it and hands it out, or keeps it for a while. */
void perf_sample_take(struct probe *p, const struct perf_sample *s);
/* Tries those that are kept once more; hands out those of `tgid` (0: none), and all when `is_last`,
 * as they are. */
void perf_held_retry(struct probe *p, uint32_t tgid, bool is_last);
void perf_held_done(struct perf_backend *b);
void perf_tell(struct probe *p, struct perf_process *q, uint32_t what);

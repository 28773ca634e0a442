#pragma once

#include <linux/types.h>

/*
 * What comes out of the ring: each event starts with its kind and its length, a multiple of 8.
 */
enum event_kind {
    EVENT_SAMPLE = 1, /* struct event_sample, kernel addresses, user addresses, attributes */
    EVENT_REPEAT,     /* struct event_repeat: a thread's last sample of its kind, once more */
    EVENT_WAIT_END,   /* struct event_wait_end: what a thread waited at last has ended */
    EVENT_PROCESS,    /* struct event_process */
};

struct event_head {
    __u16 kind;
    __u16 flags;
    __u32 size; /* of the whole */
};

enum sample_kind {
    SAMPLE_CPU,
    SAMPLE_WALL,    /* a thread that was not running when the pass came by */
    SAMPLE_OFF_CPU, /* where a thread left the CPU; EVENT_WAIT_END says for how long */
    SAMPLE_FAULT,   /* memory touched for the first time */
    SAMPLE_KINDS,
};

/* What a thread was about when it was not running. */
enum thread_state {
    THREAD_RUNNING,
    THREAD_RUNNABLE, /* wants to run */
    THREAD_SLEEPING, /* interruptible */
    THREAD_BLOCKED,  /* uninterruptible: mostly I/O */
    THREAD_STOPPED,
    THREAD_OTHER,
    THREAD_STATES,
};

enum {
    EVENT_IN_KERNEL = 1, /* the sample hit while in the kernel */
    EVENT_YOUNG = 2,     /* the process is younger than young_ms */
    EVENT_IN_SPAN = 4,   /* trace_id and span_id are set */
};

#define EVENT_ATTRS_MAX 616

/* 104 bytes; then n_kernel and n_user addresses, innermost first, as __u64, then attrs_len bytes of
 * attributes {u8 key, u8 length, bytes} as the thread's record has them (Go: {u8 key length, u8
 * value length, key, value}). User addresses of callers are return addresses. */
struct event_sample {
    struct event_head head;
    __u64 time_ns;   /* CLOCK_MONOTONIC */
    __u64 value_ns;  /* what it stands for; SAMPLE_FAULT: bytes; 0: the period of its sampler */
    __u64 start_ns;  /* of the process, CLOCK_BOOTTIME (task->group_leader->start_boottime) */
    __u32 tgid, tid; /* of the initial namespace */
    __u32 cpu;
    __u32 wait; /* SAMPLE_OFF_CPU: number that EVENT_WAIT_END repeats. SAMPLE_WALL: not 0 when it
                   is that of this wait as well */
    __u8 kind;  /* enum sample_kind */
    __u8 end;   /* enum unwind_end of the user part */
    __u8 state; /* enum thread_state */
    __u8 spare;
    __u16 n_kernel;
    __u16 n_user;
    __u32 attrs_len; /* not more than EVENT_ATTRS_MAX; zeros behind it up to a multiple of 8 */
    __u32 exact; /* bit i (i < 32): user address i is exact, not a return address (the innermost,
                    and what a signal interrupted) */
    char comm[16];
    __u8 trace_id[16];
    __u8 span_id[8];
};

enum {
    REPEAT_STATE = 0xff,        /* the thread's state now: enum thread_state */
    REPEAT_ONLY_STATE = 0x100,  /* no wall clock of this process, or the thread runs: only its state
                                   counts */
    REPEAT_STILL_WAITS = 0x200, /* nothing to count: the wait that was walked is still going on */
};

/* A pass found a thread that had not run since the last one. head.flags: REPEAT_... */
struct event_repeat {
    struct event_head head;
    __u32 tgid, tid;
    __u64 value_ns;
};

struct event_wait_end {
    struct event_head head;
    __u32 tgid, tid;
    __u32 wait;
    __u32 chance; /* the walk was made with a chance of chance/65536; at least 1 */
    __u64 waited_ns;
    __u64 time_ns;
};

enum process_event {
    PROCESS_EVENT_SEEN,  /* sampled, and there is no entry for it (or one of before exec) */
    PROCESS_EVENT_REMAP, /* an address outside its mappings */
    PROCESS_EVENT_EXIT,  /* of a process that has an entry */
    PROCESS_EVENT_EXEC,  /* of a process that has an entry */
};

struct event_process {
    struct event_head head;
    __u32 tgid;
    __u32 event;    /* enum process_event */
    __u64 start_ns; /* CLOCK_BOOTTIME */
    char comm[16];
};

#pragma once

#include "abi/event.h"
#include "abi/unwind.h"
#include "probe/unwind_walk.h"

/* What our programs in the kernel and probe.c share beside the abi. */

/* Known before loading: the verifier drops what they switch off. */
struct probe_constants {
    __u32 has_tables; /* walks by tables, which need bpf_loop */
    __u32 page_bytes;
    __u64 wake_bytes;      /* the reader is woken once the ring holds this much */
    __u32 no_switch_state; /* sched_switch does not say how a thread leaves: before Linux 5.18 */
    __u32 spare;
};

/* One for each CPU. */
struct probe_counters {
    __u64 samples[SAMPLE_KINDS];
    __u64 ends[UNWIND_END_COUNT];
    __u64 lost;
    __u64 runs, run_ns; /* of the samplers, by their own watch */
};

/* What told_recently() remembers of a process and a kind of event. */
struct probe_told {
    __u64 time_ns;
    __u32 n; /* in a row: each doubles the wait */
    __u32 spare;
};

/* The record of OTEP 4947 as it lies in the program's memory, but for its attributes. */
struct context_record {
    __u8 trace_id[16];
    __u8 span_id[8];
    __u8 valid, flags;
    __u16 attrs_len;
};
#define CONTEXT_RECORD_BYTES 28
#define CONTEXT_ATTRS_MAX    (640 - CONTEXT_RECORD_BYTES)

/* What the thread itself says: filled in by read_thread_context(). */
struct probe_thread_context {
    __u32 has_span; /* `record` has its ids */
    __u32 attrs_len;
    __attribute__((aligned(8))) struct context_record record;
    __attribute__((aligned(8))) __u8 attrs[EVENT_ATTRS_MAX];
};

/*
 * Where a sample is put together: one for each kind and CPU, because one program may interrupt
 * another. `addresses` lies right behind `sample`: they leave as one piece. What every sample
 * touches lies together, since it is mostly not in a cache.
 */
struct probe_scratch {
    struct probe_thread_context context;
    struct unwind_walk walk;
    struct event_sample sample;
    __u64 addresses[UNWIND_ADDRESSES_MAX + EVENT_ATTRS_MAX / 8 + 1];
};

#pragma once

#include "formats/v8_cpu.h"

/*
 * A Chrome trace being read. chrome_trace.c reads the document, chrome_cpu.c the CPU profiles in
 * it, chrome_spans.c makes a profile of events that have a duration.
 */

/* Whoever an event belongs to. A process is a thread with is_process set. */
struct chrome_thread {
    int64_t pid, tid;
    bool is_process;
    uint32_t name;
};

/* A begin (B), an end (E) or a complete (X) event. */
struct chrome_span {
    int64_t start_ns, duration_ns;
    uint64_t offset; /* in the document: the order of events of one time */
    uint32_t thread; /* index */
    uint32_t name;
    uint32_t args; /* the text of its arguments */
    uint32_t url;  /* where its writer says so, as Hermes does: the function's place */
    int64_t line, column;
    char phase;
};

/* A CPU profile, or the chunks of one. */
struct chrome_profile {
    struct v8_cpu cpu;
    int64_t pid, tid; /* tid is 0 where there is an id */
    uint32_t id;
    uint32_t thread;
    bool is_declared; /* its "Profile" event was seen */
};

/* A sample over "stackFrames". */
struct chrome_sample {
    int64_t time_ns;
    int64_t frame;
    int64_t weight;
    uint64_t offset;
    uint32_t thread;
};

/* What one event says, while it is read. */
struct chrome_event {
    uint64_t offset;
    int64_t ts, dur, tdur;
    int64_t pid, tid;
    uint32_t name, id;
    uint32_t tid_name; /* a thread that goes by name */
    bool has_ts, has_dur, has_tdur;
    bool has_args;
    uint64_t args_at;
    char phase;
};

struct chrome_trace {
    struct profile_set *out;
    struct dict *dict;  /* the set's */
    struct dict *texts; /* our own */
    struct budget *budget;
    struct json_reader *args; /* reads args_text again */
    VEC(uint8_t) args_text;
    struct buf scratch;

    VEC(struct chrome_thread) threads;
    struct idset thread_index;
    VEC(struct chrome_span) spans;
    VEC(struct chrome_profile) profiles;
    struct idset profile_index;
    VEC(struct chrome_sample) samples;
    struct v8_tree frames; /* "stackFrames" */

    uint64_t n_spans;
    uint64_t n_other;             /* events of other phases */
    uint64_t n_long_args;         /* events whose arguments are too long to keep */
    uint64_t n_lost_ends, n_open; /* ends without a begin, begins without an end */
    bool is_cut;
};

/* Finds or adds a thread (or a process). */
uint32_t chrome_add_thread(struct chrome_trace *t, int64_t pid, int64_t tid, bool is_process);

/* By process, then by thread: the order of profiles. */
int chrome_compare_threads(const struct chrome_trace *t, uint32_t a, uint32_t b);

/* The attributes of a thread: its ids and names. */
uint32_t chrome_thread_attrs(struct chrome_trace *t, uint32_t thread);

/* chrome_cpu.c. The first tells whether the event belongs to a CPU profile, and reads it. */
bool chrome_read_cpu_event(struct chrome_trace *t, const struct chrome_event *e);
void chrome_read_samples(struct chrome_trace *t, struct json_reader *r);
void chrome_read_stack_frames(struct chrome_trace *t, struct json_reader *r);
void chrome_finish_cpu(struct chrome_trace *t, struct json_reader *r);
void chrome_finish_samples(struct chrome_trace *t, struct json_reader *r);
void chrome_cpu_done(struct chrome_trace *t);

/* chrome_spans.c */
void chrome_add_span(struct chrome_trace *t, const struct chrome_event *e);
void chrome_finish_spans(struct chrome_trace *t);

/* chrome_trace.c: values that traces write as numbers or as text. */
int64_t chrome_get_time(struct json_reader *r);
int64_t chrome_get_thread_id(struct chrome_trace *t, struct json_reader *r, uint32_t *ret_name);

#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "abi/event.h"
#include "agent/governor.h"
#include "agent/place.h"
#include "base/arena.h"
#include "base/budget.h"
#include "base/idset.h"
#include "base/vec.h"

/*
 * What was sampled in one window, added up by process, kind, stack, span and the attributes that
 * were asked for. Equal samples cost a lookup; only what is new takes memory, from the window's own
 * budget. A window that is full counts what it leaves out.
 *
 * Samples of AGENT_TYPE_OFF_CPU are also those of AGENT_TYPE_LOCK: locks are told from other waits
 * by their names, when the window is published.
 */
struct process;

struct window_sample {
    struct process *process;
    enum agent_type kind;
    uint64_t value;      /* ns; bytes of faults; thousandths of threads */
    const place *places; /* innermost first; kernel places, then user places */
    uint32_t n_places, n_kernel;
    uint8_t end;   /* enum unwind_end */
    uint8_t state; /* enum thread_state; THREAD_RUNNING where it does not matter */
    bool is_young;
    struct {
        bool is_set;
        uint8_t trace_id[16], span_id[8];
    } span;
    const uint8_t *attrs; /* as struct event_sample has them */
    uint32_t attrs_len;
    /* 0 or "" unless they were asked for. */
    uint32_t tid;
    uint32_t cpu; /* number + 1 */
    uint64_t time_ns;
    char comm[16];
};

struct window_row {
    struct window_sample sample; /* its places and attrs are the window's; value is the sum */
    uint64_t hash;
    uint64_t count;
};

struct window {
    struct budget budget;
    struct arena arena;
    struct idset index;
    VEC(struct window_row) rows;
    int64_t start_unix_ns, end_unix_ns;
    uint64_t samples;
    uint64_t left_out; /* samples that did not fit */
    struct window *next;
};

struct window *window_new(size_t memory_max, int64_t start_unix_ns);
void window_free(struct window *w); /* NULL is fine. Processes are the caller's to let go */

/* The row it was added to; *ret_is_new tells whether it was made, so that its process can be held.
 * NULL when the window is full. */
struct window_row *window_add(struct window *w, const struct window_sample *s, bool *ret_is_new);

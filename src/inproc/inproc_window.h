#pragma once

#include "inproc/leaks.h"
#include "inproc/segment_reader.h"

/*
 * What one process said in a window of time: its records added up by kind, stack, span and labels,
 * and at the end its live memory. Weights are unbiased and kept as floating-point numbers: whoever
 * makes whole numbers of them rounds once.
 *
 *     inproc_window_poll(...) again and again ─► inproc_window_end() ─► inproc_window_rows(),
 *     inproc_profiles_add() ─► inproc_window_begin(): the next one
 */
struct inproc_window;

struct inproc_window_options {
    bool by_thread;        /* threads of different names are kept apart */
    size_t max_memory;     /* for rows, a half of it, and for leaks; 0: 64 MiB and 32 MiB. What does
                              not fit is counted as left out */
    uint64_t window_ns;    /* how long windows are, for leaks; 0: 10 s */
    unsigned leak_windows; /* memory must be older than this many; 0: 3 */
};

/* The reader must outlive the window. */
struct inproc_window *inproc_window_new(struct segment_reader *r,
                                        const struct inproc_window_options *o);
void inproc_window_free(struct inproc_window *w); /* NULL is fine */
DEFINE_CLEANUP(struct inproc_window *, inproc_window_free)

/*
 * Takes what is there, and looks at live memory when it is time to (for leaks). `is_gone`: the
 * process does not run any more. Cheap: call it several times a second, so that the ring does not
 * run over. How many records there were, or a negative errno; the window goes on all the same.
 */
ssize_t inproc_window_poll(struct inproc_window *w, uint64_t now_ns, bool is_gone,
                           struct error *err);

/* Ends it: takes what is there, reads modules, live memory and counters. The rows are complete
 * then, or as far as could be read when it fails. */
int inproc_window_end(struct inproc_window *w, uint64_t now_ns, bool is_gone, struct error *err);

/* Empties it, for the next one. Texts that filled their room begin anew then, and leaks with them.
 */
void inproc_window_begin(struct inproc_window *w);

/* The same, with other limits from now on: for the reader's memory and for max_memory. */
void inproc_window_begin_within(struct inproc_window *w, size_t reader_memory, size_t max_memory);

struct inproc_row {
    enum preload_kind kind; /* also PRELOAD_LIVE: found at the end */
    enum preload_what what;
    uint64_t samples;
    double count;  /* allocations, objects, waits, threads, events */
    double amount; /* bytes, ns; of PRELOAD_CUSTOM in the unit of its name */

    /* Innermost first, as they are to be looked up: return addresses are one less. */
    const uint64_t *addresses;
    size_t n_addresses;
    uint16_t flags;    /* PRELOAD_STACK_... */
    bool has_no_stack; /* it could not be taken, or kept */

    /* PRELOAD_LOCK: who held it, when that is known. */
    const uint64_t *holder;
    size_t n_holder;

    struct bytes name;                  /* PRELOAD_CUSTOM: "type/unit" */
    struct bytes thread_name;           /* with by_thread; empty: not known */
    struct bytes labels;                /* segment_next_label() */
    const uint8_t *trace_id, *span_id;  /* 16 and 8 bytes; NULL: none */
    const struct leak_suspect *suspect; /* PRELOAD_LIVE: NULL when it is none */
};

/* Addresses are valid during the call, the rest until the window begins anew. */
typedef void (*inproc_row_fn)(void *arg, const struct inproc_row *row);
void inproc_window_rows(const struct inproc_window *w, inproc_row_fn fn, void *arg);

/* What this window lacks, and why. */
struct inproc_losses {
    uint64_t lost[PRELOAD_LOSSES]; /* by the library */
    uint64_t unfinished;           /* records whose thread died in the middle */
    uint64_t unsound;              /* what made no sense */
    uint64_t left_out;             /* records for which there was no room here */
    uint64_t unfollowed;           /* live objects that leaks are not looked for among: the same */
    uint64_t restarted;            /* 1: what leaks are told by begins anew with this window */
};
const struct inproc_losses *inproc_window_losses(const struct inproc_window *w);
bool inproc_losses_any(const struct inproc_losses *l);

/* As read at the end. */
const struct segment_counters *inproc_window_counters(const struct inproc_window *w);
struct segment_reader *inproc_window_reader(const struct inproc_window *w);

/*
 * Leak suspects, as far as they can be told by now: of the last windows, and of the whole life of
 * the process, which is judged when it has ended or is a few windows old. The n-th, or NULL; its
 * stack is a text of the reader.
 */
const struct leak_suspect *inproc_window_suspect(const struct inproc_window *w, size_t n);

/* The addresses of a stack that is a text of the reader, as in rows; how many. */
size_t inproc_window_addresses(const struct inproc_window *w, uint32_t stack,
                               uint64_t to[PRELOAD_FRAMES_MAX]);

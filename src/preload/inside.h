#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi/preload.h"

/*
 * The library inside a program: what its files say to each other. It links libc alone, allocates
 * nothing by malloc, takes no lock, and is safe in signal handlers and after fork: whatever it does
 * may be interrupted by itself.
 *
 *     hook ─► counts down ─► crossed zero ─► sample_begin ─► walk, text ─► segment_put ─► forward
 *
 * The names of functions that belong to the program's world (malloc, pthread_mutex_lock...) are the
 * only ones that are exported, and those of vesta/vesta.h.
 */

/* ---- The thread ---- */

struct preload_thread {
    uint64_t alloc_left; /* bytes that are not sampled; more than these: a sample. Starts with 0 */
    uint64_t lock_left;  /* the same, in ns */
    uint32_t alloc_rate; /* that alloc_left was drawn with; 0: nothing is drawn yet */
    uint32_t lock_rate;
    uint64_t random; /* 0: not yet seeded */
    uint32_t tid;
    uint32_t owner;    /* pid for which tid and random hold; 0: not known yet */
    uint32_t busy;     /* > 0: it is sampling, so what a signal handler does is not sampled */
    uint32_t is_first; /* its stack is the one that grows */
    uint32_t n_asked;  /* times that it asked again at once */
    uintptr_t stack_low, stack_end; /* of its stack, this can be read; 0: nothing is known */
    uintptr_t stack_root;           /* its outermost frame; 0: not known */
    uintptr_t busy_at;              /* a frame of who made it busy */
};
/* Initial exec (meson.build): the library is there from the start, and this must cost one
 * instruction. */
extern __thread struct preload_thread preload_thread __attribute__((visibility("hidden")));

/* ---- handover.c: the shared memory ---- */

/* NULL before there is one, and when there cannot be one. Only to be used between sample_begin()
 * and sample_end(): in a child of fork it is its parent's before that. */
extern struct preload_header *preload_segment __attribute__((visibility("hidden")));

/* Makes it when there is none, or when this process is a child of the one that it was made for.
 * Called at the start, and by sample_begin(). The thread must be busy. */
bool segment_ensure(void);

/* Whether there is one, and it is this process's (or a vfork child has borrowed its memory). */
bool segment_is_ours(void);

/* Whether a thread is just making it. */
bool segment_is_coming(void);

/* In a child of fork: what there is belongs to the parent. */
void segment_forked(void);

/* The process leaves in good order. */
void segment_over(void);

/* Puts a record; false when the ring is full. Fills in state, tid, thread_name, time_ns (when 0),
 * span and labels, in *r too. */
bool segment_put(struct preload_record *r);

/* The number of a text (texts.c); 0 when there is no room. It is one of the generation that is
 * being written, or was a moment ago: to be put at once. */
uint32_t segment_text(enum preload_text_kind kind, const void *data, size_t n, uint16_t flags);

/* A number that was kept; 0 when its text makes room for others now. */
uint32_t segment_kept_text(uint32_t number);

/* Adds a module to the list, unless it is there as what is now in its place. */
void segment_module(const struct preload_module *m, const char *path);

void segment_count(__u64 *counter); /* adds 1, relaxed */
void segment_lost(enum preload_loss why);

/* ---- chance.c: chance ---- */

/* Whether this thread may sample now, and the kind is wanted. True: sample_end() must follow. */
bool sample_begin(enum preload_kind kind);
void sample_end(void);

/* The program does not want to be disturbed now (vesta_profiling_set). */
extern bool preload_is_paused __attribute__((visibility("hidden")));

/* Whether the kind is wanted. Only between sample_begin() and sample_end(). */
bool sample_wants(enum preload_kind kind);

/* How much passes before the next sample: exponential with this mean, rounded down, so that n are
 * more than this with the chance 1 - exp(-n / mean). */
uint64_t sample_draw(uint64_t *random, uint32_t mean);

/*
 * Counters that count down. `sample_count` is for the hot path: true when the n (at least 1) are
 * more than were left, and sample_due() must follow. That is true when the event is to be sampled,
 * with *ret_rate for its record; it draws anew, and keeps errno. Between sample_begin() and
 * sample_end().
 */
static inline bool sample_count(uint64_t *left, uint64_t n)
{
    return __builtin_sub_overflow(*left, n, left);
}
bool sample_due(uint64_t *left, uint32_t *drawn_with, uint64_t n, uint32_t wanted_rate,
                uint32_t *ret_rate);

/* Sets the counter anew when sample_begin() said no. */
void sample_refused(enum preload_kind kind, uint64_t *left, uint32_t *drawn_with,
                    uint32_t wanted_rate);

/* Where nothing is wanted, it asks again after that much. */
#define SAMPLE_ASK_AGAIN (512u << 10)
/* While a segment is being made, a thread asks again at once so often. */
#define SAMPLE_ASKS_MAX  400

/* value / p, rounded: what a sample stands for. */
uint64_t sample_weight(uint64_t value, uint32_t rate);

/* ---- stack_walk.c: stacks ---- */

/*
 * The stack of the caller's caller..., as a text; frames of this library are left out. Must be
 * called between sample_begin() and sample_end().
 */
uint32_t walk_here(void);

/* The same, as addresses (with PRELOAD_EXACT where it holds); *ret_flags: PRELOAD_STACK_... */
size_t walk_addresses(uint64_t *to, size_t max, uint16_t *ret_flags);

/* At the start of the library, and of a child: where code is, and where the first stack ends. */
void walk_start(void);

/* This thread began with this frame: so this is on its own stack, and nothing is called further
 * out but by libc. */
void walk_thread_starts(void *frame);

/* ---- live_table.c: what was sampled and is still there ---- */

/*
 * A bit for each hash of sampled addresses: 0 says that one is not sampled, and nearly all are.
 * Addresses of a page have their bits in one word, and pages that are neighbours are neighbours
 * here: whoever frees needs the first cache for other things. There are 16 bits for each object
 * that the table can have by default; what is not used is not there.
 */
#define LIVE_FILTER_WORDS 16384
#define LIVE_FILTER_BITS  14
extern uint64_t live_filter[LIVE_FILTER_WORDS] __attribute__((visibility("hidden")));
static inline size_t live_filter_word(const void *p)
{
    uint64_t region = ((uintptr_t)p >> (12 + LIVE_FILTER_BITS)) * 0x9e3779b97f4a7c15ull >>
                      (64 - LIVE_FILTER_BITS);
    return ((uintptr_t)p >> 12 ^ region) % LIVE_FILTER_WORDS;
}
static inline unsigned live_filter_bit(const void *p)
{
    return (uintptr_t)p >> 4 & 63;
}
static inline bool live_is_likely(const void *p)
{
    return __atomic_load_n(&live_filter[live_filter_word(p)], __ATOMIC_RELAXED) >>
               live_filter_bit(p) &
           1;
}
/* For ever, as if it were sampled. */
void live_filter_pin(const void *p);
/* In a child of fork, which has nothing sampled yet. */
void live_filter_clear(void);

/* Between sample_begin() and sample_end(). */
void live_add(const void *p, const struct preload_live *what);
/* Takes it away, and says what it was (ret may be NULL); false when it was not there. Anywhere, and
 * before the memory is given back. */
bool live_remove(const void *p, struct preload_live *ret);

/* ---- thread_span.c: which span a thread is in ---- */

/* Fills trace_id and span_id from this thread's record (OTEP 4947), and labels from its
 * attributes. */
void span_fill(struct preload_record *r);

/* ---- forward.c: the functions that ours stand before ---- */

/* Finds those of allocation (forward.h). Before that, and for what dlsym itself allocates, a small
 * block serves. */
void resolve_all(void);
void *resolve_next(const char *name, const char *version); /* version may be NULL */
void resolve_forgets(void); /* the program is not to see by dlerror() what was not found */

/* ---- usdt.h has the probes otel_memory:alloc and otel_memory:free ---- */

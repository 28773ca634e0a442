#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Reads of stacks that never fault. Most are of the thread's own stack, of which is remembered how
 * much of it was once found readable: it does not go away while the thread runs. All other memory
 * (stacks of coroutines and signal handlers, threads that came by other ways, what broken tables
 * lead to) is asked for page by page, each time.
 */
struct stack_memory {
    uintptr_t start, end; /* can be read */
    bool is_whole;        /* it grew from where the walk began */
};

#define STACK_PAGE 4096u

/* Where what is read was written by others, as sanitizers cannot know. */
#define FOREIGN_READ __attribute__((no_sanitize("address", "thread", "undefined")))

/* Whether 8 bytes at an aligned address can be read now. One system call. */
bool memory_probe(uintptr_t at);

/* The same for a whole range, one call for each page. */
bool memory_probe_range(uintptr_t at, size_t n);

/* Whether this address is on the thread's stack, as far as all from there to its outer end can be
 * read. Asks for at most 256 pages, and remembers them. */
bool stack_memory_is_own(uintptr_t at);

/* Whether n bytes (a page at most) below a frame are there to be used. */
bool stack_memory_has_room(uintptr_t frame, size_t n);

void stack_memory_begin(struct stack_memory *m, uintptr_t sp);

/* Makes the aligned word there readable; false when it is not. */
bool stack_memory_reach(struct stack_memory *m, uintptr_t at);

static inline bool stack_memory_has(const struct stack_memory *m, uintptr_t at)
{
    return at >= m->start && at + 8 <= m->end && at % 8 == 0;
}

FOREIGN_READ static inline uint64_t stack_word(uintptr_t at)
{
    return *(const volatile uint64_t *)at;
}

/* A frame_read_fn; ctx: struct stack_memory. */
bool stack_memory_read(void *ctx, uint64_t at, uint64_t *ret);

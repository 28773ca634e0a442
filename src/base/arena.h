#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/budget.h"
#include "base/bytes.h"

/*
 * An arena owns everything that lives exactly as long as one piece of work. Nothing in it is freed
 * singly; arena_done() frees it all. Its bytes are charged to a budget: past the limit a request
 * yields NULL and the budget stays failed. Pointers are stable until arena_done().
 */
struct arena {
    struct budget *budget;
    struct arena_block *blocks;
    uint8_t *pos, *end;
};

void arena_init(struct arena *a, struct budget *budget);
void arena_done(struct arena *a);

/* Zeroed memory for n objects, or NULL once the limit is passed. n == 0 yields a valid pointer. */
#define arena_new(a, type, n) ((type *)arena_alloc((a), (n), sizeof(type), _Alignof(type)))
void *arena_alloc(struct arena *a, size_t n, size_t size, size_t align);

/* A NUL-terminated copy, or NULL once the limit is passed. */
char *arena_strdup(struct arena *a, struct bytes s);

#include "base/arena.h"

#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n)   ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

struct arena_block {
    struct arena_block *next;
    size_t size;
    _Alignas(16) uint8_t data[];
};

/* Small work stays small (a tiny profile costs one page), large work gets large blocks. */
#define BLOCK_MIN ((size_t)4 << 10)
#define BLOCK_MAX ((size_t)1 << 20)

void arena_init(struct arena *a, struct budget *budget)
{
    *a = (struct arena){.budget = budget};
}

void arena_done(struct arena *a)
{
    for (struct arena_block *b = a->blocks, *next; b; b = next) {
        next = b->next;
        ASAN_UNPOISON_MEMORY_REGION(b, b->size);
        budget_free(a->budget, b, b->size);
    }
    *a = (struct arena){.budget = a->budget};
}

static bool add_block(struct arena *a, size_t need)
{
    size_t size = a->blocks ? a->blocks->size * 2 : BLOCK_MIN;
    if (size > BLOCK_MAX)
        size = BLOCK_MAX;
    if (__builtin_add_overflow(need, sizeof(struct arena_block), &need))
        need = SIZE_MAX;
    if (size < need)
        size = need;

    void *block = NULL;
    if (!budget_resize(a->budget, &block, 0, size))
        return false;
    struct arena_block *b = block;
    b->next = a->blocks;
    b->size = size;
    a->blocks = b;
    a->pos = b->data;
    a->end = (uint8_t *)b + size;
    ASAN_POISON_MEMORY_REGION(a->pos, (size_t)(a->end - a->pos));
    return true;
}

void *arena_alloc(struct arena *a, size_t n, size_t size, size_t align)
{
    size_t bytes;

    if (__builtin_mul_overflow(n, size, &bytes)) {
        budget_fail(a->budget, n);
        return NULL;
    }
    size_t pad = (size_t)(-(uintptr_t)a->pos & (align - 1));
    if (!a->pos || bytes + pad < bytes || bytes + pad > (size_t)(a->end - a->pos)) {
        if (!add_block(a, bytes))
            return NULL;
        pad = 0;
    }
    uint8_t *p = a->pos + pad;
    a->pos = p + bytes;
    ASAN_UNPOISON_MEMORY_REGION(p, bytes);
    memset(p, 0, bytes);
    return p;
}

char *arena_strdup(struct arena *a, struct bytes s)
{
    if (s.len == SIZE_MAX)
        return NULL;
    char *p = arena_alloc(a, s.len + 1, 1, 1);
    if (p && s.len > 0)
        memcpy(p, s.data, s.len);
    return p;
}

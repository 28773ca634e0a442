#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/cleanup.h"

/*
 * The content of one block of a file: checked, unpacked, immutable, shared. Whoever has a reference
 * may read it from any thread. Behind the content stand BLOCK_PADDING zero bytes, so that decoders
 * may load whole words at its end.
 */
#define BLOCK_PADDING 16

struct block {
    atomic_uint refs;
    uint32_t len;
    uint8_t data[];
};

/* With one reference and content to be filled in, or NULL when there is no memory. */
static inline struct block *block_new(uint32_t len)
{
    struct block *b = malloc(sizeof(*b) + len + BLOCK_PADDING);

    if (!b)
        return NULL;
    atomic_init(&b->refs, 1);
    b->len = len;
    memset(b->data + len, 0, BLOCK_PADDING);
    return b;
}

static inline struct block *block_ref(struct block *b)
{
    atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
    return b;
}

static inline void block_unref(struct block *b) /* NULL is fine */
{
    if (b && atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) == 1)
        free(b);
}
DEFINE_CLEANUP(struct block *, block_unref)

static inline struct bytes block_bytes(const struct block *b)
{
    return (struct bytes){b->data, b->len};
}

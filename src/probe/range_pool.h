#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Ranges of an array that programs in the kernel read: given out best fit, and not given out again
 * for a while after they came back, because a program may still be reading them.
 */
struct range {
    uint32_t first, n;
};

struct range_pool {
    struct range *free; /* sorted, not touching */
    size_t n_free, cap_free;
    struct returned_range {
        struct range range;
        int64_t time_ns;
    } * returned; /* oldest first */
    size_t n_returned, cap_returned;
    uint32_t used; /* given out and not come back */
};

#define RANGE_POOL_GRACE_NS INT64_C(1000000000)

/* Elements [first, first + n). */
void range_pool_init(struct range_pool *p, uint32_t first, uint32_t n);
void range_pool_done(struct range_pool *p);

/* `now_ns` never goes back. A range of 0 elements is always there. false: none is large enough. */
bool range_pool_take(struct range_pool *p, uint32_t n, int64_t now_ns, struct range *ret);
void range_pool_give(struct range_pool *p, struct range r, int64_t now_ns);
/* What was taken and never shown to anybody: usable at once. */
void range_pool_undo(struct range_pool *p, struct range r);

/*
 * Sampled memory that is still there, by its address, in the segment. An address is in one of the
 * WINDOW places from where its hash points, and whoever looks for it looks at all of them: so a
 * place that became free needs no mark, and any thread may take it.
 */
#include "preload/handover.h"
#include "preload/inside.h"
#include "preload/ring_file.h"

enum { WINDOW = 32, CLAIMED = 1 };

uint8_t live_filter[LIVE_FILTER_LINES][64];

static void filter_change(const void *p, int by)
{
    uint8_t *at = live_filter_at(p), was = __atomic_load_n(at, __ATOMIC_RELAXED);
    while (was != LIVE_MANY && !__atomic_compare_exchange_n(at, &was, (uint8_t)(was + by), true,
                                                            __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

void live_filter_add(const void *p)
{
    filter_change(p, 1);
}

static size_t window_start(uint64_t key, size_t mask)
{
    return (size_t)((key >> 4) * 0x9e3779b97f4a7c15ull >> 20) & mask & ~(size_t)7;
}

void live_add(const void *p, const struct preload_live *what)
{
    const struct segment *s = &segment;
    uint64_t key = (uintptr_t)p;
    size_t start = window_start(key, s->live_mask);
    /* What was there was freed past us, as code does that binds to libc first. */
    live_remove(p, NULL);
    for (size_t i = 0; i < WINDOW; i++) {
        size_t at = (start + i) & s->live_mask;
        uint64_t none = 0;
        if (!segment_may_write(&s->keys[at], sizeof(s->keys[at])) ||
            !segment_may_write(&s->live[at], sizeof(s->live[at])))
            return;
        if (__atomic_load_n(&s->keys[at], __ATOMIC_RELAXED) != 0 ||
            !__atomic_compare_exchange_n(&s->keys[at], &none, CLAIMED, false, __ATOMIC_ACQUIRE,
                                         __ATOMIC_RELAXED))
            continue;
        s->live[at] = *what;
        live_filter_add(p);
        __atomic_store_n(&s->keys[at], key, __ATOMIC_RELEASE);
        segment_count(&s->header->live_count);
        return;
    }
    segment_lost(PRELOAD_LOSS_LIVE);
}

bool live_remove(const void *p, struct preload_live *ret)
{
    const struct segment *s = &segment;
    if (!p || !live_is_likely(p) || !segment_is_ours())
        return false;
    uint64_t key = (uintptr_t)p;
    size_t start = window_start(key, s->live_mask);
    for (size_t i = 0; i < WINDOW; i++) {
        size_t at = (start + i) & s->live_mask;
        if (!ring_file_has(&s->keys[at], sizeof(s->keys[at]), false) ||
            __atomic_load_n(&s->keys[at], __ATOMIC_ACQUIRE) != key)
            continue;
        if (ret)
            *ret = s->live[at];
        uint64_t expected = key;
        if (!__atomic_compare_exchange_n(&s->keys[at], &expected, 0, false, __ATOMIC_RELEASE,
                                         __ATOMIC_RELAXED))
            return false; /* the program frees it twice, and the other was faster */
        filter_change(p, -1);
        __atomic_fetch_sub(&s->header->live_count, 1, __ATOMIC_RELAXED);
        return true;
    }
    return false;
}

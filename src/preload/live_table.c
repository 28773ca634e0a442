/*
 * Sampled memory that is still there, by its address, in the segment. An address is in one of the
 * WINDOW places from where its hash points, and whoever looks for it looks at all of them: so a
 * place that became free needs no mark, and any thread may take it.
 */
#include <sys/mman.h>

#include "preload/handover.h"
#include "preload/inside.h"
#include "preload/ring_file.h"

/* Keys are looked at by cache lines. */
enum { WINDOW = 32, LINE = 8, CLAIMED = 1 };

/* ---- The filter ---- */

#if defined(__x86_64__)
#define PAGE 4096
#else
#define PAGE 65536 /* at most */
#endif
enum { PAGES = LIVE_FILTER_LINES * 64 / PAGE };
_Static_assert(LIVE_FILTER_LINES == 1 << LIVE_FILTER_BITS, "one for each hash");

uint8_t live_filter[LIVE_FILTER_LINES][64] __attribute__((aligned(PAGE)));
static bool is_pinned[PAGES];

static void filter_change(const void *p, int by)
{
    uint8_t *at = live_filter_at(p), was = __atomic_load_n(at, __ATOMIC_RELAXED);
    while (was != LIVE_MANY && !__atomic_compare_exchange_n(at, &was, (uint8_t)(was + by), true,
                                                            __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

void live_filter_pin(const void *p)
{
    __atomic_store_n(&is_pinned[(size_t)(live_filter_at(p) - live_filter[0]) / PAGE], true,
                     __ATOMIC_RELAXED);
    filter_change(p, 1);
}

/* Pages with something that must stay keep all: it only means that more is looked up. */
void live_filter_clear(void)
{
    for (size_t from = 0, to = 0; from < PAGES; from = to) {
        bool stays = __atomic_load_n(&is_pinned[from], __ATOMIC_RELAXED);
        for (to = from + 1;
             to < PAGES && __atomic_load_n(&is_pinned[to], __ATOMIC_RELAXED) == stays;)
            to++;
        if (!stays)
            madvise(live_filter[0] + from * PAGE, (to - from) * PAGE, MADV_DONTNEED);
    }
}

/* ---- The table ---- */

static size_t window_start(uint64_t key, size_t mask)
{
    return (size_t)((key >> 4) * 0x9e3779b97f4a7c15ull >> 20) & mask & ~(size_t)(LINE - 1);
}

/* The numbers of texts may be changed by who carries texts over, at any time. */
static void put_value(struct preload_live *to, const struct preload_live *from)
{
    to->size = from->size;
    to->rate = from->rate;
    to->time_ns = from->time_ns;
    to->what = from->what;
    __atomic_store_n(&to->stack, from->stack, __ATOMIC_RELAXED);
    __atomic_store_n(&to->labels, from->labels, __ATOMIC_RELAXED);
}

static struct preload_live get_value(const struct preload_live *from)
{
    return (struct preload_live){.size = from->size,
                                 .stack = __atomic_load_n(&from->stack, __ATOMIC_RELAXED),
                                 .rate = from->rate,
                                 .time_ns = from->time_ns,
                                 .labels = __atomic_load_n(&from->labels, __ATOMIC_RELAXED),
                                 .what = from->what};
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
        put_value(&s->live[at], what);
        filter_change(p, 1);
        __atomic_store_n(&s->keys[at], key, __ATOMIC_RELEASE);
        segment_count(&s->header->live_count);
        texts_carry(&s->live[at]); /* who carries them over may have passed by already */
        return;
    }
    segment_lost(PRELOAD_LOSS_LIVE);
}

/* Where it is; NULL when it is not there. A line that may not be touched has nothing. */
static uint64_t *find_key(const struct segment *s, uint64_t key)
{
    size_t start = window_start(key, s->live_mask);
    for (size_t i = 0; i < WINDOW; i += LINE) {
        uint64_t *line = &s->keys[(start + i) & s->live_mask];
        if (!ring_file_has(line, LINE * sizeof(*line), false))
            continue;
        for (size_t k = 0; k < LINE; k++)
            if (__atomic_load_n(&line[k], __ATOMIC_ACQUIRE) == key)
                return &line[k];
    }
    return NULL;
}

bool live_remove(const void *p, struct preload_live *ret)
{
    const struct segment *s = &segment;
    if (!p || !live_is_likely(p) || !segment_is_ours())
        return false;
    uint64_t key = (uintptr_t)p, expected = key, *at = find_key(s, key);
    if (!at)
        return false;
    if (ret)
        *ret = get_value(&s->live[at - s->keys]);
    if (!__atomic_compare_exchange_n(at, &expected, 0, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        return false; /* the program frees it twice, and the other was faster */
    filter_change(p, -1);
    __atomic_fetch_sub(&s->header->live_count, 1, __ATOMIC_RELAXED);
    return true;
}

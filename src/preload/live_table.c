/*
 * Sampled memory that is still there, by its address, in the segment. An address is in one of the
 * WINDOW places from where its hash points, and whoever looks for it looks at all of them: so a
 * place that became free needs no mark, and any thread may take it.
 *
 * The hash points to the first places of the table; where those are taken, to the places behind
 * them, up to STEP times as many, and so on. So a program with few samples touches few pages, and
 * readers find them soon.
 */
#include <sys/mman.h>

#include "preload/handover.h"
#include "preload/inside.h"
#include "preload/ring_file.h"

/* Keys are looked at by cache lines. */
enum { WINDOW = 32, LINE = 8, CLAIMED = 1, FIRST = 1024, STEP = 8 };

/* The places where addresses were ever put are below this, also those of a parent. */
static size_t used_end;

/*
 * ---- The filter ----
 *
 * A bit is set when there are addresses of its hash, which are counted here. The last one's bit
 * must not be taken away when the next one's was set: so who takes it says so in the count, and
 * while it does nobody adds. A thread that is ended there leaves it so, and addresses of that hash
 * are not followed any more. A count that has become FILTER_MANY stays there.
 */
enum { FILTER_CLEARING = 254, FILTER_MANY = 255 };
#if defined(__x86_64__)
#define PAGE 4096
#else
#define PAGE 65536 /* at most */
#endif
enum { PAGE_WORDS = PAGE / sizeof(uint64_t), PAGES = LIVE_FILTER_WORDS / PAGE_WORDS };
_Static_assert(LIVE_FILTER_WORDS == 1 << LIVE_FILTER_BITS, "one for each hash");

uint64_t live_filter[LIVE_FILTER_WORDS] __attribute__((aligned(PAGE)));
static uint8_t counts[LIVE_FILTER_WORDS][64] __attribute__((aligned(PAGE)));
static bool is_pinned[PAGES];

static uint8_t *count_of(const void *p)
{
    return &counts[live_filter_word(p)][live_filter_bit(p)];
}

static bool count_change(uint8_t *at, uint8_t *was, uint8_t to)
{
    return __atomic_compare_exchange_n(at, was, to, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

static void set_bit(const void *p)
{
    __atomic_fetch_or(&live_filter[live_filter_word(p)], 1ull << live_filter_bit(p),
                      __ATOMIC_RELAXED);
}

static void clear_bit(const void *p)
{
    __atomic_fetch_and(&live_filter[live_filter_word(p)], ~(1ull << live_filter_bit(p)),
                       __ATOMIC_RELAXED);
}

/* One more of that hash; false: not now, the last one is being taken away. */
static bool filter_add(const void *p)
{
    uint8_t *at = count_of(p), was = __atomic_load_n(at, __ATOMIC_RELAXED);
    do {
        if (was == FILTER_CLEARING)
            return false;
    } while (
        was != FILTER_MANY &&
        !count_change(at, &was, was + 1 == FILTER_CLEARING ? FILTER_MANY : (uint8_t)(was + 1)));
    set_bit(p); /* whoever came first may not have done it yet */
    return true;
}

void live_filter_pin(const void *p)
{
    __atomic_store_n(&is_pinned[live_filter_word(p) / PAGE_WORDS], true, __ATOMIC_RELAXED);
    __atomic_store_n(count_of(p), FILTER_MANY, __ATOMIC_RELEASE);
    set_bit(p);
}

/* Pages with something that must stay keep all: it only means that more is looked up. */
void live_filter_clear(void)
{
    for (size_t from = 0, to = 0; from < PAGES; from = to) {
        bool stays = __atomic_load_n(&is_pinned[from], __ATOMIC_RELAXED);
        for (to = from + 1;
             to < PAGES && __atomic_load_n(&is_pinned[to], __ATOMIC_RELAXED) == stays;)
            to++;
        size_t first = from * PAGE_WORDS, n = (to - from) * PAGE_WORDS;
        if (stays)
            continue;
        madvise(&live_filter[first], n * sizeof(live_filter[0]), MADV_DONTNEED);
        madvise(counts[first], n * sizeof(counts[0]), MADV_DONTNEED);
    }
}

static void filter_remove(const void *p)
{
    uint8_t *at = count_of(p), was = __atomic_load_n(at, __ATOMIC_RELAXED), to;
    do {
        if (was == 0 || was >= FILTER_CLEARING)
            return;
        to = was == 1 ? FILTER_CLEARING : (uint8_t)(was - 1);
    } while (!count_change(at, &was, to));
    if (to != FILTER_CLEARING)
        return;
    clear_bit(p);
    if (!count_change(at, &to, 0)) /* it is kept from now on */
        set_bit(p);
}

/* ---- The table ---- */

/* Places that are filled before the next ones are: n of them, whole lines. */
struct part {
    size_t from, n;
};

static struct part first_part(const struct segment *s)
{
    size_t all = s->live_mask + 1;
    return (struct part){0, all < FIRST ? all : FIRST};
}

/* Nothing when it was the last. */
static struct part next_part(const struct segment *s, struct part p)
{
    size_t from = p.from + p.n, end = from * STEP, all = s->live_mask + 1;
    return (struct part){from, (end < all ? end : all) - from};
}

static size_t window_start(uint64_t key, size_t n)
{
    uint64_t hash = (key >> 4) * 0x9e3779b97f4a7c15ull >> 32;
    return (size_t)(hash * n >> 32) & ~(size_t)(LINE - 1);
}

/* Number i of the window. */
static size_t place_in(struct part p, size_t start, size_t i)
{
    size_t at = start + i;
    return p.from + (at < p.n ? at : (at - p.n) % p.n);
}

static void note_used(size_t end)
{
    size_t was = __atomic_load_n(&used_end, __ATOMIC_RELAXED);
    while (was < end && !__atomic_compare_exchange_n(&used_end, &was, end, true, __ATOMIC_RELAXED,
                                                     __ATOMIC_RELAXED))
        ;
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

enum put { PUT_DONE, PUT_TAKEN, PUT_NO_ROOM };

static enum put put_within(const struct segment *s, uint64_t key, const struct preload_live *what,
                           struct part part)
{
    size_t start = window_start(key, part.n);
    for (size_t i = 0; i < WINDOW; i++) {
        size_t at = place_in(part, start, i);
        uint64_t none = 0;
        if (!segment_may_write(&s->keys[at], sizeof(s->keys[at])) ||
            !segment_may_write(&s->live[at], sizeof(s->live[at])))
            return PUT_NO_ROOM;
        if (__atomic_load_n(&s->keys[at], __ATOMIC_RELAXED) != 0 ||
            !__atomic_compare_exchange_n(&s->keys[at], &none, CLAIMED, false, __ATOMIC_ACQUIRE,
                                         __ATOMIC_RELAXED))
            continue;
        if (!filter_add((const void *)(uintptr_t)key)) {
            __atomic_store_n(&s->keys[at], 0, __ATOMIC_RELEASE);
            return PUT_TAKEN;
        }
        put_value(&s->live[at], what);
        note_used(part.from + part.n);
        __atomic_store_n(&s->keys[at], key, __ATOMIC_RELEASE);
        segment_count(&s->header->live_count);
        texts_carry(&s->live[at]); /* who carries them over may have passed by already */
        return PUT_DONE;
    }
    return PUT_TAKEN;
}

void live_add(const void *p, const struct preload_live *what)
{
    const struct segment *s = &segment;
    struct part part = first_part(s);
    enum put put = PUT_TAKEN;
    /* What was there was freed past us, as code does that binds to libc first. */
    live_remove(p, NULL);
    for (; put == PUT_TAKEN && part.n > 0; part = next_part(s, part))
        put = put_within(s, (uintptr_t)p, what, part);
    if (put == PUT_TAKEN)
        segment_lost(PRELOAD_LOSS_LIVE);
}

/* Where it is; NULL: nowhere among these. A line that may not be touched has nothing. */
static uint64_t *find_within(const struct segment *s, uint64_t key, struct part part)
{
    size_t start = window_start(key, part.n);
    for (size_t i = 0; i < WINDOW; i += LINE) {
        uint64_t *line = &s->keys[place_in(part, start, i)];
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
    uint64_t key = (uintptr_t)p, *at = NULL;
    size_t end = __atomic_load_n(&used_end, __ATOMIC_RELAXED);
    for (struct part part = first_part(s); !at && part.n > 0 && part.from < end;
         part = next_part(s, part))
        at = find_within(s, key, part);
    if (!at)
        return false;
    if (ret)
        *ret = get_value(&s->live[at - s->keys]);
    uint64_t expected = key;
    if (!__atomic_compare_exchange_n(at, &expected, 0, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        return false; /* the program frees it twice, and the other was faster */
    filter_remove(p);
    __atomic_fetch_sub(&s->header->live_count, 1, __ATOMIC_RELAXED);
    return true;
}

/*
 * Chance. Bytes (or ns) are sampled each with the same small probability, so the distance between
 * samples is exponential: a thread draws one, counts down, and the event that crosses it is the
 * sample. What happens next does not depend on what was before, so a thread may begin anew whenever
 * it likes, and an event that was sampled is charged to its end.
 */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "preload/handover.h"
#include "preload/inside.h"
#include "preload/stack_memory.h"

__thread struct preload_thread preload_thread;
bool preload_is_paused;

static uint64_t mixed(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

static uint64_t random_next(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15ull;
    return mixed(*state);
}

/* ln(x) for 0 < x <= 1, to 1e-12: the library does not link libm. */
static double natural_log(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof(bits));
    int exponent = (int)(bits >> 52) - 1022;
    bits = (bits & 0xfffffffffffffull) | 0x3fe0000000000000ull; /* 0.5 <= m < 1 */
    double m;
    memcpy(&m, &bits, sizeof(m));
    if (m < 0.70710678118654752) {
        m *= 2;
        exponent--;
    }
    double s = (m - 1) / (m + 1), q = s * s, sum = 0;
    for (int k = 15; k >= 1; k -= 2)
        sum = sum * q + 1.0 / k;
    return 2 * s * sum + exponent * 0.69314718055994531;
}

uint64_t sample_draw(uint64_t *random, uint32_t mean)
{
    double u = (double)((random_next(random) >> 11) + 1) * 0x1p-53;
    return (uint64_t)(-natural_log(u) * mean);
}

/* 1 - exp(-x) for x >= 0. */
static double chance_of(double x)
{
    if (x > 40)
        return 1;
    /* exp(-x) is (exp(-x / 2^k))^2^k; 1 - y^2 is (1 - y)(2 - (1 - y)), which keeps small ones. */
    int halved = 0;
    for (; x > 0.125; x /= 2)
        halved++;
    double c = x * (1 - x / 2 * (1 - x / 3 * (1 - x / 4 * (1 - x / 5 * (1 - x / 6)))));
    for (; halved > 0; halved--)
        c *= 2 - c;
    return c;
}

uint64_t sample_weight(uint64_t value, uint32_t rate)
{
    if (rate == 0 || value == 0)
        return value;
    return (uint64_t)((double)value / chance_of((double)value / rate) + 0.5);
}

/* ---- The thread ---- */

/* Another thread, or the same one in a child of fork: it must not draw what its parent draws. */
static void thread_begin(struct preload_thread *t, uint32_t pid)
{
    static _Atomic uint64_t threads;
    t->tid = (uint32_t)syscall(SYS_gettid);
    uint64_t seed = preload_settings.seed, number = atomic_fetch_add(&threads, 1);
    if (!preload_settings.has_seed) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        seed = (uint64_t)now.tv_nsec * 0x9e3779b97f4a7c15ull ^ (uint64_t)now.tv_sec << 32 ^
               (uintptr_t)t ^ t->tid;
    }
    t->random = mixed(mixed(seed) + number + (t->owner ? t->tid : 0)) | 1;
    t->owner = pid;
    t->n_asked = 0;
}

/* Somebody further out on the same stack cannot be called by who made the thread busy: that was
 * left by a jump out of a signal handler. */
static bool is_left(const struct preload_thread *t, uintptr_t frame)
{
    return frame >= t->busy_at && frame < t->stack_end && stack_memory_is_own(t->busy_at);
}

/* But for being busy. */
static bool would_sample(enum preload_kind kind)
{
    return !__atomic_load_n(&preload_is_paused, __ATOMIC_RELAXED) && segment_is_ours() &&
           preload_segment && sample_wants(kind);
}

bool sample_begin(enum preload_kind kind)
{
    struct preload_thread *t = &preload_thread;
    uintptr_t frame = (uintptr_t)__builtin_frame_address(0);
    if (t->busy && !is_left(t, frame)) {
        if (would_sample(kind))
            segment_lost(PRELOAD_LOSS_BUSY);
        return false;
    }
    t->busy_at = frame;
    atomic_signal_fence(memory_order_seq_cst);
    t->busy = 1;
    atomic_signal_fence(memory_order_seq_cst);
    int error = errno;
    bool may = !__atomic_load_n(&preload_is_paused, __ATOMIC_RELAXED) && segment_ensure() &&
               sample_wants(kind);
    if (may && t->owner != segment.pid)
        thread_begin(t, segment.pid);
    errno = error;
    if (!may)
        sample_end();
    return may;
}

void sample_end(void)
{
    atomic_signal_fence(memory_order_seq_cst);
    preload_thread.busy = 0;
}

/* Not wanted, or paused: that may last. While another makes the segment, the next event asks again,
 * and is the first that is counted; but not for ever, as that thread may have left by a jump out of
 * a signal handler and ended. A thread that is busy goes on counting, so that all samples
 * that it cannot take are counted as lost. */
void sample_refused(enum preload_kind kind, uint64_t *left, uint32_t *drawn_with,
                    uint32_t wanted_rate)
{
    struct preload_thread *t = &preload_thread;
    if (t->busy && would_sample(kind)) {
        *drawn_with = wanted_rate ? wanted_rate : 1;
        *left = sample_draw(&t->random, *drawn_with);
        return;
    }
    *drawn_with = 0;
    bool is_soon = segment_is_coming() && t->n_asked < SAMPLE_ASKS_MAX;
    t->n_asked += is_soon;
    *left = is_soon ? 0 : SAMPLE_ASK_AGAIN;
}

bool sample_wants(enum preload_kind kind)
{
    return __atomic_load_n(&preload_segment->wanted, __ATOMIC_RELAXED) & PRELOAD_WANTS(kind);
}

bool sample_due(uint64_t *left, uint32_t *drawn_with, uint64_t n, uint32_t wanted_rate,
                uint32_t *ret_rate)
{
    uint32_t rate = *drawn_with, next = wanted_rate ? wanted_rate : 1;
    *drawn_with = next;
    if (rate == 0) {
        /* It only asked again. So this event is the first that is counted. */
        uint64_t first = sample_draw(&preload_thread.random, next);
        if (first >= n) {
            *left = first - n;
            return false;
        }
        rate = next;
    }
    *left = sample_draw(&preload_thread.random, next);
    *ret_rate = rate;
    return true;
}

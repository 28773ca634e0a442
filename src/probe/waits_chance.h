#pragma once

#include <linux/types.h>

/*
 * Which waits are walked when they begin. Shared by the program at sched_switch and by the test
 * that simulates it.
 *
 * A walk takes microseconds and a switch must cost a fraction of one, so a wait is walked by
 * chance, before anybody knows how long it will be. For the sums to be right whatever the chances:
 *
 *   - The chance p is chosen from what is past: how long this thread's waits usually are, and how
 *     busy this CPU's walks were. Then a coin of p is thrown, and nothing else asks that coin.
 *   - A pass over all threads looks at each one that waits for long already, walks those that have
 *     not been, and marks the wait as seen. When passes come does not depend on any coin.
 *   - A wait that was seen counts as what it was: d. One that was not counts as d/p if it was
 *     walked, else not at all. Given d, p and whether a pass came by, what a wait is expected to
 *     add is d in the first case, and p·(d/p) + (1 - p)·0 = d in the second.
 *
 * So no sum is off in the long run, and long waits, where 1/p would scatter most, are exact.
 */
#define WAITS_CHANCE_ONE 65536u
#define WAITS_CHANCE_MIN (WAITS_CHANCE_ONE / 32u)

/* Each CPU makes about this many walks within WAITS_PACE_NS, however many switches there are. */
#define WAITS_PACE_NS    (1ull << 27)
#define WAITS_PACE_WALKS 128u

struct waits_pace {
    __u64 begin_ns;
    __u32 walks;
    __u32 scale; /* of all chances, so that the pace is kept; 0: as at the start */
};

static inline void waits_pace_keep(struct waits_pace *p, __u64 now_ns)
{
    __u64 passed = now_ns - p->begin_ns, scale = p->scale, most;

    if (passed < WAITS_PACE_NS && scale)
        return;
    if (passed > WAITS_PACE_NS << 6)
        passed = WAITS_PACE_NS << 6;
    most = scale * 2 < WAITS_CHANCE_ONE && scale ? scale * 2 : WAITS_CHANCE_ONE;
    if (p->walks)
        scale = scale * WAITS_PACE_WALKS * (passed >> 10) / (p->walks * (WAITS_PACE_NS >> 10));
    else
        scale = most;
    if (scale > most)
        scale = most;
    p->scale = scale < 64 ? 64 : (__u32)scale;
    p->walks = 0;
    p->begin_ns = now_ns;
}

/* In 1/65536. */
static inline __u32 waits_chance(__u64 usual_ns, __u64 always_ns, __u32 scale)
{
    __u64 c = WAITS_CHANCE_ONE;

    if (usual_ns < always_ns / 32) /* without a division: this is where it must be quick */
        c = WAITS_CHANCE_MIN;
    else if (usual_ns < always_ns)
        c = usual_ns * WAITS_CHANCE_ONE / always_ns;
    return (__u32)(c * scale / WAITS_CHANCE_ONE);
}

/* How long waits usually are, once one more has ended. */
static inline __u64 waits_usual(__u64 usual_ns, __u64 waited_ns)
{
    if (waited_ns > 1000000000)
        waited_ns = 1000000000;
    return usual_ns - usual_ns / 8 + waited_ns / 8;
}

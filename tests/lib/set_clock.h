#pragma once

#include "base/clock.h"

/* A clock that stands still until a test moves it. */
struct set_clock {
    struct clock clock;
    int64_t wall_ns, monotonic_ns;
};

static inline int64_t set_clock_wall_(const struct clock *c)
{
    return ((const struct set_clock *)c)->wall_ns;
}

static inline int64_t set_clock_monotonic_(const struct clock *c)
{
    return ((const struct set_clock *)c)->monotonic_ns;
}

static inline void set_clock_init(struct set_clock *c, int64_t wall_ns)
{
    *c = (struct set_clock){.clock = {set_clock_wall_, set_clock_monotonic_}, .wall_ns = wall_ns};
}

static inline void set_clock_advance(struct set_clock *c, int64_t ns)
{
    c->wall_ns += ns;
    c->monotonic_ns += ns;
}

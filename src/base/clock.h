#pragma once

#include <stdint.h>

/*
 * Where time comes from: the machine, or a test that sets it. Implementations put this first in a
 * struct of their own. Any thread may ask.
 */
struct clock {
    int64_t (*wall_ns)(const struct clock *c);      /* since 1970, may jump */
    int64_t (*monotonic_ns)(const struct clock *c); /* since whenever, never goes back */
};

/* The machine's. */
const struct clock *clock_real(void);

#define DURATION_TEXT_MAX 48

/* "30d", "1h30m", "250ms": the two largest units that count; returns `text`. */
const char *duration_text(int64_t ns, char text[DURATION_TEXT_MAX]);

static inline int64_t clock_wall_ns(const struct clock *c)
{
    return c->wall_ns(c);
}

static inline int64_t clock_monotonic_ns(const struct clock *c)
{
    return c->monotonic_ns(c);
}

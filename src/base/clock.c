#include "base/clock.h"

#include <time.h>

static int64_t now_ns(clockid_t id)
{
    struct timespec now;

    clock_gettime(id, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int64_t real_wall_ns(const struct clock *c)
{
    (void)c;
    return now_ns(CLOCK_REALTIME);
}

static int64_t real_monotonic_ns(const struct clock *c)
{
    (void)c;
    return now_ns(CLOCK_MONOTONIC);
}

const struct clock *clock_real(void)
{
    static const struct clock real = {real_wall_ns, real_monotonic_ns};

    return &real;
}

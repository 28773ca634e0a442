#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "base/cleanup.h"

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

const char *duration_text(int64_t ns, char text[DURATION_TEXT_MAX])
{
    static const struct {
        const char *name;
        uint64_t ns;
    } units[] = {
        {"d", 86400000000000}, {"h", 3600000000000}, {"m", 60000000000}, {"s", 1000000000},
        {"ms", 1000000},       {"us", 1000},         {"ns", 1},
    };
    uint64_t rest = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
    size_t len = (size_t)snprintf(text, DURATION_TEXT_MAX, "%s", ns < 0 ? "-" : "");
    int shown = 0;

    for (size_t i = 0; i < ARRAY_SIZE(units) && shown < 2; i++) {
        if (rest < units[i].ns)
            continue;
        len += (size_t)snprintf(text + len, DURATION_TEXT_MAX - len, "%" PRIu64 "%s",
                                rest / units[i].ns, units[i].name);
        rest %= units[i].ns;
        shown++;
    }
    if (shown == 0)
        snprintf(text, DURATION_TEXT_MAX, "0s");
    return text;
}

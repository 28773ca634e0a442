#include "preload/settings.h"

#include <string.h>

#include "abi/preload.h"

/* A number with K, M or G (of 1024), or with us, ms or s when it is a time; 0 when it is none. */
static uint64_t read_number(const char *text, bool is_time)
{
    uint64_t n = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9'; at++) {
        if (n > (UINT64_MAX >> 8) / 10)
            return 0;
        n = n * 10 + (uint64_t)(*at - '0');
    }
    if (at == text)
        return 0;
    static const struct {
        const char *name;
        bool is_time;
        uint64_t of;
    } units[] = {
        {"", false, 1},          {"", true, 1},           {"K", false, 1 << 10},
        {"k", false, 1 << 10},   {"M", false, 1 << 20},   {"m", false, 1 << 20},
        {"G", false, 1 << 30},   {"KiB", false, 1 << 10}, {"MiB", false, 1 << 20},
        {"GiB", false, 1 << 30}, {"ns", true, 1},         {"us", true, 1000},
        {"ms", true, 1000000},   {"s", true, 1000000000},
    };
    uint64_t product;
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        if (units[i].is_time == is_time && strcmp(at, units[i].name) == 0)
            return __builtin_mul_overflow(n, units[i].of, &product) ? 0 : product;
    return 0;
}

static uint32_t number_between(const char *text, bool is_time, uint32_t least, uint32_t most,
                               uint32_t otherwise)
{
    uint64_t n = text ? read_number(text, is_time) : 0;
    if (n == 0)
        return otherwise;
    return n < least ? least : n > most ? most : (uint32_t)n;
}

static uint32_t power_of_two(uint32_t n)
{
    uint32_t p = 1;
    while (p < n)
        p <<= 1;
    return p;
}

static uint32_t read_kinds(const char *text)
{
    static const struct {
        const char *name;
        uint32_t bits;
    } kinds[] = {
        {"alloc", PRELOAD_WANTS(PRELOAD_ALLOC)},
        {"live", PRELOAD_WANTS(PRELOAD_ALLOC) | PRELOAD_WANTS(PRELOAD_LIVE)},
        {"lock", PRELOAD_WANTS(PRELOAD_LOCK)},
        {"threads", PRELOAD_WANTS(PRELOAD_THREAD)},
        {"custom", PRELOAD_WANTS(PRELOAD_CUSTOM)},
    };
    uint32_t bits = 0;
    for (const char *at = text; *at;) {
        size_t n = strcspn(at, ",");
        for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
            if (strlen(kinds[i].name) == n && memcmp(kinds[i].name, at, n) == 0)
                bits |= kinds[i].bits;
        at += n + (at[n] == ',');
    }
    return bits;
}

void settings_read(struct preload_settings *ret, settings_lookup *lookup)
{
    memset(ret, 0, sizeof(*ret));
    const char *kinds = lookup("VESTA_PRELOAD_TYPES"), *off = lookup("VESTA_PRELOAD_OFF");
    ret->wanted = read_kinds(kinds ? kinds : "alloc,live,lock,threads,custom");
    if (off && strcmp(off, "1") == 0)
        ret->wanted = 0;
    ret->alloc_rate =
        number_between(lookup("VESTA_PRELOAD_INTERVAL"), false, 1, UINT32_MAX, 512u << 10);
    ret->lock_rate =
        number_between(lookup("VESTA_PRELOAD_LOCK_INTERVAL"), true, 1, UINT32_MAX, 1000000);
    ret->ring_records =
        power_of_two(number_between(lookup("VESTA_PRELOAD_RING_MAX"), false, 64, 1u << 22, 16384));
    ret->live_max =
        power_of_two(number_between(lookup("VESTA_PRELOAD_LIVE_MAX"), false, 64, 1u << 24, 65536));
    ret->texts_bytes = power_of_two(
        number_between(lookup("VESTA_PRELOAD_TEXTS_MAX"), false, 4096, 1u << 30, 8u << 20));
    ret->modules_bytes =
        number_between(lookup("VESTA_PRELOAD_MODULES_MAX"), false, 4096, 1u << 26, 256u << 10);
    const char *seed = lookup("VESTA_PRELOAD_SEED");
    ret->has_seed = seed && *seed;
    ret->seed = ret->has_seed ? read_number(seed, false) : 0;
    const char *directory = lookup("VESTA_PRELOAD_DIR");
    if (directory && strlen(directory) < sizeof(ret->directory))
        strcpy(ret->directory, directory);
}

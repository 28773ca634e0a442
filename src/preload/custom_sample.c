#include <errno.h>
#include <string.h>
#include <vesta/vesta.h>

#include "preload/inside.h"

/* Samples that the program takes itself, and the switch that it has. libvesta-context.a finds both
 * by names that no program has. */

void vesta_sample(const char *name, uint64_t value)
{
    size_t n = name ? strnlen(name, 256) : 0;
    int kept = errno;

    if (n > 0 && n < 256 && sample_begin(PRELOAD_CUSTOM)) {
        struct preload_record r = {.kind = PRELOAD_CUSTOM,
                                   .stack = walk_here(),
                                   .other = segment_text(PRELOAD_TEXT_STRING, name, n, 0),
                                   .value = value};
        segment_put(&r);
        sample_end();
    }
    errno = kept;
}

void vesta_profiling_set(bool is_on)
{
    __atomic_store_n(&preload_is_paused, !is_on, __ATOMIC_RELAXED);
}

VESTA_API void vesta_preload_sample(const char *name, uint64_t value)
    __attribute__((alias("vesta_sample")));
VESTA_API void vesta_preload_set(bool is_on) __attribute__((alias("vesta_profiling_set")));

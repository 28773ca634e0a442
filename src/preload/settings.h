#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What the environment asks of the library; docs/preload.md lists it. What cannot be understood is
 * as if it was not there: the library has nobody to complain to.
 */
struct preload_settings {
    uint32_t wanted; /* PRELOAD_WANTS(...) */
    uint32_t alloc_rate;
    uint32_t lock_rate;
    uint32_t ring_records; /* these two are powers of two */
    uint32_t live_max;
    uint32_t texts_bytes;
    uint32_t modules_bytes;
    bool has_seed;
    uint64_t seed;
    char directory[512]; /* "": none */
};

/* The environment's value of a name, or NULL. */
typedef const char *settings_lookup(const char *name);
void settings_read(struct preload_settings *ret, settings_lookup *lookup);

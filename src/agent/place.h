#pragma once

#include <stdint.h>

/*
 * A place in code as windows keep it, in 8 bytes: which file (16 bits) and where in it (48). Places
 * of callers are one byte before the return address: inside the call.
 */
#define PLACE_FILE_BITS 16
#define PLACE_FILE_MAX  65533u
#define PLACE_RAW       0u     /* an address of the process that no mapping was known for */
#define PLACE_JIT       65534u /* an address of the process, in code of no file */
#define PLACE_KERNEL    65535u

typedef uint64_t place;

static inline place place_of(uint32_t file, uint64_t address)
{
    return (uint64_t)file << 48 | (address & (((uint64_t)1 << 48) - 1));
}

static inline uint32_t place_file(place p)
{
    return (uint32_t)(p >> 48);
}

static inline uint64_t place_address(place p)
{
    uint64_t low = p & (((uint64_t)1 << 48) - 1);

    return place_file(p) == PLACE_KERNEL ? low | (uint64_t)0xffff << 48 : low;
}

#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * Probes for tracers, the contract of OpenTelemetry's memory profiles: at each sampled allocation
 * otel_memory:alloc(ptr, size, weighted_bytes), and otel_memory:free(ptr) when such memory goes.
 *
 * A probe is a nop and a note in .note.stapsdt that says where it is and where its arguments are. A
 * tracer counts up the probe's semaphore while it is attached, so nothing is prepared for nobody.
 */

#define USDT_SEMAPHORE                                                                             \
    __attribute__((weak, visibility("hidden"), section(".probes"), used)) volatile unsigned short

USDT_SEMAPHORE otel_memory_alloc_semaphore;
USDT_SEMAPHORE otel_memory_free_semaphore;

/* The base is a byte by which a tracer sees how far the file was moved by a prelinker. The probe
 * refers to it, so that it is not thrown away with what nobody refers to. */
#define USDT_NOTE(name, arguments)                                                                 \
    "990: nop\n"                                                                                   \
    ".reloc 990b, BFD_RELOC_NONE, _.stapsdt.base\n"                                                \
    ".pushsection .note.stapsdt,\"?\",\"note\"\n"                                                  \
    ".balign 4\n"                                                                                  \
    ".4byte 992f-991f, 994f-993f, 3\n"                                                             \
    "991: .asciz \"stapsdt\"\n"                                                                    \
    "992: .balign 4\n"                                                                             \
    "993: .8byte 990b, _.stapsdt.base, otel_memory_" name "_semaphore\n"                           \
    ".asciz \"otel_memory\"\n"                                                                     \
    ".asciz \"" name "\"\n"                                                                        \
    ".asciz \"" arguments "\"\n"                                                                   \
    "994: .balign 4\n"                                                                             \
    ".popsection\n"                                                                                \
    ".ifndef _.stapsdt.base\n"                                                                     \
    ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"                        \
    ".weak _.stapsdt.base\n"                                                                       \
    ".hidden _.stapsdt.base\n"                                                                     \
    "_.stapsdt.base: .space 1\n"                                                                   \
    ".size _.stapsdt.base, 1\n"                                                                    \
    ".popsection\n"                                                                                \
    ".endif\n"

#define PRELOAD_PROBE_ALLOC(ptr, size, weight)                                                     \
    do {                                                                                           \
        if (__builtin_expect(otel_memory_alloc_semaphore, 0))                                      \
            __asm__ volatile(USDT_NOTE("alloc", "8@%0 8@%1 8@%2")::"r"((uintptr_t)(ptr)),          \
                             "r"((uint64_t)(size)), "r"((uint64_t)(weight))                        \
                             : "memory");                                                          \
    } while (0)

#define PRELOAD_PROBE_FREE(ptr)                                                                    \
    do {                                                                                           \
        if (__builtin_expect(otel_memory_free_semaphore, 0))                                       \
            __asm__ volatile(USDT_NOTE("free", "8@%0")::"r"((uintptr_t)(ptr)) : "memory");         \
    } while (0)

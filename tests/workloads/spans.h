/* What a program does to be followed by its spans: a context of the process (OTEP 4719) and a
 * record for each thread (OTEP 4947). */
#pragma once

#include <stdint.h>

struct span_record {
    uint8_t trace_id[16], span_id[8];
    uint8_t valid, flags;
    uint16_t attrs_size;
    uint8_t attrs[612];
} __attribute__((packed, aligned(2)));

/* Sets the thread's variable, wherever it is defined. */
void span_enter(struct span_record *record);

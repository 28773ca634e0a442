#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * What a thread publishes about itself (OTEP 4947): a variable of each thread, known by its name,
 * that points to a record. This file, span_api.c and process_context.c are also libvesta-context,
 * which is the same without anything to sample.
 */
#define THREAD_RECORD_ATTRS 612 /* 640 bytes in all are what readers promise to look at */

struct thread_record {
    uint8_t trace_id[16]; /* zeros: no span */
    uint8_t span_id[8];
    uint8_t valid; /* only 1 is */
    uint8_t flags;
    uint16_t attrs_size;
    uint8_t attrs[THREAD_RECORD_ATTRS]; /* {u8 number of the key, u8 length, bytes}... */
} __attribute__((packed, aligned(2)));

/*
 * Any library may define it. We use the one that the dynamic linker binds for all of them: so it
 * must not be bound here (-Bsymbolic), and is NULL until somebody sets it.
 */
extern __attribute__((visibility("default"))) __thread struct thread_record *otel_thread_ctx_v1;

/* Whether it was written here, so that process_context.h knows its keys. */
bool thread_record_is_ours(const struct thread_record *r);

#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi/preload.h"
#include "preload/settings.h"

/* Where the parts of the segment are in this process: what the header says may be changed by
 * others, so it is not read again. Set before segment_is_ours() is true. */
struct segment {
    struct preload_header *header;
    uint32_t pid;
    struct preload_record *ring;
    uint64_t *texts;
    uint64_t *keys;
    struct preload_live *live;
    unsigned char *modules;
    size_t ring_records, live_mask, modules_bytes;
    uint32_t *index; /* of texts, by hash; private */
    size_t index_mask;
    size_t texts_half;      /* words; a power of two */
    uint64_t texts_turned;  /* ring_head when the texts went on in the other half */
    uint64_t texts_carried; /* live memory whose texts were carried over; with the generation */
};
extern struct segment segment __attribute__((visibility("hidden")));
extern struct preload_settings preload_settings __attribute__((visibility("hidden")));

/* Carries the texts of a live object over into the half that is being written, if they are in the
 * other one. */
void texts_carry(struct preload_live *live);

/* Whether these bytes of the segment may be written now; if not, that is counted. */
bool segment_may_write(const void *at, size_t n);

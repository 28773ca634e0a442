#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi/preload.h"

/*
 * The file that the segment is in, and its room. One in a folder shares its room with others: so
 * each page is asked for before it is first touched, as touching one that cannot be had would be a
 * SIGBUS for the program. A memfd has no such limit.
 */
struct ring_file {
    unsigned char *base;
    unsigned page_shift;
    uint64_t *pages; /* a bit for each that may be touched */
    int64_t left;    /* how many more may be asked for */
    bool is_locked;  /* as long as it is mapped (abi/preload.h) */
};
extern struct ring_file ring_file __attribute__((visibility("hidden")));

/* What ring_file.pages must have for a file of this size, in bytes. */
size_t ring_file_pages_size(size_t size);

/*
 * Makes it with this header, and maps it: at `place`, where the parent's is, unless that is NULL.
 * In the folder of the settings, else as a memfd; its first page may be touched. NULL when it
 * cannot be, and then at a `place` there is memory of nobody else's. Needs ring_file.pages.
 */
void *ring_file_map(void *place, const struct preload_header *h);

bool ring_file_get(size_t page);

/* Whether these bytes may be touched: they could be before, or can be now. */
static inline bool ring_file_has(const void *at, size_t n, bool is_asking)
{
    size_t from = (size_t)((const unsigned char *)at - ring_file.base);
    size_t last = (from + n - 1) >> ring_file.page_shift;
    for (size_t i = from >> ring_file.page_shift; i <= last; i++)
        if (!(__atomic_load_n(&ring_file.pages[i / 64], __ATOMIC_RELAXED) >> i % 64 & 1) &&
            !(is_asking && ring_file_get(i)))
            return false;
    return true;
}

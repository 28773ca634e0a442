#pragma once

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "abi/preload.h"

/*
 * A segment as the library makes it, in a memfd, for tests of those who read it. Where things are
 * is said here once; the tests write through the mapping, as the library does.
 */
#ifndef WRITER_RECORDS
#define WRITER_RECORDS 256
#define WRITER_TEXTS   ((size_t)256 << 10)
#define WRITER_LIVE    1024
#define WRITER_MODULES ((size_t)16 << 10)
#endif

struct segment_writer {
    int fd;
    size_t size;
    uint8_t *base;
    struct preload_header *h;
};

static inline struct preload_area writer_area(uint64_t *at, uint64_t size)
{
    struct preload_area a = {*at, size};

    *at += (size + 63) & ~(uint64_t)63;
    return a;
}

static inline void writer_open(struct segment_writer *w)
{
    struct preload_header h = {.version = PRELOAD_VERSION,
                               .header_size = sizeof(h),
                               .pid = 4711,
                               .started_ns = 1,
                               .started_unix_ns = 1700000000000000000ull,
                               .texts_used = 1,
                               .alloc_rate = 1,
                               .lock_rate = 1};
    uint64_t at = (sizeof(h) + 63) & ~(uint64_t)63;

    h.ring = writer_area(&at, WRITER_RECORDS * sizeof(struct preload_record));
    h.texts = writer_area(&at, WRITER_TEXTS);
    h.live_keys = writer_area(&at, WRITER_LIVE * sizeof(uint64_t));
    h.live = writer_area(&at, WRITER_LIVE * sizeof(struct preload_live));
    h.modules = writer_area(&at, WRITER_MODULES);
    h.file_size = at;
    w->size = at;
    w->fd = memfd_create("segment", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (w->fd < 0 || ftruncate(w->fd, (off_t)at) < 0)
        abort();
    w->base = mmap(NULL, at, PROT_READ | PROT_WRITE, MAP_SHARED, w->fd, 0);
    if (w->base == MAP_FAILED)
        abort();
    w->h = (void *)w->base;
    h.magic = PRELOAD_MAGIC;
    h.wanted = ~0u;
    *w->h = h;
}

/* From now on its size stays, as that of the library's memory. */
static inline void writer_seal(const struct segment_writer *w)
{
    if (fcntl(w->fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK) < 0)
        abort();
}

static inline void writer_close(struct segment_writer *w)
{
    munmap(w->base, w->size);
    close(w->fd);
}

static inline struct preload_record *writer_slot(struct segment_writer *w, uint64_t number)
{
    struct preload_record *ring = (void *)(w->base + w->h->ring.offset);

    return ring + number % WRITER_RECORDS;
}

/* Claims a record, which is not finished. */
static inline uint64_t writer_claim(struct segment_writer *w)
{
    uint64_t number = w->h->ring_head++;

    writer_slot(w, number)->state = 0;
    return number;
}

/* False when the ring is full. */
static inline int writer_put(struct segment_writer *w, struct preload_record r)
{
    if (w->h->ring_head - w->h->ring_tail >= WRITER_RECORDS) {
        w->h->lost[PRELOAD_LOSS_RING]++;
        return 0;
    }
    uint64_t number = writer_claim(w);
    r.state = (uint32_t)(number + 1);
    *writer_slot(w, number) = r;
    if (r.kind < PRELOAD_KINDS)
        w->h->sampled[r.kind]++;
    return 1;
}

static inline uint32_t writer_text(struct segment_writer *w, uint16_t kind, const void *data,
                                   size_t n, uint16_t flags)
{
    struct preload_text t = {.size = (uint32_t)n, .kind = kind, .flags = flags};
    uint64_t half = WRITER_TEXTS / 16, words = (sizeof(t) + n + 7) / 8;

    if (words + 2 > half)
        abort();
    if ((w->h->texts_used & (half - 1)) + words >= half)
        w->h->texts_used = (w->h->texts_used | (half - 1)) + 2;
    uint32_t number = (uint32_t)w->h->texts_used;
    uint8_t *to = w->base + w->h->texts.offset + (8 * (uint64_t)number & (WRITER_TEXTS - 1));
    t.check = preload_text_check(preload_text_hash(&t, data), number);
    memcpy(to, &t, sizeof(t));
    memcpy(to + sizeof(t), data, n);
    w->h->texts_used += words;
    return number;
}

/* A stack of one to three return addresses; 0 ends it. */
static inline uint32_t writer_stack(struct segment_writer *w, uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t addresses[3] = {a, b, c};
    size_t n = c ? 3 : b ? 2 : 1;

    return writer_text(w, PRELOAD_TEXT_STACK, addresses, n * 8, 0);
}

static inline void writer_live(struct segment_writer *w, size_t slot, uint64_t address,
                               struct preload_live live)
{
    struct preload_live *values = (void *)(w->base + w->h->live.offset);
    uint64_t *keys = (void *)(w->base + w->h->live_keys.offset);

    values[slot] = live;
    keys[slot] = address;
}

static inline void writer_module(struct segment_writer *w, struct preload_module m,
                                 const char *path)
{
    uint8_t *to = w->base + w->h->modules.offset + w->h->modules_used;

    m.path_len = (uint16_t)strlen(path);
    m.size = (uint32_t)((sizeof(m) + m.path_len + 7) & ~(size_t)7);
    memcpy(to, &m, sizeof(m));
    memcpy(to + sizeof(m), path, m.path_len);
    w->h->modules_used += m.size;
}

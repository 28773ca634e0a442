/*
 * The shared memory that hands samples over. Threads write it at the same time, and signal handlers
 * between; nobody waits. A child of fork gets memory of its own when it takes its first sample: in
 * the same place, so that whatever still points there points to something of its own.
 */
#include "preload/handover.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "preload/inside.h"
#include "preload/ring_file.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

struct preload_header *preload_segment;
struct segment segment;
struct preload_settings preload_settings;

/*
 * A page that the kernel gives to children of fork as zeros. A vfork child shares it, and that is
 * right: it also shares all the rest.
 */
struct guard {
    uint32_t is_ours; /* the segment was made, or cannot be */
    uintptr_t maker;  /* the thread that makes it, by where its own memory is; 0: none */
};
static struct guard *guard;

/* Not by mmap(), which is a hook. */
static void *map_at(void *place, size_t size)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (place ? MAP_FIXED : 0);
    return (void *)syscall(SYS_mmap, place, size, PROT_READ | PROT_WRITE, flags, -1, 0);
}

static struct guard *guard_get(void)
{
    struct guard *g = __atomic_load_n(&guard, __ATOMIC_ACQUIRE);
    if (g)
        return g;
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    g = map_at(NULL, size);
    if (g == MAP_FAILED)
        return NULL;
    madvise(g, size, MADV_WIPEONFORK);
    struct guard *before = NULL;
    if (__atomic_compare_exchange_n(&guard, &before, g, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return g;
    syscall(SYS_munmap, g, size);
    return before;
}

bool segment_is_ours(void)
{
    const struct guard *g = __atomic_load_n(&guard, __ATOMIC_ACQUIRE);
    return g && __atomic_load_n(&g->is_ours, __ATOMIC_ACQUIRE) && segment.header;
}

bool segment_is_coming(void)
{
    const struct guard *g = __atomic_load_n(&guard, __ATOMIC_ACQUIRE);
    return g && __atomic_load_n(&g->maker, __ATOMIC_RELAXED) != 0;
}

void segment_forked(void)
{
    struct guard *g = __atomic_load_n(&guard, __ATOMIC_ACQUIRE);
    if (!g)
        return;
    __atomic_store_n(&g->is_ours, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&g->maker, 0, __ATOMIC_RELEASE);
}

/* ---- Making it ---- */

static uint64_t now_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static size_t add_area(size_t *offset, size_t size, struct preload_area *ret)
{
    *ret = (struct preload_area){.offset = *offset, .size = size};
    *offset = (*offset + size + 4095) & ~(size_t)4095;
    return size;
}

/* Where the parts are to be, by the settings; the size of all. */
static size_t lay_out(const struct preload_settings *s, struct preload_header *h)
{
    size_t size = 4096;
    _Static_assert(sizeof(struct preload_header) <= 4096, "the header has a page");
    add_area(&size, s->ring_records * sizeof(struct preload_record), &h->ring);
    add_area(&size, s->texts_bytes, &h->texts);
    add_area(&size, s->live_max * sizeof(uint64_t), &h->live_keys);
    add_area(&size, s->live_max * sizeof(struct preload_live), &h->live);
    add_area(&size, s->modules_bytes & ~7u, &h->modules);
    return size;
}

static void point_at(struct segment *s, void *base, const struct preload_header *h)
{
    unsigned char *at = base;
    s->ring = (void *)(at + h->ring.offset);
    s->texts = (void *)(at + h->texts.offset);
    s->keys = (void *)(at + h->live_keys.offset);
    s->live = (void *)(at + h->live.offset);
    s->modules = at + h->modules.offset;
    s->ring_records = h->ring.size / sizeof(struct preload_record);
    s->texts_half = h->texts.size / 16;
    s->texts_turned = 0;
    s->texts_carried = 0;
    s->live_mask = h->live_keys.size / 8 - 1;
    s->modules_bytes = h->modules.size;
}

/* Private memory. The index has a place for every 8 words of a half: stacks are mostly longer.
 * Behind it is what is known about the file's pages. */
static bool make_index(struct segment *s, const struct preload_header *h)
{
    size_t n = 1024;
    while (n < h->texts.size / 16 / 8)
        n *= 2;
    size_t size = n * sizeof(*s->index) + ring_file_pages_size(h->file_size);
    void *p = map_at(s->index, size);
    if (p == MAP_FAILED)
        return false;
    s->index = p;
    s->index_mask = n - 1;
    ring_file.pages = (void *)(s->index + n);
    return true;
}

static const char *lookup(const char *name)
{
    return getenv(name);
}

/* What is asked for comes from the parent's segment if there is one: readers may have changed it.
 */
static void inherit(struct preload_header *h)
{
    static bool has_settings;
    if (!has_settings)
        settings_read(&preload_settings, lookup);
    has_settings = true;
    const struct preload_header *parent = segment.header;
    h->wanted = parent ? parent->wanted : preload_settings.wanted;
    h->wished = preload_settings.wanted;
    h->alloc_rate = parent ? parent->alloc_rate : preload_settings.alloc_rate;
    h->lock_rate = parent ? parent->lock_rate : preload_settings.lock_rate;
}

static uint32_t pid_namespace(void)
{
    struct stat st;
    return stat("/proc/self/ns/pid", &st) == 0 ? (uint32_t)st.st_ino : 0;
}

static bool make_segment(void)
{
    struct preload_header h = {.version = PRELOAD_VERSION, .header_size = sizeof(h)};
    inherit(&h);
    h.file_size = lay_out(&preload_settings, &h);
    h.pid = (uint32_t)getpid();
    h.pid_namespace = pid_namespace();
#ifndef __GLIBC__
    h.is_musl = 1;
#endif
    h.started_ns = now_ns(CLOCK_MONOTONIC);
    h.started_unix_ns = now_ns(CLOCK_REALTIME);
    h.texts_used = 1;

    if (!make_index(&segment, &h)) {
        segment.header = NULL; /* a parent's is not to be touched */
        return false;
    }
    void *base = ring_file_map(segment.header, &h);
    if (!base)
        return false;
    if (segment.header)
        live_filter_clear();
    point_at(&segment, base, &h);
    segment.pid = h.pid;
    __atomic_store_n(&segment.header, base, __ATOMIC_RELEASE);
    __atomic_store_n(&segment.header->magic, PRELOAD_MAGIC, __ATOMIC_RELEASE);
    return true;
}

/*
 * The first one needs the environment, which libc may not have found yet. A child of whose parent
 * nothing is wanted does without: it may be in a sandbox that ends who calls the system for more
 * than it said. What it has is its parent's memory, so it learns when something is.
 */
static bool is_time_to_make(void)
{
    const struct preload_header *parent = segment.header;
    return parent ? __atomic_load_n(&parent->wanted, __ATOMIC_RELAXED) != 0 : environ != NULL;
}

bool segment_ensure(void)
{
    struct guard *g = guard_get();
    if (!g)
        return false;
    if (__atomic_load_n(&g->is_ours, __ATOMIC_ACQUIRE))
        return preload_segment != NULL;
    if (!is_time_to_make())
        return false;
    /* If it is this thread, it has left that by a jump out of a signal handler. */
    uintptr_t me = (uintptr_t)&preload_thread, maker = 0;
    if (!__atomic_compare_exchange_n(&g->maker, &maker, me, false, __ATOMIC_ACQUIRE,
                                     __ATOMIC_RELAXED) &&
        maker != me)
        return false;
    if (!__atomic_load_n(&g->is_ours, __ATOMIC_ACQUIRE)) {
        preload_segment = make_segment() ? segment.header : NULL;
        if (preload_segment)
            walk_start();
        __atomic_store_n(&g->is_ours, 1, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&g->maker, 0, __ATOMIC_RELEASE);
    return preload_segment != NULL;
}

void segment_over(void)
{
    if (segment_is_ours())
        __atomic_store_n(&segment.header->is_over, 1, __ATOMIC_RELEASE);
}

/* ---- Counts ---- */

void segment_count(__u64 *counter)
{
    __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

void segment_lost(enum preload_loss why)
{
    segment_count(&segment.header->lost[why]);
}

bool segment_may_write(const void *at, size_t n)
{
    if (ring_file_has(at, n, true))
        return true;
    segment_lost(PRELOAD_LOSS_ROOM);
    return false;
}

/* ---- The ring ---- */

/* The names of threads change when they like, so each sample asks. */
static uint32_t name_of_thread(void)
{
    char name[16] = "";
    prctl(PR_GET_NAME, name, 0, 0, 0);
    return segment_text(PRELOAD_TEXT_STRING, name, strnlen(name, sizeof(name)), 0);
}

/* Takes the next place; false when the reader has not been there yet, or it cannot be had. */
static bool ring_take(const struct segment *s, uint64_t *ret)
{
    struct preload_header *h = s->header;
    uint64_t head = __atomic_load_n(&h->ring_head, __ATOMIC_RELAXED);
    do {
        if (head - __atomic_load_n(&h->ring_tail, __ATOMIC_ACQUIRE) >= s->ring_records) {
            segment_lost(PRELOAD_LOSS_RING);
            return false;
        }
        if (!segment_may_write(&s->ring[head & (s->ring_records - 1)], sizeof(*s->ring)))
            return false;
    } while (!__atomic_compare_exchange_n(&h->ring_head, &head, head + 1, true, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
    *ret = head;
    return true;
}

bool segment_put(struct preload_record *r)
{
    const struct segment *s = &segment;
    r->tid = preload_thread.tid;
    if (r->time_ns == 0)
        r->time_ns = now_ns(CLOCK_MONOTONIC);
    r->thread_name = name_of_thread();
    span_fill(r);
    if (r->kind < PRELOAD_KINDS)
        segment_count(&s->header->sampled[r->kind]);
    uint64_t number;
    if (!ring_take(s, &number))
        return false;
    struct preload_record *to = &s->ring[number & (s->ring_records - 1)];
    __atomic_store_n(&to->state, 0, __ATOMIC_RELAXED);
    memcpy((char *)to + sizeof(to->state), (char *)r + sizeof(r->state),
           sizeof(*r) - sizeof(r->state));
    __atomic_store_n(&to->state, (uint32_t)(number + 1), __ATOMIC_RELEASE);
    return true;
}

/* ---- Modules ---- */

static bool is_same_module(const struct preload_module *a, const struct preload_module *b,
                           const char *path)
{
    return a->start == b->start && a->end == b->end && a->file_offset == b->file_offset &&
           a->bias == b->bias && a->build_id_len == b->build_id_len &&
           memcmp(a->build_id, b->build_id, sizeof(a->build_id)) == 0 &&
           a->path_len == b->path_len && memcmp(a + 1, path, a->path_len) == 0;
}

/* Whether the list has it already, as the newest of its place; or as an older one, and half of the
 * room is used: libraries that take turns are not to fill it. Then readers take its code for that
 * of another one, so it counts as lost. */
static bool has_module(const struct segment *s, const struct preload_module *m, const char *path)
{
    uint64_t used = __atomic_load_n(&s->header->modules_used, __ATOMIC_ACQUIRE), at = 0;
    bool is_newest = false, is_there = false;
    while (at < used && used <= s->modules_bytes) {
        const struct preload_module *old = (const void *)(s->modules + at);
        uint32_t size = __atomic_load_n(&old->size, __ATOMIC_ACQUIRE);
        if (size < sizeof(*old) || size > used - at)
            break;
        at += size;
        if (old->start >= m->end || old->end <= m->start)
            continue;
        is_newest = is_same_module(old, m, path);
        is_there |= is_newest;
    }
    if (is_newest || !is_there || used <= s->modules_bytes / 2)
        return is_newest;
    segment_lost(PRELOAD_LOSS_MODULES);
    return true;
}

void segment_module(const struct preload_module *m, const char *path)
{
    const struct segment *s = &segment;
    struct preload_module copy = *m;
    size_t n = strnlen(path, 4096);
    size_t size = (sizeof(copy) + n + 7) & ~(size_t)7;
    copy.size = 0;
    copy.path_len = (uint16_t)n;
    if (has_module(s, &copy, path))
        return;
    uint64_t used = __atomic_load_n(&s->header->modules_used, __ATOMIC_RELAXED);
    do {
        /* There is always a zero after the last. */
        if (used >= s->modules_bytes || s->modules_bytes - used < size + sizeof(uint64_t) ||
            used % 8 != 0) {
            segment_lost(PRELOAD_LOSS_MODULES);
            return;
        }
        if (!segment_may_write(s->modules + used, size))
            return;
    } while (!__atomic_compare_exchange_n(&s->header->modules_used, &used, used + size, true,
                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    unsigned char *to = s->modules + used;
    memcpy(to, &copy, sizeof(copy));
    memcpy(to + sizeof(copy), path, n);
    __atomic_store_n(&((struct preload_module *)(void *)to)->size, (uint32_t)size,
                     __ATOMIC_RELEASE);
}

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/must.h"
#include "probe/perf_internal.h"

/* With the page in front, what kernel.perf_event_mlock_kb allows for each CPU. */
#define RING_BYTES_MAX ((uint64_t)512 << 10)
#define RING_BYTES_MIN ((uint64_t)32 << 10)

#ifdef __aarch64__
#define REGS (1ull << 29 | 1ull << 30 | 1ull << 31 | 1ull << 32) /* x29, lr, sp, pc */
#else
#define REGS (1ull << 6 | 1ull << 7 | 1ull << 8) /* bp, sp, ip */
#endif

/* All events are alike in how they write records, or they could not share a ring. */
struct perf_event_attr perf_attr(uint32_t stack_bytes)
{
    return (struct perf_event_attr){
        .type = PERF_TYPE_SOFTWARE,
        .config = PERF_COUNT_SW_CPU_CLOCK,
        .size = sizeof(struct perf_event_attr),
        .sample_type = PERF_SAMPLE_BITS,
        .sample_regs_user = REGS,
        .sample_stack_user = stack_bytes,
        .sample_id_all = 1,
        .exclude_kernel = 1,
        .exclude_hv = 1,
        .disabled = 1,
        .use_clockid = 1,
        .clockid = CLOCK_MONOTONIC,
    };
}

int perf_event_for(struct perf_event_attr *attr, pid_t tid, int cpu)
{
    int fd = (int)syscall(SYS_perf_event_open, attr, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static void close_ring(struct perf_ring *r)
{
    if (r->map)
        munmap(r->map, r->page + r->bytes);
    closep(&r->fd);
    *r = (struct perf_ring){.fd = -1};
}

/* The event that owns a ring, and the ring; it wakes us when a quarter is full. */
static int map_ring(struct perf_ring *r, uint32_t cpu)
{
    struct perf_event_attr attr = perf_attr(0);
    attr.config = PERF_COUNT_SW_DUMMY;
    attr.sample_type &= ~(uint64_t)PERF_SAMPLE_STACK_USER;
    attr.watermark = 1;
    attr.wakeup_watermark = (uint32_t)r->bytes / 4;
    r->page = (uint64_t)sysconf(_SC_PAGESIZE);
    r->fd = perf_event_for(&attr, 0, (int)cpu);
    if (r->fd < 0)
        return r->fd;
    void *map = mmap(NULL, r->page + r->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0);
    if (map == MAP_FAILED)
        return -errno;
    r->map = map;
    return 0;
}

/* As large as is allowed. */
static int open_ring(struct perf_backend *b, uint32_t cpu)
{
    struct perf_ring *r = &b->rings[cpu];
    int failed = -EPERM;
    for (uint64_t n = RING_BYTES_MAX; n >= RING_BYTES_MIN && failed == -EPERM; n /= 2) {
        close_ring(r);
        r->bytes = n;
        failed = map_ring(r, cpu);
    }
    struct epoll_event e = {.events = EPOLLIN};
    if (failed == 0 && epoll_ctl(b->epoll, EPOLL_CTL_ADD, r->fd, &e) < 0)
        failed = -errno;
    if (failed < 0)
        close_ring(r);
    else if (r->bytes / 4 < b->stack_bytes)
        b->stack_bytes = (uint32_t)r->bytes / 4;
    return failed;
}

int perf_rings_renew(struct probe *p, struct error *err)
{
    struct perf_backend *b = p->perf;
    CLEANUP(freep) bool *is_online = must_calloc(p->n_cpus, sizeof(*is_online));
    int r = probe_read_online(is_online, p->n_cpus, err), n = 0;
    for (uint32_t i = 0; r >= 0 && i < b->n_rings; i++) {
        if (!is_online[i] || b->rings[i].fd >= 0)
            continue;
        r = open_ring(b, i);
        if (r == -ENODEV) /* it went away just now */
            r = 0;
        else if (r < 0)
            return error_set(err, r, "could not open a perf event on CPU %u: %s", i, strerror(-r));
        else
            n++;
    }
    return r < 0 ? r : n;
}

int perf_rings_open(struct probe *p, struct error *err)
{
    struct perf_backend *b = p->perf;
    b->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (b->epoll < 0)
        return error_set(err, -errno, "could not open an epoll: %m");
    b->rings = must_calloc(p->n_cpus, sizeof(*b->rings));
    b->n_rings = p->n_cpus;
    for (uint32_t i = 0; i < b->n_rings; i++)
        b->rings[i].fd = -1;
    int r = perf_rings_renew(p, err);
    return r < 0 ? r : 0;
}

void perf_rings_close(struct perf_backend *b)
{
    for (uint32_t i = 0; i < b->n_rings; i++)
        close_ring(&b->rings[i]);
    free(b->rings);
    closep(&b->epoll);
}

void perf_rings_begin(struct perf_backend *b)
{
    for (uint32_t i = 0; i < b->n_rings; i++) {
        struct perf_ring *r = &b->rings[i];
        const struct perf_event_mmap_page *m = r->map;
        if (!m)
            continue;
        r->end = __atomic_load_n(&m->data_head, __ATOMIC_ACQUIRE);
        r->at = m->data_tail;
    }
}

static void copy_out(const struct perf_ring *r, uint64_t at, void *to, size_t n)
{
    const uint8_t *data = (const uint8_t *)r->map + r->page;
    size_t from = (size_t)(at % r->bytes), first = (size_t)r->bytes - from;
    memcpy(to, data + from, n < first ? n : first);
    if (n > first)
        memcpy((uint8_t *)to + first, data, n - first);
}

static void skip_to(struct perf_ring *r, uint64_t at)
{
    struct perf_event_mmap_page *m = r->map;
    r->at = at;
    __atomic_store_n(&m->data_tail, at, __ATOMIC_RELEASE);
}

/* The time of what is next in a ring; false when nothing is. What cannot be a record makes all the
 * rest be thrown away: there is no telling where the next begins. */
static bool peek(struct perf_backend *b, struct perf_ring *r, uint64_t *ret)
{
    struct perf_event_header h;
    if (!r->map || r->end - r->at < sizeof(h) || r->end - r->at > r->bytes)
        return false;
    copy_out(r, r->at, &h, sizeof(h));
    uint64_t least = sizeof(h) + PERF_RECORD_TAIL;
    if (h.size < least || h.size > r->end - r->at) {
        b->damaged++;
        skip_to(r, r->end);
        return false;
    }
    /* Samples: after pc and ids; others: before the CPU, at the end. */
    uint64_t at = h.type == PERF_RECORD_SAMPLE ? 24 : h.size - 16u;
    copy_out(r, r->at + at, ret, sizeof(*ret));
    return true;
}

const struct perf_event_header *perf_rings_next(struct perf_backend *b)
{
    struct perf_ring *first = NULL;
    uint64_t first_ns = 0, ns;
    for (uint32_t i = 0; i < b->n_rings; i++) {
        if (peek(b, &b->rings[i], &ns) && (!first || ns < first_ns)) {
            first = &b->rings[i];
            first_ns = ns;
        }
    }
    if (!first)
        return NULL;
    struct perf_event_header h;
    copy_out(first, first->at, &h, sizeof(h));
    copy_out(first, first->at, b->record, h.size);
    skip_to(first, first->at + h.size);
    return (const struct perf_event_header *)(const void *)b->record;
}

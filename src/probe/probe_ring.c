#include <assert.h>
#include <errno.h>
#include <string.h>

#include "probe/perf_backend.h"
#include "probe/probe_internal.h"

static_assert(sizeof(struct event_sample) == 104, "as the abi says");
static_assert(offsetof(struct probe_scratch, addresses) ==
                  offsetof(struct probe_scratch, sample) + sizeof(struct event_sample),
              "they leave as one piece");

static bool sample_is_sound(const struct event_sample *e, size_t size)
{
    if (size < sizeof(*e) || e->kind >= SAMPLE_KINDS || e->end >= UNWIND_END_COUNT ||
        e->state >= THREAD_STATES)
        return false;
    if (e->n_kernel > UNWIND_KERNEL_FRAMES_MAX || e->n_user > UNWIND_USER_FRAMES_MAX ||
        e->attrs_len > EVENT_ATTRS_MAX)
        return false;
    size_t attrs = (e->attrs_len + (size_t)7) / 8 * 8;
    return size == sizeof(*e) + ((size_t)e->n_kernel + e->n_user) * 8 + attrs;
}

bool probe_event_is_sound(const void *data, size_t size)
{
    const struct event_head *e = data;
    if (size < sizeof(*e) || e->size != size || size % 8 != 0)
        return false;
    switch (e->kind) {
    case EVENT_SAMPLE:
        return sample_is_sound(data, size);
    case EVENT_REPEAT:
        return size == sizeof(struct event_repeat);
    case EVENT_WAIT_END:
        return size == sizeof(struct event_wait_end);
    case EVENT_PROCESS:
        return size == sizeof(struct event_process) &&
               ((const struct event_process *)data)->event <= PROCESS_EVENT_EXEC;
    default:
        return false;
    }
}

static int on_event(void *arg, void *data, size_t size)
{
    struct probe *p = arg;
    if (probe_event_is_sound(data, size))
        p->drain.event(p->drain.arg, data);
    else
        p->damaged++;
    return 0;
}

int probe_ring_init(struct probe *p, struct error *err)
{
    int fd = bpf_object__find_map_fd_by_name(p->object, "ring");
    p->ring = ring_buffer__new(fd, on_event, p, NULL);
    if (!p->ring)
        return error_set(err, -errno, "could not map the ring: %m");
    return 0;
}

int probe_fd(const struct probe *p)
{
    if (p->perf)
        return perf_backend_fd(p);
    return ring_buffer__epoll_fd(p->ring);
}

size_t probe_drain(struct probe *p, probe_event *event, void *arg)
{
    p->drain.event = event;
    p->drain.arg = arg;
    if (p->perf)
        return perf_backend_drain(p);
    int n = ring_buffer__consume(p->ring);
    return n > 0 ? (size_t)n : 0;
}

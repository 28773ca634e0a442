#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/must.h"
#include "probe/perf_backend.h"
#include "probe/probe_internal.h"

#define CPU_RATE_MAX 999

/* Sets is_online[i] for what "0-3,5" names below n. */
static void parse_cpus(const char *text, bool *is_online, uint32_t n)
{
    while (*text >= '0' && *text <= '9') {
        char *end;
        unsigned long first = strtoul(text, &end, 10), last = first;
        if (*end == '-')
            last = strtoul(end + 1, &end, 10);
        for (unsigned long i = first; i <= last && i < n; i++)
            is_online[i] = true;
        text = *end == ',' ? end + 1 : end;
    }
}

int probe_read_online(bool *is_online, uint32_t n, struct error *err)
{
    static const char path[] = "/sys/devices/system/cpu/online";
    char text[4096];
    CLEANUP(fclosep) FILE *f = fopen(path, "re");
    if (!f || !fgets(text, sizeof(text), f))
        return error_set(err, -EIO, "could not read \"%s\"", path);
    parse_cpus(text, is_online, n);
    return 0;
}

static void close_event(int *fd)
{
    closep(fd);
    *fd = -1;
}

static void close_events(struct probe_events *e, uint32_t n_cpus)
{
    for (uint32_t i = 0; e->fds && i < n_cpus; i++)
        close_event(&e->fds[i]);
    e->rate = 0;
}

void probe_events_done(struct probe_events *e, uint32_t n_cpus)
{
    close_events(e, n_cpus);
    free(e->fds);
    e->fds = NULL;
}

/* What an event is on each CPU. */
struct event_plan {
    struct perf_event_attr attr;
    const char *program;
    bool is_detuned;
};

/*
 * CPUs whose periods were equal would be sampled at the same moments for ever, and in step with
 * whatever else is periodic. Theirs differ by up to 0.2 %, in pairs that cancel out.
 */
uint64_t probe_detuned(uint64_t period, uint32_t cpu)
{
    uint64_t by = period / 4096 * (1 + cpu / 2 % 8);
    return cpu % 2 ? period + by : period - by;
}

/* Events on all CPUs that are online and have none yet; gone ones are closed. */
static int open_events(struct probe *p, struct probe_events *e, const struct event_plan *plan,
                       struct error *err)
{
    CLEANUP(freep) bool *is_online = must_calloc(p->n_cpus, sizeof(*is_online));
    int r = probe_read_online(is_online, p->n_cpus, err);
    if (r < 0)
        return r;
    if (!e->fds) {
        e->fds = must_calloc(p->n_cpus, sizeof(*e->fds));
        memset(e->fds, 0xff, p->n_cpus * sizeof(*e->fds)); /* -1 */
    }
    const struct bpf_program *program = bpf_object__find_program_by_name(p->object, plan->program);
    for (uint32_t i = 0; i < p->n_cpus; i++) {
        if (!is_online[i]) {
            close_event(&e->fds[i]);
            continue;
        }
        if (e->fds[i] >= 0)
            continue;
        struct perf_event_attr attr = plan->attr;
        if (plan->is_detuned)
            attr.sample_period = probe_detuned(attr.sample_period, i);
        int fd = probe_event_open(&attr, (int)i, bpf_program__fd(program));
        char right[64];
        if (fd == -ENODEV) /* it went away just now */
            continue;
        if (fd < 0)
            return error_set(err, fd, "could not open a perf event on CPU %u: %s%s", i,
                             strerror(-fd), probe_missing_right(fd, right));
        e->fds[i] = fd;
    }
    return 0;
}

static int set_events(struct probe *p, struct probe_events *e, uint32_t rate,
                      const struct event_plan *plan, struct error *err)
{
    if (rate != e->rate)
        close_events(e, p->n_cpus);
    if (rate == 0)
        return 0;
    int r = open_events(p, e, plan, err);
    if (r < 0)
        close_events(e, p->n_cpus);
    else
        e->rate = rate;
    return r;
}

int probe_set_cpu_rate(struct probe *p, uint32_t hz, struct error *err)
{
    if (hz > CPU_RATE_MAX)
        return error_set(err, -EINVAL, "the highest rate is %d Hz, asked for %u", CPU_RATE_MAX, hz);
    if (p->perf)
        return perf_backend_set_rate(p, hz, err);
    struct event_plan plan = {.program = "sample_cpu"};
    plan.attr.exclude_idle = 1;
    if (p->has[PROBE_CYCLES]) {
        plan.attr.type = PERF_TYPE_HARDWARE;
        plan.attr.config = PERF_COUNT_HW_CPU_CYCLES;
        plan.attr.freq = 1;
        plan.attr.sample_freq = hz;
    } else {
        plan.attr.type = PERF_TYPE_SOFTWARE;
        plan.attr.config = PERF_COUNT_SW_CPU_CLOCK;
        plan.attr.sample_period = hz ? 1000000000u / hz : 0;
        plan.is_detuned = true;
    }
    return set_events(p, &p->cpu, hz, &plan, err);
}

int probe_set_faults(struct probe *p, uint32_t period, struct error *err)
{
    if (p->perf)
        return period ? probe_needs_bpf(PROBE_FAULTS, err) : 0;
    if (period && !p->has[PROBE_FAULTS])
        return error_set(err, -EOPNOTSUPP,
                         "page faults were not asked for when loading, or do "
                         "not work here");
    struct event_plan plan = {.program = "sample_fault"};
    plan.attr.type = PERF_TYPE_SOFTWARE;
    plan.attr.config = PERF_COUNT_SW_PAGE_FAULTS;
    plan.attr.sample_period = period;
    return set_events(p, &p->fault, period, &plan, err);
}

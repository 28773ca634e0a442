#include <bpf/bpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/must.h"
#include "probe/perf_backend.h"
#include "probe/probe_internal.h"

static void add_counters(struct probe *p, struct probe_stats *ret)
{
    size_t size = (sizeof(struct probe_counters) + 7) / 8 * 8;
    CLEANUP(freep) uint8_t *all = must_calloc(p->n_cpus, size);
    uint32_t zero = 0;
    if (bpf_map_lookup_elem(p->counter_map, &zero, all) < 0)
        return;
    for (uint32_t i = 0; i < p->n_cpus; i++) {
        struct probe_counters c;
        memcpy(&c, all + i * size, sizeof(c));
        for (size_t k = 0; k < SAMPLE_KINDS; k++)
            ret->samples[k] += c.samples[k];
        for (size_t k = 0; k < UNWIND_END_COUNT; k++)
            ret->ends[k] += c.ends[k];
        ret->lost += c.lost;
        ret->runs += c.runs;
        ret->run_ns += c.run_ns;
    }
}

/* What the kernel measured replaces what the programs did themselves. */
static void add_runs(struct probe *p, struct probe_stats *ret)
{
    ret->runs = ret->run_ns = 0;
    struct bpf_program *program;
    bpf_object__for_each_program(program, p->object)
    {
        struct bpf_prog_info info = {0};
        uint32_t len = sizeof(info);
        int fd = bpf_program__fd(program);
        /* Time of a child is the child's. */
        if (strcmp(bpf_program__name(program), "look_at_thread") == 0)
            continue;
        if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &len) < 0)
            continue;
        ret->runs += info.run_cnt;
        ret->run_ns += info.run_time_ns;
    }
}

static uint64_t map_memory(int fd)
{
    char path[64], line[128];
    snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
    CLEANUP(fclosep) FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof(line), f))
        if (strncmp(line, "memlock:", 8) == 0)
            return strtoull(line + 8, NULL, 10);
    return 0;
}

void probe_stats(struct probe *p, struct probe_stats *ret)
{
    *ret = (struct probe_stats){
        .damaged = p->damaged, .map_bytes = p->map_bytes, .looker = probe_waits_child(p)};
    if (p->perf) {
        perf_backend_stats(p, ret);
        return;
    }
    add_counters(p, ret);
    if (p->stats_fd >= 0)
        add_runs(p, ret);
}

uint64_t probe_map_bytes(const struct probe *p)
{
    uint64_t bytes = 0;
    const struct bpf_map *m;
    bpf_object__for_each_map(m, p->object) if (bpf_map__fd(m) >= 0) bytes +=
        map_memory(bpf_map__fd(m));
    return bytes;
}

int probe_measure(struct probe *p, struct error *err)
{
    if (p->stats_fd >= 0 || p->perf)
        return 0;
    int fd = bpf_enable_stats(BPF_STATS_RUN_TIME);
    if (fd < 0)
        return error_set(err, -errno, "could not have the kernel measure BPF programs: %m%s",
                         errno == EPERM ? " (CAP_SYS_ADMIN is missing)" : "");
    p->stats_fd = fd;
    return 0;
}

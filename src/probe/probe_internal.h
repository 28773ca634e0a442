#pragma once

#include <bpf/libbpf.h>

#include "probe/probe.h"
#include "probe/probe_layout.h"
#include "probe/probe_waits.h"
#include "probe/range_pool.h"

/* What the files of this room share. */

/* An array of the kernel's. Mapping one makes all of it count as our memory, so those that are only
 * written are mapped piece by piece while that is done: `data` is NULL. */
struct probe_array {
    int fd;
    size_t element; /* bytes */
    uint32_t n;
    void *data;
};

/* What a file has of each array. */
struct probe_file_ranges {
    struct range rows, pages, rules;
    bool is_used;
};

/* One event for each CPU, by number; -1 where there is none. */
struct probe_events {
    int *fds;
    uint32_t rate; /* Hz, or one of so many; 0: off */
};

struct perf_backend;

struct probe {
    struct bpf_object *object; /* NULL: without BPF */
    struct perf_backend *perf; /* NULL: with BPF */
    bool has[PROBE_FEATURES];
    bool no_switch_state; /* as in probe_constants */
    uint32_t n_cpus;      /* that may ever be */
    struct unwind_settings *settings;
    struct probe_array rows, pages, rules, files, mappings;
    struct range_pool free_rows, free_pages, free_rules, free_files, free_mappings;
    struct probe_file_ranges *file_ranges;
    uint32_t mappings_id; /* the last one */
    int process_map, counter_map;
    struct ring_buffer *ring;
    struct {
        probe_event *event;
        void *arg;
    } drain;
    uint64_t damaged;
    uint64_t map_bytes; /* they do not grow */
    struct probe_events cpu, fault;
    struct bpf_link *exit_link, *exec_link;
    struct probe_waits *waits;
    int stats_fd; /* the kernel measures run times while it is open */
};

/* The BPF object, compiled in. */
extern const unsigned char vesta_bpf[];
extern const size_t vesta_bpf_len;

/* libbpf's words, kept instead of printed: the first warning, or "". */
void probe_quiet_libbpf(void);
const char *probe_libbpf_words(void);

/* " (CAP_BPF is missing)" and the like when rights explain errno r, else "". */
const char *probe_missing_right(int r, char text[64]);

/* -EOPNOTSUPP: a feature that perf events alone do not give. */
int probe_needs_bpf(enum probe_feature f, struct error *err);

/* Loads the programs of one feature, to see whether this kernel's verifier passes them. */
int probe_try_programs(enum probe_feature f, bool has_tables, struct error *err);

/* Whether the kernel says at sched_switch how a thread leaves. */
bool probe_tells_switch_state(void);

/* An event that runs program `prog_fd` (-1: none) on one CPU; a descriptor or negative errno. */
struct perf_event_attr;
int probe_event_open(const struct perf_event_attr *attr, int cpu, int prog_fd);

int probe_tables_init(struct probe *p, struct error *err);
void probe_tables_done(struct probe *p);
/* All of the arrays is free. */
void probe_pools_init(struct probe *p);
size_t probe_array_bytes(const struct probe_array *a);

/* Sets is_online[i] for CPUs below n. */
int probe_read_online(bool *is_online, uint32_t n, struct error *err);
/* The period of a CPU's sampler. */
uint64_t probe_detuned(uint64_t period, uint32_t cpu);
void probe_events_done(struct probe_events *e, uint32_t n_cpus);

int probe_ring_init(struct probe *p, struct error *err);
/* What came out of the ring is whole: sizes and numbers agree. */
bool probe_event_is_sound(const void *data, size_t size);

uint64_t probe_map_bytes(const struct probe *p);

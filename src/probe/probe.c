#include "probe/probe.h"

#include <assert.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/must.h"
#include "probe/perf_backend.h"
#include "probe/probe_internal.h"

/* Which feature a program belongs to: it is loaded where that is wanted and works. */
static const struct {
    const char *name;
    enum probe_feature feature;
} programs[] = {
    {"sample_cpu", PROBE_CPU}, {"sample_fault", PROBE_FAULTS},  {"tell_exit", PROBE_LIFE},
    {"tell_exec", PROBE_LIFE}, {"watch_switch", PROBE_OFF_CPU}, {"look_at_thread", PROBE_WALL},
};

static uint64_t ring_bytes(const struct probe_options *o, uint32_t n_cpus)
{
    uint64_t wanted = o->ring_bytes ? o->ring_bytes : (uint64_t)((n_cpus + 3) / 4) << 18;
    uint64_t bytes = 512 << 10;
    while (bytes < wanted && bytes < 1 << 30)
        bytes *= 2;
    return bytes;
}

static void size_map(struct bpf_object *object, const char *name, uint64_t n)
{
    struct bpf_map *m = bpf_object__find_map_by_name(object, name);
    assert(m);
    bpf_map__set_max_entries(m, n > UINT32_MAX ? UINT32_MAX : (uint32_t)n);
}

static uint64_t at_least(uint64_t n, uint64_t least)
{
    return n < least ? least : n;
}

static void size_maps(struct bpf_object *object, const struct probe_options *o, uint32_t n_cpus,
                      bool no_switch_state)
{
    uint64_t table_bytes = o->table_bytes ? o->table_bytes : 16 << 20;
    size_map(object, "rows", at_least(table_bytes / sizeof(struct unwind_row_pair), 1));
    size_map(object, "pages", at_least(table_bytes / 256, 16384));
    size_map(object, "rules", at_least(table_bytes / 128, 2 * UNWIND_FILE_RULES_MAX));
    size_map(object, "files", (uint64_t)(o->files ? o->files : 8192) + 1);
    size_map(object, "mappings", o->mappings ? o->mappings : 131072);
    size_map(object, "processes", o->processes ? o->processes : 8192);
    size_map(object, "ring", ring_bytes(o, n_cpus));

    struct bpf_map *m = bpf_object__find_map_by_name(object, ".rodata.constants");
    struct probe_constants c = {
        .has_tables = !o->no_tables,
        .page_bytes = (uint32_t)sysconf(_SC_PAGESIZE),
        .wake_bytes = ring_bytes(o, n_cpus) / 2,
        .no_switch_state = no_switch_state,
    };
    bpf_map__set_initial_value(m, &c, sizeof(c));
}

/* One try with what is set in `has`. */
static int load(struct probe *p, const struct probe_options *o, struct error *err)
{
    LIBBPF_OPTS(bpf_object_open_opts, opts, .object_name = "vesta");
    probe_quiet_libbpf();
    p->object = bpf_object__open_mem(vesta_bpf, vesta_bpf_len, &opts);
    if (!p->object)
        return error_set(err, -errno, "could not read the BPF object: %m");
    struct probe_options with = *o;
    with.no_tables = !p->has[PROBE_TABLES];
    size_maps(p->object, &with, p->n_cpus, p->no_switch_state);
    for (size_t i = 0; i < ARRAY_SIZE(programs); i++) {
        struct bpf_program *program = bpf_object__find_program_by_name(p->object, programs[i].name);
        assert(program);
        bpf_program__set_autoload(program, p->has[programs[i].feature]);
    }
    int r = bpf_object__load(p->object);
    if (r == 0)
        return 0;
    char right[64];
    const char *words = probe_libbpf_words();
    error_set(err, r, "could not load the BPF programs: %s%s%s%s", strerror(-r),
              probe_missing_right(r, right), *words ? ": " : "", words);
    bpf_object__close(p->object);
    p->object = NULL;
    return r;
}

int probe_try_programs(enum probe_feature f, bool has_tables, struct error *err)
{
    static const struct probe_options small = {
        .table_bytes = 1, .files = 1, .mappings = 1, .processes = 1};
    struct probe p = {.n_cpus = 1, .no_switch_state = !probe_tells_switch_state()};
    p.has[f] = true;
    p.has[PROBE_TABLES] = has_tables;
    int r = load(&p, &small, err);
    bpf_object__close(p.object);
    return r;
}

/* First as asked for; if that fails, without what does not work here by itself. */
static int load_what_works(struct probe *p, const struct probe_options *o, struct error *err)
{
    int r = load(p, o, err);
    if (r == 0)
        return 0;
    struct probe_feature_state state[PROBE_FEATURES];
    probe_features(state);
    if (!state[PROBE_CPU].works)
        return error_set(err, r == -EPERM ? r : -EOPNOTSUPP, "%s", state[PROBE_CPU].why);
    bool differs = false;
    for (size_t i = 0; i < PROBE_FEATURES; i++) {
        differs |= p->has[i] && !state[i].works;
        p->has[i] &= state[i].works;
    }
    p->no_switch_state = p->has[PROBE_OFF_CPU] && !probe_tells_switch_state();
    if (differs || p->no_switch_state)
        r = load(p, o, err);
    return r;
}

static void attach_life(struct probe *p)
{
    if (!p->has[PROBE_LIFE])
        return;
    p->exit_link = bpf_program__attach(bpf_object__find_program_by_name(p->object, "tell_exit"));
    p->exec_link = bpf_program__attach(bpf_object__find_program_by_name(p->object, "tell_exec"));
    p->has[PROBE_LIFE] = p->exit_link && p->exec_link;
}

static bool has_cycles(void)
{
    struct perf_event_attr attr = {.type = PERF_TYPE_HARDWARE,
                                   .config = PERF_COUNT_HW_CPU_CYCLES,
                                   .sample_period = 1000000000};
    CLEANUP(closep) int fd = probe_event_open(&attr, 0, -1);
    return fd >= 0;
}

static int open_bpf(struct probe *p, const struct probe_options *o, struct error *err)
{
    p->has[PROBE_CPU] = p->has[PROBE_LIFE] = true;
    p->has[PROBE_TABLES] = !o->no_tables;
    for (size_t i = PROBE_WALL; i <= PROBE_FAULTS; i++)
        p->has[i] = o->wanted >> i & 1;
    int r = load_what_works(p, o, err);
    if (r == 0)
        r = probe_tables_init(p, err);
    if (r == 0)
        r = probe_ring_init(p, err);
    if (r == 0)
        r = probe_waits_init(p, err);
    if (r < 0)
        return r;
    p->process_map = bpf_object__find_map_fd_by_name(p->object, "processes");
    p->counter_map = bpf_object__find_map_fd_by_name(p->object, "counters");
    p->map_bytes = probe_map_bytes(p);
    p->has[PROBE_CYCLES] = o->prefers_cycles && has_cycles();
    attach_life(p);
    return 0;
}

static int open_perf(struct probe *p, const struct probe_options *o, struct error *err)
{
    memset(p->has, 0, sizeof(p->has));
    p->has[PROBE_OWN] = p->has[PROBE_TABLES] = p->has[PROBE_LIFE] = true;
    return perf_backend_open(p, o, err);
}

int probe_open(const struct probe_options *o, struct probe **ret, struct error *err)
{
    CLEANUP(probe_closep) struct probe *p = must_calloc(1, sizeof(*p));
    p->stats_fd = -1;
    int n_cpus = libbpf_num_possible_cpus();
    if (n_cpus <= 0)
        return error_set(err, -EIO, "could not tell how many CPUs there are");
    p->n_cpus = (uint32_t)n_cpus;
    int r = o->no_bpf ? -EPERM : open_bpf(p, o, err);
    if ((r == -EPERM || r == -EACCES) && !p->object)
        r = open_perf(p, o, err);
    if (r < 0)
        return r;
    *ret = TAKE_PTR(p);
    return 0;
}

const char *probe_lacks(const struct probe *p)
{
    return p->perf ? "no rights for BPF (CAP_BPF, CAP_PERFMON): sampling own processes by perf "
                     "events"
                   : NULL;
}

int probe_attach(struct probe *p, uint32_t pid, struct error *err)
{
    return p->perf ? perf_backend_attach(p, pid, err) : 0;
}

int probe_needs_bpf(enum probe_feature f, struct error *err)
{
    return error_set(err, -EOPNOTSUPP,
                     "%s needs BPF, and CAP_BPF and CAP_PERFMON are missing; run as root or with "
                     "these capabilities",
                     probe_feature_name(f));
}

void probe_close(struct probe *p)
{
    if (!p)
        return;
    probe_events_done(&p->cpu, p->n_cpus);
    probe_events_done(&p->fault, p->n_cpus);
    bpf_link__destroy(p->exit_link);
    bpf_link__destroy(p->exec_link);
    probe_waits_done(p);
    ring_buffer__free(p->ring);
    perf_backend_close(p);
    probe_tables_done(p);
    bpf_object__close(p->object);
    closep(&p->stats_fd);
    free(p);
}

bool probe_has(const struct probe *p, enum probe_feature f)
{
    return p->has[f];
}

struct unwind_settings *probe_settings(struct probe *p)
{
    return p->settings;
}

#include <assert.h>
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "probe/perf_backend.h"
#include "probe/probe_internal.h"

/*
 * What works here, found by doing it in small: programs of two instructions are loaded and
 * attached. Versions are not asked, because distributions carry features back and switch them off.
 */

static _Thread_local char first_words[256];

__attribute__((format(printf, 2, 0))) static int keep_words(enum libbpf_print_level level,
                                                            const char *fmt, va_list args)
{
    if (level == LIBBPF_WARN && !first_words[0]) {
        vsnprintf(first_words, sizeof(first_words), fmt, args);
        first_words[strcspn(first_words, "\n")] = '\0';
    }
    return 0;
}

void probe_quiet_libbpf(void)
{
    libbpf_set_print(keep_words);
    first_words[0] = '\0';
}

const char *probe_libbpf_words(void)
{
    return first_words;
}

static uint64_t own_capabilities(void)
{
    CLEANUP(fclosep) FILE *f = fopen("/proc/self/status", "re");
    char line[256];
    unsigned long long bits = 0;
    while (f && fgets(line, sizeof(line), f))
        if (strncmp(line, "CapEff:", 7) == 0)
            bits = strtoull(line + 7, NULL, 16);
    return bits;
}

const char *probe_missing_right(int r, char text[64])
{
    enum { SYS_ADMIN = 21, PERFMON = 38, BPF = 39 };
    uint64_t has = own_capabilities();
    text[0] = '\0';
    if ((r != -EPERM && r != -EACCES) || has >> SYS_ADMIN & 1)
        return text;
    bool no_bpf = !(has >> BPF & 1), no_perfmon = !(has >> PERFMON & 1);
    const char *what = no_bpf && no_perfmon ? "CAP_BPF and CAP_PERFMON are"
                       : no_bpf             ? "CAP_BPF is"
                       : no_perfmon         ? "CAP_PERFMON is"
                                            : NULL;
    if (what)
        snprintf(text, 64, " (%s missing)", what);
    return text;
}

int probe_event_open(const struct perf_event_attr *attr, int cpu, int prog_fd)
{
    struct perf_event_attr a = *attr;
    a.size = sizeof(a);
    a.disabled = 1;
    CLEANUP(closep)
    int fd = (int)syscall(SYS_perf_event_open, &a, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (prog_fd >= 0 && ioctl(fd, PERF_EVENT_IOC_SET_BPF, prog_fd) < 0)
        return -errno;
    if (ioctl(fd, PERF_EVENT_IOC_ENABLE, 0) < 0)
        return -errno;
    return TAKE_FD(fd);
}

static int fail(struct probe_feature_state *s, int r, const char *what)
{
    char right[64];
    snprintf(s->why, sizeof(s->why), "could not %s: %s%s", what, strerror(-r),
             probe_missing_right(r, right));
    return r;
}

/* What a program of nothing is loaded as. */
struct trial {
    enum bpf_prog_type type;
    enum bpf_attach_type attach;
    const char *hook; /* in the kernel's BTF; NULL: none */
    uint32_t flags;
};

static int load_trial(const struct trial *t, const struct btf *btf)
{
    static const struct bpf_insn nothing[] = {
        {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0},
        {.code = BPF_JMP | BPF_EXIT},
    };
    LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = t->attach,
                .prog_flags = t->flags);
    if (t->hook) {
        if (!btf)
            return -ENOTSUP;
        const char *prefix = t->attach == BPF_TRACE_ITER ? "bpf_iter_" : "btf_trace_";
        char name[64];
        snprintf(name, sizeof(name), "%s%s", prefix, t->hook);
        int id = btf__find_by_name_kind(
            btf, name, t->attach == BPF_TRACE_ITER ? BTF_KIND_FUNC : BTF_KIND_TYPEDEF);
        if (id < 0)
            return id;
        opts.attach_btf_id = (uint32_t)id;
    }
    int fd =
        bpf_prog_load(t->type, "vesta_trial", "Dual BSD/GPL", nothing, ARRAY_SIZE(nothing), &opts);
    return fd < 0 ? -errno : fd;
}

static void try_event(uint32_t type, uint64_t config, struct probe_feature_state *ret)
{
    const struct trial t = {.type = BPF_PROG_TYPE_PERF_EVENT};
    CLEANUP(closep) int prog = load_trial(&t, NULL);
    if (prog < 0) {
        fail(ret, prog, "load a program for perf events");
        return;
    }
    struct perf_event_attr attr = {.type = type, .config = config, .sample_period = 1000000000};
    CLEANUP(closep) int event = probe_event_open(&attr, 0, prog);
    if (event < 0)
        fail(ret, event,
             type == PERF_TYPE_HARDWARE ? "open a hardware counter of cycles"
                                        : "open a perf event");
    else
        ret->works = true;
}

static void try_hook(const struct btf *btf, const char *hook, struct probe_feature_state *ret)
{
    const struct trial t = {BPF_PROG_TYPE_TRACING, BPF_TRACE_RAW_TP, hook, 0};
    char what[64];
    CLEANUP(closep) int prog = load_trial(&t, btf);
    ret->works = false;
    if (prog < 0) {
        snprintf(what, sizeof(what), "load a program for tp_btf/%s", hook);
        fail(ret, prog, what);
        return;
    }
    CLEANUP(closep) int link = bpf_raw_tracepoint_open(NULL, prog);
    snprintf(what, sizeof(what), "attach to tp_btf/%s", hook);
    if (link < 0)
        fail(ret, -errno, what);
    else
        ret->works = true;
}

static void try_tables(struct probe_feature_state *ret)
{
    int r = libbpf_probe_bpf_helper(BPF_PROG_TYPE_PERF_EVENT, BPF_FUNC_loop, NULL);
    if (r > 0)
        ret->works = true;
    else if (r < 0)
        fail(ret, r, "ask for bpf_loop");
    else
        snprintf(ret->why, sizeof(ret->why),
                 "this kernel has no bpf_loop (Linux 5.17): frame pointers only");
}

/* By the kernel's own list: programs that call it need arguments that the verifier likes. */
static bool has_helper(const struct btf *btf, uint32_t helper)
{
    int id = btf__find_by_name_kind(btf, "bpf_func_id", BTF_KIND_ENUM);
    return id > 0 && btf_vlen(btf__type_by_id(btf, (uint32_t)id)) > helper + 1;
}

bool probe_tells_switch_state(void)
{
    enum { CONTEXT, PREEMPT, PREV, NEXT, STATE };
    struct btf *btf = btf__load_vmlinux_btf();
    int id = btf ? btf__find_by_name_kind(btf, "btf_trace_sched_switch", BTF_KIND_TYPEDEF) : -1;
    const struct btf_type *t = id > 0 ? btf__type_by_id(btf, (uint32_t)id) : NULL;
    for (int i = 0; i < 2 && t; i++) /* to a pointer, to a function */
        t = btf__type_by_id(btf, t->type);
    bool tells = t && btf_is_func_proto(t) && btf_vlen(t) > STATE;
    btf__free(btf);
    return tells;
}

static void try_wall(const struct btf *btf, struct probe_feature_state *ret)
{
    const struct trial t = {BPF_PROG_TYPE_TRACING, BPF_TRACE_ITER, "task", BPF_F_SLEEPABLE};
    CLEANUP(closep) int prog = load_trial(&t, btf);
    if (prog >= 0 && !has_helper(btf, BPF_FUNC_copy_from_user_task))
        snprintf(ret->why, sizeof(ret->why),
                 "this kernel's iterators cannot read memory of other threads (Linux 5.18)");
    else if (prog < 0)
        fail(ret, prog, "load a sleepable iterator over tasks");
    else
        ret->works = true;
}

/* Last of all, our programs themselves: a verifier may find them too long to follow. */
static void try_programs(struct probe_feature_state states[PROBE_FEATURES])
{
    static const enum probe_feature with_programs[] = {PROBE_CPU, PROBE_WALL, PROBE_OFF_CPU,
                                                       PROBE_FAULTS, PROBE_LIFE};
    bool has_tables = states[PROBE_TABLES].works;
    for (size_t i = 0; i < ARRAY_SIZE(with_programs); i++) {
        struct probe_feature_state *s = &states[with_programs[i]];
        struct error err = {""};
        if (!s->works || probe_try_programs(with_programs[i], has_tables, &err) >= 0)
            continue;
        s->works = false;
        snprintf(s->why, sizeof(s->why), "%.*s", (int)sizeof(s->why) - 1, err.text);
    }
}

void probe_features(struct probe_feature_state ret[PROBE_FEATURES])
{
    memset(ret, 0, PROBE_FEATURES * sizeof(ret[0]));
    probe_quiet_libbpf();
    struct btf *btf = btf__load_vmlinux_btf();
    try_event(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, &ret[PROBE_CPU]);
    try_event(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, &ret[PROBE_FAULTS]);
    try_event(PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, &ret[PROBE_CYCLES]);
    perf_backend_try(&ret[PROBE_OWN]);
    try_tables(&ret[PROBE_TABLES]);
    try_wall(btf, &ret[PROBE_WALL]);
    try_hook(btf, "sched_switch", &ret[PROBE_OFF_CPU]);
    try_hook(btf, "sched_process_exit", &ret[PROBE_LIFE]);
    if (ret[PROBE_LIFE].works)
        try_hook(btf, "sched_process_exec", &ret[PROBE_LIFE]);
    btf__free(btf);
    /* All our programs read the kernel's structs, whose layout comes from there. */
    if (!btf && ret[PROBE_CPU].works) {
        ret[PROBE_CPU].works = false;
        snprintf(ret[PROBE_CPU].why, sizeof(ret[PROBE_CPU].why),
                 "could not read /sys/kernel/btf/vmlinux: the kernel was built without "
                 "CONFIG_DEBUG_INFO_BTF");
    }
    if (btf)
        try_programs(ret);
}

const char *probe_feature_name(enum probe_feature f)
{
    static const char *const names[PROBE_FEATURES] = {
        [PROBE_CPU] = "on-CPU sampling",    [PROBE_TABLES] = "unwinding by tables",
        [PROBE_WALL] = "wall clock",        [PROBE_OFF_CPU] = "off-CPU time",
        [PROBE_FAULTS] = "page faults",     [PROBE_LIFE] = "exec and exit",
        [PROBE_CYCLES] = "hardware cycles", [PROBE_OWN] = "own processes",
    };
    assert(f < PROBE_FEATURES);
    return names[f];
}

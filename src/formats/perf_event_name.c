#include <inttypes.h>

#include "formats/perf_data_internal.h"

enum { TYPE_HARDWARE, TYPE_SOFTWARE, TYPE_TRACEPOINT, TYPE_CACHE, TYPE_RAW, TYPE_BREAKPOINT };

static const char *const hardware[] = {
    "cycles",
    "instructions",
    "cache-references",
    "cache-misses",
    "branches",
    "branch-misses",
    "bus-cycles",
    "stalled-cycles-frontend",
    "stalled-cycles-backend",
    "ref-cycles",
};

static const char *const software[] = {
    "cpu-clock",        "task-clock",   "page-faults",  "context-switches",
    "cpu-migrations",   "minor-faults", "major-faults", "alignment-faults",
    "emulation-faults", "dummy",        "bpf-output",   "cgroup-switches",
};

static const char *const caches[] = {"L1-dcache", "L1-icache", "LLC", "dTLB",
                                     "iTLB",      "branch",    "node"};
static const char *const operations[] = {"load", "store", "prefetch"};

static const char *const record_names[] = {
    [1] = "MMAP",
    [2] = "LOST",
    [3] = "COMM",
    [4] = "EXIT",
    [5] = "THROTTLE",
    [6] = "UNTHROTTLE",
    [7] = "FORK",
    [8] = "READ",
    [9] = "SAMPLE",
    [10] = "MMAP2",
    [11] = "AUX",
    [12] = "ITRACE_START",
    [13] = "LOST_SAMPLES",
    [14] = "SWITCH",
    [15] = "SWITCH_CPU_WIDE",
    [16] = "NAMESPACES",
    [17] = "KSYMBOL",
    [18] = "BPF_EVENT",
    [19] = "CGROUP",
    [20] = "TEXT_POKE",
    [21] = "AUX_OUTPUT_HW_ID",
    [64] = "ATTR",
    [65] = "EVENT_TYPE",
    [66] = "TRACING_DATA",
    [67] = "BUILD_ID",
    [68] = "FINISHED_ROUND",
    [69] = "ID_INDEX",
    [70] = "AUXTRACE_INFO",
    [71] = "AUXTRACE",
    [72] = "AUXTRACE_ERROR",
    [73] = "THREAD_MAP",
    [74] = "CPU_MAP",
    [75] = "STAT_CONFIG",
    [76] = "STAT",
    [77] = "STAT_ROUND",
    [78] = "EVENT_UPDATE",
    [79] = "TIME_CONV",
    [80] = "FEATURE",
    [81] = "COMPRESSED",
    [82] = "FINISHED_INIT",
};

const char *perf_record_name(uint32_t type)
{
    return type < ARRAY_SIZE(record_names) ? record_names[type] : NULL;
}

static void add_cache_name(uint64_t config, struct buf *to)
{
    uint64_t cache = config & 0xff, operation = config >> 8 & 0xff, result = config >> 16 & 0xff;

    if (cache >= ARRAY_SIZE(caches) || operation >= ARRAY_SIZE(operations) || result > 1)
        buf_add_str(to, "invalid-cache");
    else
        buf_addf(to, "%s-%s%s", caches[cache], operations[operation],
                 result == 1      ? "-misses"
                 : operation == 2 ? "es"
                                  : "s");
}

static void add_base_name(const struct perf_attr *a, struct buf *to)
{
    if (a->type == TYPE_HARDWARE && a->config < ARRAY_SIZE(hardware))
        buf_add_str(to, hardware[a->config]);
    else if (a->type == TYPE_HARDWARE)
        buf_add_str(to, "unknown-hardware");
    else if (a->type == TYPE_SOFTWARE && a->config < ARRAY_SIZE(software))
        buf_add_str(to, software[a->config]);
    else if (a->type == TYPE_SOFTWARE)
        buf_add_str(to, "unknown-software");
    else if (a->type == TYPE_CACHE)
        add_cache_name(a->config, to);
    else if (a->type == TYPE_RAW)
        buf_addf(to, "raw 0x%" PRIx64, a->config);
    else if (a->type == TYPE_TRACEPOINT)
        buf_addf(to, "tracepoint %" PRIu64, a->config);
    else if (a->type == TYPE_BREAKPOINT)
        buf_addf(to, "mem:0x%" PRIx64 ":%s%s", a->bp_address, a->bp_type & 1 ? "r" : "",
                 a->bp_type & 2 ? "w" : "");
    else
        buf_addf(to, "pmu %" PRIu32 " 0x%" PRIx64, a->type, a->config);
}

/* "u" for user mode only and so on, as perf appends them. */
static void add_modifiers(const struct perf_attr *a, struct buf *to)
{
    uint64_t f = a->flags;
    uint32_t precise = f >> PERF_FLAG_PRECISE_SHIFT & 3;
    bool has_modes = f & (PERF_FLAG_EXCLUDE_KERNEL | PERF_FLAG_EXCLUDE_USER | PERF_FLAG_EXCLUDE_HV);
    bool guest_is_excluded_by_default = has_modes || precise;
    bool shows_guest = (f & PERF_FLAG_EXCLUDE_HOST) ||
                       !(f & PERF_FLAG_EXCLUDE_GUEST) == !guest_is_excluded_by_default;
    char text[16];
    size_t n = 0;

    if (has_modes && !(f & PERF_FLAG_EXCLUDE_KERNEL))
        text[n++] = 'k';
    if (has_modes && !(f & PERF_FLAG_EXCLUDE_USER))
        text[n++] = 'u';
    if (has_modes && !(f & PERF_FLAG_EXCLUDE_HV))
        text[n++] = 'h';
    for (uint32_t i = 0; i < precise; i++)
        text[n++] = 'p';
    if (shows_guest && !(f & PERF_FLAG_EXCLUDE_HOST))
        text[n++] = 'H';
    if (shows_guest && !(f & PERF_FLAG_EXCLUDE_GUEST))
        text[n++] = 'G';
    if (n > 0)
        buf_addf(to, ":%.*s", (int)n, text);
}

void perf_event_name(const struct perf_attr *attr, struct buf *to)
{
    add_base_name(attr, to);
    if (attr->type != TYPE_TRACEPOINT)
        add_modifiers(attr, to);
}

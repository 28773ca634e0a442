#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "agent/doctor_internal.h"
#include "agent/rights.h"
#include "base/budget.h"
#include "base/cleanup.h"
#include "probe/probe.h"

static bool exists(const struct doctor *d, const char *path)
{
    char whole[512];
    snprintf(whole, sizeof(whole), "%s%s", d->root, path);
    return access(whole, F_OK) == 0;
}

/* ---- kernel */

static void kernel_version(struct doctor *d)
{
    struct utsname u;
    unsigned major = 0, minor = 0;
    char found[160];

    uname(&u);
    sscanf(u.release, "%u.%u", &major, &minor);
    unsigned version = major << 8 | minor;
    snprintf(found, sizeof(found), "Linux %s, %s", u.release, u.machine);
    if (version < (5 << 8 | 15))
        doctor_judge(d, false, FINDING_MISSING, "version", found,
                     "the agent needs Linux 5.15; unwind tables need 5.17, all profile types 6.1",
                     "run a newer kernel");
    else if (version < (5 << 8 | 17))
        doctor_judge(d, false, FINDING_LOST, "version", found,
                     "stacks by frame pointers only, no wall clock: tables need Linux 5.17, wall "
                     "clock 6.1",
                     "run a newer kernel, or build programs with -fno-omit-frame-pointer");
    else
        doctor_judge(d, version >= (6 << 8 | 1), FINDING_LOST, "version", found,
                     "no wall clock of sleeping threads: Linux 6.1 has what it needs",
                     "run a newer kernel");
}

static void kernel_btf(struct doctor *d)
{
    char path[512], size[BUDGET_TEXT_MAX];
    struct stat st;
    snprintf(path, sizeof(path), "%s/sys/kernel/btf/vmlinux", d->root);
    if (stat(path, &st) == 0)
        doctor_add(d, FINDING_WORKS, "BTF", "/sys/kernel/btf/vmlinux, %s",
                   budget_text((size_t)st.st_size, size));
    else
        doctor_judge(d, false, FINDING_MISSING, "BTF", "no /sys/kernel/btf/vmlinux",
                     "programs cannot be fitted to this kernel",
                     "use a kernel that was built with CONFIG_DEBUG_INFO_BTF=y; in a container, "
                     "mount /sys");
}

static void kernel_lockdown(struct doctor *d)
{
    char line[128];
    if (!doctor_line(d, "/sys/kernel/security/lockdown", line, sizeof(line)))
        return;
    bool is_hard = strstr(line, "[confidentiality]") != NULL;
    doctor_judge(d, !is_hard, FINDING_MISSING, "lockdown", line,
                 "programs in the kernel may not read its memory, so they cannot walk stacks",
                 "boot with lockdown=integrity");
}

void doctor_kernel(struct doctor *d)
{
    d->area = "Kernel";
    kernel_version(d);
    kernel_btf(d);
    kernel_lockdown(d);
}

/* ---- what the probe can do */

void doctor_probe(struct doctor *d)
{
    static const struct {
        enum finding_state state;
        const char *lost, *fix;
    } rows[PROBE_FEATURES] = {
        [PROBE_CPU] = {FINDING_MISSING, "no CPU profiles of other processes",
                       "run as root, or with CAP_BPF and CAP_PERFMON"},
        [PROBE_TABLES] = {FINDING_LOST,
                          "stacks only of programs that keep frame pointers (Go, Node, JVM)",
                          "Linux 5.17 or newer, with CAP_BPF"},
        [PROBE_WALL] = {FINDING_LOST, "no `wall` and no `threads` profiles",
                        "Linux 6.1 or newer, with CAP_BPF and CAP_PERFMON"},
        [PROBE_OFF_CPU] = {FINDING_LOST, "no `offcpu` and no `lock` profiles",
                           "a kernel with BTF, with CAP_BPF and CAP_PERFMON"},
        [PROBE_FAULTS] = {FINDING_LOST, "no `faults` profiles", "CAP_PERFMON"},
        [PROBE_LIFE] = {FINDING_LOST,
                        "programs that start and end are seen a little later, by looking",
                        "a kernel with BTF, with CAP_BPF and CAP_PERFMON"},
        [PROBE_CYCLES] = {FINDING_NOTE, "samples go by the clock instead of by cycles",
                          "usual in virtual machines; nothing needs to be done"},
        [PROBE_OWN] = {FINDING_LOST,
                       "without CAP_BPF and CAP_PERFMON not even own processes can be profiled",
                       "sysctl kernel.perf_event_paranoid=2; in a container, a seccomp profile "
                       "that allows perf_event_open"},
    };
    struct probe_feature_state state[PROBE_FEATURES];

    d->area = "Sampling";
    probe_features(state);
    for (size_t i = 0; i < PROBE_FEATURES; i++)
        doctor_judge(d, state[i].works, rows[i].state, probe_feature_name((enum probe_feature)i),
                     state[i].works ? "works" : state[i].why, rows[i].lost, rows[i].fix);
}

/* ---- rights */

static void capabilities(struct doctor *d)
{
    uint64_t held = rights_held();
    for (size_t i = 0; i < n_rights_needs; i++) {
        const struct rights_need *n = &rights_needs[i];
        doctor_judge(d, held >> n->capability & 1, n->is_essential ? FINDING_MISSING : FINDING_LOST,
                     n->name,
                     held >> n->capability & 1
                         ? (n->is_for_start_only ? "held; given up once started" : "held")
                         : "not held",
                     n->lost,
                     "run as root (what is not needed is given up), or give it to the program: "
                     "setcap, AmbientCapabilities=, securityContext.capabilities");
    }
}

static void sysctl_level(struct doctor *d, const char *name, const char *path, int worst_good,
                         const char *lost, const char *fix)
{
    char line[32];
    if (!doctor_line(d, path, line, sizeof(line)))
        return;
    doctor_judge(d, atoi(line) <= worst_good, FINDING_LOST, name, line, lost, fix);
}

/* Whether /proc/kallsyms has an address that is not 0: all are where they are hidden, and those of
 * variables of each CPU, which come first, may be also where not. */
static bool tells_addresses(const struct doctor *d, bool *ret_is_read)
{
    char path[512], line[512];
    snprintf(path, sizeof(path), "%s/proc/kallsyms", d->root);
    CLEANUP(fclosep) FILE *f = fopen(path, "re");
    for (int i = 0; i < 4096 && f && fgets(line, sizeof(line), f); i++) {
        *ret_is_read = true;
        if (strspn(line, "0") < 8)
            return true;
    }
    return false;
}

static void kernel_names(struct doctor *d)
{
    bool is_read = false, has_names = tells_addresses(d, &is_read);

    doctor_judge(d, has_names, FINDING_LOST, "kernel symbols",
                 has_names ? "/proc/kallsyms tells addresses"
                 : is_read ? "/proc/kallsyms hides addresses"
                           : "/proc/kallsyms cannot be read",
                 "functions of the kernel have no names",
                 "start with CAP_SYSLOG, and kernel.kptr_restrict 0 or 1");
}

/* Inode numbers of the first namespaces are fixed. */
static void namespaces(struct doctor *d)
{
    static const struct {
        const char *file, *name, *lost, *fix;
        ino_t first;
    } rows[] = {
        {"/proc/self/ns/pid", "pid namespace",
         "processes cannot be told apart: the kernel numbers them otherwise",
         "share the host's: --pid=host, hostPID: true", 0xeffffffc},
        {"/proc/self/ns/user", "user namespace", "capabilities do not count for the kernel itself",
         "run outside a user namespace", 0xeffffffd},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        char path[512];
        struct stat st;
        snprintf(path, sizeof(path), "%s%s", d->root, rows[i].file);
        if (stat(path, &st) < 0)
            continue;
        bool is_first = st.st_ino == rows[i].first;
        doctor_judge(d, is_first, FINDING_MISSING, rows[i].name,
                     is_first ? "the host's" : "one of its own", rows[i].lost, rows[i].fix);
    }
}

void doctor_rights(struct doctor *d)
{
    d->area = "Rights";
    capabilities(d);
    namespaces(d);
    kernel_names(d);
    sysctl_level(d, "kernel.kptr_restrict", "/proc/sys/kernel/kptr_restrict", 1,
                 "addresses of the kernel are hidden from everybody",
                 "sysctl kernel.kptr_restrict=1");
    sysctl_level(d, "kernel.perf_event_paranoid", "/proc/sys/kernel/perf_event_paranoid",
                 rights_held() & rights_kept() ? 4 : 1,
                 "without CAP_PERFMON not even own processes can be sampled in the kernel",
                 "give the agent CAP_PERFMON; or sysctl kernel.perf_event_paranoid=1");
    sysctl_level(d, "kernel.yama.ptrace_scope", "/proc/sys/kernel/yama/ptrace_scope", 2,
                 "no memory of other processes can be read: no trace context by OTEP 4719",
                 "boot with kernel.yama.ptrace_scope of at most 2");
    if (!exists(d, "/proc/sys/kernel/seccomp/actions_avail"))
        doctor_judge(d, false, FINDING_LOST, "seccomp", "this kernel has no filters",
                     "workers that parse files are less locked in",
                     "a kernel with CONFIG_SECCOMP_FILTER=y");
    else
        doctor_add(d, FINDING_WORKS, "seccomp", "available");
}

/* ---- host */

static void cgroups(struct doctor *d)
{
    if (exists(d, "/sys/fs/cgroup/cgroup.controllers"))
        doctor_add(d, FINDING_WORKS, "cgroups", "version 2");
    else if (exists(d, "/sys/fs/cgroup/cpu") || exists(d, "/sys/fs/cgroup/pids") ||
             exists(d, "/sys/fs/cgroup/systemd"))
        doctor_add(d, FINDING_WORKS, "cgroups", "version 1");
    else
        doctor_judge(d, false, FINDING_LOST, "cgroups", "none at /sys/fs/cgroup",
                     "containers and units are told by /proc/PID/cgroup alone, if at all",
                     "mount /sys/fs/cgroup; in a container, share the host's");
}

void doctor_host(struct doctor *d)
{
    char line[32];
    bool is_open = doctor_line(d, "/proc/sys/vm/unprivileged_userfaultfd", line, sizeof(line)) &&
                   atoi(line) > 0;

    d->area = "Host";
    cgroups(d);
    doctor_add(d, FINDING_WORKS, "tracefs", "%s",
               exists(d, "/sys/kernel/tracing/events") ? "mounted; not needed"
                                                       : "not mounted; not needed");
    doctor_judge(d, !is_open, FINDING_NOTE, "userfaultfd",
                 is_open ? "every program may use it" : "for privileged programs only",
                 "a program can make whoever reads its memory wait; the inspector is then killed "
                 "and started anew",
                 "sysctl vm.unprivileged_userfaultfd=0");
    doctor_add(d, FINDING_WORKS, "processors", "%ld online", sysconf(_SC_NPROCESSORS_ONLN));
}

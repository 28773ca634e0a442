#include "probe/perf_backend.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/must.h"
#include "probe/perf_internal.h"

#define SWEEP_NS INT64_C(5000000000)
#define FDS_MAX  65536

static void closedirp(DIR **dir)
{
    if (*dir)
        closedir(*dir);
}

/* ---- What may be done here. */

static int paranoia(void)
{
    int level = -2;
    CLEANUP(fclosep) FILE *f = fopen("/proc/sys/kernel/perf_event_paranoid", "re");
    if (f && fscanf(f, "%d", &level) != 1)
        level = -2;
    return level;
}

/* What is missing, and how to get it. */
static int refused(int r, struct error *err)
{
    static const char remedy[] =
        "; to profile this machine run as root or with CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE";
    int level = paranoia();
    if ((r == -EACCES || r == -EPERM) && level > 2)
        return error_set(err, -EPERM,
                         "may neither load BPF programs (CAP_BPF, CAP_PERFMON) nor sample own "
                         "processes: kernel.perf_event_paranoid is %d%s; to profile own processes "
                         "set sysctl kernel.perf_event_paranoid=2",
                         level, remedy);
    return error_set(err, -EPERM,
                     "may neither load BPF programs (CAP_BPF, CAP_PERFMON) nor sample own "
                     "processes: perf_event_open is refused (%s), and kernel.perf_event_paranoid "
                     "is %d, which would allow it: a seccomp filter forbids it, as those of "
                     "containers do, or this kernel has none%s",
                     strerror(-r), level, remedy);
}

/* Whether a process (0: ourselves) may be sampled. */
static int try_event(uint32_t pid)
{
    struct perf_event_attr attr = perf_attr(PERF_STACK_BYTES);
    attr.sample_period = 1000000000;
    attr.inherit = 1;
    CLEANUP(closep) int fd = perf_event_for(&attr, (pid_t)pid, -1);
    return fd < 0 ? fd : 0;
}

void perf_backend_try(struct probe_feature_state *ret)
{
    int r = try_event(0);
    ret->works = r == 0;
    if (r < 0)
        snprintf(ret->why, sizeof(ret->why),
                 "could not open a perf event of our own: %s (kernel.perf_event_paranoid is %d)",
                 strerror(-r), paranoia());
}

/* ---- Beginning and end. */

static int new_array(size_t element, uint64_t n, struct probe_array *ret, struct error *err)
{
    struct probe_array a = {-1, element, n > UINT32_MAX ? UINT32_MAX : (uint32_t)n, NULL};
    a.data = mmap(NULL, probe_array_bytes(&a), PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (a.data == MAP_FAILED)
        return error_set(err, -errno, "could not get memory for tables: %m");
    *ret = a;
    return 0;
}

/* As large as the kernel's would be; what is not used takes no memory. */
static int new_arrays(struct probe *p, const struct probe_options *o, struct error *err)
{
    struct probe_array settings = {0};
    uint64_t bytes = o->table_bytes ? o->table_bytes : 16 << 20;
    uint64_t pages = bytes / 256 < 16384 ? 16384 : bytes / 256;
    uint64_t rules = bytes / 128, least = 2 * UNWIND_FILE_RULES_MAX;
    int r = new_array(sizeof(struct unwind_row), bytes / sizeof(struct unwind_row) / 2 * 2,
                      &p->rows, err);
    if (r == 0)
        r = new_array(sizeof(struct unwind_page), pages, &p->pages, err);
    if (r == 0)
        r = new_array(sizeof(struct unwind_rule), rules < least ? least : rules, &p->rules, err);
    if (r == 0)
        r = new_array(sizeof(struct unwind_file), (uint64_t)(o->files ? o->files : 8192) + 1,
                      &p->files, err);
    if (r == 0)
        r = new_array(sizeof(struct unwind_mapping), o->mappings ? o->mappings : 131072,
                      &p->mappings, err);
    if (r == 0)
        r = new_array(sizeof(struct unwind_settings), 1, &settings, err);
    p->settings = settings.data;
    return r;
}

/* Each thread takes a descriptor for each CPU. */
static void allow_descriptors(void)
{
    struct rlimit l;
    if (getrlimit(RLIMIT_NOFILE, &l) < 0)
        return;
    rlim_t wanted = l.rlim_max < FDS_MAX ? l.rlim_max : FDS_MAX;
    if (l.rlim_cur < wanted) {
        l.rlim_cur = wanted;
        (void)setrlimit(RLIMIT_NOFILE, &l);
    }
}

int perf_backend_open(struct probe *p, const struct probe_options *o, struct error *err)
{
    int r = try_event(0);
    if (r < 0)
        return refused(r, err);
    struct perf_backend *b = must_calloc(1, sizeof(*b));
    p->perf = b;
    b->epoll = -1;
    b->stack_bytes = PERF_STACK_BYTES;
    b->processes_max = o->processes ? o->processes : 8192;
    b->held_end = &b->held;
    b->record = must_calloc(1, UINT16_MAX + 1);
    b->memos = must_calloc(UNWIND_MEMO_BLOCKS * UNWIND_BLOCK_MEMOS, sizeof(*b->memos));
    allow_descriptors();
    r = perf_rings_open(p, err);
    if (r == 0)
        r = new_arrays(p, o, err);
    if (r == 0)
        probe_pools_init(p);
    return r;
}

void perf_backend_close(struct probe *p)
{
    struct perf_backend *b = p->perf;
    if (!b)
        return;
    perf_processes_done(b);
    perf_held_done(b);
    perf_rings_close(b);
    free(b->record);
    free(b->memos);
    free(b);
    p->perf = NULL;
}

/* ---- Events of processes. */

static void add_fd(struct perf_family *f, int fd)
{
    if (f->n == f->cap) {
        f->cap = f->cap ? 2 * f->cap : 8;
        f->fds = must_realloc(f->fds, f->cap * sizeof(*f->fds));
    }
    f->fds[f->n++] = fd;
}

static void close_from(struct perf_family *f, size_t first)
{
    while (f->n > first)
        close(f->fds[--f->n]);
}

/* One event on each CPU; what the thread starts from then on has them as well. */
static int attach_thread(struct perf_backend *b, struct perf_family *f, uint32_t tid)
{
    uint32_t wanted = b->rate <= 99 ? PERF_STACK_BYTES : PERF_STACK_FAST;
    struct perf_event_attr attr = perf_attr(wanted < b->stack_bytes ? wanted : b->stack_bytes);
    attr.inherit = 1;
    attr.comm = attr.comm_exec = attr.task = 1;
    for (uint32_t i = 0; i < b->n_rings; i++) {
        if (b->rings[i].fd < 0)
            continue;
        attr.sample_period = probe_detuned(1000000000u / b->rate, i);
        CLEANUP(closep) int fd = perf_event_for(&attr, (pid_t)tid, (int)i);
        if (fd == -ENODEV)
            continue;
        if (fd < 0)
            return fd;
        if (ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, b->rings[i].fd) < 0 ||
            ioctl(fd, PERF_EVENT_IOC_ENABLE, 0) < 0)
            return -errno;
        add_fd(f, TAKE_FD(fd));
    }
    return 0;
}

static void name_thread(struct perf_backend *b, uint32_t tgid, uint32_t tid)
{
    char path[64], comm[32] = "";
    snprintf(path, sizeof(path), "/proc/%u/task/%u/comm", tgid, tid);
    CLEANUP(fclosep) FILE *f = fopen(path, "re");
    if (f && fgets(comm, sizeof(comm), f)) {
        comm[strcspn(comm, "\n")] = '\0';
        perf_thread_name(b, tgid, tid, comm);
    }
}

/* All threads that it has now. What one that is not attached yet starts meanwhile is missed. */
static int attach_threads(struct perf_backend *b, struct perf_family *f, uint32_t tgid)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%u/task", tgid);
    CLEANUP(closedirp) DIR *dir = opendir(path);
    if (!dir)
        return errno == ENOENT ? -ESRCH : -errno;
    size_t first = f->n;
    const struct dirent *e;
    while ((e = readdir(dir))) {
        uint32_t tid = (uint32_t)strtoul(e->d_name, NULL, 10);
        if (tid == 0)
            continue;
        int r = attach_thread(b, f, tid);
        if (r < 0 && r != -ESRCH) { /* ended meanwhile */
            close_from(f, first);
            return r;
        }
        name_thread(b, tgid, tid);
    }
    return f->n > first ? 0 : -ESRCH;
}

static uid_t owner_of(uint32_t pid)
{
    char path[64], line[256];
    unsigned uid = (unsigned)-1;
    snprintf(path, sizeof(path), "/proc/%u/status", pid);
    CLEANUP(fclosep) FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof(line), f))
        if (sscanf(line, "Uid: %u", &uid) == 1)
            break;
    return uid;
}

static int not_attached(uint32_t pid, int r, struct error *err)
{
    uid_t owner = owner_of(pid);
    if (r == -ESRCH)
        return error_set(err, r, "there is no process %u", pid);
    if (r == -EMFILE || r == -ENFILE)
        return error_set(err, r,
                         "could not sample process %u: each thread takes a descriptor for each "
                         "CPU, and there are no more (%s); raise the limit (ulimit -n)",
                         pid, strerror(-r));
    if (r != -EACCES && r != -EPERM)
        return error_set(err, r, "could not sample process %u: %s", pid, strerror(-r));
    if (owner != geteuid())
        return error_set(err, r,
                         "may not sample process %u: it belongs to user %u, and without CAP_BPF, "
                         "CAP_PERFMON and CAP_SYS_PTRACE only own processes (of user %u) can be "
                         "profiled; run as root, or give the agent these capabilities",
                         pid, owner, geteuid());
    return error_set(err, r,
                     "may not sample process %u: it has more rights than we have, or does not let "
                     "itself be looked at (PR_SET_DUMPABLE)",
                     pid);
}

static uint64_t boot_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_BOOTTIME, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Whether it was forked off a process after that was attached: its events are there then, whether
 * or not we have read so in a ring. */
static struct perf_family *inherited(const struct perf_backend *b, const struct perf_process *q)
{
    const struct perf_process *parent = perf_process_find(b, q->parent);
    return parent && parent->family && q->start_ns > parent->attached_ns ? parent->family : NULL;
}

static int attach_new(struct perf_backend *b, struct perf_process *q, struct error *err)
{
    struct perf_family *f = must_calloc(1, sizeof(*f));
    q->attached_ns = boot_ns();
    b->attached++;
    perf_family_join(q, f);
    int r = b->rate > 0 ? attach_threads(b, f, q->tgid) : try_event(q->tgid);
    if (r < 0) {
        perf_family_leave(b, q);
        return not_attached(q->tgid, r, err);
    }
    return 0;
}

int perf_backend_attach(struct probe *p, uint32_t pid, struct error *err)
{
    struct perf_backend *b = p->perf;
    struct perf_process *q = perf_process_get(b, pid);
    if (!q)
        return error_set(err, -ENOSPC, "process %u is not sampled: no more than %zu can be known",
                         pid, b->processes_max);
    if (q->family)
        return 0;
    perf_process_renew(q);
    struct perf_family *f = inherited(b, q);
    if (f) {
        perf_family_join(q, f);
        q->attached_ns = q->start_ns;
        return 0;
    }
    if (b->attached >= PERF_ATTACHED_MAX)
        return error_set(err, -ENOSPC,
                         "process %u is not sampled: no more than %d processes, beside those "
                         "that they start, can be by perf events",
                         pid, PERF_ATTACHED_MAX);
    return attach_new(b, q, err);
}

static void close_all(struct perf_backend *b)
{
    for (size_t i = 0; i < PERF_BUCKETS; i++)
        for (struct perf_process *q = b->processes[i]; q; q = q->next)
            if (q->family)
                close_from(q->family, 0);
}

/* Those that were attached once more, each by itself; one that cannot be any more has ended. */
static void attach_all(struct perf_backend *b)
{
    for (size_t i = 0; i < PERF_BUCKETS; i++)
        for (struct perf_process *q = b->processes[i]; q; q = q->next)
            if (q->family)
                (void)attach_threads(b, q->family, q->tgid);
}

int perf_backend_set_rate(struct probe *p, uint32_t hz, struct error *err)
{
    struct perf_backend *b = p->perf;
    int r = hz > 0 ? perf_rings_renew(p, err) : 0;
    if (r < 0)
        return r;
    if (hz == b->rate && r == 0)
        return 0;
    close_all(b);
    b->rate = hz;
    if (hz > 0)
        attach_all(b);
    return 0;
}

/* ---- Records. */

static void ended(struct probe *p, struct perf_process *q)
{
    struct perf_backend *b = p->perf;
    perf_held_retry(p, q->tgid, false);
    if (q->has_entry)
        perf_tell(p, q, PROCESS_EVENT_EXIT);
    perf_family_leave(b, q);
    q->start_ns = 0;
    q->first_ns = 0;
    q->main_is_gone = false;
}

/* The first thread may end before others do. */
static void end_if_gone(struct probe *p, struct perf_process *q)
{
    struct perf_stat stat;
    char path[64];
    snprintf(path, sizeof(path), "/proc/%u/task", q->tgid);
    if (perf_read_stat(q->tgid, &stat)) {
        q->main_is_gone = stat.state == 'Z' || stat.state == 'X';
        CLEANUP(closedirp) DIR *dir = q->main_is_gone ? opendir(path) : NULL;
        int n = 0;
        while (dir && readdir(dir))
            n++;
        if (!q->main_is_gone || n > 3) /* ".", "..", itself */
            return;
    }
    ended(p, q);
}

struct task_record {
    struct perf_event_header head;
    uint32_t pid, ppid, tid, ptid;
    uint64_t time;
};

static void take_fork(struct probe *p, const struct task_record *r)
{
    struct perf_backend *b = p->perf;
    const char *comm = perf_thread_comm(b, r->ptid);
    const struct perf_process *parent = perf_process_find(b, r->ppid);
    if (comm)
        perf_thread_name(b, r->pid, r->tid, comm);
    if (r->pid == r->ppid || !parent)
        return;
    struct perf_process *q = perf_process_get(b, r->pid);
    if (!q)
        return;
    perf_family_leave(b, q); /* of whoever had this number before */
    perf_family_join(q, parent->family);
    q->parent = r->ppid;
    q->start_ns = q->attached_ns = r->time + (uint64_t)b->boot_ahead_ns;
    q->code_start = parent->code_start;
    q->stack_start = parent->stack_start;
    q->first_ns = 0;
    memcpy(q->comm, parent->comm, sizeof(q->comm));
    memset(q->told, 0, sizeof(q->told));
}

static void take_exit(struct probe *p, const struct task_record *r)
{
    struct perf_process *q = perf_process_find(p->perf, r->pid);
    perf_thread_forget(p->perf, r->tid);
    if (q && (r->tid == r->pid || q->main_is_gone))
        end_if_gone(p, q);
}

static void take_comm(struct probe *p, const struct perf_event_header *h)
{
    struct {
        struct perf_event_header head;
        uint32_t pid, tid;
        char comm[16];
    } r = {0};
    size_t n = h->size - (size_t)PERF_RECORD_TAIL;
    if (n < offsetof(__typeof__(r), comm))
        return;
    memcpy(&r, h, n < sizeof(r) ? n : sizeof(r));
    r.comm[sizeof(r.comm) - 1] = '\0';
    perf_thread_name(p->perf, r.pid, r.tid, r.comm);
    struct perf_process *q = perf_process_find(p->perf, r.pid);
    if (!q)
        return;
    if (r.tid == r.pid)
        memcpy(q->comm, r.comm, sizeof(q->comm));
    if (!(h->misc & PERF_RECORD_MISC_COMM_EXEC))
        return;
    perf_held_retry(p, q->tgid, false);
    perf_process_renew(q);
    q->first_ns = 0;
    memset(q->told, 0, sizeof(q->told));
    if (q->has_entry)
        perf_tell(p, q, PROCESS_EVENT_EXEC);
}

static void take_record(struct probe *p, const struct perf_event_header *h)
{
    struct perf_backend *b = p->perf;
    struct perf_sample s;
    struct task_record task;
    uint64_t lost;
    if ((h->type == PERF_RECORD_FORK || h->type == PERF_RECORD_EXIT) && h->size >= sizeof(task)) {
        memcpy(&task, h, sizeof(task));
        if (h->type == PERF_RECORD_FORK)
            take_fork(p, &task);
        else
            take_exit(p, &task);
    } else if (h->type == PERF_RECORD_COMM) {
        take_comm(p, h);
    } else if (h->type == PERF_RECORD_LOST && h->size >= 24) {
        memcpy(&lost, (const uint8_t *)h + 16, sizeof(lost));
        b->lost += lost;
    } else if (h->type == PERF_RECORD_SAMPLE) {
        if (perf_sample_parse(h, &s))
            perf_sample_take(p, &s);
        else
            b->damaged++;
    }
}

/* Records of ends may be lost. */
static void sweep(struct probe *p)
{
    struct perf_backend *b = p->perf;
    char path[32];
    if (b->now_ns - b->swept_ns < SWEEP_NS && b->n_processes < b->processes_max)
        return;
    b->swept_ns = b->now_ns;
    for (size_t i = 0; i < PERF_BUCKETS; i++)
        for (struct perf_process *q = b->processes[i]; q; q = q->next) {
            snprintf(path, sizeof(path), "/proc/%u", q->tgid);
            if (q->main_is_gone || access(path, F_OK) < 0)
                end_if_gone(p, q);
        }
    perf_processes_trim(b);
}

size_t perf_backend_drain(struct probe *p)
{
    struct perf_backend *b = p->perf;
    const struct perf_event_header *h;
    b->drained = 0;
    b->now_ns = clock_monotonic_ns(clock_real());
    b->boot_ahead_ns = (int64_t)boot_ns() - b->now_ns;
    perf_held_retry(p, 0, b->rate == 0);
    perf_rings_begin(b);
    while ((h = perf_rings_next(b)))
        take_record(p, h);
    if (b->rate == 0)
        perf_held_retry(p, 0, true);
    sweep(p);
    return b->drained;
}

int perf_backend_fd(const struct probe *p)
{
    return p->perf->epoll;
}

void perf_backend_stats(const struct probe *p, struct probe_stats *ret)
{
    const struct perf_backend *b = p->perf;
    ret->samples[SAMPLE_CPU] = b->samples;
    memcpy(ret->ends, b->ends, sizeof(ret->ends));
    ret->lost = b->lost;
    ret->damaged = b->damaged;
    for (uint32_t i = 0; i < b->n_rings; i++)
        ret->map_bytes += b->rings[i].bytes;
}

void perf_backend_changed(struct probe *p)
{
    p->perf->changes++;
}

/* ---- The map of processes. */

bool perf_backend_process(const struct probe *p, uint32_t tgid, struct unwind_process *ret)
{
    const struct perf_process *q = perf_process_find(p->perf, tgid);
    if (!q || !q->has_entry)
        return false;
    *ret = q->value;
    return true;
}

int perf_backend_put_process(struct probe *p, uint32_t tgid, const struct unwind_process *value)
{
    struct perf_process *q = perf_process_get(p->perf, tgid);
    if (!q)
        return -ENOSPC;
    q->value = *value;
    q->has_entry = true;
    p->perf->changes++;
    return 0;
}

bool perf_backend_drop_process(struct probe *p, uint32_t tgid)
{
    struct perf_process *q = perf_process_find(p->perf, tgid);
    if (!q || !q->has_entry)
        return false;
    q->has_entry = false;
    return true;
}

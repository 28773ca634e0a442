#include "agent/meter.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/must.h"

#define SECOND     ((int64_t)1000000000)
#define PSS_EVERY  (30 * SECOND)
#define HOST_EVERY (10 * SECOND) /* at the latest */

/* /proc/stat counts all interrupts of all CPUs each time it is read: on large machines that takes
 * long, and it is read less often, so that it takes at most a 20,000th of the time. */
#define HOST_SHARE 20000

struct metered {
    int pid;
    int statm_fd;
    int64_t pss_ns;    /* when it was read; 0: never */
    uint64_t pss, rss; /* then */
    uint64_t rss_now;
    bool has_pss;
};

struct meter {
    char proc[128];
    int stat_fd;
    uint64_t page;

    int64_t last_ns; /* 0: no reading yet */
    uint64_t last_own_ns;
    double own_cpu, host_cpu;

    int64_t host_ns, host_next_ns;
    uint64_t host_total, host_idle; /* ticks */

    struct metered processes[1 + METER_CHILDREN_MAX]; /* [0]: this one */
    size_t n;
    struct meter_totals totals;
};

static int open_of(const struct meter *m, int pid, const char *file)
{
    char path[192];
    if (pid == 0)
        snprintf(path, sizeof(path), "%s/self/%s", m->proc, file);
    else
        snprintf(path, sizeof(path), "%s/%d/%s", m->proc, pid, file);
    return open(path, O_RDONLY | O_CLOEXEC);
}

static struct metered metered_new(const struct meter *m, int pid)
{
    return (struct metered){.pid = pid, .statm_fd = open_of(m, pid, "statm")};
}

static void metered_done(struct metered *p)
{
    if (p->statm_fd >= 0)
        close(p->statm_fd);
}

struct meter *meter_new(const char *proc)
{
    struct meter *m = must_calloc(1, sizeof(*m));
    char path[160];

    snprintf(m->proc, sizeof(m->proc), "%s", proc);
    snprintf(path, sizeof(path), "%s/stat", m->proc);
    m->stat_fd = open(path, O_RDONLY | O_CLOEXEC);
    m->page = (uint64_t)sysconf(_SC_PAGESIZE);
    m->processes[0] = metered_new(m, 0);
    m->n = 1;
    return m;
}

void meter_free(struct meter *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < m->n; i++)
        metered_done(&m->processes[i]);
    if (m->stat_fd >= 0)
        close(m->stat_fd);
    free(m);
}

static bool is_listed(int pid, const int *pids, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (pids[i] == pid)
            return true;
    return false;
}

static bool is_metered(const struct meter *m, int pid)
{
    for (size_t i = 0; i < m->n; i++)
        if (m->processes[i].pid == pid)
            return true;
    return false;
}

void meter_set_children(struct meter *m, const int *pids, size_t n)
{
    for (size_t i = 1; i < m->n;) {
        if (is_listed(m->processes[i].pid, pids, n)) {
            i++;
            continue;
        }
        metered_done(&m->processes[i]);
        m->processes[i] = m->processes[--m->n];
    }
    for (size_t i = 0; i < n; i++)
        if (pids[i] > 0 && !is_metered(m, pids[i]) && m->n < ARRAY_SIZE(m->processes))
            m->processes[m->n++] = metered_new(m, pids[i]);
}

/* ---- CPU */

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec ts;
    if (clock_gettime(clock, &ts) < 0)
        return 0;
    return (uint64_t)ts.tv_sec * (uint64_t)SECOND + (uint64_t)ts.tv_nsec;
}

static uint64_t timeval_ns(struct timeval tv)
{
    return (uint64_t)tv.tv_sec * (uint64_t)SECOND + (uint64_t)tv.tv_usec * 1000;
}

/* A child that ends leaves the sum here, and enters it there once it was waited for. */
static uint64_t processes_ns(const struct meter *m)
{
    struct rusage ended = {0};
    getrusage(RUSAGE_CHILDREN, &ended);
    uint64_t sum = clock_ns(CLOCK_PROCESS_CPUTIME_ID) + timeval_ns(ended.ru_utime) +
                   timeval_ns(ended.ru_stime);

    for (size_t i = 1; i < m->n; i++) {
        clockid_t clock;
        if (clock_getcpuclockid(m->processes[i].pid, &clock) == 0)
            sum += clock_ns(clock);
    }
    return sum;
}

static size_t read_start(int fd, char *to, size_t size)
{
    ssize_t n = fd < 0 ? -1 : pread(fd, to, size - 1, 0);
    to[n > 0 ? n : 0] = '\0';
    return n > 0 ? (size_t)n : 0;
}

/* "cpu  user nice system idle iowait irq softirq steal guest...": guests are in user already. */
static bool parse_stat(const char *text, uint64_t *ret_total, uint64_t *ret_idle)
{
    unsigned long long v[8] = {0};
    if (sscanf(text, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &v[0], &v[1], &v[2], &v[3],
               &v[4], &v[5], &v[6], &v[7]) < 4)
        return false;
    *ret_total = 0;
    for (size_t i = 0; i < ARRAY_SIZE(v); i++)
        *ret_total += v[i];
    *ret_idle = v[3] + v[4];
    return true;
}

static void read_host(struct meter *m, int64_t now)
{
    char text[256];
    uint64_t total, idle;

    if (now < m->host_next_ns && now >= m->host_ns)
        return;
    int64_t begin = clock_monotonic_ns(clock_real());
    bool is_read = read_start(m->stat_fd, text, sizeof(text)) > 0;
    int64_t took = (clock_monotonic_ns(clock_real()) - begin) * HOST_SHARE;
    m->host_next_ns = now + (took < HOST_EVERY ? took : HOST_EVERY);

    if (!is_read || !parse_stat(text, &total, &idle))
        return;
    /* Idle time may step back a little; then the machine was idle. */
    if (m->host_ns != 0 && total > m->host_total) {
        uint64_t all = total - m->host_total;
        uint64_t slept = idle > m->host_idle ? idle - m->host_idle : 0;
        m->host_cpu = slept < all ? (double)(all - slept) / (double)all : 0;
    }
    m->host_ns = now;
    m->host_total = total;
    m->host_idle = idle;
}

/* ---- memory */

static uint64_t read_pss(const struct meter *m, int pid)
{
    CLEANUP(closep) int fd = open_of(m, pid, "smaps_rollup");
    char text[1024];
    unsigned long long kib;

    read_start(fd, text, sizeof(text));
    const char *line = strstr(text, "\nPss:");
    if (!line || sscanf(line, "\nPss: %llu", &kib) != 1)
        return 0;
    return (uint64_t)kib << 10;
}

static void read_memory(struct meter *m, struct metered *p, int64_t now)
{
    char text[96];
    unsigned long long rss;

    p->rss_now = 0;
    if (read_start(p->statm_fd, text, sizeof(text)) == 0 || sscanf(text, "%*u %llu", &rss) != 1)
        return;
    p->rss_now = rss * m->page;
    if (p->pss_ns == 0 || now - p->pss_ns >= PSS_EVERY || now < p->pss_ns) {
        p->pss = read_pss(m, p->pid);
        p->has_pss = p->pss > 0;
        p->rss = p->rss_now;
        p->pss_ns = now;
    }
}

/* Without a PSS the RSS is the estimate; it counts what is shared several times. */
static uint64_t memory_of(const struct metered *p)
{
    if (!p->has_pss || p->rss_now == 0)
        return p->rss_now;
    if (p->rss_now >= p->rss)
        return p->pss + (p->rss_now - p->rss);
    uint64_t less = p->rss - p->rss_now;
    return p->pss > less ? p->pss - less : 0;
}

void meter_read(struct meter *m, int64_t now_ns, uint64_t kernel_ns, uint64_t kernel_bytes,
                struct governor_reading *ret)
{
    uint64_t own = processes_ns(m) + kernel_ns;
    int64_t dt = now_ns - m->last_ns;

    if (m->last_ns != 0 && dt > 0 && own >= m->last_own_ns)
        m->own_cpu = (double)(own - m->last_own_ns) / (double)dt;
    else if (own < m->last_own_ns)
        own = m->last_own_ns; /* a child has ended and is not waited for yet: it comes back */
    m->last_ns = now_ns;
    m->last_own_ns = own;
    read_host(m, now_ns);

    uint64_t memory = kernel_bytes;
    for (size_t i = 0; i < m->n; i++) {
        read_memory(m, &m->processes[i], now_ns);
        memory += memory_of(&m->processes[i]);
    }
    m->totals = (struct meter_totals){.own_ns = own, .kernel_ns = kernel_ns, .memory = memory};
    ret->now_ns = now_ns;
    ret->own_cpu = m->own_cpu;
    ret->host_cpu = m->host_cpu;
    ret->memory = memory;
}

void meter_totals(const struct meter *m, struct meter_totals *ret)
{
    *ret = m->totals;
}

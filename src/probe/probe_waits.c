#include "probe/probe_waits.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/must.h"
#include "probe/probe_internal.h"
#include "probe/waits_layout.h"

#define HANG_NS    2000000000
#define HANG_CALLS 5 /* a machine that stood still is no process that hangs */
#define GAP_MAX_NS 2000000000
#define TELL_NS    60000000000
#define STUCK_MAX  (WAITS_LOOKERS - 1)

struct probe_waits {
    struct waits_control *control; /* shared with the programs */
    /* How many processes have set each bit of the filters. */
    uint16_t off_cpu[WAITS_FILTER_BITS], looked_at[WAITS_FILTER_BITS];
    struct bpf_link *switch_link;
    uint32_t *looked_tgids; /* those that looks are about */
    size_t n_looked, looked_room;
    int refused; /* the map of processes that are not walked */

    struct looker looker;
    int64_t asked_ns;           /* or, while there is progress, when that was last seen */
    uint32_t progress;          /* then */
    uint32_t calls;             /* since */
    int64_t wall_ns, states_ns; /* of the last look for these */
    int64_t told_ns;            /* when it was last said that too many are stuck */
    int stuck[STUCK_MAX];       /* children that were killed and have not died; 0: none */
};

static int64_t now_ns(void)
{
    return clock_monotonic_ns(clock_real());
}

/* Filters. */

static void filter_count(uint16_t *counts, __u64 *filter, uint32_t tgid, int change)
{
    uint32_t i = tgid % WAITS_FILTER_BITS;

    /* More than 65,535 processes in one bit: it then stays. */
    if (change > 0 && counts[i] < UINT16_MAX)
        counts[i]++;
    else if (change < 0 && counts[i] > 0 && counts[i] < UINT16_MAX)
        counts[i]--;
    if (counts[i] > 0)
        filter[i / 64] |= (__u64)1 << i % 64;
    else
        filter[i / 64] &= ~((__u64)1 << i % 64);
}

static void filter_change(uint16_t *counts, __u64 *filter, uint32_t tgid, bool was, bool is)
{
    if (was != is)
        filter_count(counts, filter, tgid, is ? 1 : -1);
}

static void list_add(struct probe_waits *w, uint32_t tgid)
{
    if (w->n_looked == w->looked_room) {
        w->looked_room = w->looked_room ? 2 * w->looked_room : 16;
        w->looked_tgids = must_realloc(w->looked_tgids, w->looked_room * sizeof(*w->looked_tgids));
    }
    w->looked_tgids[w->n_looked++] = tgid;
}

static void list_remove(struct probe_waits *w, uint32_t tgid)
{
    for (size_t i = 0; i < w->n_looked; i++) {
        if (w->looked_tgids[i] == tgid) {
            w->looked_tgids[i] = w->looked_tgids[--w->n_looked];
            return;
        }
    }
}

void probe_waits_process(struct probe *p, uint32_t tgid, uint32_t before, uint32_t from_now)
{
    const uint32_t looked_at = PROCESS_WALL | PROCESS_OFF_CPU | PROCESS_THREADS;
    struct probe_waits *w = p->waits;

    if (!w)
        return;
    filter_change(w->off_cpu, w->control->off_cpu, tgid, before & PROCESS_OFF_CPU,
                  from_now & PROCESS_OFF_CPU);
    filter_change(w->looked_at, w->control->looked_at, tgid, before & looked_at,
                  from_now & looked_at);
    if (!(before & looked_at) && from_now & looked_at)
        list_add(w, tgid);
    else if (before & looked_at && !(from_now & looked_at))
        list_remove(w, tgid);
}

/* Beginning and end. */

static size_t control_bytes(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    return (sizeof(struct waits_control) + page - 1) / page * page;
}

int probe_waits_init(struct probe *p, struct error *err)
{
    int fd = bpf_object__find_map_fd_by_name(p->object, ".data.waits");
    void *control = mmap(NULL, control_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (control == MAP_FAILED)
        return error_set(err, -errno, "could not map the BPF map \".data.waits\": %m");
    p->waits = must_calloc(1, sizeof(*p->waits));
    p->waits->control = control;
    p->waits->looker.socket = -1;
    p->waits->refused = bpf_object__find_map_fd_by_name(p->object, "waits_refused");
    if (!p->settings->off_cpu_usual_ns)
        p->settings->off_cpu_usual_ns = 10000000;
    if (!p->settings->wall_tick_ns)
        p->settings->wall_tick_ns = 100000000;
    return 0;
}

int probe_waits_child(const struct probe *p)
{
    return p->waits ? p->waits->looker.pid : 0;
}

static void wait_a_little(int pid)
{
    for (int i = 0; i < 50 && waitpid(pid, NULL, WNOHANG) == 0; i++)
        usleep(1000);
}

static size_t reap_stuck(struct probe_waits *w)
{
    size_t n = 0;

    for (size_t i = 0; i < STUCK_MAX; i++) {
        if (w->stuck[i] && waitpid(w->stuck[i], NULL, WNOHANG) != 0)
            w->stuck[i] = 0;
        n += w->stuck[i] != 0;
    }
    return n;
}

void probe_waits_done(struct probe *p)
{
    struct probe_waits *w = p->waits;

    if (!w)
        return;
    if (w->looker.socket >= 0)
        wait_a_little(looker_kill(&w->looker));
    reap_stuck(w);
    bpf_link__destroy(w->switch_link);
    free(w->looked_tgids);
    munmap(w->control, control_bytes());
    free(w);
    p->waits = NULL;
}

/* Off-CPU. */

static struct bpf_link *attach(struct probe *p, const char *name, struct error *err)
{
    char right[64];
    struct bpf_link *link = bpf_program__attach(bpf_object__find_program_by_name(p->object, name));

    if (!link)
        error_set(err, -errno, "could not attach %s: %s%s", name, strerror(errno),
                  probe_missing_right(-errno, right));
    return link;
}

int probe_set_off_cpu(struct probe *p, bool on, struct error *err)
{
    struct probe_waits *w = p->waits;

    if (!w)
        return on ? probe_needs_bpf(PROBE_OFF_CPU, err) : 0;
    if (!on) {
        bpf_link__destroy(w->switch_link);
        w->switch_link = NULL;
        return 0;
    }
    if (!p->has[PROBE_OFF_CPU])
        return error_set(err, -EOPNOTSUPP,
                         "off-CPU time was not asked for when loading, or does not work here");
    if (!w->switch_link)
        w->switch_link = attach(p, "watch_switch", err);
    return w->switch_link ? 0 : -EIO;
}

/* Looking at threads. */

static void leave_behind(struct probe_waits *w)
{
    int pid = looker_kill(&w->looker);

    for (size_t i = 0; i < STUCK_MAX; i++) {
        if (w->stuck[i] == 0) {
            w->stuck[i] = pid;
            return;
        }
    }
}

static int start(struct probe *p, int64_t now, struct error *err)
{
    struct probe_waits *w = p->waits;
    size_t n_stuck = reap_stuck(w);

    if (n_stuck == STUCK_MAX && now - w->told_ns < TELL_NS)
        return -EAGAIN;
    if (n_stuck == STUCK_MAX) {
        w->told_ns = now;
        return error_set(err, -EBUSY,
                         "threads are not looked at any more: %d looks hang in processes whose "
                         "memory does not answer",
                         STUCK_MAX);
    }
    /* What a child that died in the middle had taken is free again. */
    if (n_stuck == 0)
        memset(w->control->session, 0, sizeof(w->control->session));
    w->looker.program =
        bpf_program__fd(bpf_object__find_program_by_name(p->object, "look_at_thread"));
    return looker_start(&w->looker, err);
}

/* Gives up a look that hangs, and the process it hangs at. */
static int give_up(struct probe_waits *w, struct error *err)
{
    uint32_t blamed = 0;

    for (size_t i = 0; i < WAITS_LOOKERS; i++) {
        uint32_t tgid = __atomic_load_n(&w->control->walked_tgid[i], __ATOMIC_ACQUIRE);
        uint64_t start_ns = w->control->walked_start_ns[i], known = 0;

        if (tgid == 0 || (bpf_map_lookup_elem(w->refused, &tgid, &known) == 0 && known == start_ns))
            continue;
        bpf_map_update_elem(w->refused, &tgid, &start_ns, BPF_ANY);
        blamed = tgid;
    }
    leave_behind(w);
    if (blamed)
        return error_set(err, -ETIMEDOUT,
                         "could not read the stack of process %u: its memory does not answer; its "
                         "threads are not looked at any more",
                         blamed);
    return error_set(err, -ETIMEDOUT, "a look at all threads did not come to its end");
}

/* 0: may be asked; -EAGAIN: is still at the last. */
static int finish_last(struct probe_waits *w, int64_t now, struct error *err)
{
    uint32_t progress = __atomic_load_n(&w->control->progress, __ATOMIC_RELAXED);
    int r = w->looker.is_asked ? looker_answer(&w->looker) : 0;

    if (r == -EPIPE) {
        wait_a_little(looker_kill(&w->looker));
        return 0; /* another is started */
    }
    if (r != -EAGAIN)
        return r < 0 ? error_set(err, r, "could not look at all threads: %s", strerror(-r)) : 0;
    if (progress != w->progress) {
        w->progress = progress;
        w->asked_ns = now;
        w->calls = 0;
    }
    if (++w->calls < HANG_CALLS || now - w->asked_ns < HANG_NS)
        return -EAGAIN;
    return give_up(w, err);
}

/* What a thread that is seen now stands for: the time since it was last looked. */
static uint64_t since_last(int64_t *last, int64_t now, uint64_t tick)
{
    int64_t gap = *last ? now - *last : 0;

    *last = now;
    return gap > 0 && gap <= GAP_MAX_NS ? (uint64_t)gap : tick;
}

int probe_walk_threads(struct probe *p, uint32_t bits, struct error *err)
{
    struct probe_waits *w = p->waits;
    int64_t now = now_ns();
    int r;

    if (!w)
        return probe_needs_bpf(PROBE_WALL, err);
    if (!p->has[PROBE_WALL])
        return error_set(err, -EOPNOTSUPP,
                         "looking at threads was not asked for when loading, or does not work "
                         "here");
    if (w->n_looked == 0)
        return 0;
    r = w->looker.socket >= 0 ? finish_last(w, now, err) : 0;
    if (r < 0)
        return r == -EAGAIN ? 0 : r;
    if (w->looker.socket < 0 && (r = start(p, now, err)) < 0)
        return r == -EAGAIN ? 0 : r;
    if (!w->switch_link)
        bits &= ~(uint32_t)PROCESS_OFF_CPU; /* nobody would see those waits end */
    if (bits & PROCESS_WALL)
        w->control->wall_ns = since_last(&w->wall_ns, now, p->settings->wall_tick_ns);
    if (bits & PROCESS_THREADS)
        w->control->states_ns = since_last(&w->states_ns, now, p->settings->wall_tick_ns);
    __atomic_store_n(&w->control->bits, bits, __ATOMIC_RELEASE);
    w->asked_ns = now;
    w->calls = 0;
    w->progress = __atomic_load_n(&w->control->progress, __ATOMIC_RELAXED);
    if (looker_ask(&w->looker, w->looked_tgids, w->n_looked) <
        0) { /* it was killed; the next call starts another */
        wait_a_little(looker_kill(&w->looker));
        return error_set(err, -EPIPE, "the process that looks at threads has ended");
    }
    return 0;
}

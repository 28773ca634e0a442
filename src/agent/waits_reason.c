#include "agent/waits_reason.h"

#include <string.h>

#include "base/cleanup.h"

/* Begins with; or is, where `whole` says so. */
struct wait_name {
    const char *text;
    enum wait_reason reason;
    bool whole;
};

/*
 * The first frame from inside that a row knows decides, so what all kinds of waits pass through
 * (schedule, hrtimer_..., wait_woken) is not here: those who called it are. A page that is waited
 * for inside of a fault is the fault's: see wait_reason_of().
 */
static const struct wait_name known[] = {
    {"futex_", WAIT_FUTEX, false},
    {"__futex_", WAIT_FUTEX, false},
    {"do_futex", WAIT_FUTEX, true},
    {"do_nanosleep", WAIT_SLEEP, true},
    {"hrtimer_nanosleep", WAIT_SLEEP, true},
    {"common_nsleep", WAIT_SLEEP, false},
    {"do_wait", WAIT_CHILD, true},
    {"__do_wait", WAIT_CHILD, true},
    {"kernel_wait4", WAIT_CHILD, true},
    {"kernel_clone", WAIT_CHILD, true}, /* vfork */
    {"wait_for_vfork_done", WAIT_CHILD, true},
    {"ep_poll", WAIT_POLL, true},
    {"do_epoll_", WAIT_POLL, false},
    {"do_sys_poll", WAIT_POLL, true},
    {"do_poll", WAIT_POLL, false},
    {"do_select", WAIT_POLL, true},
    {"core_sys_select", WAIT_POLL, true},
    {"poll_schedule_timeout", WAIT_POLL, false},
    {"io_cqring_wait", WAIT_POLL, false},
    {"inotify_read", WAIT_POLL, true},
    {"eventfd_read", WAIT_POLL, true},
    {"pipe_read", WAIT_PIPE, true},
    {"anon_pipe_read", WAIT_PIPE, true},
    {"fifo_pipe_read", WAIT_PIPE, true},
    {"pipe_write", WAIT_PIPE, true},
    {"anon_pipe_write", WAIT_PIPE, true},
    {"fifo_pipe_write", WAIT_PIPE, true},
    {"wait_for_partner", WAIT_PIPE, true},
    {"sk_wait_", WAIT_SOCKET, false},
    {"sk_stream_wait_", WAIT_SOCKET, false},
    {"__sk_", WAIT_SOCKET, false},
    {"tcp_", WAIT_SOCKET, false},
    {"inet_", WAIT_SOCKET, false},
    {"__inet_", WAIT_SOCKET, false},
    {"unix_", WAIT_SOCKET, false},
    {"__unix_", WAIT_SOCKET, false},
    {"udp_", WAIT_SOCKET, false},
    {"__skb_wait_for_more_packets", WAIT_SOCKET, true},
    {"__skb_recv_", WAIT_SOCKET, false},
    {"skb_recv_", WAIT_SOCKET, false},
    {"sock_", WAIT_SOCKET, false},
    {"__sys_recv", WAIT_SOCKET, false},
    {"__sys_accept", WAIT_SOCKET, false},
    {"timerfd_read", WAIT_TIMER, false},
    {"alarm", WAIT_TIMER, false},
    {"do_sigtimedwait", WAIT_SIGNAL, true},
    {"sigsuspend", WAIT_SIGNAL, true},
    {"__do_sys_pause", WAIT_SIGNAL, true},
    {"__x64_sys_pause", WAIT_SIGNAL, true},
    {"signalfd_", WAIT_SIGNAL, false},
    {"do_signal_stop", WAIT_STOPPED, true},
    {"ptrace_stop", WAIT_STOPPED, true},
    {"do_freezer_trap", WAIT_STOPPED, true},
    {"__refrigerator", WAIT_STOPPED, true},
    {"locks_lock_", WAIT_LOCK_FILE, false},
    {"flock_lock_", WAIT_LOCK_FILE, false},
    {"do_lock_file_wait", WAIT_LOCK_FILE, false},
    {"fcntl_setlk", WAIT_LOCK_FILE, true},
    {"mutex_lock", WAIT_KERNEL_LOCK, false},
    {"__mutex_lock", WAIT_KERNEL_LOCK, false},
    {"rwsem_down_", WAIT_KERNEL_LOCK, false},
    {"down_read", WAIT_KERNEL_LOCK, false},
    {"down_write", WAIT_KERNEL_LOCK, false},
    {"__down_", WAIT_KERNEL_LOCK, false},
    {"rt_mutex_", WAIT_KERNEL_LOCK, false},
    {"percpu_rwsem_wait", WAIT_KERNEL_LOCK, false},
    {"synchronize_rcu", WAIT_KERNEL_LOCK, false},
    {"do_user_addr_fault", WAIT_FAULT, true},
    {"exc_page_fault", WAIT_FAULT, true},
    {"do_page_fault", WAIT_FAULT, true},
    {"handle_userfault", WAIT_FAULT, true},
    {"io_schedule", WAIT_DISK, false},
    {"folio_wait_", WAIT_DISK, false},
    {"__folio_lock", WAIT_DISK, false},
    {"wait_on_page_", WAIT_DISK, false},
    {"wait_on_buffer", WAIT_DISK, false},
    {"__wait_on_buffer", WAIT_DISK, false},
    {"blk_", WAIT_DISK, false},
    {"blkdev_", WAIT_DISK, false},
    {"submit_bio_wait", WAIT_DISK, false},
    {"bio_", WAIT_DISK, false},
    {"rq_qos_wait", WAIT_DISK, true},
    {"balance_dirty_pages", WAIT_DISK, false},
    {"jbd2_", WAIT_DISK, false},
    {"ext4_", WAIT_DISK, false},
    {"xfs_", WAIT_DISK, false},
    {"btrfs_", WAIT_DISK, false},
    {"nfs_", WAIT_DISK, false},
    {"rpc_", WAIT_DISK, false},
    {"fuse_", WAIT_DISK, false},
    {"request_wait_answer", WAIT_DISK, true},
    {"__iomap_dio_rw", WAIT_DISK, true},
    {"filemap_", WAIT_DISK, false},
};

static bool matches(const struct wait_name *w, const char *name)
{
    return w->whole ? strcmp(name, w->text) == 0 : strncmp(name, w->text, strlen(w->text)) == 0;
}

static enum wait_reason reason_of_name(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
        if (matches(&known[i], name))
            return known[i].reason;
    }
    return WAIT_OTHER;
}

enum wait_reason wait_reason_of(const char *const *kernel_names, size_t n, enum thread_state state)
{
    enum wait_reason first = WAIT_OTHER;

    if (state == THREAD_RUNNABLE)
        return WAIT_PREEMPTED;
    if (state == THREAD_STOPPED)
        return WAIT_STOPPED;
    for (size_t i = 0; i < n; i++) {
        enum wait_reason r = kernel_names[i] ? reason_of_name(kernel_names[i]) : WAIT_OTHER;

        if (r == WAIT_OTHER)
            continue;
        /* A page of a file or of swap comes in because memory was touched: that is what the
         * program did; only reads and writes it asked for are I/O. */
        if (first == WAIT_OTHER && r != WAIT_DISK)
            return r;
        if (r == WAIT_FAULT)
            return r;
        if (first == WAIT_OTHER)
            first = r;
    }
    return first;
}

const char *wait_reason_frame(enum wait_reason r)
{
    static const char *const frames[WAIT_REASONS] = {
        [WAIT_OTHER] = "[waiting: other]",
        [WAIT_PREEMPTED] = "[wants to run]",
        [WAIT_FUTEX] = "[waiting: futex]",
        [WAIT_DISK] = "[waiting: disk]",
        [WAIT_FAULT] = "[waiting: page fault]",
        [WAIT_SLEEP] = "[waiting: sleep]",
        [WAIT_POLL] = "[waiting: poll]",
        [WAIT_SOCKET] = "[waiting: socket]",
        [WAIT_PIPE] = "[waiting: pipe]",
        [WAIT_CHILD] = "[waiting: child process]",
        [WAIT_TIMER] = "[waiting: timer]",
        [WAIT_SIGNAL] = "[waiting: signal]",
        [WAIT_LOCK_FILE] = "[waiting: file lock]",
        [WAIT_KERNEL_LOCK] = "[waiting: kernel lock]",
        [WAIT_STOPPED] = "[stopped]",
    };

    return (unsigned)r < WAIT_REASONS ? frames[r] : frames[WAIT_OTHER];
}

const char *thread_state_name(enum thread_state s)
{
    static const char *const names[THREAD_STATES] = {
        [THREAD_RUNNING] = "running",   [THREAD_RUNNABLE] = "wants to run",
        [THREAD_SLEEPING] = "sleeping", [THREAD_BLOCKED] = "blocked (uninterruptible)",
        [THREAD_STOPPED] = "stopped",   [THREAD_OTHER] = "other",
    };

    return (unsigned)s < THREAD_STATES ? names[s] : names[THREAD_OTHER];
}

/*
 * Functions that take locks, also where they wait on what else means idleness (CPython's GIL and
 * HotSpot's monitors wait on condition variables).
 */
static const char *const lock_parts[] = {
    "lll_lock_wait", "pthread_mutex_",       "pthread_rwlock_", "pthread_spin_", "mtx_lock",
    "take_gil",      "ObjectMonitor::enter", "Mutex::lock",     "mutex::lock",   "Mutex::Lock",
    "runtime.lock2", "runtime.lockWithRank", "RwLock",          "absl::Mutex",
};

/* Functions in which a futex wait is idleness: for work, for an event, for a thread to end. */
static const char *const idle_parts[] = {
    /* libc: they come under several names (versions, internal twins) */
    "pthread_cond_",
    "cnd_wait",
    "cnd_timedwait",
    "sem_wait",
    "sem_timedwait",
    "sem_clockwait",
    "pthread_join",
    "pthread_timedjoin",
    "clockjoin_ex",
    "thrd_join",
    "pthread_barrier_wait",
    "lll_wait_tid",
    "aio_suspend",
    "gai_suspend",
    "__syscall_cancel",      /* glibc 2.41: no lock waits where a thread can be cancelled */
    "__futex_abstimed_wait", /* glibc: of locks only rwlocks wait there, and are known by name */
    /* C++, Rust */
    "condition_variable",
    "__atomic_futex_unsigned",
    "atomic_wait",
    "__platform_wait",
    "thread::park",
    "Condvar",
    "condvar",
    "Parker",
    /* Go: nothing to run, the monitor, the collector's workers */
    "runtime.notesleep",
    "runtime.notetsleep",
    "runtime.stopm",
    "runtime.mPark",
    "runtime.findRunnable",
    "runtime.findrunnable",
    "runtime.sysmon",
    "runtime.stoplockedm",
    /* libuv, V8 */
    "uv_cond_",
    "uv_sem_wait",
    "uv_barrier_wait",
    "uv_thread_join",
    "ConditionVariable::Wait",
    "Semaphore::Wait",
    "BlockingPop",
    /* HotSpot, CPython (its locks serve queues as well), .NET, OpenMP */
    "Monitor::wait",
    "ObjectMonitor::wait",
    "PlatformEvent::park",
    "PyThread_acquire_lock",
    "CorUnix::InternalWait",
    "gomp_team_barrier_wait",
    "gomp_barrier_wait",
    "gomp_sem_wait",
};

/* How far from the wait they are looked for: deeper frames say what the thread is, not what it
 * waits for. */
#define LOOKED_AT 12

static bool has_part(const char *const *names, size_t n, const char *const *parts, size_t n_parts)
{
    for (size_t i = 0; i < n && i < LOOKED_AT; i++) {
        for (size_t j = 0; names[i] && j < n_parts; j++) {
            if (strstr(names[i], parts[j]))
                return true;
        }
    }
    return false;
}

bool wait_is_lock(enum wait_reason r, const char *const *user_names, size_t n)
{
    if (r != WAIT_FUTEX)
        return false;
    return has_part(user_names, n, lock_parts, ARRAY_SIZE(lock_parts)) ||
           !has_part(user_names, n, idle_parts, ARRAY_SIZE(idle_parts));
}

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "host/worker_internal.h"

#if defined(__x86_64__)
#define FILTER_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define FILTER_ARCH AUDIT_ARCH_AARCH64
#else
#error "no system call filter for this machine"
#endif

/* What any worker needs: its socket, memory, the files that it was handed. */
static const int always[] = {
    __NR_read,
    __NR_pread64,
    __NR_readv,
    __NR_preadv,
    __NR_write,
    __NR_pwrite64,
    __NR_writev,
    __NR_pwritev,
    __NR_lseek,
    __NR_fstat,
    __NR_close,
    __NR_ftruncate,
    __NR_fallocate,
    __NR_fadvise64,
    __NR_munmap,
    __NR_mremap,
    __NR_madvise,
    __NR_brk,
    __NR_futex,
    __NR_recvmsg,
    __NR_sendmsg,
    __NR_rt_sigreturn,
    __NR_rt_sigprocmask,
    __NR_sigaltstack,
    __NR_restart_syscall,
    __NR_exit,
    __NR_exit_group,
    __NR_clock_gettime,
    __NR_gettimeofday,
    __NR_getrandom,
    __NR_getpid,
    __NR_gettid,
    __NR_sched_yield,
    __NR_sched_getaffinity, /* the C library counts CPUs */
    __NR_sysinfo,           /* and memory, to sort */
};

/* Looking at files and processes. None of it changes anything. */
static const int when_opening[] = {
    __NR_openat,       __NR_openat2,   __NR_getdents64, __NR_readlinkat,
    __NR_newfstatat,   __NR_statx,     __NR_fstatfs,    __NR_process_vm_readv,
    __NR_memfd_create, __NR_faccessat, __NR_faccessat2,
#ifdef __NR_readlink
    __NR_readlink,
#endif
#ifdef __NR_open
    __NR_open,         __NR_stat,      __NR_lstat,      __NR_access,
#endif
};

/* What libraries try on their own, and take no for an answer. */
static const int refused[] = {
    __NR_openat,   __NR_openat2, __NR_readlinkat, __NR_newfstatat, __NR_statx,
    __NR_ioctl,    __NR_getcwd,  __NR_faccessat,  __NR_prlimit64,  __NR_uname,
#ifdef __NR_readlink
    __NR_readlink,
#endif
#ifdef __NR_open
    __NR_open,     __NR_stat,    __NR_lstat,      __NR_access,
#endif
};

static const int fcntl_commands[] = {F_GETFD,         F_SETFD,     F_GETFL,
                                     F_DUPFD_CLOEXEC, F_ADD_SEALS, F_GET_SEALS};

struct program {
    struct sock_filter code[256];
    unsigned short n;
};

static void add(struct program *p, struct sock_filter f)
{
    if (p->n < ARRAY_SIZE(p->code))
        p->code[p->n] = f;
    p->n++;
}

#define NUMBER          ((uint32_t)offsetof(struct seccomp_data, nr))
#define ARGUMENT_LOW(i) ((uint32_t)(offsetof(struct seccomp_data, args) + 8 * (i)))

static void load(struct program *p, uint32_t offset)
{
    add(p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset));
}

static void end(struct program *p, uint32_t verdict)
{
    add(p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, verdict));
}

/* If what was loaded is `value`: the verdict. */
static void when(struct program *p, uint32_t value, uint32_t verdict)
{
    add(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1));
    end(p, verdict);
}

/* Allowed without PROT_EXEC; `call` is loaded again behind it. */
static void when_not_executable(struct program *p, int call)
{
    add(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, 4));
    load(p, ARGUMENT_LOW(2));
    add(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1));
    end(p, SECCOMP_RET_KILL_PROCESS);
    end(p, SECCOMP_RET_ALLOW);
}

static void when_fcntl(struct program *p)
{
    unsigned n = ARRAY_SIZE(fcntl_commands);

    add(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_fcntl, 0,
                                        (uint8_t)(2 + 2 * n)));
    load(p, ARGUMENT_LOW(1));
    for (unsigned i = 0; i < n; i++)
        when(p, (uint32_t)fcntl_commands[i], SECCOMP_RET_ALLOW);
    end(p, SECCOMP_RET_KILL_PROCESS);
}

/* fstat() as the C library does it: no path, AT_EMPTY_PATH. */
static void when_fstat(struct program *p)
{
    add(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_newfstatat, 0, 4));
    load(p, ARGUMENT_LOW(3));
    add(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AT_EMPTY_PATH, 0, 1));
    end(p, SECCOMP_RET_ALLOW);
    end(p, SECCOMP_RET_ERRNO | EACCES);
}

/* Allowed with one of two in the low half of argument i; `call` is loaded again behind it. */
static void when_argument_of(struct program *p, int call, unsigned i, uint32_t one, uint32_t two)
{
    add(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, 5));
    load(p, ARGUMENT_LOW(i));
    add(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, one, 2, 0));
    add(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, two, 1, 0));
    end(p, SECCOMP_RET_KILL_PROCESS);
    end(p, SECCOMP_RET_ALLOW);
}

static void when_argument(struct program *p, int call, unsigned i, uint32_t value)
{
    when_argument_of(p, call, i, value, value);
}

static void when_attaching(struct program *p)
{
    when(p, __NR_connect, SECCOMP_RET_ALLOW);
    when(p, __NR_pidfd_open, SECCOMP_RET_ALLOW);
    when(p, __NR_clock_nanosleep, SECCOMP_RET_ALLOW);
    when_argument(p, __NR_pidfd_send_signal, 1, SIGUSR1);
    when_argument_of(p, __NR_socket, 0, AF_INET, AF_INET6);
}

int worker_filter(const struct worker_kind *kind)
{
    struct program p = {.n = 0};
    bool may_open = kind->may_open;

    load(&p, (uint32_t)offsetof(struct seccomp_data, arch));
    add(&p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, FILTER_ARCH, 1, 0));
    end(&p, SECCOMP_RET_KILL_PROCESS);
    load(&p, NUMBER);
    for (size_t i = 0; i < ARRAY_SIZE(always); i++)
        when(&p, (uint32_t)always[i], SECCOMP_RET_ALLOW);
    for (size_t i = 0; may_open && i < ARRAY_SIZE(when_opening); i++)
        when(&p, (uint32_t)when_opening[i], SECCOMP_RET_ALLOW);
    if (!may_open)
        when_fstat(&p);
    for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
        when(&p, (uint32_t)refused[i], SECCOMP_RET_ERRNO | EACCES);
    if (kind->may_attach)
        when_attaching(&p);
    if (kind->may_enter)
        when_argument(&p, __NR_setns, 1, CLONE_NEWNET);
    when_not_executable(&p, __NR_mmap);
    when_not_executable(&p, __NR_mprotect);
    when_fcntl(&p);
    end(&p, SECCOMP_RET_KILL_PROCESS);
    if (p.n > ARRAY_SIZE(p.code))
        return -E2BIG;

    struct sock_fprog prog = {p.n, p.code};
    if (syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0)
        return -errno;
    return 0;
}

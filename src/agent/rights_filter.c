#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "agent/rights.h"
#include "base/cleanup.h"

#if defined(__x86_64__)
#define FILTER_ARCH   AUDIT_ARCH_X86_64
#define FOREIGN_CALLS 0x40000000 /* x32: the same calls by other numbers */
#elif defined(__aarch64__)
#define FILTER_ARCH AUDIT_ARCH_AARCH64
#else
#error "no system call filter for this machine"
#endif

/* A list of what is refused, not of what is allowed: the relay resolves names, speaks TLS and
 * writes files with whatever calls the libraries of this machine use. Workers have lists of what is
 * allowed (host/worker.h). */
static const int refused[] = {
    /* becoming another program, or another process's master */
    __NR_execve,
    __NR_execveat,
    __NR_ptrace,
    __NR_process_vm_writev,
    __NR_pidfd_getfd,
    __NR_userfaultfd,
    __NR_personality,

    /* files by other ways than their path */
    __NR_open_by_handle_at,
    __NR_name_to_handle_at,
    __NR_io_uring_setup,
    __NR_io_uring_enter,
    __NR_io_uring_register,
    __NR_fanotify_init,
    __NR_mknodat,

    /* the view of the file system, and namespaces */
    __NR_mount,
    __NR_umount2,
    __NR_pivot_root,
    __NR_chroot,
    __NR_move_mount,
    __NR_open_tree,
    __NR_fsopen,
    __NR_fsconfig,
    __NR_fsmount,
    __NR_fspick,
    __NR_mount_setattr,
    __NR_setns,
    __NR_unshare,

    /* the kernel and the machine */
    __NR_init_module,
    __NR_finit_module,
    __NR_delete_module,
    __NR_kexec_load,
    __NR_reboot,
    __NR_swapon,
    __NR_swapoff,
    __NR_acct,
    __NR_quotactl,
    __NR_syslog,
    __NR_sethostname,
    __NR_setdomainname,
    __NR_settimeofday,
    __NR_clock_settime,
    __NR_adjtimex,
    __NR_clock_adjtime,
    __NR_vhangup,
    __NR_add_key,
    __NR_request_key,
    __NR_keyctl,
#ifdef __NR_kexec_file_load
    __NR_kexec_file_load,
#endif
#ifdef __x86_64__
    __NR_mknod,
    __NR_iopl,
    __NR_ioperm,
    __NR_modify_ldt,
    __NR_uselib,
    __NR_ustat,
    __NR__sysctl,
#endif
};

/* Netlink is how the C library learns of this host's addresses. */
static const int families[] = {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK};

#define REFUSE (SECCOMP_RET_ERRNO | EPERM)

struct program {
    struct sock_filter code[2 * ARRAY_SIZE(refused) + 2 * ARRAY_SIZE(families) + 16];
    unsigned short n;
};

static void add(struct program *p, uint16_t code, uint32_t k, uint8_t yes, uint8_t no)
{
    p->code[p->n++] = (struct sock_filter){.code = code, .k = k, .jt = yes, .jf = no};
}

static void load(struct program *p, size_t offset)
{
    add(p, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
}

static void end(struct program *p, uint32_t verdict)
{
    add(p, BPF_RET | BPF_K, verdict, 0, 0);
}

static void end_if(struct program *p, uint32_t value, uint32_t verdict)
{
    add(p, BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1);
    end(p, verdict);
}

static void make_program(struct program *p, bool enters_networks)
{
    load(p, offsetof(struct seccomp_data, arch));
    add(p, BPF_JMP | BPF_JEQ | BPF_K, FILTER_ARCH, 1, 0);
    end(p, REFUSE);
    load(p, offsetof(struct seccomp_data, nr));
#ifdef FOREIGN_CALLS
    add(p, BPF_JMP | BPF_JGE | BPF_K, FOREIGN_CALLS, 0, 1);
    end(p, REFUSE);
#endif
    if (enters_networks) {
        add(p, BPF_JMP | BPF_JEQ | BPF_K, __NR_setns, 0, 4);
        load(p, offsetof(struct seccomp_data, args[1]));
        end_if(p, CLONE_NEWNET, SECCOMP_RET_ALLOW);
        end(p, REFUSE);
    }
    for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
        end_if(p, (uint32_t)refused[i], REFUSE);

    add(p, BPF_JMP | BPF_JEQ | BPF_K, __NR_socket, 1, 0);
    end(p, SECCOMP_RET_ALLOW);
    load(p, offsetof(struct seccomp_data, args)); /* the family, in the low half */
    for (size_t i = 0; i < ARRAY_SIZE(families); i++)
        end_if(p, (uint32_t)families[i], SECCOMP_RET_ALLOW);
    end(p, REFUSE);
}

int rights_filter(bool enters_networks, struct error *err)
{
    struct program p = {.n = 0};
    make_program(&p, enters_networks);
    struct sock_fprog program = {.len = p.n, .filter = p.code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) < 0)
        return error_set(err, -errno, "could not install the filter of system calls: %m");
    return 0;
}

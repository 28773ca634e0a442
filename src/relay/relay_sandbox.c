#include "relay/relay_sandbox.h"

#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pwd.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"

#if defined(__x86_64__)
#define OUR_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define OUR_ARCH AUDIT_ARCH_AARCH64
#else
#error "the filter of system calls knows x86-64 and aarch64 only"
#endif

static const int denied[] = {
    SYS_execve,
    SYS_execveat,
    SYS_ptrace,
    SYS_bpf,
    SYS_perf_event_open,
    SYS_process_vm_readv,
    SYS_kcmp,
    SYS_process_vm_writev,
    SYS_pidfd_getfd,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_kexec_load,
    SYS_kexec_file_load,
    SYS_reboot,
    SYS_mount,
    SYS_umount2,
    SYS_move_mount,
    SYS_open_tree,
    SYS_fsopen,
    SYS_fsmount,
    SYS_pivot_root,
    SYS_chroot,
    SYS_unshare,
    SYS_setns,
    SYS_swapon,
    SYS_swapoff,
    SYS_add_key,
    SYS_request_key,
    SYS_keyctl,
    SYS_io_uring_setup,
    SYS_io_uring_enter,
    SYS_io_uring_register,
    SYS_userfaultfd,
    SYS_open_by_handle_at,
    SYS_name_to_handle_at,
    SYS_acct,
    SYS_quotactl,
    SYS_personality,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_clock_adjtime,
    SYS_adjtimex,
    SYS_sethostname,
    SYS_setdomainname,
    SYS_syslog,
    SYS_vhangup,
    SYS_fanotify_init,
};

/* Denied calls fail with EPERM: a library that only tries goes on, an intruder gets nowhere. */
static int filter_calls(struct error *err)
{
    struct sock_filter f[ARRAY_SIZE(denied) + 8];
    size_t n = 0;

    f[n++] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
    f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, OUR_ARCH, 1, 0);
    f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    f[n++] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    /* The 32-bit numbering of x86-64 would walk around the list. */
    f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000u,
                                          ARRAY_SIZE(denied) + 1, 0);
    for (size_t i = 0; i < ARRAY_SIZE(denied); i++) {
        uint8_t to_end = (uint8_t)(ARRAY_SIZE(denied) - i);
        f[n++] =
            (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)denied[i], to_end, 0);
    }
    f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
    struct sock_fprog program = {.len = (unsigned short)n, .filter = f};
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
        return error_set(err, -errno, "could not filter system calls: %m");
    return 0;
}

static int drop_capabilities(struct error *err)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {0};

    (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    if (syscall(SYS_capset, &head, none) < 0)
        return error_set(err, -errno, "could not give up capabilities: %m");
    return 0;
}

/* Makes a folder and those above it; what is made belongs to the user. */
static void make_folder(const char *path, uid_t uid, gid_t gid)
{
    char part[PATH_MAX];
    size_t len = strlen(path);

    if (len >= sizeof(part))
        return;
    for (size_t i = 1; i <= len; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        memcpy(part, path, i);
        part[i] = '\0';
        if (mkdir(part, 0750) == 0)
            (void)!chown(part, uid, gid);
    }
}

static void make_folders(const char *const *folders, size_t n, uid_t uid, gid_t gid)
{
    for (size_t i = 0; i < n; i++)
        if (folders[i] && folders[i][0])
            make_folder(folders[i], uid, gid);
}

static int change_user(const struct sandbox *s, struct error *err)
{
    char space[4096];
    struct passwd entry, *found = NULL;

    if (getpwnam_r(s->user, &entry, space, sizeof(space), &found) != 0 || !found)
        return error_set(err, -EINVAL, "there is no user \"%s\" to run as", s->user);
    make_folders(s->folders, s->n_folders, found->pw_uid, found->pw_gid);
    if (found->pw_uid == 0)
        return 0;
    if (setgroups(0, NULL) < 0 || setresgid(found->pw_gid, found->pw_gid, found->pw_gid) < 0 ||
        setresuid(found->pw_uid, found->pw_uid, found->pw_uid) < 0)
        return error_set(err, -errno, "could not become user \"%s\": %m", s->user);
    return 0;
}

int sandbox_enter(const struct sandbox *s, struct error *err)
{
    int r = 0;

    /* Needs CAP_SETPCAP. Without that nothing can be gained from the bounding set anyway, for there
     * is no exec. */
    for (unsigned long cap = 0; cap <= 63; cap++)
        (void)prctl(PR_CAPBSET_DROP, cap);
    if (geteuid() == 0 && s->user)
        r = change_user(s, err);
    else
        make_folders(s->folders, s->n_folders, geteuid(), getegid());
    if (r == 0)
        r = drop_capabilities(err);
    if (r == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        r = error_set(err, -errno, "could not give up new privileges: %m");
    return r < 0 ? r : filter_calls(err);
}

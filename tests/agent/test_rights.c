#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/perf_event.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/rights.h"
#include "lib/scratch.h"
#include "lib/test.h"

/* Runs in a process of its own, since rights do not come back; what it prints are its failures. */
static void in_child(struct test *t, void (*run)(struct test *t))
{
    fflush(stdout);
    int pid = fork(), status = 0;
    if (pid == 0) {
        run(t);
        fflush(stdout);
        _exit(t->failures > 0);
    }
    waitpid(pid, &status, 0);
    CHECK(t, WIFEXITED(status));
    CHECK_INT(t, WEXITSTATUS(status), 0);
}

static bool is_root(void)
{
    return geteuid() == 0 && (rights_held() >> CAP_SETPCAP & 1);
}

static void what_is_missing_is_named_with_what_is_lost(struct test *t)
{
    struct buf out = {0};
    CHECK(t, rights_add_missing(0, &out));
    const char *text = buf_cstr(&out);
    for (size_t i = 0; i < n_rights_needs; i++)
        CHECK(t, strstr(text, rights_needs[i].name) && strstr(text, rights_needs[i].lost));
    buf_clear(&out);

    CHECK(t, !rights_add_missing(~(uint64_t)0, &out));
    CHECK_INT(t, out.len, 0);

    CHECK(t, !rights_add_missing(rights_kept(), &out));
    CHECK_STR(t, buf_cstr(&out),
              "CAP_SYSLOG is missing: kernel functions have no names, unless kernel.kptr_restrict "
              "is 0\n");
    buf_done(&out);
}

static void five_capabilities_are_kept(struct test *t)
{
    CHECK_INT(t, __builtin_popcountll(rights_kept()), 5);
    CHECK(t, !(rights_kept() >> CAP_SYSLOG & 1));
    CHECK(t, !(rights_kept() >> CAP_SYS_ADMIN & 1));
}

static uint64_t status_mask(const char *key)
{
    FILE *f = fopen("/proc/self/status", "r");
    char line[256];
    unsigned long long v = ~0ULL;
    while (f && fgets(line, sizeof(line), f))
        if (strncmp(line, key, strlen(key)) == 0)
            v = strtoull(line + strlen(key) + 1, NULL, 16);
    if (f)
        fclose(f);
    return v;
}

static void drop_to_nobody(struct test *t)
{
    struct error err;
    uint64_t kept = rights_kept() & rights_held();
    int r = rights_become("nobody", &err);
    if (r == 0)
        r = rights_drop(0, &err);
    CHECK_INT(t, r, 0);
    if (r < 0)
        printf("# %s\n", err.text);
    const struct passwd *nobody = getpwnam("nobody");
    CHECK_INT(t, getuid(), nobody->pw_uid);
    CHECK_INT(t, geteuid(), nobody->pw_uid);
    CHECK_INT(t, getegid(), nobody->pw_gid);
    CHECK_INT(t, getgroups(0, NULL), 0);
    CHECK_INT(t, rights_held(), kept);
    CHECK_INT(t, status_mask("CapPrm:"), kept);
    CHECK_INT(t, status_mask("CapInh:"), 0);
    CHECK_INT(t, status_mask("CapBnd:"), kept);
    CHECK_INT(t, status_mask("CapAmb:"), 0);
    CHECK_INT(t, status_mask("NoNewPrivs:"), 1);
    CHECK_INT(t, prctl(PR_GET_DUMPABLE, 0, 0, 0, 0), 0);
    struct rlimit core;
    getrlimit(RLIMIT_CORE, &core);
    CHECK_INT(t, core.rlim_max, 0);
    CHECK(t, setresuid(0, 0, 0) < 0);
    CHECK(t, chroot("/") < 0);
    CHECK_INT(t, rights_drop(0, &err), 0); /* once more changes nothing */
    CHECK_INT(t, rights_held(), kept);
}

static void dropping_leaves_five_capabilities_and_no_way_back(struct test *t)
{
    if (!is_root())
        TEST_SKIP(t, "needs root");
    in_child(t, drop_to_nobody);
}

static int sample_init(void)
{
    struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE,
                                   .size = sizeof(attr),
                                   .config = PERF_COUNT_SW_CPU_CLOCK,
                                   .sample_period = 1000000};
    return (int)syscall(SYS_perf_event_open, &attr, -1, 0, -1, 0);
}

static void work_on(struct test *t)
{
    struct error err;
    CHECK_INT(t, rights_become("nobody", &err), 0);
    CHECK_INT(t, rights_drop(0, &err), 0);
    CHECK_INT(t, rights_filter(false, &err), 0);

    /* What the agent goes on with: samples, other users' mappings and files, BPF, children. */
    CHECK(t, sample_init() >= 0);
    int parent = (int)getppid();
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/maps", parent);
    int fd = open(path, O_RDONLY);
    char c;
    CHECK(t, fd >= 0 && read(fd, &c, 1) == 1);
    snprintf(path, sizeof(path), "/proc/%d/exe", parent);
    CHECK(t, open(path, O_RDONLY) >= 0);
    CHECK(t, open("/etc/shadow", O_RDONLY) >= 0 || errno == ENOENT);
    CHECK(t, open("/etc/shadow", O_WRONLY) < 0);
    union {
        struct {
            uint32_t type, key, value, max, flags;
        };
        char whole[120];
    } map = {{.type = 2, .key = 4, .value = 8, .max = 1}};
    CHECK(t, syscall(SYS_bpf, 0, &map, sizeof(map)) >= 0);
    int pid = fork();
    if (pid == 0)
        _exit(7);
    int status;
    waitpid(pid, &status, 0);
    CHECK_INT(t, WEXITSTATUS(status), 7);
    CHECK(t, socket(AF_INET, SOCK_STREAM, 0) >= 0);
}

static void what_the_agent_needs_still_works(struct test *t)
{
    if (!is_root() || (rights_held() & rights_kept()) != rights_kept())
        TEST_SKIP(t, "needs root with the capabilities that the agent keeps");
    in_child(t, work_on);
}

static void try_the_refused(struct test *t)
{
    struct error err;
    CHECK_INT(t, rights_filter(false, &err), 0);
#define REFUSED(call)                                                                              \
    do {                                                                                           \
        errno = 0;                                                                                 \
        CHECK_INT(t, (call), -1);                                                                  \
        CHECK_INT(t, errno, EPERM);                                                                \
    } while (0)
    REFUSED(execl("/bin/true", "true", (char *)NULL));
    REFUSED(ptrace(PTRACE_TRACEME, 0, NULL, NULL));
    REFUSED(mount("none", "/tmp", "tmpfs", 0, NULL));
    REFUSED(unshare(CLONE_NEWUSER));
    REFUSED((int)syscall(SYS_userfaultfd, 1));
    REFUSED((int)syscall(SYS_io_uring_setup, 1, NULL));
    REFUSED((int)syscall(SYS_open_by_handle_at, -1, NULL, 0));
    REFUSED((int)syscall(SYS_finit_module, -1, "", 0));
    REFUSED((int)syscall(SYS_process_vm_writev, getpid(), NULL, 0, NULL, 0, 0));
    REFUSED(mknod("/tmp/never", S_IFIFO | 0600, 0));
    REFUSED(socket(AF_PACKET, SOCK_RAW, 0));
    REFUSED(socket(AF_ALG, SOCK_SEQPACKET, 0));
    REFUSED(socket(AF_VSOCK, SOCK_STREAM, 0));
#ifdef __x86_64__
    REFUSED((int)syscall(0x40000000L + 39)); /* getpid of x32 */
#endif
    CHECK(t, socket(AF_UNIX, SOCK_STREAM, 0) >= 0);
    CHECK(t, socket(AF_INET6, SOCK_STREAM, 0) >= 0 || errno == EAFNOSUPPORT);
    int pid = fork(), status;
    if (pid == 0) {
        execl("/bin/true", "true", (char *)NULL);
        _exit(errno == EPERM ? 9 : 0);
    }
    waitpid(pid, &status, 0);
    CHECK_INT(t, WEXITSTATUS(status), 9); /* children have it, too */
}

static void the_filter_refuses_what_is_never_needed(struct test *t)
{
    in_child(t, try_the_refused);
}

static void drop_without_setpcap(struct test *t)
{
    struct error err;
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    uint32_t few = 1U << CAP_SYS_PTRACE | 1U << CAP_SYS_ADMIN;
    struct __user_cap_data_struct data[2] = {{.effective = few, .permitted = few}, {0}};
    CHECK_INT(t, prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0), 0);
    CHECK_INT(t, setresuid(1, 1, 1), 0);
    CHECK_INT(t, (int)syscall(SYS_capset, &head, data), 0);
    CHECK_INT(t, rights_become("nobody", &err), 0);
    CHECK_INT(t, rights_drop(0, &err), 0);
    CHECK_INT(t, rights_held(), 1U << CAP_SYS_PTRACE);
    CHECK_INT(t, geteuid(), 1); /* who is not root stays who they are */
}

static void whoever_starts_with_few_rights_keeps_those_of_them_that_are_needed(struct test *t)
{
    if (!is_root())
        TEST_SKIP(t, "needs root");
    in_child(t, drop_without_setpcap);
}

static void drop_for_no_such_user(struct test *t)
{
    struct error err;
    uint64_t held = rights_held();
    CHECK_INT(t, rights_become("no-such-user-here", &err), -ENOENT);
    CHECK_STR(t, err.text, "there is no user \"no-such-user-here\" to run as");
    CHECK_INT(t, rights_held(), held);
}

static void a_user_that_does_not_exist_is_named_and_nothing_dropped(struct test *t)
{
    if (!is_root())
        TEST_SKIP(t, "needs root");
    in_child(t, drop_for_no_such_user);
}

static void folders_are_made_for_the_user_and_others_are_left_alone(struct test *t)
{
    struct scratch dir;
    struct error err;
    struct stat st;
    scratch_init(&dir);
    const struct passwd *nobody = getpwnam("nobody");
    uid_t uid = geteuid() == 0 ? nobody->pw_uid : geteuid();

    CHECK_INT(t, rights_make_dir(scratch_name(&dir, "a/b/c"), "nobody", &err), 0);
    CHECK_INT(t, stat(dir.name, &st), 0);
    CHECK_INT(t, st.st_uid, uid);
    CHECK_INT(t, st.st_mode & 0777, 0700);
    CHECK_INT(t, rights_make_dir(dir.name, "nobody", &err), 0); /* it is there already */
    CHECK_INT(t, stat(scratch_name(&dir, "a/b"), &st), 0);
    CHECK_INT(t, st.st_uid, geteuid());

    CHECK_INT(t, symlink("/etc", scratch_name(&dir, "link")), 0);
    CHECK(t, rights_make_dir(dir.name, "nobody", &err) < 0);
    CHECK(t, strstr(err.text, "could not open folder"));

    FILE *f = fopen(scratch_name(&dir, "file"), "w");
    fclose(f);
    CHECK_INT(t, rights_make_dir(scratch_name(&dir, "file/x"), "nobody", &err), -ENOTDIR);
    if (geteuid() == 0) {
        CHECK_INT(t, mkdir(scratch_name(&dir, "other"), 0700), 0);
        CHECK_INT(t, chown(dir.name, 12345, 12345), 0);
        CHECK_INT(t, rights_make_dir(dir.name, "nobody", &err), -EPERM);
        CHECK(t, strstr(err.text, "belongs to user 12345"));
    }
    scratch_done(&dir);
}

static const struct test_case cases[] = {
    TEST(what_is_missing_is_named_with_what_is_lost),
    TEST(five_capabilities_are_kept),
    TEST(dropping_leaves_five_capabilities_and_no_way_back),
    TEST(what_the_agent_needs_still_works),
    TEST(the_filter_refuses_what_is_never_needed),
    TEST(whoever_starts_with_few_rights_keeps_those_of_them_that_are_needed),
    TEST(a_user_that_does_not_exist_is_named_and_nothing_dropped),
    TEST(folders_are_made_for_the_user_and_others_are_left_alone),
};
TEST_MAIN(cases)

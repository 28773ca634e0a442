#include "agent/rights.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <pwd.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"

const struct rights_need rights_needs[] = {
    {CAP_BPF, "CAP_BPF", true, false,
     "no programs can be loaded into the kernel: only own processes can be profiled"},
    {CAP_PERFMON, "CAP_PERFMON", true, false,
     "no samples of other processes and of the kernel can be taken"},
    {CAP_SYS_PTRACE, "CAP_SYS_PTRACE", true, false,
     "mappings of other users' processes cannot be read: their stacks have no names"},
    {CAP_DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH", false, false,
     "binaries that only their owner may read have no unwind tables and no names"},
    {CAP_CHECKPOINT_RESTORE, "CAP_CHECKPOINT_RESTORE", false, false,
     "binaries that were deleted or replaced while they run have no unwind tables and no names"},
    {CAP_SYSLOG, "CAP_SYSLOG", false, true,
     "kernel functions have no names, unless kernel.kptr_restrict is 0"},
};
const size_t n_rights_needs = ARRAY_SIZE(rights_needs);

static int cap_call(long number, struct __user_cap_data_struct data[2])
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    return syscall(number, &head, data) < 0 ? -errno : 0;
}

static uint64_t both(uint32_t low, uint32_t high)
{
    return (uint64_t)high << 32 | low;
}

uint64_t rights_held(void)
{
    struct __user_cap_data_struct data[2] = {0};
    if (cap_call(SYS_capget, data) < 0)
        return 0;
    return both(data[0].effective, data[1].effective);
}

static uint64_t permitted(void)
{
    struct __user_cap_data_struct data[2] = {0};
    if (cap_call(SYS_capget, data) < 0)
        return 0;
    return both(data[0].permitted, data[1].permitted);
}

uint64_t rights_kept(void)
{
    uint64_t kept = 0;
    for (size_t i = 0; i < n_rights_needs; i++)
        if (!rights_needs[i].is_for_start_only)
            kept |= (uint64_t)1 << rights_needs[i].capability;
    return kept;
}

bool rights_add_missing(uint64_t held, struct buf *out)
{
    bool is_essential = false;
    for (size_t i = 0; i < n_rights_needs; i++) {
        const struct rights_need *n = &rights_needs[i];
        if (held >> n->capability & 1)
            continue;
        buf_addf(out, "%s is missing: %s\n", n->name, n->lost);
        is_essential |= n->is_essential;
    }
    return is_essential;
}

/* ---- folders */

/* 0 with the ids, also when there is nobody to become. */
static int find_user(const char *user, uid_t *ret_uid, gid_t *ret_gid, struct error *err)
{
    *ret_uid = geteuid();
    *ret_gid = getegid();
    if (*ret_uid != 0 || user[0] == '\0')
        return 0;

    char text[4096];
    struct passwd entry, *found = NULL;
    int r = getpwnam_r(user, &entry, text, sizeof(text), &found);
    if (r != 0)
        return error_set(err, -r, "could not look up user \"%s\": %s", user, strerror(r));
    if (!found)
        return error_set(err, -ENOENT, "there is no user \"%s\" to run as", user);
    *ret_uid = found->pw_uid;
    *ret_gid = found->pw_gid;
    return 0;
}

static int make_parents(char *path, struct error *err)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        bool is_made = mkdir(path, 0755) == 0 || errno == EEXIST;
        int r = -errno;
        if (!is_made)
            return error_set(err, r, "could not make folder \"%s\": %s", path, strerror(-r));
        *slash = '/';
    }
    return 0;
}

int rights_make_dir(const char *path, const char *user, struct error *err)
{
    uid_t uid;
    gid_t gid;
    char copy[PATH_MAX];
    if (strlen(path) >= sizeof(copy))
        return error_set(err, -ENAMETOOLONG, "the path of a folder is longer than %d bytes",
                         PATH_MAX - 1);
    memcpy(copy, path, strlen(path) + 1);

    int r = find_user(user, &uid, &gid, err);
    if (r < 0)
        return r;
    r = make_parents(copy, err);
    if (r < 0)
        return r;
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return error_set(err, -errno, "could not make folder \"%s\": %m", path);

    /* By descriptor, so that it is the folder that was looked at which changes hands. */
    CLEANUP(closep) int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return error_set(err, -errno, "could not open folder \"%s\": %m", path);
    if (st.st_uid == uid)
        return 0;
    if (st.st_uid != 0)
        return error_set(err, -EPERM, "folder \"%s\" belongs to user %u, not to root or \"%s\"",
                         path, st.st_uid, user);
    if (fchown(fd, uid, gid) < 0)
        return error_set(err, -errno, "could not give folder \"%s\" to \"%s\": %m", path, user);
    return 0;
}

/* ---- dropping */

/* What needs CAP_SETPCAP; who has been given less cannot do it, and needs it less: without it
 * nothing can be gained from what is left here, given no_new_privs. */
static void cut_down_bounds(uint64_t kept)
{
    (void)prctl(PR_SET_SECUREBITS,
                SECBIT_NO_SETUID_FIXUP | SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_NOROOT |
                    SECBIT_NOROOT_LOCKED | SECBIT_KEEP_CAPS | SECBIT_NO_CAP_AMBIENT_RAISE |
                    SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED,
                0, 0, 0);
    for (unsigned cap = 0; cap < 64; cap++)
        if (!(kept >> cap & 1) && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0 && errno == EINVAL)
            break; /* past the kernel's last */
}

static int become(uid_t uid, gid_t gid, const char *user, struct error *err)
{
    if (geteuid() != 0 || uid == 0)
        return 0;
    (void)prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0);
    if (setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)
        return error_set(err, -errno, "could not become user \"%s\": %m", user);
    return 0;
}

int rights_become(const char *user, struct error *err)
{
    uid_t uid;
    gid_t gid;
    uint64_t had = permitted();
    int r = find_user(user, &uid, &gid, err);

    if (r == 0)
        r = become(uid, gid, user, err);
    if (r < 0)
        return r;
    /* What was effective is not any more when the user changes; it stays permitted. */
    struct __user_cap_data_struct data[2] = {
        {.effective = (uint32_t)had, .permitted = (uint32_t)had},
        {.effective = (uint32_t)(had >> 32), .permitted = (uint32_t)(had >> 32)},
    };
    r = cap_call(SYS_capset, data);
    return r < 0 ? error_set(err, r, "could not keep capabilities: %s", strerror(-r)) : 0;
}

int rights_drop(uint64_t also, struct error *err)
{
    uint64_t kept = (rights_kept() | also) & permitted();
    cut_down_bounds(kept);
    (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);

    struct __user_cap_data_struct data[2] = {
        {.effective = (uint32_t)kept, .permitted = (uint32_t)kept},
        {.effective = (uint32_t)(kept >> 32), .permitted = (uint32_t)(kept >> 32)},
    };
    int r = cap_call(SYS_capset, data);
    if (r < 0)
        return error_set(err, r, "could not give up capabilities: %s", strerror(-r));
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return error_set(err, -errno, "could not give up new privileges: %m");

    /* Memory holds names and paths of everybody's programs. */
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    (void)setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    return 0;
}

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "host/inspect_internal.h"
#include "host/inspect_text.h"

#define VDSO_MAX ((size_t)1 << 20)

/* Opens a path in a root, without waiting and without being led out of it. Only a handle: nothing
 * behind it is touched. */
static int open_in(int root, const char *path, bool no_link)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC | (no_link ? O_NOFOLLOW : 0),
                           .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
    int fd = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));

    return fd < 0 ? -errno : fd;
}

/* A handle becomes a descriptor to read from, if it is what may be read. */
static int open_regular(const struct target *t, int handle, uint64_t size_max, int *ret_fd,
                        struct inspect_file *ret, struct error *err)
{
    char self[32];
    struct stat st;

    if (inspect_is_served(t, handle))
        return error_set(err, -EPERM, "is in a file system of a process (FUSE)");
    if (fstat(handle, &st) < 0)
        return error_set(err, -errno, "could not look at a file: %m");
    if (!S_ISREG(st.st_mode))
        return error_set(err, -EINVAL, "is %s, not a regular file",
                         S_ISLNK(st.st_mode)    ? "a symbolic link"
                         : S_ISFIFO(st.st_mode) ? "a FIFO"
                         : S_ISDIR(st.st_mode)  ? "a folder"
                         : S_ISSOCK(st.st_mode) ? "a socket"
                                                : "a device");
    if (st.st_size < 0 || (uint64_t)st.st_size > size_max)
        return error_set(err, -EFBIG, "has %lld bytes: the limit is %llu", (long long)st.st_size,
                         (unsigned long long)size_max);
    snprintf(self, sizeof(self), "/proc/self/fd/%d", handle);
    int fd = open(self, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return error_set(err, -errno, "could not open it: %m");
    *ret = (struct inspect_file){.device = st.st_dev,
                                 .inode = st.st_ino,
                                 .size = (uint64_t)st.st_size,
                                 .mtime_ns = (uint64_t)st.st_mtim.tv_sec * 1000000000u +
                                             (uint64_t)st.st_mtim.tv_nsec,
                                 .uid = st.st_uid};
    *ret_fd = fd;
    return 0;
}

/* File systems whose files have another device number for stat() than for their mappings. */
static bool has_own_devices(int fd)
{
    struct statfs fs;

    return fstatfs(fd, &fs) == 0 &&
           (fs.f_type == OVERLAYFS_SUPER_MAGIC || fs.f_type == BTRFS_SUPER_MAGIC);
}

/* By path in the process's root: only if it still is the file that is mapped. */
static int open_by_path(const struct target *t, const struct map_line *m)
{
    struct buf path = {0};
    struct stat st;

    CLEANUP(closep) int root = openat(t->fd, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return -errno;
    (void)map_path(m->path, 4095, &path);
    bool is_led = !inspect_shares_mounts(t) && inspect_sees_served(t);
    int fd = is_led || memchr(path.data, '\0', path.len) ? -EPERM
                                                         : open_in(root, buf_cstr(&path), false);
    buf_done(&path);
    if (fd < 0)
        return fd;
    if (inspect_is_served(t, fd) || fstat(fd, &st) < 0 || st.st_ino != m->inode ||
        (st.st_dev != makedev(m->major, m->minor) && !has_own_devices(fd))) {
        close(fd);
        return -ESTALE;
    }
    return fd;
}

static int copy_vdso(const struct target *t, const struct map_line *m, int *ret_fd,
                     struct inspect_file *ret, struct error *err)
{
    uint8_t page[4096];
    size_t size = m->end - m->begin;

    if (size > VDSO_MAX)
        return error_set(err, -EFBIG, "a vDSO of %zu bytes is over the limit of %zu", size,
                         VDSO_MAX);
    CLEANUP(closep) int fd = memfd_create("vdso", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return error_set(err, -errno, "could not make a memfd: %m");
    for (size_t at = 0; at < size; at += sizeof(page)) {
        if (target_memory(t, m->begin + at, page, sizeof(page)) != sizeof(page) ||
            pwrite(fd, page, sizeof(page), (off_t)at) != sizeof(page))
            return error_set(err, -EIO, "could not copy the vDSO of process %u", t->pid);
    }
    *ret = (struct inspect_file){.size = size};
    *ret_fd = TAKE_FD(fd);
    return 0;
}

static int open_map_file(const struct target *t, uint64_t begin, uint64_t end)
{
    char name[64];

    snprintf(name, sizeof(name), "map_files/%llx-%llx", (unsigned long long)begin,
             (unsigned long long)end);
    int fd = openat(t->fd, name, O_PATH | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int inspect_open_mapping(const struct target *t, const struct question *q, int *ret_fd,
                         struct inspect_file *ret, struct error *err)
{
    struct buf room = {0};
    struct map_line m;

    CLEANUP(closep) int handle = open_map_file(t, q->begin, q->end);
    if (handle < 0) {
        /* Not one mapping, or one of several that follow one another; or we lack the right. */
        if (!inspect_map_at(t, q->begin, &room, &m))
            return error_set(err, -ENOENT, "process %u has nothing mapped at %#llx", t->pid,
                             (unsigned long long)q->begin);
        if (bytes_are(m.path, "[vdso]")) {
            buf_done(&room);
            return copy_vdso(t, &m, ret_fd, ret, err);
        }
        if (m.inode == 0) {
            buf_done(&room);
            return error_set(err, -ENOENT, "process %u has no file mapped at %#llx", t->pid,
                             (unsigned long long)q->begin);
        }
        handle = open_map_file(t, m.begin, m.end);
        if (handle < 0)
            handle = open_by_path(t, &m);
        buf_done(&room);
    }
    if (handle < 0)
        return error_set(err, handle, "could not open the file that process %u has at %#llx: %s",
                         t->pid, (unsigned long long)q->begin, strerror(-handle));
    int r = open_regular(t, handle, INSPECT_FILE_MAX, ret_fd, ret, err);
    return r < 0 ? error_prefix(err, r, "what process %u has mapped at %#llx", t->pid,
                                (unsigned long long)q->begin)
                 : 0;
}

int inspect_open_handover(const struct target *t, const struct question *q, int *ret_fd,
                          struct inspect_file *ret, struct error *err)
{
    char name[64], path[64], self[32];
    struct statfs fs;
    struct stat st;

    snprintf(name, sizeof(name), "map_files/%llx-%llx", (unsigned long long)q->begin,
             (unsigned long long)q->end);
    if (target_link(t, name, path, sizeof(path)) < 0 || !inspect_is_handover(bytes_of(path)))
        return error_set(err, -ENOENT, "process %u has no memory of ours at %#llx", t->pid,
                         (unsigned long long)q->begin);
    CLEANUP(closep) int handle = open_map_file(t, q->begin, q->end);
    /* The name alone could be a file's: memfds are in tmpfs, without a name in any folder. */
    if (handle < 0 || fstatfs(handle, &fs) < 0 || fs.f_type != TMPFS_MAGIC ||
        fstat(handle, &st) < 0 || !S_ISREG(st.st_mode) || st.st_nlink != 0)
        return error_set(err, -EINVAL, "what process %u has at %#llx is no memfd", t->pid,
                         (unsigned long long)q->begin);
    snprintf(self, sizeof(self), "/proc/self/fd/%d", handle);
    CLEANUP(closep) int fd = open(self, O_RDWR | O_CLOEXEC);
    int seals = fd < 0 ? 0 : fcntl(fd, F_GET_SEALS);
    if (fd < 0 || fstat(fd, &st) < 0) /* once more: from now on its size is what it is */
        return error_set(err, -errno, "could not open memory of process %u: %m", t->pid);
    if (seals < 0 || !(seals & F_SEAL_GROW) || !(seals & F_SEAL_SHRINK))
        return error_set(err, -EPERM, "the size of the memory at %#llx is not sealed",
                         (unsigned long long)q->begin);
    if ((uint64_t)st.st_size > INSPECT_HANDOVER_MAX)
        return error_set(err, -EFBIG, "the memory at %#llx has %lld bytes, and the limit is %lld",
                         (unsigned long long)q->begin, (long long)st.st_size,
                         (long long)INSPECT_HANDOVER_MAX);
    *ret = (struct inspect_file){
        .device = st.st_dev, .inode = st.st_ino, .size = (uint64_t)st.st_size, .uid = st.st_uid};
    *ret_fd = TAKE_FD(fd);
    return 0;
}

int inspect_open_path(const struct target *t, const struct question *q, int *ret_fd,
                      struct inspect_file *ret, struct error *err)
{
    bool is_owned = q->owner != UINT32_MAX;
    char path[4096];
    struct stat st;

    if (q->path.len >= sizeof(path) || bytes_find_byte(q->path, '\0'))
        return error_set(err, -EINVAL, "a path of %zu bytes is none", q->path.len);
    memcpy(path, q->path.data, q->path.len);
    path[q->path.len] = '\0';
    if (t && !inspect_shares_mounts(t) && inspect_sees_served(t))
        return error_set(err, -EPERM, "process %u has file systems of its own (FUSE)", q->pid);
    CLEANUP(closep)
    int root = t ? openat(t->fd, "root", O_PATH | O_DIRECTORY | O_CLOEXEC)
                 : open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return error_set(err, -errno, "could not open the root of process %u: %m", q->pid);
    CLEANUP(closep) int handle = open_in(root, path, q->flags & ASK_NO_LINK);
    if (handle < 0)
        return error_set(err, handle, "could not open \"%s\": %s", path, strerror(-handle));
    if (inspect_is_served(t, handle))
        return error_set(err, -EPERM, "\"%s\" is in a file system of a process (FUSE)", path);
    if (fstat(handle, &st) < 0)
        return error_set(err, -errno, "could not look at \"%s\": %m", path);
    if (is_owned && st.st_uid != q->owner && st.st_uid != 0)
        return error_set(err, -EPERM, "\"%s\" belongs to user %u, not to %u", path, st.st_uid,
                         q->owner);
    int r =
        open_regular(t, handle, is_owned ? INSPECT_OWNED_MAX : INSPECT_FILE_MAX, ret_fd, ret, err);
    return r < 0 ? error_prefix(err, r, "\"%s\"", path) : 0;
}

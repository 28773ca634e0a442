#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/fs.h"

/* Profiles tell much about a company: others on the machine do not read them. */
#define DIR_MODE  0750
#define FILE_MODE 0640

struct real_fs {
    struct fs fs;
    int dir; /* the root */
    char root[];
};

struct real_file {
    struct fs_file file;
    int fd;
    char path[];
};

static struct real_fs *real_of(struct fs *fs)
{
    return (struct real_fs *)fs;
}

static struct real_file *file_of(struct fs_file *file)
{
    return (struct real_file *)file;
}

/* -errno, saying what could not be done to which path. */
static int failed(struct fs *fs, const char *what, const char *path, struct error *err)
{
    int r = -errno;

    return error_set(err, r, "could not %s \"%s/%s\": %m", what, real_of(fs)->root, path);
}

static int file_failed(struct fs_file *file, const char *what, struct error *err)
{
    return failed(file->fs, what, file_of(file)->path, err);
}

static int check_path(struct fs *fs, const char *what, const char *path, struct error *err)
{
    if (fs_path_is_sound(path))
        return 0;
    errno = EINVAL;
    return failed(fs, what, path, err);
}

static int real_open(struct fs *fs, const char *path, unsigned flags, struct fs_file **ret,
                     struct error *err)
{
    /* Opening a pipe would wait for ever for its other end. */
    int how = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | (flags & FS_WRITE ? O_RDWR : O_RDONLY);
    int r = check_path(fs, "open", path, err);
    struct stat st;

    if (r < 0)
        return r;
    if (flags & FS_CREATE)
        how |= O_CREAT;
    if (flags & FS_EXCLUSIVE)
        how |= O_EXCL;
    CLEANUP(closep) int fd = openat(real_of(fs)->dir, path, how, FILE_MODE);
    if (fd < 0)
        return failed(fs, flags & FS_CREATE ? "create" : "open", path, err);
    if (fstat(fd, &st) < 0)
        return failed(fs, "open", path, err);
    if (!S_ISREG(st.st_mode))
        return error_set(err, -EBADMSG, "could not open \"%s/%s\": it is not a file",
                         real_of(fs)->root, path);
    size_t size = strlen(path) + 1;
    struct real_file *f = malloc(sizeof(*f) + size);
    if (!f)
        return failed(fs, "open", path, err);
    f->file.fs = fs;
    f->fd = TAKE_FD(fd);
    memcpy(f->path, path, size);
    *ret = &f->file;
    return 0;
}

static void real_close(struct fs_file *file)
{
    close(file_of(file)->fd);
    free(file);
}

static ssize_t real_pread(struct fs_file *file, void *to, size_t n, uint64_t offset,
                          struct error *err)
{
    size_t done = 0;

    while (done < n) {
        ssize_t got =
            pread(file_of(file)->fd, (uint8_t *)to + done, n - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return file_failed(file, "read", err);
        if (got == 0)
            break;
        done += (size_t)got;
    }
    return (ssize_t)done;
}

static int real_pwrite(struct fs_file *file, const void *from, size_t n, uint64_t offset,
                       struct error *err)
{
    for (size_t done = 0; done < n;) {
        ssize_t put = pwrite(file_of(file)->fd, (const uint8_t *)from + done, n - done,
                             (off_t)(offset + done));
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return file_failed(file, "write", err);
        done += (size_t)put;
    }
    return 0;
}

static int real_sync(struct fs_file *file, struct error *err)
{
    return fdatasync(file_of(file)->fd) < 0 ? file_failed(file, "sync", err) : 0;
}

static int real_truncate(struct fs_file *file, uint64_t size, struct error *err)
{
    int r;

    do
        r = ftruncate(file_of(file)->fd, (off_t)size);
    while (r < 0 && errno == EINTR);
    return r < 0 ? file_failed(file, "truncate", err) : 0;
}

static int real_size(struct fs_file *file, uint64_t *ret, struct error *err)
{
    struct stat st;

    if (fstat(file_of(file)->fd, &st) < 0)
        return file_failed(file, "get the size of", err);
    *ret = (uint64_t)st.st_size;
    return 0;
}

/* The process that says in the file that it holds the lock, or 0. */
static uint64_t holder(const struct real_file *f)
{
    char text[21];
    uint64_t pid;
    ssize_t n = pread(f->fd, text, sizeof(text), 0);
    struct bytes digits = {(const uint8_t *)text, 0};

    while ((ssize_t)digits.len < n && text[digits.len] >= '0' && text[digits.len] <= '9')
        digits.len++;
    return bytes_to_u64(digits, &pid) ? pid : 0;
}

/* An open file description lock: it ends with the descriptor, and two in one process exclude each
 * other too. */
static int real_lock(struct fs_file *file, struct error *err)
{
    const struct real_file *f = file_of(file);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    if (fcntl(f->fd, F_OFD_SETLK, &lock) == 0)
        return 0;
    if (errno != EAGAIN && errno != EACCES)
        return file_failed(file, "lock", err);
    uint64_t pid = holder(f);
    if (pid == 0)
        return error_set(err, -EBUSY, "could not lock \"%s/%s\": another process holds it",
                         real_of(file->fs)->root, f->path);
    return error_set(err, -EBUSY, "could not lock \"%s/%s\": process %ju holds it",
                     real_of(file->fs)->root, f->path, (uintmax_t)pid);
}

static int check_paths(struct fs *fs, const char *what, const char *from, const char *to,
                       struct error *err)
{
    int r = check_path(fs, what, from, err);

    return r < 0 ? r : check_path(fs, what, to, err);
}

static int real_rename(struct fs *fs, const char *from, const char *to, struct error *err)
{
    int dir = real_of(fs)->dir, r = check_paths(fs, "rename", from, to, err);

    if (r < 0)
        return r;
    if (renameat(dir, from, dir, to) == 0)
        return 0;
    return error_set(err, -errno, "could not rename \"%s/%s\" to \"%s\": %m", real_of(fs)->root,
                     from, to);
}

static int real_unlink(struct fs *fs, const char *path, struct error *err)
{
    int r = check_path(fs, "remove", path, err);

    if (r < 0)
        return r;
    return unlinkat(real_of(fs)->dir, path, 0) < 0 ? failed(fs, "remove", path, err) : 0;
}

static int real_mkdir(struct fs *fs, const char *path, struct error *err)
{
    struct stat st;
    int dir = real_of(fs)->dir, r = check_path(fs, "make the directory", path, err);

    if (r < 0 || mkdirat(dir, path, DIR_MODE) == 0)
        return r;
    if (errno == EEXIST) {
        if (fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode))
            return 0;
        errno = EEXIST;
    }
    return failed(fs, "make the directory", path, err);
}

static int real_link(struct fs *fs, const char *from, const char *to, struct error *err)
{
    int dir = real_of(fs)->dir, r = check_paths(fs, "link", from, to, err);

    if (r < 0)
        return r;
    if (linkat(dir, from, dir, to, 0) == 0)
        return 0;
    return error_set(err, -errno, "could not link \"%s/%s\" as \"%s\": %m", real_of(fs)->root, from,
                     to);
}

static int open_dir(struct fs *fs, const char *what, const char *dir, struct error *err)
{
    int r = check_path(fs, what, dir, err);

    if (r < 0)
        return r;
    int fd = openat(real_of(fs)->dir, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    return fd < 0 ? failed(fs, what, dir, err) : fd;
}

static int real_sync_dir(struct fs *fs, const char *dir, struct error *err)
{
    CLEANUP(closep) int fd = open_dir(fs, "sync", dir, err);

    if (fd < 0)
        return fd;
    return fsync(fd) < 0 ? failed(fs, "sync", dir, err) : 0;
}

static bool is_dir(int dir, const struct dirent *e)
{
    struct stat st;

    if (e->d_type != DT_UNKNOWN)
        return e->d_type == DT_DIR;
    return fstatat(dir, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

static int open_list(struct fs *fs, const char *dir, DIR **ret, struct error *err)
{
    int fd = open_dir(fs, "list", dir, err);

    if (fd < 0)
        return fd;
    DIR *d = fdopendir(fd);
    if (!d) {
        int r = failed(fs, "list", dir, err);
        close(fd);
        return r;
    }
    *ret = d;
    return 0;
}

static void closedirp(DIR **d)
{
    if (*d)
        closedir(*d);
}

static int real_list(struct fs *fs, const char *dir, fs_list_fn each, void *arg, struct error *err)
{
    CLEANUP(fs_names_done) struct fs_names names = {0};
    CLEANUP(closedirp) DIR *d = NULL;
    int r = open_list(fs, dir, &d, err);

    if (r < 0)
        return r;
    for (;;) {
        errno = 0;
        const struct dirent *e =
            readdir(d); /* NOLINT(concurrency-mt-unsafe): d is this call's own */
        if (!e && errno != 0)
            return failed(fs, "list", dir, err);
        if (!e)
            break;
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            fs_names_add(&names, e->d_name, is_dir(dirfd(d), e));
    }
    return fs_names_each(&names, each, arg);
}

static int real_path_size(struct fs *fs, const char *path, uint64_t *ret, struct error *err)
{
    struct stat st;
    int r = check_path(fs, "get the size of", path, err);

    if (r < 0)
        return r;
    if (fstatat(real_of(fs)->dir, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return failed(fs, "get the size of", path, err);
    *ret = (uint64_t)st.st_size;
    return 0;
}

static int real_space(struct fs *fs, uint64_t *ret_free, uint64_t *ret_total, struct error *err)
{
    struct statvfs st;

    if (fstatvfs(real_of(fs)->dir, &st) < 0)
        return failed(fs, "get the free space of", ".", err);
    *ret_free = (uint64_t)st.f_bavail * st.f_frsize;
    *ret_total = (uint64_t)st.f_blocks * st.f_frsize;
    return 0;
}

static void real_free(struct fs *fs)
{
    close(real_of(fs)->dir);
    free(fs);
}

static const struct fs_ops real_ops = {
    .open = real_open,
    .close = real_close,
    .pread = real_pread,
    .pwrite = real_pwrite,
    .sync = real_sync,
    .truncate = real_truncate,
    .size = real_size,
    .lock = real_lock,
    .rename = real_rename,
    .unlink = real_unlink,
    .mkdir = real_mkdir,
    .link = real_link,
    .sync_dir = real_sync_dir,
    .list = real_list,
    .path_size = real_path_size,
    .space = real_space,
    .free = real_free,
};

int fs_real_new(const char *root, struct fs **ret, struct error *err)
{
    CLEANUP(closep) int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return error_set(err, -errno, "could not open the directory \"%s\": %m", root);
    size_t size = strlen(root) + 1;
    struct real_fs *fs = malloc(sizeof(*fs) + size);
    if (!fs)
        return error_set(err, -ENOMEM, "could not open the directory \"%s\": %m", root);
    fs->fs = (struct fs){.ops = &real_ops};
    fs->dir = TAKE_FD(fd);
    memcpy(fs->root, root, size);
    *ret = &fs->fs;
    return 0;
}

int fs_real_make_root(const char *root, struct error *err)
{
    struct stat st;

    if (mkdir(root, DIR_MODE) == 0 ||
        (errno == EEXIST && stat(root, &st) == 0 && S_ISDIR(st.st_mode)))
        return 0;
    return error_set(err, -errno, "could not make the directory \"%s\": %m", root);
}

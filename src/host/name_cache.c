#include "host/name_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/must.h"
#include "base/vec.h"

#define FREE_MIN    ((uint64_t)64 << 20) /* of the disk, below which we write nothing to it */
#define FILES_MAX   65536
#define LIST_MEMORY ((size_t)32 << 20)
#define COPY_CHUNK  ((size_t)64 << 10)
#define TMP_PREFIX  ".tmp-"
#ifndef MFD_NOEXEC_SEAL /* from Linux 6.3 on */
#define MFD_NOEXEC_SEAL 8u
#endif

static const char *const suffixes[NAME_CACHE_KIND_COUNT] = {
    [NAME_CACHE_NAMES] = "names-1", [NAME_CACHE_UNWIND] = "unwind-1"};

struct name_cache {
    int folder; /* -1: none */
    dev_t device;
    uint64_t max_bytes;
    uint64_t n_tmp;
    struct name_cache_stats stats;
};

/* A file of the folder. */
struct kept {
    char name[256];
    uint64_t size;
    int64_t used_ns;
};
struct kept_list {
    struct budget budget;
    VEC(struct kept) files;
};

static bool is_ours(const struct stat *st)
{
    return S_ISREG(st->st_mode) && st->st_uid == geteuid() && (st->st_mode & 022) == 0 &&
           st->st_size >= 0;
}

static void list_one(struct name_cache *c, struct kept_list *l, const char *name)
{
    struct kept k = {.size = 0};
    struct stat st;

    if (name[0] == '.' && strncmp(name, TMP_PREFIX, strlen(TMP_PREFIX)) != 0)
        return;
    /* What an earlier run left behind, or is not ours, is not kept. */
    if (name[0] == '.' || fstatat(c->folder, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !is_ours(&st)) {
        unlinkat(c->folder, name, 0);
        return;
    }
    snprintf(k.name, sizeof(k.name), "%s", name);
    k.size = (uint64_t)st.st_size;
    k.used_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    vec_push(&l->budget, &l->files, k);
}

/* The files there are; counts them anew. */
static void list_files(struct name_cache *c, struct kept_list *l)
{
    int fd = openat(c->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    const struct dirent *e;

    budget_init(&l->budget, LIST_MEMORY);
    if (!dir) {
        if (fd >= 0)
            close(fd);
        return;
    }
    while (l->files.len < FILES_MAX && (e = readdir(dir)))
        list_one(c, l, e->d_name);
    closedir(dir);
    c->stats.files = l->files.len;
    c->stats.bytes = 0;
    for (size_t i = 0; i < l->files.len; i++)
        c->stats.bytes += l->files.data[i].size;
}

static int compare_kept(const void *a, const void *b)
{
    const struct kept *x = a, *y = b;

    return x->used_ns < y->used_ns ? -1 : x->used_ns > y->used_ns;
}

/* Drops what was not used for longest until an eighth is free again. */
static void make_room(struct name_cache *c)
{
    struct kept_list l = {.files = {0}};
    uint64_t aim = c->max_bytes - c->max_bytes / 8;

    list_files(c, &l);
    if (l.files.len > 0)
        qsort(l.files.data, l.files.len, sizeof(struct kept), compare_kept);
    for (size_t i = 0; i < l.files.len && (c->stats.bytes > aim || c->stats.files >= FILES_MAX / 2);
         i++) {
        if (unlinkat(c->folder, l.files.data[i].name, 0) < 0)
            continue;
        c->stats.bytes -= l.files.data[i].size;
        c->stats.files--;
        c->stats.evicted++;
    }
    vec_done(&l.budget, &l.files);
}

static int open_folder(struct name_cache *c, const char *folder, struct error *err)
{
    struct stat st;

    if (mkdir(folder, 0700) < 0 && errno != EEXIST)
        return error_set(err, -errno, "could not make the folder \"%s\": %m", folder);
    c->folder = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (c->folder < 0)
        return error_set(err, -errno, "could not open the folder \"%s\": %m", folder);
    if (fstat(c->folder, &st) < 0)
        return error_set(err, -errno, "could not stat the folder \"%s\": %m", folder);
    if (st.st_uid != geteuid() || (st.st_mode & 022) != 0)
        return error_set(err, -EPERM,
                         "the folder \"%s\" must belong to user %u, and nobody else may write to "
                         "it",
                         folder, (unsigned)geteuid());
    c->device = st.st_dev;
    return 0;
}

int name_cache_open(const char *folder, uint64_t max_bytes, struct name_cache **ret,
                    struct error *err)
{
    CLEANUP(name_cache_closep) struct name_cache *c = must_calloc(1, sizeof(*c));
    struct kept_list l = {.files = {0}};

    c->folder = -1;
    c->max_bytes = max_bytes;
    if (folder) {
        int r = open_folder(c, folder, err);
        if (r < 0)
            return r;
        list_files(c, &l);
        vec_done(&l.budget, &l.files);
        if (c->stats.bytes > c->max_bytes)
            make_room(c);
    }
    *ret = TAKE_PTR(c);
    return 0;
}

void name_cache_close(struct name_cache *c)
{
    if (!c)
        return;
    if (c->folder >= 0)
        close(c->folder);
    free(c);
}

struct name_cache_key name_cache_key(const struct parse_facts *f, uint32_t owner, bool has_debug)
{
    struct name_cache_key key;

    snprintf(key.text, sizeof(key.text), "%.128s-%.32s-%u%s", f->build_id, f->htlhash, owner,
             has_debug ? "-d" : "");
    return key;
}

/* The file's name; false for a key that is no plain word. */
static bool file_name(const struct name_cache_key *key, enum name_cache_kind kind, char ret[256])
{
    size_t n = strspn(key->text, "0123456789abcdefABCDEF-d");

    if (n == 0 || key->text[n] != '\0')
        return false;
    snprintf(ret, 256, "%s.%s", key->text, suffixes[kind]);
    return true;
}

int name_cache_get(struct name_cache *c, const struct name_cache_key *key,
                   enum name_cache_kind kind)
{
    char name[256];
    struct stat st;

    if (c->folder < 0 || !file_name(key, kind, name))
        return -ENOENT;
    CLEANUP(closep)
    int fd = openat(c->folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || !is_ours(&st) || st.st_size == 0) {
        if (fd >= 0 || errno == ELOOP) {
            c->stats.refused++;
            name_cache_drop(c, key, kind);
        }
        c->stats.misses++;
        return -ENOENT;
    }
    futimens(fd, NULL); /* used now */
    c->stats.hits++;
    return TAKE_FD(fd);
}

static bool has_room(const struct name_cache *c)
{
    struct statvfs v;

    return fstatvfs(c->folder, &v) == 0 && (uint64_t)v.f_bavail * v.f_frsize >= FREE_MIN;
}

int name_cache_scratch(struct name_cache *c)
{
    int fd = -1;

    if (c->folder >= 0 && has_room(c))
        fd = openat(c->folder, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0)
        fd = memfd_create("vesta-image", MFD_CLOEXEC | MFD_NOEXEC_SEAL);
    if (fd < 0)
        fd = memfd_create("vesta-image", MFD_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int copy_all(int from, int to, uint64_t size)
{
    CLEANUP(freep) uint8_t *chunk = must_calloc(1, COPY_CHUNK);

    for (uint64_t at = 0; at < size;) {
        ssize_t n = pread(from, chunk, COPY_CHUNK, (off_t)at);
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
        ssize_t done = pwrite(to, chunk, (size_t)n, (off_t)at);
        if (done <= 0)
            return done < 0 ? -errno : -EIO;
        at += (uint64_t)done;
    }
    return 0;
}

/* Gives the file a temporary name in the folder: its own, or that of a copy. */
static int give_name(struct name_cache *c, int fd, const struct stat *st, const char *tmp)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (st->st_dev == c->device && st->st_nlink == 0 &&
        linkat(AT_FDCWD, path, c->folder, tmp, AT_SYMLINK_FOLLOW) == 0)
        return 0;
    if (!has_room(c))
        return -ENOSPC;
    CLEANUP(closep)
    int to = openat(c->folder, tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (to < 0)
        return -errno;
    int r = copy_all(fd, to, (uint64_t)st->st_size);
    if (r < 0)
        unlinkat(c->folder, tmp, 0);
    return r;
}

static int keep(struct name_cache *c, const char *name, int fd, const struct stat *st)
{
    char tmp[64];
    struct stat old;

    snprintf(tmp, sizeof(tmp), TMP_PREFIX "%d-%ju", (int)getpid(), (uintmax_t)c->n_tmp++);
    int r = give_name(c, fd, st, tmp);
    if (r < 0)
        return r;
    bool had = fstatat(c->folder, name, &old, AT_SYMLINK_NOFOLLOW) == 0;
    if (renameat(c->folder, tmp, c->folder, name) < 0) {
        r = -errno;
        unlinkat(c->folder, tmp, 0);
        return r;
    }
    uint64_t before = had && old.st_size > 0 ? (uint64_t)old.st_size : 0;
    c->stats.bytes -= before < c->stats.bytes ? before : c->stats.bytes;
    c->stats.bytes += (uint64_t)st->st_size;
    c->stats.files += !had;
    return 0;
}

int name_cache_put(struct name_cache *c, const struct name_cache_key *key,
                   enum name_cache_kind kind, int fd, struct error *err)
{
    char name[256];
    struct stat st;

    if (c->folder < 0)
        return 0;
    if (!file_name(key, kind, name))
        return error_set(err, -EINVAL, "could not keep an image: \"%s\" is no key", key->text);
    if (fstat(fd, &st) < 0)
        return error_set(err, -errno, "could not keep \"%s\": %m", name);
    if ((uint64_t)st.st_size > c->max_bytes / 2)
        return error_set(err, -EFBIG,
                         "could not keep \"%s\": it has %ju bytes, the limit is half of %ju", name,
                         (uintmax_t)st.st_size, (uintmax_t)c->max_bytes);
    int r = keep(c, name, fd, &st);
    if (r < 0) {
        c->stats.failed++;
        errno = -r;
        return error_set(err, r, "could not keep \"%s\": %m", name);
    }
    c->stats.puts++;
    if (c->stats.bytes > c->max_bytes || c->stats.files >= FILES_MAX / 2)
        make_room(c);
    return 0;
}

void name_cache_drop(struct name_cache *c, const struct name_cache_key *key,
                     enum name_cache_kind kind)
{
    char name[256];
    struct stat st;

    if (c->folder < 0 || !file_name(key, kind, name) ||
        fstatat(c->folder, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || unlinkat(c->folder, name, 0) < 0)
        return;
    uint64_t size = S_ISREG(st.st_mode) && st.st_size > 0 ? (uint64_t)st.st_size : 0;
    c->stats.bytes -= size < c->stats.bytes ? size : c->stats.bytes;
    c->stats.files -= c->stats.files > 0;
}

void name_cache_stats(const struct name_cache *c, struct name_cache_stats *ret)
{
    *ret = c->stats;
}

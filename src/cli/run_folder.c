#include "cli/run_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/cleanup.h"

#define PREFIX      "vesta-run-"
#define ROOM_ENOUGH ((uint64_t)16 << 20) /* a process takes an eighth of what is free, or less */
#define EMPTYINGS   100                  /* of a folder that others may still put files into */
#define DEPTH_MAX   64                   /* of folders in it, which anybody can make in root's */
#define LOOKED_AT   10000                /* entries of a place, in search of what was left */
#define TRIES       10
#define FOR_OTHERS  01733 /* make files and find one's own; list none, remove no one else's */

static const char *const places[] = {"/dev/shm", "/tmp"};

/* ---- Taking away ---- */

static bool empty_once(int place, const char *name, unsigned depth);

/* A file, or a folder with all that is in it. */
static bool take_entry(int folder, const char *name, unsigned depth)
{
    if (unlinkat(folder, name, 0) == 0 || unlinkat(folder, name, AT_REMOVEDIR) == 0)
        return true;
    bool is_less = (errno == ENOTEMPTY || errno == EEXIST) && depth < DEPTH_MAX &&
                   empty_once(folder, name, depth + 1);
    return unlinkat(folder, name, AT_REMOVEDIR) == 0 || is_less;
}

/* What is mounted there is nothing of ours. */
static bool is_one_file_system(int a, int b)
{
    struct stat x, y;

    return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev;
}

/* Whether there was something that could be. */
static bool empty_once(int place, const char *name, unsigned depth)
{
    int fd = openat(place, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    bool may = fd >= 0 && (depth == 0 || is_one_file_system(place, fd));
    DIR *dir = may ? fdopendir(fd) : NULL;
    bool is_less = false;

    for (struct dirent *e; dir && (e = readdir(dir));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
            take_entry(fd, e->d_name, depth))
            is_less = true;
    if (dir)
        closedir(dir);
    else if (fd >= 0)
        close(fd);
    return is_less;
}

/* All goes that is in it, also what was made after the last look. */
static void take_away(int place, const char *name)
{
    for (size_t i = 0; i < EMPTYINGS && unlinkat(place, name, AT_REMOVEDIR) < 0; i++)
        if (!empty_once(place, name, 0))
            return;
}

static void take_if_left(int place, const char *name)
{
    struct stat st;
    CLEANUP(closep)
    int fd = openat(place, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_uid == geteuid() &&
        flock(fd, LOCK_EX | LOCK_NB) == 0)
        take_away(place, name);
}

static void take_what_is_left(const char *place)
{
    DIR *dir = opendir(place);
    struct dirent *e;

    for (size_t i = 0; dir && i < LOOKED_AT && (e = readdir(dir)); i++)
        if (strncmp(e->d_name, PREFIX, strlen(PREFIX)) == 0)
            take_if_left(dirfd(dir), e->d_name);
    if (dir)
        closedir(dir);
}

/* ---- Making ---- */

static uint64_t room_in(const char *place)
{
    struct statfs fs;

    if (statfs(place, &fs) < 0)
        return 0;
    return fs.f_blocks > 0 ? (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize : UINT64_MAX;
}

/* Locked; or, before it was, somebody took it for one that was left. */
static bool is_kept(int fd)
{
    struct stat st;
    bool is_others = flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK;

    return !is_others && fstat(fd, &st) == 0 && st.st_nlink > 0;
}

static int make_in(struct run_folder *f, const char *place)
{
    for (size_t i = 0; i < TRIES; i++) {
        snprintf(f->path, sizeof(f->path), "%s/" PREFIX "XXXXXX", place);
        if (!mkdtemp(f->path))
            break;
        f->lock = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        bool is_ours = f->lock >= 0 && is_kept(f->lock);
        if (is_ours && (geteuid() != 0 || fchmod(f->lock, FOR_OTHERS) == 0))
            return 0;
        int why = is_ours ? errno : EAGAIN;
        if (f->lock >= 0)
            close(f->lock);
        (void)rmdir(f->path);
        errno = why;
        if (is_ours)
            break;
    }
    int r = -errno;
    *f = (struct run_folder){.lock = -1};
    return r;
}

int run_folder_make(struct run_folder *f, struct error *err)
{
    uint64_t memory = room_in(places[0]);
    size_t first = memory < ROOM_ENOUGH && room_in(places[1]) > memory;

    for (size_t i = 0; i < ARRAY_SIZE(places); i++)
        take_what_is_left(places[i]);
    int r = make_in(f, places[first]);
    if (r < 0)
        r = make_in(f, places[1 - first]);
    if (r < 0)
        return error_set(err, r, "could not make a folder in /dev/shm or /tmp: %s", strerror(-r));
    return 0;
}

void run_folder_remove(struct run_folder *f)
{
    if (f->path[0])
        take_away(AT_FDCWD, f->path);
    if (f->lock >= 0)
        close(f->lock);
    *f = (struct run_folder){.lock = -1};
}

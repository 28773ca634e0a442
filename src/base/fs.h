#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/error.h"

/*
 * A file system as the store sees it: one directory and what is below it. Behind the table of
 * operations is the real one (fs_real_new) or a simulated disk that loses and breaks things.
 *
 * Paths are relative to the root, parts separated by '/', without "..": "seg/0000000012.seg". The
 * root itself is ".". Errors are negative errno with a text that names the operation and the path.
 *
 * What is durable: the bytes and size of a file after fs_sync() of it, a name (created, renamed,
 * linked, removed) after fs_sync_dir() of its directory. Neither implies the other. After a failed
 * sync nothing is known about what is on disk, and a second sync may claim success: stop writing.
 *
 * Threads: any thread may call anything; one file may be read and written by several at a time.
 * Files are closed before their fs is freed.
 */
struct fs {
    const struct fs_ops *ops;
    atomic_bool is_in_doubt; /* a sync failed: fs_is_in_doubt() */
};

/* An open file; implementations put this first in a struct of their own. */
struct fs_file {
    struct fs *fs;
};

enum {
    FS_READ = 0,
    FS_WRITE = 1,     /* read and write */
    FS_CREATE = 2,    /* make it when it is not there; with FS_WRITE */
    FS_EXCLUSIVE = 4, /* -EEXIST when it is there; with FS_CREATE */
};

/* One name in a directory. Anything but 0 ends the listing and is returned by it. */
typedef int (*fs_list_fn)(void *arg, const char *name, bool is_dir);

/* Each as the function below that has its name. */
struct fs_ops {
    int (*open)(struct fs *fs, const char *path, unsigned flags, struct fs_file **ret,
                struct error *err);
    void (*close)(struct fs_file *file);
    ssize_t (*pread)(struct fs_file *file, void *to, size_t n, uint64_t offset, struct error *err);
    int (*pwrite)(struct fs_file *file, const void *from, size_t n, uint64_t offset,
                  struct error *err);
    int (*sync)(struct fs_file *file, struct error *err);
    int (*truncate)(struct fs_file *file, uint64_t size, struct error *err);
    int (*size)(struct fs_file *file, uint64_t *ret, struct error *err);
    int (*lock)(struct fs_file *file, struct error *err);
    int (*rename)(struct fs *fs, const char *from, const char *to, struct error *err);
    int (*unlink)(struct fs *fs, const char *path, struct error *err);
    int (*mkdir)(struct fs *fs, const char *path, struct error *err);
    int (*link)(struct fs *fs, const char *from, const char *to, struct error *err);
    int (*sync_dir)(struct fs *fs, const char *dir, struct error *err);
    int (*list)(struct fs *fs, const char *dir, fs_list_fn each, void *arg, struct error *err);
    int (*path_size)(struct fs *fs, const char *path, uint64_t *ret, struct error *err);
    int (*space)(struct fs *fs, uint64_t *ret_free, uint64_t *ret_total, struct error *err);
    void (*free)(struct fs *fs);
};

/* The directory `root` of the real file system, which must be there. */
int fs_real_new(const char *root, struct fs **ret, struct error *err);

/* Makes the directory `root` itself, for its user and group only; one that is there is fine. */
int fs_real_make_root(const char *root, struct error *err);

static inline void fs_free(struct fs *fs) /* NULL is fine */
{
    if (fs)
        fs->ops->free(fs);
}
DEFINE_CLEANUP(struct fs *, fs_free)

static inline int fs_open(struct fs *fs, const char *path, unsigned flags, struct fs_file **ret,
                          struct error *err)
{
    return fs->ops->open(fs, path, flags, ret, err);
}

/* Makes nothing durable. NULL is fine. */
static inline void fs_close(struct fs_file *file)
{
    if (file)
        file->fs->ops->close(file);
}
DEFINE_CLEANUP(struct fs_file *, fs_close)

/* How many bytes were read: fewer than n only where the file ends. */
static inline ssize_t fs_pread(struct fs_file *file, void *to, size_t n, uint64_t offset,
                               struct error *err)
{
    return file->fs->ops->pread(file, to, n, offset, err);
}

/* Writes all of it, or fails; then any part may have been written. */
static inline int fs_pwrite(struct fs_file *file, const void *from, size_t n, uint64_t offset,
                            struct error *err)
{
    return file->fs->ops->pwrite(file, from, n, offset, err);
}

/* Makes content and size durable. */
static inline int fs_sync(struct fs_file *file, struct error *err)
{
    int r = file->fs->ops->sync(file, err);

    if (r < 0)
        atomic_store(&file->fs->is_in_doubt, true);
    return r;
}

static inline int fs_truncate(struct fs_file *file, uint64_t size, struct error *err)
{
    return file->fs->ops->truncate(file, size, err);
}

static inline int fs_size(struct fs_file *file, uint64_t *ret, struct error *err)
{
    return file->fs->ops->size(file, ret, err);
}

/*
 * Takes the exclusive lock of a file open for writing, until it is closed, or fails at once with
 * -EBUSY. The text names the holder when the file begins with the decimal id of its process.
 */
static inline int fs_lock(struct fs_file *file, struct error *err)
{
    return file->fs->ops->lock(file, err);
}

/* Replaces `to`, at once: nobody sees neither or a mixture. */
static inline int fs_rename(struct fs *fs, const char *from, const char *to, struct error *err)
{
    return fs->ops->rename(fs, from, to, err);
}

/* Removes a name. Open files stay readable until they are closed. */
static inline int fs_unlink(struct fs *fs, const char *path, struct error *err)
{
    return fs->ops->unlink(fs, path, err);
}

/* A directory that is there is fine. Durable after fs_sync_dir() of the one above. */
static inline int fs_mkdir(struct fs *fs, const char *path, struct error *err)
{
    return fs->ops->mkdir(fs, path, err);
}

/* A second name for a file; -EEXIST when `to` is there. */
static inline int fs_link(struct fs *fs, const char *from, const char *to, struct error *err)
{
    return fs->ops->link(fs, from, to, err);
}

static inline int fs_sync_dir(struct fs *fs, const char *dir, struct error *err)
{
    int r = fs->ops->sync_dir(fs, dir, err);

    if (r < 0)
        atomic_store(&fs->is_in_doubt, true);
    return r;
}

/*
 * Whether a sync has ever failed. It may have lost what others wrote as well, and told only one of
 * them: whoever relies on what was synced looks here after the sync and before going on. Threads
 * that sync the same file or directory must not do so at the same time.
 */
static inline bool fs_is_in_doubt(struct fs *fs)
{
    return atomic_load(&fs->is_in_doubt);
}

/* For whoever begins anew, and writes again all that it cannot know to be on disk. */
static inline void fs_begin_anew(struct fs *fs)
{
    atomic_store(&fs->is_in_doubt, false);
}

/* Calls each(arg, name, is_dir) in the order of names, which were read before the first call: it
 * may change the directory. */
static inline int fs_list(struct fs *fs, const char *dir, fs_list_fn each, void *arg,
                          struct error *err)
{
    return fs->ops->list(fs, dir, each, arg, err);
}

static inline int fs_path_size(struct fs *fs, const char *path, uint64_t *ret, struct error *err)
{
    return fs->ops->path_size(fs, path, ret, err);
}

/* What this process may still write, and the size of the whole. */
static inline int fs_space(struct fs *fs, uint64_t *ret_free, uint64_t *ret_total,
                           struct error *err)
{
    return fs->ops->space(fs, ret_free, ret_total, err);
}

/* 1, 0, or what prevented the answer. */
int fs_exists(struct fs *fs, const char *path, struct error *err);

/* Adds the whole file to `to`; -EFBIG when it is larger than `limit`. */
int fs_read_all(struct fs *fs, const char *path, size_t limit, struct buf *to, struct error *err);

/*
 * Makes `path` hold exactly these bytes, durably and at once: written to "path.tmp", synced,
 * renamed, the directory synced. After a failure `path` is the old file or, when only the last
 * step failed, the new one.
 */
int fs_write_whole(struct fs *fs, const char *path, struct bytes content, struct error *err);

/* For implementations: takes names, sorts them and calls each. */
struct fs_names {
    struct buf text;    /* per name: 'd' or 'f', the name, NUL */
    struct buf offsets; /* size_t into text */
};
void fs_names_add(struct fs_names *names, const char *name, bool is_dir);
int fs_names_each(struct fs_names *names, fs_list_fn each, void *arg);
void fs_names_done(struct fs_names *names);

/* Whether a path keeps the rule at the top of this file. */
bool fs_path_is_sound(const char *path);

#include "base/fs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_MAX_BYTES 1024

int fs_exists(struct fs *fs, const char *path, struct error *err)
{
    uint64_t size;
    int r = fs_path_size(fs, path, &size, err);

    return r == -ENOENT ? 0 : r < 0 ? r : 1;
}

int fs_read_all(struct fs *fs, const char *path, size_t limit, struct buf *to, struct error *err)
{
    CLEANUP(fs_closep) struct fs_file *file = NULL;
    uint64_t size;

    int r = fs_open(fs, path, FS_READ, &file, err);
    if (r < 0)
        return r;
    r = fs_size(file, &size, err);
    if (r < 0)
        return r;
    if (size > limit)
        return error_set(err, -EFBIG, "\"%s\" is %ju bytes long, the limit is %zu", path,
                         (uintmax_t)size, limit);
    uint8_t *at = buf_reserve(to, (size_t)size + 1);
    if (!at)
        return buf_error(to, err);
    ssize_t n = fs_pread(file, at, (size_t)size, 0, err);
    if (n < 0)
        return (int)n;
    to->len += (size_t)n;
    return 0;
}

static int write_tmp(struct fs *fs, const char *tmp, struct bytes content, struct error *err)
{
    CLEANUP(fs_closep) struct fs_file *file = NULL;

    int r = fs_open(fs, tmp, FS_WRITE | FS_CREATE, &file, err);
    if (r < 0)
        return r;
    r = fs_truncate(file, 0, err);
    if (r == 0)
        r = fs_pwrite(file, content.data, content.len, 0, err);
    if (r == 0)
        r = fs_sync(file, err);
    return r;
}

int fs_write_whole(struct fs *fs, const char *path, struct bytes content, struct error *err)
{
    char tmp[PATH_MAX_BYTES];

    if ((size_t)snprintf(tmp, sizeof(tmp), "%s.tmp", path) >= sizeof(tmp))
        return error_set(err, -ENAMETOOLONG, "could not write \"%.64s...\": the path is too long",
                         path);
    int r = write_tmp(fs, tmp, content, err);
    if (r == 0)
        r = fs_rename(fs, tmp, path, err);
    if (r < 0) {
        (void)fs_unlink(fs, tmp, NULL);
        return r;
    }
    const char *slash = strrchr(path, '/');
    if (!slash)
        return fs_sync_dir(fs, ".", err);
    snprintf(tmp, sizeof(tmp), "%.*s", (int)(slash - path), path);
    return fs_sync_dir(fs, tmp, err);
}

void fs_names_add(struct fs_names *names, const char *name, bool is_dir)
{
    size_t offset = names->text.len;

    buf_add(&names->offsets, &offset, sizeof(offset));
    buf_add_byte(&names->text, is_dir ? 'd' : 'f');
    buf_add(&names->text, name, strlen(name) + 1);
}

static int by_name(const void *a, const void *b, void *arg)
{
    const char *text = arg;
    size_t x, y;

    memcpy(&x, a, sizeof(x));
    memcpy(&y, b, sizeof(y));
    return strcmp(text + x + 1, text + y + 1);
}

int fs_names_each(struct fs_names *names, fs_list_fn each, void *arg)
{
    size_t n = names->offsets.len / sizeof(size_t);
    char *text = (char *)names->text.data;

    if (n > 0)
        qsort_r(names->offsets.data, n, sizeof(size_t), by_name, text);
    for (size_t i = 0; i < n; i++) {
        size_t at;
        memcpy(&at, names->offsets.data + i * sizeof(at), sizeof(at));
        int r = each(arg, text + at + 1, text[at] == 'd');
        if (r != 0)
            return r;
    }
    return 0;
}

void fs_names_done(struct fs_names *names)
{
    buf_done(&names->text);
    buf_done(&names->offsets);
}

bool fs_path_is_sound(const char *path)
{
    if (*path == '/' || *path == '\0')
        return false;
    for (const char *part = path; part; part = strchr(part, '/')) {
        part += *part == '/';
        if (strncmp(part, "..", 2) == 0 && (part[2] == '/' || part[2] == '\0'))
            return false;
    }
    return true;
}

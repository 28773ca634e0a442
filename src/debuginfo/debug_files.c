#include "debuginfo/debug_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/must.h"
#include "symbols/elf_file.h"

#define ID_MIN     8
#define ID_MAX     128
#define FILE_NAME  "debuginfo"
#define CHUNK      ((size_t)256 << 10)
#define ELF_MEMORY ((size_t)64 << 20) /* headers and notes of a file */

struct debug_files {
    char *dir;
    uint64_t max_bytes;
    pthread_mutex_t lock; /* bytes, and what becomes of a name */
    uint64_t bytes, n_changes;
};

bool build_id_is_sound(struct bytes id)
{
    if (id.len < ID_MIN || id.len > ID_MAX)
        return false;
    for (size_t i = 0; i < id.len; i++) {
        if (!((id.data[i] >= '0' && id.data[i] <= '9') || (id.data[i] >= 'a' && id.data[i] <= 'f')))
            return false;
    }
    return true;
}

/* Owners are tenants, checked where they come in; once more, since they become a folder's name. */
static bool owner_is_sound(struct bytes owner)
{
    return owner.len > 0 && owner.len <= 64 && owner.data[0] != '.' &&
           !memchr(owner.data, '/', owner.len) && !memchr(owner.data, ':', owner.len) &&
           !memchr(owner.data, '\0', owner.len);
}

/* DIR/OWNER, and below it what is given. */
static void path_of(const struct debug_files *f, struct bytes owner, struct bytes id,
                    const char *name, struct buf *out)
{
    buf_clear(out);
    buf_addf(out, "%s/", f->dir);
    buf_add_bytes(out, owner);
    if (id.len > 0) {
        buf_add_byte(out, '/');
        buf_add_bytes(out, id);
    }
    if (name[0])
        buf_addf(out, "/%s", name);
    (void)buf_cstr(out);
}

static int make_dir(const char *path, struct error *err)
{
    if (mkdir(path, 0700) < 0 && errno != EEXIST) {
        int r = -errno;
        return error_set(err, r, "could not make \"%s\": %m", path);
    }
    return 0;
}

/* ---- What a file is worth */

static enum debug_quality quality_of(struct elf_file *elf)
{
    if (elf_find_section(elf, ".debug_info") || elf_find_section(elf, ".zdebug_info") ||
        elf_find_section(elf, ".gopclntab") || elf_find_section(elf, ".data.rel.ro.gopclntab"))
        return DEBUG_LINES;
    if (elf_find_section(elf, ".symtab") || elf_find_section(elf, ".gnu_debugdata"))
        return DEBUG_NAMES;
    return DEBUG_SEGMENTS;
}

/* The quality of the file at `path`, and its build id. */
static int look_at(const char *path, enum debug_quality *ret, struct build_id_text *ret_id,
                   struct error *err)
{
    struct budget budget;
    CLEANUP(elf_closep) struct elf_file *elf = NULL;

    budget_init(&budget, ELF_MEMORY);
    int r = elf_open(path, &budget, &elf, err);
    if (r < 0)
        return r;
    *ret = quality_of(elf);
    *ret_id = elf_build_id_text(elf);
    return 0;
}

static enum debug_quality quality_at(const struct debug_files *f, struct bytes owner,
                                     struct bytes id)
{
    CLEANUP(buf_done) struct buf path = {0};
    enum debug_quality quality = DEBUG_NONE;
    struct build_id_text found;

    path_of(f, owner, id, FILE_NAME, &path);
    (void)look_at((const char *)path.data, &quality, &found, NULL);
    return quality;
}

enum debug_quality debug_files_quality(struct debug_files *f, struct bytes owner,
                                       struct bytes build_id)
{
    if (!build_id_is_sound(build_id) || !owner_is_sound(owner))
        return DEBUG_NONE;
    enum debug_quality own = quality_at(f, owner, build_id);
    enum debug_quality shared = quality_at(f, BYTES(DEBUG_FILES_SHARED), build_id);
    return own > shared ? own : shared;
}

/* ---- Taking one in */

static int write_all(int fd, const uint8_t *data, size_t n, struct error *err)
{
    while (n > 0) {
        ssize_t done = write(fd, data, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0) {
            int r = -errno;
            return error_set(err, r, "could not write a debug file: %m");
        }
        data += done;
        n -= (size_t)done;
    }
    return 0;
}

static int copy_to(int fd, struct input *in, uint64_t file_max, uint64_t *ret_bytes,
                   struct error *err)
{
    CLEANUP(freep) uint8_t *chunk = must_calloc(1, CHUNK);
    uint64_t bytes = 0;

    for (;;) {
        ssize_t n = input_read(in, chunk, CHUNK, err);
        if (n < 0)
            return (int)n;
        if (n == 0)
            break;
        bytes += (uint64_t)n;
        if (bytes > file_max)
            return error_set(err, -ENOBUFS, "the debug file is larger than %" PRIu64 " bytes",
                             file_max);
        int r = write_all(fd, chunk, (size_t)n, err);
        if (r < 0)
            return r;
    }
    if (fsync(fd) < 0) {
        int r = -errno;
        return error_set(err, r, "could not sync a debug file: %m");
    }
    *ret_bytes = bytes;
    return 0;
}

/* It is what it is said to be, and better than what is there. */
static int check(const struct debug_files *f, struct bytes owner, struct bytes id, const char *path,
                 struct error *err)
{
    struct build_id_text found = {""};
    enum debug_quality quality = DEBUG_NONE;

    int r = look_at(path, &quality, &found, err);
    if (r < 0)
        return error_set(err, -EBADMSG, "this is no ELF file that could be read");
    if (strlen(found.text) != id.len || strncasecmp(found.text, (const char *)id.data, id.len) != 0)
        return error_set(err, -EBADMSG, "the file's build id is \"%s\", not \"%.*s\"", found.text,
                         (int)id.len, (const char *)id.data);
    if (quality <= quality_at(f, owner, id))
        return error_set(err, -EEXIST, "a file as good is there already");
    return 0;
}

static uint64_t size_of(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
}

/* Puts the checked file in its place, within the limit. */
static int settle(struct debug_files *f, struct bytes owner, struct bytes id, const char *from,
                  uint64_t bytes, struct error *err)
{
    CLEANUP(buf_done) struct buf path = {0};

    path_of(f, owner, (struct bytes){0}, "", &path);
    int r = make_dir((const char *)path.data, err);
    path_of(f, owner, id, "", &path);
    if (r == 0)
        r = make_dir((const char *)path.data, err);
    path_of(f, owner, id, FILE_NAME, &path);
    uint64_t old = size_of((const char *)path.data);
    if (r == 0 && f->max_bytes > 0 && f->bytes - old + bytes > f->max_bytes)
        r = error_set(err, -ENOBUFS,
                      "debug files would take %" PRIu64 " bytes; the limit is %" PRIu64,
                      f->bytes - old + bytes, f->max_bytes);
    if (r == 0 && rename(from, (const char *)path.data) < 0) {
        r = -errno;
        error_set(err, r, "could not keep a debug file: %m");
    }
    if (r == 0) {
        f->bytes += bytes - old;
        f->n_changes++;
    }
    return r;
}

int debug_files_put(struct debug_files *f, struct bytes owner, struct bytes build_id,
                    struct input *in, uint64_t file_max, struct error *err)
{
    CLEANUP(buf_done) struct buf path = {0};
    uint64_t bytes = 0;

    if (!build_id_is_sound(build_id))
        return error_set(err, -EINVAL, "a build id is %d to %d lower-case hex digits", ID_MIN,
                         ID_MAX);
    if (!owner_is_sound(owner))
        return error_set(err, -EINVAL, "a bad owner of debug files");
    buf_addf(&path, "%s/.incoming-XXXXXX", f->dir);
    char *name = (char *)(uintptr_t)buf_cstr(&path);
    CLEANUP(closep) int fd = mkostemp(name, O_CLOEXEC);
    if (fd < 0) {
        int r = -errno;
        return error_set(err, r, "could not make a file in \"%s\": %m", f->dir);
    }
    int r = copy_to(fd, in, file_max, &bytes, err);
    pthread_mutex_lock(&f->lock);
    if (r == 0)
        r = check(f, owner, build_id, name, err);
    if (r == 0)
        r = settle(f, owner, build_id, name, bytes, err);
    pthread_mutex_unlock(&f->lock);
    if (r < 0)
        unlink(name);
    return r;
}

int debug_files_delete(struct debug_files *f, struct bytes owner, struct bytes build_id,
                       struct error *err)
{
    CLEANUP(buf_done) struct buf path = {0};
    int r = 0;

    if (!build_id_is_sound(build_id) || !owner_is_sound(owner))
        return error_set(err, -EINVAL, "a build id is %d to %d lower-case hex digits", ID_MIN,
                         ID_MAX);
    pthread_mutex_lock(&f->lock);
    path_of(f, owner, build_id, FILE_NAME, &path);
    uint64_t bytes = size_of((const char *)path.data);
    if (unlink((const char *)path.data) < 0)
        r = error_set(err, -ENOENT, "there is no debug file for that build id");
    else
        f->bytes -= bytes < f->bytes ? bytes : f->bytes;
    f->n_changes += r == 0;
    path_of(f, owner, build_id, "", &path);
    (void)rmdir((const char *)path.data);
    pthread_mutex_unlock(&f->lock);
    return r;
}

/* ---- What there is */

/* Calls fn for each name in a folder but those with a dot in front. A folder that is not there is
 * empty. */
static int each_name(const char *dir, int (*fn)(void *ctx, const char *name), void *ctx)
{
    DIR *d = opendir(dir);
    int r = 0;

    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the folder is this call's own */
    for (struct dirent *e; d && r == 0 && (e = readdir(d));) {
        if (e->d_name[0] != '.')
            r = fn(ctx, e->d_name);
    }
    if (d)
        closedir(d);
    return r;
}

struct listing {
    struct debug_files *files;
    struct bytes owner;
    debug_file_fn sink;
    void *ctx;
};

static int list_one(void *ctx, const char *name)
{
    const struct listing *l = ctx;
    CLEANUP(buf_done) struct buf path = {0};
    struct build_id_text id;
    struct stat st;
    struct debug_file_row row = {.build_id = name};

    path_of(l->files, l->owner, bytes_of(name), FILE_NAME, &path);
    if (!build_id_is_sound(bytes_of(name)) || lstat((const char *)path.data, &st) < 0)
        return 0;
    (void)look_at((const char *)path.data, &row.quality, &id, NULL);
    row.bytes = (uint64_t)st.st_size;
    row.time_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    return l->sink(l->ctx, &row);
}

int debug_files_list(struct debug_files *f, struct bytes owner, debug_file_fn sink, void *ctx,
                     struct error *err)
{
    CLEANUP(buf_done) struct buf path = {0};
    struct listing l = {f, owner, sink, ctx};

    if (!owner_is_sound(owner))
        return error_set(err, -EINVAL, "a bad owner of debug files");
    path_of(f, owner, (struct bytes){0}, "", &path);
    return each_name((const char *)path.data, list_one, &l);
}

static int count_file(void *ctx, const struct debug_file_row *row)
{
    *(uint64_t *)ctx += row->bytes;
    return 0;
}

static int count_owner(void *ctx, const char *name)
{
    struct debug_files *f = ctx;
    (void)debug_files_list(f, bytes_of(name), count_file, &f->bytes, NULL);
    return 0; /* what is no owner is skipped */
}

void debug_files_search_path(const struct debug_files *f, struct bytes owner, struct buf *out)
{
    if (owner_is_sound(owner))
        buf_addf(out, "%s/%.*s:", f->dir, (int)owner.len, (const char *)owner.data);
    buf_addf(out, "%s/" DEBUG_FILES_SHARED, f->dir);
}

uint64_t debug_files_bytes(struct debug_files *f)
{
    pthread_mutex_lock(&f->lock);
    uint64_t bytes = f->bytes;
    pthread_mutex_unlock(&f->lock);
    return bytes;
}

uint64_t debug_files_changes(struct debug_files *f)
{
    pthread_mutex_lock(&f->lock);
    uint64_t n = f->n_changes;
    pthread_mutex_unlock(&f->lock);
    return n;
}

int debug_files_open(const char *dir, uint64_t max_bytes, struct debug_files **ret,
                     struct error *err)
{
    int r = make_dir(dir, err);
    if (r < 0)
        return r;
    struct debug_files *f = must_calloc(1, sizeof(*f));
    f->dir = must_copy(bytes_of(dir));
    f->max_bytes = max_bytes;
    pthread_mutex_init(&f->lock, NULL);
    (void)each_name(dir, count_owner, f);
    *ret = f;
    return 0;
}

void debug_files_close(struct debug_files *f)
{
    if (!f)
        return;
    pthread_mutex_destroy(&f->lock);
    free(f->dir);
    free(f);
}

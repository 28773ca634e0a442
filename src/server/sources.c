#include "server/sources.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/must.h"
#include "server/source_path.h"
#include "wire/tar.h"

#define MAGIC        "VESTASRC"
#define MAGIC_LEN    8
#define HEAD_LEN     8 /* of a record: u32 length of the name, u32 of the content */
#define INCOMING     ".incoming-"
#define SUFFIX       ".src"
#define KEY_PART_MAX 255

struct sources {
    char *dir;
    pthread_mutex_t lock; /* of whoever writes */
};

/* ---- Names on disk */

static bool is_sound_key(const struct source_key *k)
{
    return k->service.len > 0 && k->service.len <= KEY_PART_MAX && k->revision.len > 0 &&
           k->revision.len <= KEY_PART_MAX && !bytes_find_byte(k->service, '\n') &&
           !bytes_find_byte(k->revision, '\n') && !bytes_find_byte(k->service, 0) &&
           !bytes_find_byte(k->revision, 0) && k->tenant.len > 0 && k->tenant.len <= 64 &&
           k->tenant.data[0] != '.' && !bytes_find_byte(k->tenant, '/') &&
           !bytes_find_byte(k->tenant, 0);
}

/* Whose a set is: the content of its first record. */
static void write_key(const struct source_key *k, struct buf *out)
{
    buf_addf(out, "%s\n", k->is_commit ? "commit" : "version");
    buf_add_bytes(out, k->service);
    buf_add_byte(out, '\n');
    buf_add_bytes(out, k->revision);
}

static void folder_of(const struct sources *s, struct bytes tenant, struct buf *out)
{
    buf_addf(out, "%s/", s->dir);
    buf_add_bytes(out, tenant);
}

static void path_of(const struct sources *s, const struct source_key *k, struct buf *out)
{
    CLEANUP(buf_done) struct buf key = {0};

    write_key(k, &key);
    folder_of(s, k->tenant, out);
    buf_addf(out, "/%016" PRIx64 "%016" PRIx64 SUFFIX, checksum64_seeded(key.data, key.len, 1),
             checksum64_seeded(key.data, key.len, 2));
}

static int make_dir(const char *path, struct error *err)
{
    if (mkdir(path, 0700) == 0 || errno == EEXIST)
        return 0;
    return error_set(err, -errno, "could not make \"%s\": %m", path);
}

/* ---- Records */

static int write_all(int fd, const void *data, size_t n, struct error *err)
{
    const uint8_t *at = data;

    while (n > 0) {
        ssize_t done = write(fd, at, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return error_set(err, -errno, "could not write sources: %m");
        at += done;
        n -= (size_t)done;
    }
    return 0;
}

static int write_record(int fd, struct bytes name, struct bytes content, struct error *err)
{
    uint32_t head[2] = {(uint32_t)name.len, (uint32_t)content.len};

    int r = write_all(fd, head, sizeof(head), err);
    if (r == 0)
        r = write_all(fd, name.data, name.len, err);
    return r == 0 ? write_all(fd, content.data, content.len, err) : r;
}

static uint64_t record_len(struct bytes name, struct bytes content)
{
    return HEAD_LEN + name.len + content.len;
}

static int write_start(int fd, const struct source_key *k, struct error *err)
{
    CLEANUP(buf_done) struct buf key = {0};

    write_key(k, &key);
    int r = write_all(fd, MAGIC, MAGIC_LEN, err);
    return r == 0 ? write_record(fd, (struct bytes){0}, buf_bytes(&key), err) : r;
}

/* A record of an open set: its name, and where its content is. */
struct record {
    uint8_t name[SOURCE_NAME_MAX];
    uint32_t name_len, len;
    uint64_t at;   /* of the content */
    uint64_t next; /* record */
};

static bool read_at(int fd, void *to, size_t n, uint64_t at)
{
    size_t got = 0;

    while (got < n) {
        ssize_t more = pread(fd, (uint8_t *)to + got, n - got, (off_t)(at + got));
        if (more < 0 && errno == EINTR)
            continue;
        if (more <= 0)
            return false;
        got += (size_t)more;
    }
    return true;
}

/* False at the end, and at what was not written to its end. */
static bool next_record(int fd, uint64_t size, uint64_t at, struct record *ret)
{
    uint32_t head[2];

    if (at + HEAD_LEN > size || !read_at(fd, head, sizeof(head), at) || head[0] > SOURCE_NAME_MAX ||
        head[1] > SOURCE_FILE_MAX || at + HEAD_LEN + head[0] + head[1] > size)
        return false;
    *ret = (struct record){.name_len = head[0], .len = head[1], .at = at + HEAD_LEN + head[0]};
    ret->next = ret->at + ret->len;
    return read_at(fd, ret->name, ret->name_len, at + HEAD_LEN);
}

/* Whose a set is, and where its files begin; 0 when it is none. */
static uint64_t read_start(int fd, uint64_t size, char key[3 * KEY_PART_MAX])
{
    char magic[MAGIC_LEN];
    struct record first;

    if (!read_at(fd, magic, sizeof(magic), 0) || memcmp(magic, MAGIC, sizeof(magic)) != 0 ||
        !next_record(fd, size, MAGIC_LEN, &first) || first.name_len != 0 ||
        first.len >= 3 * KEY_PART_MAX || !read_at(fd, key, first.len, first.at))
        return 0;
    key[first.len] = '\0';
    return first.next;
}

/* Opens a set; where its files begin. Negative errno. */
static int open_set(const struct sources *s, const struct source_key *k, int flags, uint64_t *size,
                    uint64_t *start)
{
    CLEANUP(buf_done) struct buf path = {0};
    CLEANUP(buf_done) struct buf want = {0};
    char key[3 * KEY_PART_MAX];
    struct stat st;

    path_of(s, k, &path);
    CLEANUP(closep) int fd = open(buf_cstr(&path), flags | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    *size = (uint64_t)st.st_size;
    *start = read_start(fd, *size, key);
    write_key(k, &want);
    if (*start == 0 || strcmp(key, buf_cstr(&want)) != 0)
        return -ENOENT;
    return TAKE_FD(fd);
}

/* ---- What there is */

static void closedirp(DIR **dir)
{
    if (*dir)
        closedir(*dir);
}

/* Splits "commit\nSERVICE\nREVISION". */
static bool parse_key(char *key, struct source_set *ret)
{
    char *service = strchr(key, '\n');
    char *revision = service ? strchr(service + 1, '\n') : NULL;

    if (!revision)
        return false;
    *service++ = *revision++ = '\0';
    ret->is_commit = strcmp(key, "commit") == 0;
    snprintf(ret->service, sizeof(ret->service), "%s", service);
    snprintf(ret->revision, sizeof(ret->revision), "%s", revision);
    return true;
}

static bool look_at(int folder, const char *name, struct source_set *ret)
{
    char key[3 * KEY_PART_MAX];
    struct stat st;
    CLEANUP(closep) int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

    if (fd < 0 || fstat(fd, &st) < 0 || read_start(fd, (uint64_t)st.st_size, key) == 0 ||
        !parse_key(key, ret))
        return false;
    ret->bytes = (uint64_t)st.st_size;
    ret->time_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    return true;
}

static bool is_set(const char *name)
{
    size_t n = strlen(name), suffix = strlen(SUFFIX);
    return name[0] != '.' && n > suffix && strcmp(name + n - suffix, SUFFIX) == 0;
}

int sources_list(struct sources *s, struct bytes tenant, source_set_fn sink, void *ctx)
{
    CLEANUP(buf_done) struct buf path = {0};
    int r = 0;

    folder_of(s, tenant, &path);
    CLEANUP(closedirp) DIR *d = opendir(buf_cstr(&path));
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the folder is this call's own */
    for (struct dirent *e; d && r == 0 && (e = readdir(d));) {
        struct source_set set;
        if (is_set(e->d_name) && look_at(dirfd(d), e->d_name, &set))
            r = sink(ctx, &set);
    }
    return r;
}

/* ---- Room */

struct room {
    uint64_t bytes, spared_bytes;
    char oldest[PATH_MAX];
    uint64_t oldest_bytes;
    struct timespec oldest_time;
};

static bool is_earlier(struct timespec a, struct timespec b)
{
    return a.tv_sec != b.tv_sec ? a.tv_sec < b.tv_sec : a.tv_nsec < b.tv_nsec;
}

static void count_folder(const char *folder, const char *spared, struct room *room)
{
    CLEANUP(closedirp) DIR *d = opendir(folder);

    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the folder is this call's own */
    for (struct dirent *e; d && (e = readdir(d));) {
        char path[PATH_MAX];
        struct stat st;
        if (!is_set(e->d_name) ||
            (size_t)snprintf(path, sizeof(path), "%s/%s", folder, e->d_name) >= sizeof(path) ||
            lstat(path, &st) < 0)
            continue;
        room->bytes += (uint64_t)st.st_size;
        if (strcmp(path, spared) == 0) {
            room->spared_bytes = (uint64_t)st.st_size;
            continue;
        }
        if (room->oldest[0] && !is_earlier(st.st_mtim, room->oldest_time))
            continue;
        memcpy(room->oldest, path, sizeof(path));
        room->oldest_bytes = (uint64_t)st.st_size;
        room->oldest_time = st.st_mtim;
    }
}

/* All tenants' sets: there are few, and they are counted when one is written. */
static void count(const struct sources *s, const char *spared, struct room *room)
{
    CLEANUP(closedirp) DIR *d = opendir(s->dir);

    *room = (struct room){0};
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the folder is this call's own */
    for (struct dirent *e; d && (e = readdir(d));) {
        char path[PATH_MAX];
        if (e->d_name[0] != '.' &&
            (size_t)snprintf(path, sizeof(path), "%s/%s", s->dir, e->d_name) < sizeof(path))
            count_folder(path, spared, room);
    }
}

/* Removes the oldest sets until `more` bytes fit; the one that is being written stays. */
static int make_room(const struct sources *s, const char *spared, uint64_t more, uint64_t max_bytes,
                     struct error *err)
{
    for (;;) {
        struct room room;
        count(s, spared, &room);
        if (room.bytes + more <= max_bytes)
            return 0;
        /* What cannot fit removes nothing. */
        if (room.spared_bytes + more > max_bytes || !room.oldest[0] || unlink(room.oldest) < 0)
            return error_set(err, -EFBIG,
                             "the sources would take %" PRIu64 " bytes: sources.limit is %" PRIu64,
                             room.bytes + more, max_bytes);
    }
}

/* ---- Taking them in */

bool source_is_text(struct bytes content)
{
    return content.len <= SOURCE_FILE_MAX && !bytes_find_byte(content, 0);
}

static int check_key(const struct source_key *k, struct error *err)
{
    if (is_sound_key(k))
        return 0;
    return error_set(err, -EINVAL,
                     "sources are of a service and of its version or commit, of 1 to %d bytes each",
                     KEY_PART_MAX);
}

static int too_many(struct error *err)
{
    return error_set(err, -EFBIG, "more than %d files, which is all that a version may have",
                     SOURCE_FILES_MAX);
}

/* Where the set's next record belongs: what was not written to its end goes. */
static uint64_t end_of(int fd, uint64_t size, uint64_t start, size_t *n)
{
    struct record r;

    for (*n = 0; next_record(fd, size, start, &r); (*n)++)
        start = r.next;
    return start;
}

static int append(struct sources *s, const struct source_key *k, struct bytes name,
                  struct bytes content, struct source_stored *ret, struct error *err)
{
    CLEANUP(buf_done) struct buf path = {0};
    uint64_t size, start, end = 0;
    size_t n;

    path_of(s, k, &path);
    CLEANUP(closep) int fd = open_set(s, k, O_RDWR, &size, &start);
    if (fd >= 0) {
        end = end_of(fd, size, start, &n);
        if (n >= SOURCE_FILES_MAX)
            return too_many(err);
    } else if (fd != -ENOENT) {
        return error_set(err, fd, "could not open \"%s\"", buf_cstr(&path));
    } else {
        fd = open(buf_cstr(&path), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0)
            return error_set(err, -errno, "could not make \"%s\": %m", buf_cstr(&path));
        int r = write_start(fd, k, err);
        if (r < 0)
            return r;
        end = (uint64_t)lseek(fd, 0, SEEK_END);
    }
    if (ftruncate(fd, (off_t)end) < 0 || lseek(fd, (off_t)end, SEEK_SET) < 0)
        return error_set(err, -errno, "could not write sources: %m");
    ret->bytes = end + record_len(name, content);
    ret->stored = 1;
    return write_record(fd, name, content, err);
}

int sources_put_file(struct sources *s, const struct source_key *key, struct bytes name,
                     struct bytes content, uint64_t max_bytes, struct source_stored *ret,
                     struct error *err)
{
    CLEANUP(buf_done) struct buf clean = {0};
    CLEANUP(buf_done) struct buf path = {0};

    *ret = (struct source_stored){0};
    int r = check_key(key, err);
    if (r < 0)
        return r;
    if (!source_name_clean(name, &clean))
        return error_set(err, -EINVAL, "path is no name that a source file can have");
    if (!source_is_text(content))
        return error_set(err, -EINVAL, "a source file is text of at most %" PRIu64 " bytes",
                         SOURCE_FILE_MAX);
    folder_of(s, key->tenant, &path);
    r = make_dir(buf_cstr(&path), err);
    buf_clear(&path);
    path_of(s, key, &path);
    pthread_mutex_lock(&s->lock);
    if (r == 0)
        r = make_room(s, buf_cstr(&path), record_len(buf_bytes(&clean), content), max_bytes, err);
    if (r == 0)
        r = append(s, key, buf_bytes(&clean), content, ret, err);
    pthread_mutex_unlock(&s->lock);
    return r;
}

static void note_skipped(struct source_stored *st, const char *name, const char *why)
{
    if (st->skipped++ == 0)
        error_set(&st->why, 0, "%.200s %s", name, why);
}

/* The content of a file of the tar, of which not more than fits is held. */
static int read_entry(struct tar_reader *t, const struct tar_entry *e, struct buf *to,
                      struct error *err)
{
    buf_clear(to);
    for (uint64_t left = e->size; left > 0;) {
        uint8_t *room = buf_reserve(to, (size_t)left);
        ssize_t n = room ? tar_read(t, room, (size_t)left, err) : buf_error(to, err);
        if (n <= 0)
            return (int)n;
        to->len += (size_t)n;
        left -= (uint64_t)n;
    }
    return 0;
}

static int take_entry(struct tar_reader *t, const struct tar_entry *e, int fd, uint64_t max_bytes,
                      struct source_stored *ret, struct error *err)
{
    CLEANUP(buf_done) struct buf name = {0};
    CLEANUP(buf_done) struct buf content = {0};

    if (!source_name_clean(bytes_of(e->name), &name)) {
        note_skipped(ret, e->name, "is no name that a source file can have");
        return 0;
    }
    if (e->size > SOURCE_FILE_MAX) {
        note_skipped(ret, e->name, "is larger than a source file may be");
        return 0;
    }
    int r = read_entry(t, e, &content, err);
    if (r < 0)
        return r;
    if (!source_is_text(buf_bytes(&content))) {
        note_skipped(ret, e->name, "is no text");
        return 0;
    }
    if (ret->stored == SOURCE_FILES_MAX)
        return too_many(err);
    ret->bytes += record_len(buf_bytes(&name), buf_bytes(&content));
    if (ret->bytes > max_bytes)
        return error_set(err, -EFBIG, "the sources are more than sources.limit, %" PRIu64 " bytes",
                         max_bytes);
    ret->stored++;
    return write_record(fd, buf_bytes(&name), buf_bytes(&content), err);
}

static int copy_tar(int fd, const struct source_key *key, struct input *in, uint64_t max_bytes,
                    struct source_stored *ret, struct error *err)
{
    CLEANUP(freep) struct tar_reader *t = must_calloc(1, sizeof(*t));
    struct tar_entry e;

    t->in = in;
    int r = write_start(fd, key, err);
    while (r == 0 && (r = tar_next(t, &e, err)) > 0)
        r = take_entry(t, &e, fd, max_bytes, ret, err);
    if (r == 0 && ret->stored == 0)
        r = error_set(err, -EBADMSG, "there is no source file in the tar%s%s",
                      ret->skipped > 0 ? ": " : "", ret->why.text);
    if (r == 0 && fdatasync(fd) < 0)
        r = error_set(err, -errno, "could not sync sources: %m");
    return r;
}

/* Puts a new set in its place. */
static int settle(struct sources *s, const struct source_key *key, const char *from, uint64_t bytes,
                  uint64_t max_bytes, struct error *err)
{
    CLEANUP(buf_done) struct buf path = {0};

    folder_of(s, key->tenant, &path);
    int r = make_dir(buf_cstr(&path), err);
    buf_clear(&path);
    path_of(s, key, &path);
    if (r == 0 && unlink(buf_cstr(&path)) < 0 && errno != ENOENT)
        r = error_set(err, -errno, "could not replace sources: %m");
    if (r == 0)
        r = make_room(s, "", bytes, max_bytes, err);
    if (r == 0 && rename(from, buf_cstr(&path)) < 0)
        r = error_set(err, -errno, "could not keep sources: %m");
    return r;
}

int sources_put_tar(struct sources *s, const struct source_key *key, struct input *in,
                    uint64_t max_bytes, struct source_stored *ret, struct error *err)
{
    CLEANUP(buf_done) struct buf path = {0};

    *ret = (struct source_stored){0};
    int r = check_key(key, err);
    if (r < 0)
        return r;
    buf_addf(&path, "%s/" INCOMING "XXXXXX", s->dir);
    char *name = (char *)(uintptr_t)buf_cstr(&path);
    CLEANUP(closep) int fd = mkostemp(name, O_CLOEXEC);
    if (fd < 0)
        return error_set(err, -errno, "could not make a file in \"%s\": %m", s->dir);
    r = copy_tar(fd, key, in, max_bytes, ret, err);
    pthread_mutex_lock(&s->lock);
    if (r == 0)
        r = settle(s, key, name, ret->bytes, max_bytes, err);
    pthread_mutex_unlock(&s->lock);
    if (r < 0)
        unlink(name);
    return r;
}

/* ---- Looking up */

int sources_find(struct sources *s, const struct source_key *key, struct bytes path,
                 struct buf *ret_name, struct buf *ret_text, struct error *err)
{
    uint64_t size, at;
    struct record r, best = {0};
    unsigned fits = 0;

    if (!is_sound_key(key))
        return error_set(err, -ENOENT, "there are no such sources");
    CLEANUP(closep) int fd = open_set(s, key, O_RDONLY, &size, &at);
    for (; fd >= 0 && next_record(fd, size, at, &r); at = r.next) {
        unsigned fit = source_name_fits((struct bytes){r.name, r.name_len}, path);
        if (fit > fits || (fit > 0 && fit == fits && r.name_len <= best.name_len)) {
            fits = fit;
            best = r;
        }
    }
    if (fits == 0)
        return error_set(err, -ENOENT, "there is no such source file");
    buf_clear(ret_name);
    buf_clear(ret_text);
    buf_add(ret_name, best.name, best.name_len);
    uint8_t *room = buf_reserve(ret_text, best.len + 1);
    if (!room || !read_at(fd, room, best.len, best.at))
        return error_set(err, -EIO, "could not read a source file");
    ret_text->len = best.len;
    return 0;
}

int sources_delete(struct sources *s, const struct source_key *key, struct error *err)
{
    CLEANUP(buf_done) struct buf path = {0};

    if (!is_sound_key(key))
        return error_set(err, -ENOENT, "there are no such sources");
    path_of(s, key, &path);
    pthread_mutex_lock(&s->lock);
    int r = unlink(buf_cstr(&path)) < 0 ? -errno : 0;
    pthread_mutex_unlock(&s->lock);
    return r == 0 ? 0 : error_set(err, r, "there are no such sources");
}

/* ---- Opening */

/* What a server left that ended midway. */
static void remove_incoming(const char *dir)
{
    CLEANUP(closedirp) DIR *d = opendir(dir);

    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the folder is this call's own */
    for (struct dirent *e; d && (e = readdir(d));)
        if (strncmp(e->d_name, INCOMING, strlen(INCOMING)) == 0)
            (void)unlinkat(dirfd(d), e->d_name, 0);
}

int sources_open(const char *dir, struct sources **ret, struct error *err)
{
    int r = make_dir(dir, err);

    if (r < 0)
        return r;
    remove_incoming(dir);
    struct sources *s = must_calloc(1, sizeof(*s));
    s->dir = must_copy(bytes_of(dir));
    pthread_mutex_init(&s->lock, NULL);
    *ret = s;
    return 0;
}

void sources_close(struct sources *s)
{
    if (!s)
        return;
    pthread_mutex_destroy(&s->lock);
    free(s->dir);
    free(s);
}

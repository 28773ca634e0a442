#include "relay/spool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/hex.h"
#include "base/le.h"
#include "base/must.h"

/*
 * A file: magic, codec, raw length, packed length, checksum of all this and of what follows (each
 * 8 bytes, little-endian), then the packed bytes. Its name is its number in hex.
 */
#define MAGIC       "VSPOOL1\n"
#define HEAD_LEN    ((size_t)40)
#define SUM_AT      ((size_t)32)
#define NAME_DIGITS 16
#define PACKED_MAX  ((size_t)32 << 20)
#define RAW_MAX     ((size_t)64 << 20)
#define DIR_MAX     64
#define PATH_MAX_   (DIR_MAX + NAME_DIGITS + 16)

struct kept_file {
    uint64_t number, size;
};

struct spool {
    struct fs *fs;
    char dir[DIR_MAX];
    struct fs_file *lock;
    uint64_t max_bytes, next;

    /* Oldest first; those in front of `first` are gone. */
    struct kept_file *files;
    size_t first, n, cap;

    struct spool_counts counts;
    struct buf content; /* of the file that was read last */
};

static const char *path_of(const struct spool *s, uint64_t number, char path[PATH_MAX_])
{
    snprintf(path, PATH_MAX_, "%s/%016llx.otlp", s->dir, (unsigned long long)number);
    return path;
}

static void remember(struct spool *s, uint64_t number, uint64_t size)
{
    if (s->n == s->cap && s->first > s->cap / 2) {
        memmove(s->files, s->files + s->first, (s->n - s->first) * sizeof(*s->files));
        s->n -= s->first;
        s->first = 0;
    }
    if (s->n == s->cap) {
        s->cap = s->cap ? s->cap * 2 : 64;
        s->files = must_realloc(s->files, s->cap * sizeof(*s->files));
    }
    s->files[s->n++] = (struct kept_file){number, size};
    s->counts.files++;
    s->counts.bytes += size;
}

/* Takes the oldest off, and its file away. */
static void remove_first(struct spool *s)
{
    char path[PATH_MAX_];
    struct kept_file *f = &s->files[s->first++];

    (void)fs_unlink(s->fs, path_of(s, f->number, path), NULL);
    s->counts.files--;
    s->counts.bytes -= f->size;
    if (s->first == s->n)
        s->first = s->n = 0;
}

static bool number_of(const char *name, uint64_t *ret)
{
    struct bytes digits = bytes_head(bytes_of(name), NAME_DIGITS);

    return digits.len == NAME_DIGITS && strcmp(name + NAME_DIGITS, ".otlp") == 0 &&
           name[1] != 'x' && bytes_to_hex(digits, ret);
}

/* Names come in order, so the oldest comes first. */
static int found(void *arg, const char *name, bool is_dir)
{
    struct spool *s = arg;
    char path[PATH_MAX_];
    uint64_t number, size;

    if (is_dir || strlen(name) > NAME_DIGITS + 12)
        return 0;
    snprintf(path, sizeof(path), "%s/%s", s->dir, name);
    if (!number_of(name, &number)) {
        if (strstr(name, ".tmp"))
            (void)fs_unlink(s->fs, path, NULL); /* not finished */
        return 0;
    }
    if (number == UINT64_MAX || fs_path_size(s->fs, path, &size, NULL) < 0)
        return 0;
    remember(s, number, size);
    s->next = number + 1;
    return 0;
}

static bool is_over(const struct spool *s, uint64_t more)
{
    return s->counts.files >= SPOOL_FILES_MAX || more > s->max_bytes ||
           s->counts.bytes > s->max_bytes - more;
}

static void make_room(struct spool *s, uint64_t size)
{
    while (s->counts.files > 0 && is_over(s, size)) {
        remove_first(s);
        s->counts.dropped++;
    }
}

int spool_open(struct fs *fs, const char *dir, uint64_t max_bytes, struct spool **ret,
               struct error *err)
{
    CLEANUP(spool_closep) struct spool *s = must_calloc(1, sizeof(*s));
    char path[PATH_MAX_];

    s->fs = fs;
    s->max_bytes = max_bytes;
    if ((size_t)snprintf(s->dir, sizeof(s->dir), "%s", dir) >= sizeof(s->dir))
        return error_set(err, -ENAMETOOLONG, "the spool's folder \"%s\" has too long a name", dir);
    snprintf(path, sizeof(path), "%s/lock", dir);
    int r = fs_mkdir(fs, dir, err);
    if (r == 0)
        r = fs_sync_dir(fs, ".", err);
    if (r == 0)
        r = fs_open(fs, path, FS_WRITE | FS_CREATE, &s->lock, err);
    if (r == 0)
        r = fs_lock(s->lock, err);
    if (r == 0)
        r = fs_list(fs, dir, found, s, err);
    if (r < 0)
        return error_prefix(err, r, "could not use the spool");
    make_room(s, 0);
    *ret = TAKE_PTR(s);
    return 0;
}

void spool_close(struct spool *s)
{
    if (!s)
        return;
    fs_close(s->lock);
    buf_done(&s->content);
    free(s->files);
    free(s);
}

static uint64_t sum_of(const uint8_t *head, struct bytes packed)
{
    return checksum64_seeded(packed.data, packed.len, checksum64(head, SUM_AT));
}

int spool_put(struct spool *s, const struct spool_item *item, struct error *err)
{
    uint64_t size = HEAD_LEN + item->packed.len;
    char path[PATH_MAX_];

    if (size > s->max_bytes || item->packed.len > PACKED_MAX)
        return error_set(err, -EFBIG, "%zu bytes do not fit the spool of %llu bytes",
                         item->packed.len, (unsigned long long)s->max_bytes);
    make_room(s, size);
    buf_clear(&s->content);
    uint8_t *head = buf_reserve(&s->content, (size_t)size);
    memcpy(head, MAGIC, 8);
    le64_put(head + 8, item->codec);
    le64_put(head + 16, item->raw_len);
    le64_put(head + 24, item->packed.len);
    le64_put(head + SUM_AT, sum_of(head, item->packed));
    s->content.len = HEAD_LEN;
    buf_add_bytes(&s->content, item->packed);
    int r = fs_write_whole(s->fs, path_of(s, s->next, path), buf_bytes(&s->content), err);
    if (r < 0) {
        (void)fs_unlink(s->fs, path, NULL); /* there, and perhaps not durable: the caller has it */
        return r;
    }
    remember(s, s->next++, size);
    s->counts.kept++;
    return 0;
}

static bool read_item(struct bytes file, struct spool_item *ret)
{
    if (file.len < HEAD_LEN || memcmp(file.data, MAGIC, 8) != 0)
        return false;
    uint64_t codec = le64_get(file.data + 8), raw = le64_get(file.data + 16);
    struct bytes packed = bytes_from(file, HEAD_LEN);
    if (le64_get(file.data + 24) != packed.len || raw > RAW_MAX ||
        (codec != CODEC_GZIP && codec != CODEC_ZSTD) ||
        le64_get(file.data + SUM_AT) != sum_of(file.data, packed))
        return false;
    *ret =
        (struct spool_item){.codec = (enum codec)codec, .raw_len = (size_t)raw, .packed = packed};
    return true;
}

int spool_peek(struct spool *s, struct spool_item *ret)
{
    char path[PATH_MAX_];

    while (s->first < s->n) {
        uint64_t number = s->files[s->first].number;
        buf_clear(&s->content);
        if (fs_read_all(s->fs, path_of(s, number, path), PACKED_MAX + HEAD_LEN, &s->content,
                        NULL) == 0 &&
            read_item(buf_bytes(&s->content), ret)) {
            ret->number = number;
            return 1;
        }
        remove_first(s);
        s->counts.damaged++;
    }
    return 0;
}

void spool_remove(struct spool *s, uint64_t number)
{
    if (s->first < s->n && s->files[s->first].number == number)
        remove_first(s);
}

void spool_counts(const struct spool *s, struct spool_counts *ret)
{
    *ret = s->counts;
}

/*
 * The layout of a block file. Numbers are little-endian.
 *
 *     header    24 bytes   a file head (file_head.h) with magic "VSEG"
 *     blocks               back to back, no padding
 *     footer               one more block
 *     trailer   72 bytes   the footer's ref (u64 offset, u32 len, u32 raw_len, u64 sum),
 *                          u64 sum of the file, u64 size of the file, u64 file id,
 *                          u16 version, u16 kind, 4 zero bytes, magic "VSEGENDS", u64 sum
 *
 * The sum of the trailer is checksum64 of what stands before it there. The sum of the file covers
 * everything before the trailer: it is taken over pieces of PIECE_BYTES (the last one shorter),
 * each seeded with the sum so far, from 0. So every byte is under at least one sum that a reader
 * can check without knowing what the blocks mean, and each block under one of its own.
 */
#include "segment/block_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/le.h"
#include "segment/block_cache.h"
#include "segment/file_head.h"
#include "segment/file_name.h"
#include "wire/pack.h"

#define MAGIC         "VSEG"
#define TRAILER_BYTES 72
#define TRAILER_MAGIC 0x53444e4547455356u /* "VSEGENDS" */
#define PIECE_BYTES   ((size_t)256 << 10)
#define EXTENSION     "seg"

/* Blocks are packed once and unpacked often, and by that level most of the gain is had. */
#define PACK_LEVEL 3

void block_ref_encode(struct block_ref ref, uint8_t to[BLOCK_REF_BYTES])
{
    le64_put(to, ref.offset);
    le32_put(to + 8, ref.len);
    le32_put(to + 12, ref.raw_len);
    le64_put(to + 16, ref.sum);
}

struct block_ref block_ref_decode(const uint8_t from[BLOCK_REF_BYTES])
{
    return (struct block_ref){
        .offset = le64_get(from),
        .len = le32_get(from + 8),
        .raw_len = le32_get(from + 12),
        .sum = le64_get(from + 16),
    };
}

struct block_writer {
    struct fs *fs;
    struct fs_file *file;
    uint64_t id;
    uint16_t kind;
    char dir[64];
    struct file_name tmp; /* empty once it has its own name */
    uint64_t written;     /* in the file */
    uint64_t sum;         /* of that */
    size_t n_pending;     /* in `pending`, less than PIECE_BYTES between calls */
    struct buf packed;
    uint8_t pending[PIECE_BYTES];
};

void block_writer_free(struct block_writer *w)
{
    if (!w)
        return;
    fs_close(w->file);
    if (w->tmp.text[0])
        (void)fs_unlink(w->fs, w->tmp.text, NULL);
    buf_done(&w->packed);
    free(w);
}

static int write_pending(struct block_writer *w, struct error *err)
{
    if (w->n_pending == 0)
        return 0;
    int r = fs_pwrite(w->file, w->pending, w->n_pending, w->written, err);
    if (r < 0)
        return r;
    w->sum = checksum64_seeded(w->pending, w->n_pending, w->sum);
    w->written += w->n_pending;
    w->n_pending = 0;
    return 0;
}

static int put(struct block_writer *w, struct bytes what, struct error *err)
{
    while (what.len > 0) {
        struct bytes part = bytes_head(what, PIECE_BYTES - w->n_pending);
        memcpy(w->pending + w->n_pending, part.data, part.len);
        w->n_pending += part.len;
        what = bytes_from(what, part.len);
        int r = w->n_pending == PIECE_BYTES ? write_pending(w, err) : 0;
        if (r < 0)
            return r;
    }
    return 0;
}

int block_writer_new(struct fs *fs, const char *dir, uint64_t id, uint16_t kind,
                     struct block_writer **ret, struct error *err)
{
    struct file_name tmp = file_name_tmp(dir, id);
    struct fs_file *file;

    int r = fs_open(fs, tmp.text, FS_WRITE | FS_CREATE | FS_EXCLUSIVE, &file, err);
    if (r < 0)
        return r;
    CLEANUP(block_writer_freep) struct block_writer *w = malloc(sizeof(*w));
    if (!w) {
        fs_close(file);
        (void)fs_unlink(fs, tmp.text, NULL);
        return error_set(err, -ENOMEM, "could not write \"%s\": out of memory", tmp.text);
    }
    memset(w, 0, offsetof(struct block_writer, pending));
    w->fs = fs;
    w->file = file;
    w->id = id;
    w->kind = kind;
    w->tmp = tmp;
    snprintf(w->dir, sizeof(w->dir), "%s", dir);
    struct file_head head = {.version = BLOCK_FILE_VERSION, .kind = kind, .id = id};
    file_head_encode(MAGIC, head, w->pending);
    w->n_pending = FILE_HEAD_BYTES;
    *ret = TAKE_PTR(w);
    return 0;
}

uint64_t block_writer_bytes(const struct block_writer *w)
{
    return w->written + w->n_pending;
}

/* The content packed, or as it is when packing does not save a sixteenth: unpacking takes time. */
static struct bytes pack(struct block_writer *w, struct bytes content)
{
    buf_clear(&w->packed);
    if (content.len == 0 || zstd_pack(content, PACK_LEVEL, &w->packed) < 0 ||
        w->packed.len > content.len - content.len / 16)
        return content;
    return buf_bytes(&w->packed);
}

int block_writer_add(struct block_writer *w, struct bytes content, bool may_pack,
                     struct block_ref *ret, struct error *err)
{
    if (content.len > BLOCK_BYTES_MAX)
        return error_set(err, -EFBIG,
                         "could not add a block of %zu bytes to \"%s\": the limit is %u",
                         content.len, w->tmp.text, BLOCK_BYTES_MAX);
    struct bytes stored = may_pack ? pack(w, content) : content;
    struct block_ref ref = {
        .offset = block_writer_bytes(w),
        .len = (uint32_t)stored.len,
        .raw_len = stored.data == content.data ? 0 : (uint32_t)content.len,
        .sum = checksum64(stored.data, stored.len),
    };
    int r = put(w, stored, err);
    if (r < 0)
        return r;
    *ret = ref;
    return 0;
}

static void trailer_encode(const struct block_writer *w, struct block_ref footer,
                           uint8_t to[TRAILER_BYTES])
{
    block_ref_encode(footer, to);
    le64_put(to + 24, w->sum);
    le64_put(to + 32, w->written + TRAILER_BYTES);
    le64_put(to + 40, w->id);
    le16_put(to + 48, BLOCK_FILE_VERSION);
    le16_put(to + 50, w->kind);
    le32_put(to + 52, 0);
    le64_put(to + 56, TRAILER_MAGIC);
    le64_put(to + 64, checksum64(to, 64));
}

int block_writer_finish(struct block_writer *w, struct bytes footer, uint64_t *ret_bytes,
                        struct error *err)
{
    struct file_name name = file_name(w->dir, w->id, EXTENSION);
    uint8_t trailer[TRAILER_BYTES];
    struct block_ref ref;

    int r = block_writer_add(w, footer, true, &ref, err);
    if (r == 0)
        r = write_pending(w, err);
    if (r < 0)
        return r;
    trailer_encode(w, ref, trailer);
    r = fs_pwrite(w->file, trailer, sizeof(trailer), w->written, err);
    if (r == 0)
        r = fs_sync(w->file, err);
    if (r == 0)
        r = fs_rename(w->fs, w->tmp.text, name.text, err);
    if (r < 0)
        return r;
    w->tmp.text[0] = '\0';
    r = fs_sync_dir(w->fs, w->dir, err);
    if (r < 0)
        return r;
    *ret_bytes = w->written + TRAILER_BYTES;
    return 0;
}

struct block_file {
    struct fs_file *file;
    uint64_t id, size, sum;
    uint16_t kind;
    struct block_ref footer;
    struct file_name name;
};

void block_file_close(struct block_file *f)
{
    if (!f)
        return;
    fs_close(f->file);
    free(f);
}

uint64_t block_file_id(const struct block_file *f)
{
    return f->id;
}

uint64_t block_file_bytes(const struct block_file *f)
{
    return f->size;
}

struct block_ref block_file_footer(const struct block_file *f)
{
    return f->footer;
}

static int damaged(const struct block_file *f, struct error *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* -EBADMSG naming the file. */
static int damaged(const struct block_file *f, struct error *err, const char *fmt, ...)
{
    char what[256];
    va_list args;

    va_start(args, fmt);
    vsnprintf(what, sizeof(what), fmt, args);
    va_end(args);
    return error_set(err, -EBADMSG, "\"%s\" is damaged: %s", f->name.text, what);
}

/* Reads exactly n bytes: a file that was cut after it was opened is damaged too. */
static int read_exactly(struct block_file *f, void *to, size_t n, uint64_t offset,
                        struct error *err)
{
    ssize_t got = fs_pread(f->file, to, n, offset, err);

    if (got < 0)
        return (int)got;
    if ((size_t)got < n)
        return damaged(f, err, "it ends at byte %" PRIu64 " now, and was %" PRIu64 " bytes long",
                       offset + (uint64_t)got, f->size);
    return 0;
}

/* Version, kind and id, which stand in header and trailer; `where` says which of them. */
static int check_identity(const struct block_file *f, const char *where, struct file_head head,
                          struct error *err)
{
    if (head.version != BLOCK_FILE_VERSION)
        return error_set(err, -EPROTONOSUPPORT,
                         "\"%s\" has format version %u, this program reads version %d",
                         f->name.text, head.version, BLOCK_FILE_VERSION);
    if (head.id != f->id)
        return damaged(f, err, "its %s is that of file %" PRIu64, where, head.id);
    if (head.kind != f->kind)
        return damaged(f, err, "its %s is that of a file of kind %u, not %u", where, head.kind,
                       f->kind);
    return 0;
}

/* Whether the ref lies between header and trailer and is of a size that a block may have. */
static int check_ref(const struct block_file *f, struct block_ref ref, struct error *err)
{
    uint64_t end = f->size - TRAILER_BYTES;

    if (ref.offset < FILE_HEAD_BYTES || ref.offset > end || ref.len > end - ref.offset)
        return damaged(f, err,
                       "a block of %u bytes at %" PRIu64 " is not inside its %" PRIu64 " bytes",
                       ref.len, ref.offset, f->size);
    if (ref.len > BLOCK_BYTES_MAX || ref.raw_len > BLOCK_BYTES_MAX)
        return damaged(f, err, "the block at %" PRIu64 " has %u bytes, the limit is %u", ref.offset,
                       ref.raw_len > ref.len ? ref.raw_len : ref.len, BLOCK_BYTES_MAX);
    return 0;
}

static int read_trailer(struct block_file *f, struct error *err)
{
    uint8_t t[TRAILER_BYTES];

    if (f->size < FILE_HEAD_BYTES + TRAILER_BYTES)
        return damaged(f, err, "it is only %" PRIu64 " bytes long", f->size);
    int r = read_exactly(f, t, sizeof(t), f->size - sizeof(t), err);
    if (r < 0)
        return r;
    if (le64_get(t + 56) != TRAILER_MAGIC)
        return damaged(f, err, "it does not end as such a file does; it may have been cut");
    if (le64_get(t + 64) != checksum64(t, 64))
        return damaged(f, err, "the checksum of its trailer does not hold");
    struct file_head head = {
        .version = le16_get(t + 48), .kind = le16_get(t + 50), .id = le64_get(t + 40)};
    r = check_identity(f, "trailer", head, err);
    if (r < 0)
        return r;
    if (le64_get(t + 32) != f->size)
        return damaged(f, err, "it was %" PRIu64 " bytes long and is %" PRIu64 " now",
                       le64_get(t + 32), f->size);
    f->footer = block_ref_decode(t);
    f->sum = le64_get(t + 24);
    return check_ref(f, f->footer, err);
}

int block_file_open(struct fs *fs, const char *dir, uint64_t id, uint16_t kind,
                    struct block_file **ret, struct error *err)
{
    CLEANUP(block_file_closep) struct block_file *f = calloc(1, sizeof(*f));

    if (!f)
        return error_set(err, -ENOMEM, "could not open a file: out of memory");
    f->id = id;
    f->kind = kind;
    f->name = file_name(dir, id, EXTENSION);
    int r = fs_open(fs, f->name.text, FS_READ, &f->file, err);
    if (r == 0)
        r = fs_size(f->file, &f->size, err);
    if (r == 0)
        r = read_trailer(f, err);
    if (r < 0)
        return r;
    *ret = TAKE_PTR(f);
    return 0;
}

static int out_of_memory(const struct block_file *f, const char *what, size_t n, struct error *err)
{
    return error_set(err, -ENOMEM, "could not %s %zu bytes of \"%s\": out of memory", what, n,
                     f->name.text);
}

/* The bytes of a block as they stand in the file, checked. */
static int read_stored(struct block_file *f, struct block_ref ref, struct block **ret,
                       struct error *err)
{
    CLEANUP(block_unrefp) struct block *b = block_new(ref.len);

    if (!b)
        return out_of_memory(f, "read", ref.len, err);
    int r = read_exactly(f, b->data, ref.len, ref.offset, err);
    if (r < 0)
        return r;
    if (checksum64(b->data, ref.len) != ref.sum)
        return damaged(f, err, "the checksum of the block of %u bytes at %" PRIu64 " does not hold",
                       ref.len, ref.offset);
    *ret = TAKE_PTR(b);
    return 0;
}

static int read_block(struct block_file *f, struct block_ref ref, struct block **ret,
                      struct error *err)
{
    CLEANUP(block_unrefp) struct block *stored = NULL;
    struct error why;

    int r = read_stored(f, ref, &stored, err);
    if (r < 0)
        return r;
    if (ref.raw_len == 0) {
        *ret = TAKE_PTR(stored);
        return 0;
    }
    CLEANUP(block_unrefp) struct block *b = block_new(ref.raw_len);
    if (!b)
        return out_of_memory(f, "unpack", ref.raw_len, err);
    r = zstd_unpack(block_bytes(stored), ref.raw_len, b->data, &why);
    if (r == -EBADMSG)
        return damaged(f, err, "the block at %" PRIu64 ": %s", ref.offset, why.text);
    if (r < 0)
        return error_set(err, r, "\"%s\": %s", f->name.text, why.text);
    *ret = TAKE_PTR(b);
    return 0;
}

int block_file_read(struct block_file *f, struct block_ref ref, struct block_cache *cache,
                    struct block **ret, struct error *err)
{
    int r = check_ref(f, ref, err);
    if (r < 0)
        return r;
    /* An empty block stands where the next one does. */
    if (ref.len == 0)
        cache = NULL;
    CLEANUP(block_unrefp)
    struct block *b = cache ? block_cache_get(cache, f->id, ref.offset) : NULL;
    if (!b || b->len != block_ref_size(ref)) {
        block_unref(TAKE_PTR(b));
        r = read_block(f, ref, &b, err);
        if (r < 0)
            return r;
        if (cache)
            block_cache_put(cache, f->id, ref.offset, b);
    }
    *ret = TAKE_PTR(b);
    return 0;
}

int block_file_check_header(struct block_file *f, struct error *err)
{
    uint8_t h[FILE_HEAD_BYTES];
    struct file_head head;

    int r = read_exactly(f, h, sizeof(h), 0, err);
    if (r < 0)
        return r;
    const char *wrong = file_head_decode(MAGIC, h, &head);
    if (wrong)
        return damaged(f, err, "%s", wrong);
    return check_identity(f, "header", head, err);
}

int block_file_check_all(struct block_file *f, struct error *err)
{
    CLEANUP(freep) uint8_t *piece = malloc(PIECE_BYTES);
    uint64_t end = f->size - TRAILER_BYTES, sum = 0;

    if (!piece)
        return out_of_memory(f, "check", PIECE_BYTES, err);
    struct block_file now = *f; /* others are reading from f */
    int r = read_trailer(&now, err);
    if (r == 0)
        r = block_file_check_header(f, err);
    for (uint64_t at = 0; r == 0 && at < end; at += PIECE_BYTES) {
        size_t n = end - at < PIECE_BYTES ? (size_t)(end - at) : PIECE_BYTES;
        r = read_exactly(f, piece, n, at, err);
        sum = r == 0 ? checksum64_seeded(piece, n, sum) : 0;
    }
    if (r == 0 && sum != now.sum)
        r = damaged(f, err, "the checksum of the whole file does not hold");
    return r;
}

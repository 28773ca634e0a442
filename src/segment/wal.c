/*
 * The layout of a write-ahead log. Numbers are little-endian.
 *
 *     header   24 bytes   magic "VWAL", u16 version, u16 zero, u64 file id, u64 sum of those 16
 *     records             back to back until the end of the file, or until zeros
 *
 * A record:
 *
 *      0  magic f7 "VR" 1a
 *      4  u32  head sum: low half of checksum64 of bytes 8 to 31, seeded with the file id
 *      8  u64  sum of the payload, seeded with the file id
 *     16  u64  seq
 *     24  u32  length of the payload
 *     28  u8   type, and three zero bytes
 *     32       payload
 *
 * Two sums, so that the length is known to be right before anything is done with it: a record with
 * a damaged payload is stepped over, and looking for the next record after a damaged head does not
 * hash what follows every chance magic. The file id as seed ties records to their file.
 */
#include "segment/wal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/le.h"
#include "segment/file_name.h"

#define HEADER_BYTES 24
#define RECORD_BYTES 32 /* before the payload */
#define WINDOW_BYTES ((size_t)1 << 20)
#define EXTENSION    "wal"

/* Damage longer than this is taken for the end of the log, so that a file that is no log (or has
 * terabytes of hole) does not hold up recovery. */
#define GAP_BYTES_MAX ((uint64_t)256 << 20)

/* A group buffer that outgrew this is given back after the commit. */
#define GROUP_KEEP_BYTES ((size_t)4 << 20)

static const uint8_t header_magic[4] = "VWAL";
static const uint8_t record_magic[4] = {0xf7, 'V', 'R', 0x1a};

struct wal {
    struct fs_file *file;
    uint64_t id;
    uint64_t durable; /* the size that was synced */
    bool is_dead;
    struct buf group;
    struct file_name name;
};

void wal_free(struct wal *w)
{
    if (!w)
        return;
    fs_close(w->file);
    buf_done(&w->group);
    free(w);
}

/* Writes the header and makes file and name durable. */
static int begin(struct wal *w, struct fs *fs, const char *dir, struct error *err)
{
    uint8_t h[HEADER_BYTES] = {0};

    memcpy(h, header_magic, sizeof(header_magic));
    le16_put(h + 4, WAL_VERSION);
    le64_put(h + 8, w->id);
    le64_put(h + 16, checksum64(h, 16));
    int r = fs_pwrite(w->file, h, sizeof(h), 0, err);
    if (r == 0)
        r = fs_sync(w->file, err);
    if (r == 0)
        r = fs_sync_dir(fs, dir, err);
    w->durable = sizeof(h);
    return r;
}

int wal_create(struct fs *fs, const char *dir, uint64_t id, struct wal **ret, struct error *err)
{
    CLEANUP(wal_freep) struct wal *w = calloc(1, sizeof(*w));

    if (!w)
        return error_set(err, -ENOMEM, "could not create a write-ahead log: out of memory");
    w->id = id;
    w->name = file_name(dir, id, EXTENSION);
    int r = fs_open(fs, w->name.text, FS_WRITE | FS_CREATE | FS_EXCLUSIVE, &w->file, err);
    if (r < 0)
        return r;
    r = begin(w, fs, dir, err);
    if (r < 0) {
        (void)fs_unlink(fs, w->name.text, NULL);
        return r;
    }
    *ret = TAKE_PTR(w);
    return 0;
}

int wal_add(struct wal *w, uint8_t type, uint64_t seq, struct bytes payload, struct error *err)
{
    if (payload.len > WAL_RECORD_BYTES_MAX)
        return error_set(err, -EFBIG, "could not log a record of %zu bytes: the limit is %u",
                         payload.len, WAL_RECORD_BYTES_MAX);
    uint8_t *h = buf_reserve(&w->group, RECORD_BYTES + payload.len);
    memcpy(h, record_magic, sizeof(record_magic));
    le64_put(h + 8, checksum64_seeded(payload.data, payload.len, w->id));
    le64_put(h + 16, seq);
    le32_put(h + 24, (uint32_t)payload.len);
    le32_put(h + 28, type);
    le32_put(h + 4, (uint32_t)checksum64_seeded(h + 8, RECORD_BYTES - 8, w->id));
    w->group.len += RECORD_BYTES;
    buf_add_bytes(&w->group, payload);
    return 0;
}

size_t wal_group_bytes(const struct wal *w)
{
    return w->group.len;
}

void wal_drop(struct wal *w)
{
    buf_clear(&w->group);
    if (w->group.cap > GROUP_KEEP_BYTES)
        buf_done(&w->group);
}

static int write_group(struct wal *w, struct error *err)
{
    if (w->is_dead)
        return error_set(err, -EROFS,
                         "could not write to \"%s\": an earlier failure left it in doubt",
                         w->name.text);
    if (w->group.len == 0)
        return 0;
    int r = fs_pwrite(w->file, w->group.data, w->group.len, w->durable, err);
    if (r < 0) {
        w->is_dead = fs_truncate(w->file, w->durable, NULL) < 0;
        return r;
    }
    r = fs_sync(w->file, err);
    if (r < 0) {
        w->is_dead = true;
        return r;
    }
    w->durable += w->group.len;
    return 0;
}

int wal_commit(struct wal *w, struct error *err)
{
    int r = write_group(w, err);

    wal_drop(w);
    return r;
}

bool wal_is_dead(const struct wal *w)
{
    return w->is_dead;
}

uint64_t wal_bytes(const struct wal *w)
{
    return w->durable;
}

uint64_t wal_id(const struct wal *w)
{
    return w->id;
}

/* A file seen through a window that moves and, for long records, grows. */
struct reader {
    struct fs_file *file;
    uint64_t id;
    uint64_t size;
    uint64_t from; /* where in the file the window is */
    size_t len;
    struct buf window;
    struct wal_report *report;
};

/* Makes the window hold the n bytes at `at`, which lie inside the file; NULL after a failure. */
static const uint8_t *look(struct reader *r, uint64_t at, size_t n, int *failure, struct error *err)
{
    if (at >= r->from && at - r->from <= r->len && n <= r->len - (at - r->from))
        return r->window.data + (at - r->from);

    uint64_t left = r->size - at;
    size_t want = n > WINDOW_BYTES ? n : WINDOW_BYTES;
    if (want > left)
        want = (size_t)left;
    buf_clear(&r->window);
    uint8_t *to = buf_reserve(&r->window, want);
    ssize_t got = fs_pread(r->file, to, want, at, err);
    r->from = at;
    r->len = got < 0 ? 0 : (size_t)got;
    if (got >= (ssize_t)n)
        return to;
    *failure = got < 0 ? (int)got
                       : error_set(err, -EIO,
                                   "could not read the log: it ended at byte %" PRIu64
                                   " while it was read",
                                   at + r->len);
    return NULL;
}

enum verdict { GOOD, BAD_PAYLOAD, BAD_HEAD };

struct found {
    enum verdict verdict;
    struct wal_record record;
};

/* What stands at `at`. */
static int examine(struct reader *r, uint64_t at, struct found *ret, struct error *err)
{
    int failure = 0;

    *ret = (struct found){.verdict = BAD_HEAD};
    if (r->size - at < RECORD_BYTES)
        return 0;
    const uint8_t *h = look(r, at, RECORD_BYTES, &failure, err);
    if (!h)
        return failure;
    uint32_t len = le32_get(h + 24);
    if (memcmp(h, record_magic, sizeof(record_magic)) != 0 || len > WAL_RECORD_BYTES_MAX ||
        le32_get(h + 4) != (uint32_t)checksum64_seeded(h + 8, RECORD_BYTES - 8, r->id))
        return 0;
    ret->verdict = BAD_PAYLOAD;
    ret->record = (struct wal_record){
        .seq = le64_get(h + 16), .offset = at, .type = h[28], .payload = {NULL, len}};
    if (r->size - at - RECORD_BYTES < len)
        return 0;
    h = look(r, at, RECORD_BYTES + (size_t)len, &failure, err);
    if (!h)
        return failure;
    ret->record.payload.data = h + RECORD_BYTES;
    if (checksum64_seeded(h + RECORD_BYTES, len, r->id) == le64_get(h + 8))
        ret->verdict = GOOD;
    return 0;
}

/* The next place at or after `at` where a record may begin, or the end of the file (or of what is
 * worth looking at). */
static int next_magic(struct reader *r, uint64_t at, uint64_t *ret, struct error *err)
{
    uint64_t until = r->size - at > GAP_BYTES_MAX ? at + GAP_BYTES_MAX : r->size;
    int failure = 0;

    while (at < until && r->size - at >= sizeof(record_magic)) {
        const uint8_t *p = look(r, at, sizeof(record_magic), &failure, err);
        if (!p)
            return failure;
        struct bytes seen = {p, r->len - (size_t)(at - r->from)};
        const uint8_t *hit = bytes_find(seen, (struct bytes){record_magic, sizeof(record_magic)});
        if (hit) {
            *ret = at + (uint64_t)(hit - p);
            return 0;
        }
        at += seen.len - (sizeof(record_magic) - 1);
    }
    *ret = r->size;
    return 0;
}

/* How many bytes from `at` on are not part of the zeros at the end of the file. */
static int tail_bytes(struct reader *r, uint64_t at, uint64_t *ret, struct error *err)
{
    uint64_t start = at, end = at;
    int failure = 0;

    while (at < r->size) {
        if (at - start > GAP_BYTES_MAX) {
            *ret = r->size - start;
            return 0;
        }
        const uint8_t *p = look(r, at, 1, &failure, err);
        if (!p)
            return failure;
        size_t n = r->len - (size_t)(at - r->from), last = n;
        while (last > 0 && p[last - 1] == 0)
            last--;
        if (last > 0)
            end = at + last;
        at += n;
    }
    *ret = end - start;
    return 0;
}

static int read_records(struct reader *r, struct wal_visitor visitor, struct error *err)
{
    uint64_t at = HEADER_BYTES, good_end = at;
    struct found f;
    int e = 0;

    while (at < r->size && at - good_end <= GAP_BYTES_MAX) {
        e = examine(r, at, &f, err);
        if (e < 0)
            return e;
        if (f.verdict == BAD_HEAD) {
            e = next_magic(r, at + 1, &at, err);
            if (e < 0)
                return e;
            continue;
        }
        if (f.verdict == GOOD) {
            r->report->n_skipped += at > good_end;
            r->report->skipped_bytes += at - good_end;
            r->report->n_records++;
            e = visitor.record(visitor.arg, &f.record, err);
            if (e != 0)
                return e;
            good_end = at + RECORD_BYTES + f.record.payload.len;
        }
        if (r->size - at - RECORD_BYTES < f.record.payload.len)
            break; /* cut: nothing can follow */
        at += RECORD_BYTES + f.record.payload.len;
    }
    return tail_bytes(r, good_end, &r->report->torn_bytes, err);
}

static int read_header(struct reader *r, const char *name, struct error *err)
{
    int failure = 0;
    const uint8_t *h = look(r, 0, HEADER_BYTES, &failure, err);

    if (!h)
        return failure;
    r->report->is_header_bad = memcmp(h, header_magic, sizeof(header_magic)) != 0 ||
                               le64_get(h + 16) != checksum64(h, 16) || le64_get(h + 8) != r->id;
    if (!r->report->is_header_bad && le16_get(h + 4) != WAL_VERSION)
        return error_set(err, -EPROTONOSUPPORT,
                         "\"%s\" has format version %u, this program reads version %d", name,
                         le16_get(h + 4), WAL_VERSION);
    return 0;
}

static int read_file(struct reader *r, const char *name, struct wal_visitor visitor,
                     struct error *err)
{
    r->report->bytes = r->size;
    if (r->size < HEADER_BYTES) {
        r->report->torn_bytes = r->size;
        return 0;
    }
    int e = read_header(r, name, err);
    return e < 0 ? e : read_records(r, visitor, err);
}

int wal_read(struct fs *fs, const char *dir, uint64_t id, struct wal_visitor visitor,
             struct wal_report *ret, struct error *err)
{
    struct file_name name = file_name(dir, id, EXTENSION);
    CLEANUP(fs_closep) struct fs_file *file = NULL;
    struct reader r = {.id = id, .report = ret};

    *ret = (struct wal_report){0};
    int e = fs_open(fs, name.text, FS_READ, &file, err);
    if (e == 0)
        e = fs_size(file, &r.size, err);
    if (e < 0)
        return e;
    r.file = file;
    e = read_file(&r, name.text, visitor, err);
    buf_done(&r.window);
    return e;
}

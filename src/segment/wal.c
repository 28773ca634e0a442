/*
 * The layout of a write-ahead log: a file head (file_head.h) with magic "VWAL", then frames
 * (frame.h) with magic f7 "VR" 1a until the end of the file, or until zeros. A frame is a record:
 * its number is the seq, its tag the type; the seed is the file id.
 */
#include "segment/wal.h"

#include <errno.h>
#include <stdlib.h>

#include "segment/file_head.h"
#include "segment/file_name.h"
#include "segment/frame.h"

#define EXTENSION "wal"
#define MAGIC     "VWAL"

/* A group buffer that outgrew this is given back after the commit. */
#define GROUP_KEEP_BYTES ((size_t)4 << 20)

static const struct frame_kind record_kind = {{0xf7, 'V', 'R', 0x1a}, WAL_RECORD_BYTES_MAX};

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
    uint8_t h[FILE_HEAD_BYTES];

    file_head_encode(MAGIC, (struct file_head){.version = WAL_VERSION, .id = w->id}, h);
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
    struct frame f = {.number = seq, .tag = type, .payload = payload};
    frame_add(&record_kind, w->id, &f, &w->group);
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
        /* Synced as well: else a power cut may bring back what was reported as failed. */
        w->is_dead = fs_truncate(w->file, w->durable, NULL) < 0 || fs_sync(w->file, NULL) < 0;
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

/* Takes the header off. 0, with damage told in the report. */
static int read_header(struct fs_file *file, const char *name, uint64_t id,
                       struct wal_report *report, struct error *err)
{
    uint8_t h[FILE_HEAD_BYTES] = {0};
    struct file_head head;

    ssize_t n = fs_pread(file, h, sizeof(h), 0, err);
    if (n < 0)
        return (int)n;
    report->is_header_bad = file_head_decode(MAGIC, h, &head) || head.id != id;
    if (!report->is_header_bad && head.version != WAL_VERSION)
        return error_set(err, -EPROTONOSUPPORT,
                         "\"%s\" has format version %u, this program reads version %d", name,
                         head.version, WAL_VERSION);
    return 0;
}

static int visit(void *arg, const struct frame *frame, struct error *err)
{
    const struct wal_visitor *v = arg;
    struct wal_record record = {.seq = frame->number,
                                .offset = frame->offset,
                                .type = (uint8_t)frame->tag,
                                .payload = frame->payload};

    return v->record(v->arg, &record, err);
}

static int read_records(const struct frame_source *source, struct wal_visitor visitor,
                        struct wal_report *report, struct error *err)
{
    struct frame_report frames;

    int r = frame_read(&record_kind, source, (struct frame_visitor){visit, &visitor}, &frames, err);
    report->n_records = frames.n_frames;
    report->n_skipped = frames.n_skipped;
    report->skipped_bytes = frames.skipped_bytes;
    report->torn_bytes = frames.torn_bytes;
    report->is_cut = frames.is_cut;
    report->good_bytes = frames.good_end;
    return r;
}

int wal_read(struct fs *fs, const char *dir, uint64_t id, struct wal_visitor visitor,
             struct wal_report *ret, struct error *err)
{
    struct file_name name = file_name(dir, id, EXTENSION);
    CLEANUP(fs_closep) struct fs_file *file = NULL;

    *ret = (struct wal_report){0};
    int r = fs_open(fs, name.text, FS_READ, &file, err);
    if (r == 0)
        r = fs_size(file, &ret->bytes, err);
    if (r < 0)
        return r;
    if (ret->bytes < FILE_HEAD_BYTES) {
        ret->torn_bytes = ret->bytes;
        ret->is_cut = ret->bytes > 0;
        return 0;
    }
    struct frame_source source = {
        .file = file, .name = name.text, .from = FILE_HEAD_BYTES, .to = ret->bytes, .seed = id};
    r = read_header(file, name.text, id, ret, err);
    if (r == 0)
        r = read_records(&source, visitor, ret, err);
    return r;
}

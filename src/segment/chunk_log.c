/*
 * The layout of a chunk log: a file head (file_head.h) with magic "VCHK", then frames (frame.h)
 * with magic f9 "VC" 1d. A frame is a chunk: its number is its own offset in the file, its tag the
 * unpacked length of a payload that is zstd, or 0; the seed is the file id. A list is a frame of
 * its own behind that of its chunk, with the highest bit of the tag set and never packed. The file
 * head is written with the first chunk, so that no length but 0 ends inside of it.
 */
#include "segment/chunk_log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "segment/file_head.h"
#include "segment/frame.h"
#include "wire/pack.h"

#define MAGIC "VCHK"

/* Names are written once and kept as long as the data. Higher levels gain little and want tens of
 * MiB of memory. */
#define PACK_LEVEL 6

#define TAG_LIST ((uint32_t)1 << 31)

static const struct frame_kind chunk_kind = {{0xf9, 'V', 'C', 0x1d}, CHUNK_BYTES_MAX};

/* Opens the file and makes it `at` bytes long. */
static int open_at(const struct chunk_log *log, uint64_t at, struct fs_file **ret,
                   struct error *err)
{
    CLEANUP(fs_closep) struct fs_file *file = NULL;
    uint64_t size = 0;

    int r = fs_open(log->fs, log->path, at == 0 ? FS_WRITE | FS_CREATE : FS_WRITE, &file, err);
    if (r == 0)
        r = fs_size(file, &size, err);
    if (r < 0)
        return r;
    if (size < at)
        return error_set(err, -EBADMSG,
                         "\"%s\" is damaged: it is %" PRIu64 " bytes long and was %" PRIu64,
                         log->path, size, at);
    if (size > at)
        r = fs_truncate(file, at, err);
    if (r < 0)
        return r;
    *ret = TAKE_PTR(file);
    return 0;
}

/* Makes the file's name durable. */
static int sync_name(const struct chunk_log *log, struct error *err)
{
    const char *slash = strrchr(log->path, '/');
    CLEANUP(freep)
    char *dir = slash ? strndup(log->path, (size_t)(slash - log->path)) : strdup(".");

    if (!dir)
        return error_set(err, -ENOMEM, "could not sync the directory of \"%s\": out of memory",
                         log->path);
    return fs_sync_dir(log->fs, dir, err);
}

/* Adds the chunk that will stand at `offset`, packed if that makes it smaller. */
static void add_chunk(const struct chunk_log *log, uint64_t offset, struct bytes payload,
                      struct buf *to)
{
    CLEANUP(buf_done) struct buf packed = {0};
    struct frame f = {.number = offset, .payload = payload};

    if (payload.len > 0 && zstd_pack(payload, PACK_LEVEL, &packed) == 0 &&
        packed.len < payload.len) {
        f.tag = (uint32_t)payload.len;
        f.payload = buf_bytes(&packed);
    }
    frame_add(&chunk_kind, log->id, &f, to);
}

static int too_large(const struct chunk_log *log, size_t len, struct error *err)
{
    return error_set(err, -EFBIG, "could not add a chunk of %zu bytes to \"%s\": the limit is %u",
                     len, log->path, CHUNK_BYTES_MAX);
}

int chunk_log_append(const struct chunk_log *log, uint64_t at, struct bytes payload,
                     uint64_t *ret_end, struct error *err)
{
    return chunk_log_append_listed(log, at, payload, (struct bytes){0}, ret_end, err);
}

int chunk_log_append_listed(const struct chunk_log *log, uint64_t at, struct bytes payload,
                            struct bytes list, uint64_t *ret_end, struct error *err)
{
    CLEANUP(fs_closep) struct fs_file *file = NULL;
    CLEANUP(buf_done) struct buf out = {0};
    uint8_t head[FILE_HEAD_BYTES];

    if (payload.len > CHUNK_BYTES_MAX || list.len > CHUNK_BYTES_MAX)
        return too_large(log, payload.len > list.len ? payload.len : list.len, err);
    if (at == 0) {
        file_head_encode(MAGIC, (struct file_head){.version = CHUNK_LOG_VERSION, .id = log->id},
                         head);
        buf_add(&out, head, sizeof(head));
    }
    add_chunk(log, at + out.len, payload, &out);
    if (list.len > 0)
        frame_add(&chunk_kind, log->id,
                  &(struct frame){.number = at + out.len, .tag = TAG_LIST, .payload = list}, &out);
    int r = open_at(log, at, &file, err);
    if (r == 0)
        r = fs_pwrite(file, out.data, out.len, at, err);
    if (r == 0)
        r = fs_sync(file, err);
    if (r == 0 && at == 0)
        r = sync_name(log, err);
    if (r < 0)
        return r;
    *ret_end = at + out.len;
    return 0;
}

struct reading {
    struct chunk_visitor visitor;
    struct chunk_report *report;
    struct buf unpacked;
};

static void count_bad(struct chunk_report *report, uint64_t offset, uint64_t bytes)
{
    if (report->n_bad++ == 0 || offset < report->first_bad)
        report->first_bad = offset;
    report->bad_bytes += bytes;
}

/* The content of a chunk: 0, -EBADMSG, -ENOMEM. */
static int unpack_chunk(struct reading *reading, const struct frame *frame, struct bytes *ret,
                        struct error *err)
{
    *ret = frame->payload;
    if (frame->tag == 0 || frame->tag == TAG_LIST)
        return 0;
    if (frame->tag > CHUNK_BYTES_MAX)
        return -EBADMSG;
    buf_clear(&reading->unpacked);
    ret->data = buf_reserve(&reading->unpacked, frame->tag);
    ret->len = frame->tag;
    return zstd_unpack(frame->payload, frame->tag, reading->unpacked.data, err);
}

static int visit(void *arg, const struct frame *frame, struct error *err)
{
    struct reading *reading = arg;
    struct bytes payload;
    struct error why;

    int r = unpack_chunk(reading, frame, &payload, &why);
    /* Or else a copy in the wrong place. */
    if (r == -EBADMSG || frame->number != frame->offset) {
        count_bad(reading->report, frame->offset, FRAME_HEAD_BYTES + frame->payload.len);
        return 0;
    }
    if (r < 0)
        return error_set(err, r, "%s", why.text);
    reading->report->n_chunks++;
    if (frame->tag == TAG_LIST)
        return reading->visitor.list
                   ? reading->visitor.list(reading->visitor.arg, frame->offset, payload, err)
                   : 0;
    return reading->visitor.chunk(reading->visitor.arg, frame->offset, payload, err);
}

static int read_head(const struct chunk_log *log, struct fs_file *file, struct chunk_report *report,
                     struct error *err)
{
    uint8_t h[FILE_HEAD_BYTES] = {0};
    struct file_head head;

    ssize_t n = fs_pread(file, h, sizeof(h), 0, err);
    if (n < 0)
        return (int)n;
    report->is_header_bad = file_head_decode(MAGIC, h, &head) || head.id != log->id;
    if (!report->is_header_bad && head.version != CHUNK_LOG_VERSION)
        return error_set(err, -EPROTONOSUPPORT,
                         "\"%s\" has format version %u, this program reads version %d", log->path,
                         head.version, CHUNK_LOG_VERSION);
    return 0;
}

/* The frames up to `to`, of which `end` was the length. */
static int read_chunks(const struct frame_source *source, uint64_t end, struct reading *reading,
                       struct error *err)
{
    struct frame_report frames = {.good_end = source->from};
    int r = 0;

    if (source->to > source->from)
        r = frame_read(&chunk_kind, source, (struct frame_visitor){visit, reading}, &frames, err);
    if (frames.n_skipped > 0) {
        count_bad(reading->report, frames.first_skipped, frames.skipped_bytes);
        reading->report->n_bad += frames.n_skipped - 1;
    }
    reading->report->good_end = frames.good_end;
    if (r == 0 && frames.good_end < end)
        count_bad(reading->report, frames.good_end, end - frames.good_end);
    return r;
}

int chunk_log_read(const struct chunk_log *log, uint64_t end, struct chunk_visitor visitor,
                   struct chunk_report *ret, struct error *err)
{
    CLEANUP(fs_closep) struct fs_file *file = NULL;
    struct reading reading = {.visitor = visitor, .report = ret};
    uint64_t size = 0;

    *ret = (struct chunk_report){0};
    if (end == 0)
        return 0;
    int r = fs_open(log->fs, log->path, FS_READ, &file, err);
    if (r == 0)
        r = fs_size(file, &size, err);
    if (r == 0)
        r = read_head(log, file, ret, err);
    if (r < 0)
        return r;
    struct frame_source source = {.file = file,
                                  .name = log->path,
                                  .from = FILE_HEAD_BYTES,
                                  .to = size < end ? size : end,
                                  .seed = log->id};
    r = read_chunks(&source, end, &reading, err);
    buf_done(&reading.unpacked);
    return r;
}

static int visit_list(void *arg, const struct frame *frame, struct error *err)
{
    const struct chunk_visitor *visitor = arg;

    if (frame->tag != TAG_LIST || frame->number != frame->offset)
        return error_set(err, -EBADMSG, "a list is in the wrong place");
    return visitor->list(visitor->arg, frame->offset, frame->payload, err);
}

int chunk_log_read_lists(const struct chunk_log *log, uint64_t end, struct chunk_visitor visitor,
                         struct error *err)
{
    CLEANUP(fs_closep) struct fs_file *file = NULL;
    struct chunk_report report = {0};

    if (end == 0)
        return 0;
    int r = fs_open(log->fs, log->path, FS_READ, &file, err);
    if (r == 0)
        r = read_head(log, file, &report, err);
    if (r < 0)
        return r;
    struct frame_source source = {
        .file = file, .name = log->path, .from = FILE_HEAD_BYTES, .to = end, .seed = log->id};
    return frame_walk(&chunk_kind, &source, TAG_LIST, (struct frame_visitor){visit_list, &visitor},
                      err);
}

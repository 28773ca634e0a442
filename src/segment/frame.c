#include "segment/frame.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/checksum.h"
#include "base/le.h"

#define WINDOW_BYTES ((size_t)1 << 20)

void frame_add(const struct frame_kind *kind, uint64_t seed, const struct frame *frame,
               struct buf *to)
{
    uint8_t *h = buf_reserve(to, FRAME_HEAD_BYTES + frame->payload.len);

    memcpy(h, kind->magic, 4);
    le64_put(h + 8, checksum64_seeded(frame->payload.data, frame->payload.len, seed));
    le64_put(h + 16, frame->number);
    le32_put(h + 24, (uint32_t)frame->payload.len);
    le32_put(h + 28, frame->tag);
    le32_put(h + 4, (uint32_t)checksum64_seeded(h + 8, FRAME_HEAD_BYTES - 8, seed));
    to->len += FRAME_HEAD_BYTES;
    buf_add_bytes(to, frame->payload);
}

/* The source seen through a window that moves and, for long frames, grows. */
struct reader {
    const struct frame_kind *kind;
    const struct frame_source *source;
    uint64_t from; /* where in the file the window is */
    size_t len;
    struct buf window;
};

/* Makes the window hold the n bytes at `at`, which lie inside the source; NULL after a failure. */
static const uint8_t *look(struct reader *r, uint64_t at, size_t n, int *failure, struct error *err)
{
    if (at >= r->from && at - r->from <= r->len && n <= r->len - (at - r->from))
        return r->window.data + (at - r->from);

    uint64_t left = r->source->to - at;
    size_t want = n > WINDOW_BYTES ? n : WINDOW_BYTES;
    if (want > left)
        want = (size_t)left;
    buf_clear(&r->window);
    uint8_t *to = buf_reserve(&r->window, want);
    ssize_t got = fs_pread(r->source->file, to, want, at, err);
    r->from = at;
    r->len = got < 0 ? 0 : (size_t)got;
    if (got >= (ssize_t)n)
        return to;
    if (got < 0)
        *failure = (int)got;
    else
        *failure =
            error_set(err, -EIO, "\"%s\" was cut while it was read: nothing is at byte %" PRIu64,
                      r->source->name, at + r->len);
    return NULL;
}

/* Of the head at `at`; the payload is not there yet. */
static bool decode_head(const struct frame_kind *kind, uint64_t seed, uint64_t at, const uint8_t *h,
                        struct frame *ret)
{
    uint32_t len = le32_get(h + 24);

    if (memcmp(h, kind->magic, 4) != 0 || len > kind->payload_max ||
        le32_get(h + 4) != (uint32_t)checksum64_seeded(h + 8, FRAME_HEAD_BYTES - 8, seed))
        return false;
    *ret = (struct frame){
        .offset = at, .number = le64_get(h + 16), .tag = le32_get(h + 28), .payload = {NULL, len}};
    return true;
}

enum verdict { GOOD, BAD_PAYLOAD, BAD_HEAD };

/* What stands at `at`. *ret is set unless it is BAD_HEAD. */
static int examine(struct reader *r, uint64_t at, enum verdict *ret_verdict, struct frame *ret,
                   struct error *err)
{
    uint64_t left = r->source->to - at, seed = r->source->seed;
    int failure = 0;

    *ret_verdict = BAD_HEAD;
    if (left < FRAME_HEAD_BYTES)
        return 0;
    const uint8_t *h = look(r, at, FRAME_HEAD_BYTES, &failure, err);
    if (!h)
        return failure;
    if (!decode_head(r->kind, seed, at, h, ret))
        return 0;
    *ret_verdict = BAD_PAYLOAD;
    size_t len = ret->payload.len;
    if (left - FRAME_HEAD_BYTES < len)
        return 0;
    h = look(r, at, FRAME_HEAD_BYTES + len, &failure, err);
    if (!h)
        return failure;
    ret->payload.data = h + FRAME_HEAD_BYTES;
    if (checksum64_seeded(ret->payload.data, len, seed) == le64_get(h + 8))
        *ret_verdict = GOOD;
    return 0;
}

/* The next place at or after `at` where a frame may begin, or the end of the source (or of what is
 * worth looking at). */
static int next_magic(struct reader *r, uint64_t at, uint64_t *ret, struct error *err)
{
    uint64_t end = r->source->to;
    uint64_t until = end - at > FRAME_GAP_BYTES_MAX ? at + FRAME_GAP_BYTES_MAX : end;
    int failure = 0;

    while (at < until && end - at >= 4) {
        const uint8_t *p = look(r, at, 4, &failure, err);
        if (!p)
            return failure;
        struct bytes seen = {p, r->len - (size_t)(at - r->from)};
        const uint8_t *hit = bytes_find(seen, (struct bytes){r->kind->magic, 4});
        if (hit) {
            *ret = at + (uint64_t)(hit - p);
            return 0;
        }
        at += seen.len - 3;
    }
    *ret = end;
    return 0;
}

/* How many bytes from `at` on are not part of the zeros at the end of the source. */
static int tail_bytes(struct reader *r, uint64_t at, uint64_t *ret, struct error *err)
{
    uint64_t start = at, end = at, to = r->source->to;
    int failure = 0;

    while (at < to) {
        if (at - start > FRAME_GAP_BYTES_MAX) {
            *ret = to - start;
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

static void count_good(struct frame_report *report, const struct frame *f)
{
    uint64_t gap = f->offset - report->good_end;

    if (gap > 0 && report->n_skipped++ == 0)
        report->first_skipped = report->good_end;
    report->skipped_bytes += gap;
    report->n_frames++;
    report->good_end = f->offset + FRAME_HEAD_BYTES + f->payload.len;
}

static int read_frames(struct reader *r, struct frame_visitor visitor, struct frame_report *report,
                       struct error *err)
{
    uint64_t at = r->source->from, end = r->source->to;
    enum verdict verdict;
    struct frame f = {0};

    while (at < end && at - report->good_end <= FRAME_GAP_BYTES_MAX) {
        int e = examine(r, at, &verdict, &f, err);
        if (e == 0 && verdict == BAD_HEAD) {
            e = next_magic(r, at + 1, &at, err);
            if (e == 0)
                continue;
        }
        if (e < 0)
            return e;
        if (verdict == GOOD) {
            count_good(report, &f);
            e = visitor.frame(visitor.arg, &f, err);
            if (e != 0)
                return e;
        }
        if (end - at - FRAME_HEAD_BYTES < f.payload.len) {
            report->is_cut = at == report->good_end;
            break; /* nothing can follow */
        }
        at += FRAME_HEAD_BYTES + f.payload.len;
    }
    if (end - report->good_end < FRAME_HEAD_BYTES)
        report->is_cut = end > report->good_end;
    return tail_bytes(r, report->good_end, &report->torn_bytes, err);
}

int frame_read(const struct frame_kind *kind, const struct frame_source *source,
               struct frame_visitor visitor, struct frame_report *ret, struct error *err)
{
    struct reader r = {.kind = kind, .source = source};

    *ret = (struct frame_report){.good_end = source->from};
    int e = read_frames(&r, visitor, ret, err);
    buf_done(&r.window);
    return e;
}

static int read_all(const struct frame_source *source, uint64_t at, uint8_t *to, size_t n,
                    struct error *err)
{
    ssize_t got = fs_pread(source->file, to, n, at, err);

    if (got < 0)
        return (int)got;
    return (size_t)got == n ? 0 : error_set(err, -EBADMSG, "\"%s\" is cut", source->name);
}

static int damaged(const struct frame_source *source, uint64_t at, struct error *err)
{
    return error_set(err, -EBADMSG, "\"%s\" is damaged at byte %" PRIu64, source->name, at);
}

/* Reads the payload of `f` into `to`. */
static int read_payload(const struct frame_source *source, const uint8_t *head, struct frame *f,
                        struct buf *to, struct error *err)
{
    size_t len = f->payload.len;

    buf_clear(to);
    uint8_t *data = buf_reserve(to, len);
    int r = read_all(source, f->offset + FRAME_HEAD_BYTES, data, len, err);
    if (r < 0)
        return r;
    f->payload.data = data;
    return checksum64_seeded(data, len, source->seed) == le64_get(head + 8)
               ? 0
               : damaged(source, f->offset, err);
}

int frame_walk(const struct frame_kind *kind, const struct frame_source *source, uint32_t tags,
               struct frame_visitor visitor, struct error *err)
{
    CLEANUP(buf_done) struct buf payload = {0};
    uint8_t head[FRAME_HEAD_BYTES];
    struct frame f;

    for (uint64_t at = source->from; at < source->to; at += sizeof(head) + f.payload.len) {
        if (source->to - at < sizeof(head))
            return damaged(source, at, err);
        int r = read_all(source, at, head, sizeof(head), err);
        if (r < 0)
            return r;
        if (!decode_head(kind, source->seed, at, head, &f) ||
            source->to - at - sizeof(head) < f.payload.len)
            return damaged(source, at, err);
        if (!(f.tag & tags))
            continue;
        r = read_payload(source, head, &f, &payload, err);
        if (r == 0)
            r = visitor.frame(visitor.arg, &f, err);
        if (r != 0)
            return r;
    }
    return 0;
}

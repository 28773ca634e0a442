#include "store_local/side.h"

#include <errno.h>

#include "segment/varint.h"

enum { HAS_LINKS = 1, HAS_TIMES = 2 };

#define TRACES_SEARCHED 64

static bool has_link(const struct side_row *row)
{
    static const struct link none;
    return memcmp(&row->link, &none, sizeof(none)) != 0;
}

/* Where a trace stands among those already written, or how many there are. Rows of one trace mostly
 * follow each other: only the last few are looked at, and one that is found again is listed again.
 */
static size_t find_trace(const struct buf *traces, const uint8_t id[16])
{
    size_t n = traces->len / 16, last = n > TRACES_SEARCHED ? n - TRACES_SEARCHED : 0;

    for (size_t i = n; i > last; i--) {
        if (memcmp(traces->data + (i - 1) * 16, id, 16) == 0)
            return i - 1;
    }
    return n;
}

static void encode_links(const struct side_rows *rows, struct buf *out)
{
    struct buf traces = {0}, refs = {0};

    for (size_t i = 0; i < rows->n; i++) {
        const struct side_row *row = &rows->rows[i];
        if (!has_link(row)) {
            add_varint(&refs, 0);
            continue;
        }
        size_t at = find_trace(&traces, row->link.trace_id);
        if (at * 16 == traces.len)
            buf_add(&traces, row->link.trace_id, 16);
        add_varint(&refs, at + 1);
        buf_add(&refs, row->link.span_id, 8);
    }
    add_varint(out, traces.len / 16);
    buf_add_bytes(out, buf_bytes(&traces));
    buf_add_bytes(out, buf_bytes(&refs));
    buf_done(&traces);
    buf_done(&refs);
}

/* 0 is "not known", so every distance is written one larger: wrapping keeps all of them apart but
 * one, 2^64 - 1, which no two times have. */
static void encode_times(const struct side_rows *rows, int64_t start_ns, struct buf *out)
{
    uint64_t before = (uint64_t)start_ns;

    for (size_t i = 0; i < rows->n; i++) {
        uint64_t time = rows->rows[i].time_ns;
        if (time == 0) {
            add_varint(out, 0);
            continue;
        }
        add_varint(out, zigzag((int64_t)(time - before)) + 1);
        before = time;
    }
}

void side_encode(const struct side_rows *rows, int64_t start_ns, struct buf *out)
{
    unsigned flags = 0;

    for (size_t i = 0; i < rows->n; i++)
        flags |=
            (has_link(&rows->rows[i]) ? HAS_LINKS : 0u) | (rows->rows[i].time_ns ? HAS_TIMES : 0u);
    add_varint(out, rows->n);
    buf_add_byte(out, (uint8_t)flags);
    buf_add_byte(out, (uint8_t)rows->n_values);
    if (flags & HAS_LINKS)
        encode_links(rows, out);
    if (flags & HAS_TIMES)
        encode_times(rows, start_ns, out);
    for (size_t i = 0; i < rows->n; i++)
        add_varint(out, rows->rows[i].node);
    for (size_t i = 0; i < rows->n; i++)
        add_varint(out, rows->rows[i].attrs);
    for (size_t i = 0; i < rows->n * rows->n_values; i++)
        add_varint(out, zigzag(rows->values[i]));
}

struct front {
    uint64_t n;
    uint8_t flags, n_values;
    struct bytes traces; /* 16 bytes each */
};

static bool take_front(struct bytes *in, struct front *ret)
{
    uint64_t n_traces = 0;

    ret->traces = (struct bytes){0};
    /* Each row takes at least two bytes: its node and its attributes. */
    if (!take_varint(in, &ret->n) || !take_byte(in, &ret->flags) ||
        !take_byte(in, &ret->n_values) || ret->flags > (HAS_LINKS | HAS_TIMES) ||
        ret->n > in->len / 2)
        return false;
    if (!(ret->flags & HAS_LINKS))
        return true;
    return take_varint(in, &n_traces) && n_traces <= in->len / 16 &&
           take_bytes(in, n_traces * 16, &ret->traces);
}

static bool take_links(struct bytes *in, const struct front *f, struct side_row *rows)
{
    for (size_t i = 0; i < f->n; i++) {
        uint64_t at;
        struct bytes span;
        if (!take_varint(in, &at) || at > f->traces.len / 16)
            return false;
        if (at == 0)
            continue;
        if (!take_bytes(in, 8, &span))
            return false;
        memcpy(rows[i].link.trace_id, f->traces.data + (at - 1) * 16, 16);
        memcpy(rows[i].link.span_id, span.data, 8);
    }
    return true;
}

static bool take_times(struct bytes *in, uint64_t n, int64_t start_ns, struct side_row *rows)
{
    uint64_t before = (uint64_t)start_ns;

    for (size_t i = 0; i < n; i++) {
        uint64_t v;
        if (!take_varint(in, &v))
            return false;
        if (v == 0)
            continue;
        before += (uint64_t)unzigzag(v - 1);
        rows[i].time_ns = before;
    }
    return true;
}

static bool take_rows(struct bytes *in, const struct front *f, int64_t start_ns,
                      struct side_row *rows, int64_t *values)
{
    if ((f->flags & HAS_LINKS) && !take_links(in, f, rows))
        return false;
    if ((f->flags & HAS_TIMES) && !take_times(in, f->n, start_ns, rows))
        return false;
    for (size_t i = 0; i < f->n; i++) {
        if (!take_u32(in, &rows[i].node))
            return false;
    }
    for (size_t i = 0; i < f->n; i++) {
        if (!take_u32(in, &rows[i].attrs))
            return false;
    }
    for (size_t i = 0; i < f->n * f->n_values; i++) {
        uint64_t v;
        if (!take_varint(in, &v))
            return false;
        values[i] = unzigzag(v);
    }
    return in->len == 0;
}

int side_decode(struct bytes in, int64_t start_ns, unsigned n_values, struct budget *b,
                struct side_vecs *vecs, struct side_rows *ret)
{
    struct front f;

    if (!take_front(&in, &f) || f.n_values != n_values)
        return -EBADMSG;
    vecs->rows.len = vecs->values.len = 0;
    if (!vec_resize(b, &vecs->rows, f.n) || !vec_resize(b, &vecs->values, f.n * n_values))
        return -ENOBUFS;
    if (!take_rows(&in, &f, start_ns, vecs->rows.data, vecs->values.data))
        return -EBADMSG;
    *ret = (struct side_rows){.rows = vecs->rows.data,
                              .values = vecs->values.data,
                              .n = (size_t)f.n,
                              .n_values = n_values};
    return 0;
}

void side_vecs_done(struct budget *b, struct side_vecs *vecs)
{
    vec_done(b, &vecs->rows);
    vec_done(b, &vecs->values);
}

size_t side_count(struct bytes in)
{
    struct front f;
    return in.len > 0 && take_front(&in, &f) ? (size_t)f.n : 0;
}

struct wanted {
    const uint8_t *id;
    bool found;
};

static void compare_trace(void *arg, const uint8_t trace_id[16])
{
    struct wanted *w = arg;
    w->found |= memcmp(trace_id, w->id, 16) == 0;
}

bool side_has_trace(struct bytes in, const uint8_t trace_id[16])
{
    struct wanted w = {.id = trace_id};
    return side_traces(in, compare_trace, &w) == 0 && w.found;
}

int side_traces(struct bytes in, void (*each)(void *arg, const uint8_t trace_id[16]), void *arg)
{
    struct front f;

    if (in.len == 0)
        return 0;
    if (!take_front(&in, &f))
        return -EBADMSG;
    for (size_t i = 0; i < f.traces.len; i += 16)
        each(arg, f.traces.data + i);
    return 0;
}

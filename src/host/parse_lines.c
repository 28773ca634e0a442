#include <errno.h>

#include "base/le.h"
#include "host/parse_internal.h"
#include "symbols/binary.h"

/*
 * The answer: for each address a u16 of frames, the innermost first, and of each its line, column
 * and start line (u32), then name and file, each a u16 of bytes and the bytes.
 */
#define FRAMES_MAX  128
#define TEXT_MAX    ((size_t)4096)
#define ANSWER_ROOM (WORKER_ANSWER_MAX - (size_t)1024)

static void put16(struct buf *b, size_t v)
{
    uint8_t p[2];

    le16_put(p, (uint16_t)v);
    buf_add(b, p, sizeof(p));
}

static void put32(struct buf *b, uint32_t v)
{
    uint8_t p[4];

    le32_put(p, v);
    buf_add(b, p, sizeof(p));
}

static void put_text(struct buf *b, const char *text)
{
    size_t n = text ? strnlen(text, TEXT_MAX) : 0;

    put16(b, n);
    buf_add(b, text, n);
}

static void put_frames(struct buf *b, const struct code_frame *f)
{
    size_t count_at = b->len, n = 0;
    uint8_t count[2];

    put16(b, 0);
    for (; f && n < FRAMES_MAX; f = f->outer, n++) {
        put32(b, f->line);
        put32(b, f->column);
        put32(b, f->start_line);
        put_text(b, f->name);
        put_text(b, f->file);
    }
    le16_put(count, (uint16_t)n);
    memcpy(b->data + count_at, count, sizeof(count));
}

int parse_lines_of(struct bytes question, int fd, int debug, struct buf *ret, struct error *err)
{
    struct lookup lookups[PARSE_LINES_MAX];
    struct binary_options options = {.max_memory = PARSE_MEMORY_MAX, .only_lines = true};
    CLEANUP(binary_closep) struct binary *b = NULL;
    size_t n = question.len / 8;

    if (n == 0 || n > PARSE_LINES_MAX || question.len % 8 != 0)
        return error_set(err, -EINVAL, "%zu addresses asked for, the limit is %d", n,
                         PARSE_LINES_MAX);
    for (size_t i = 0; i < n; i++) {
        lookups[i] = (struct lookup){.va = le64_get(question.data + 8 * i)};
        if (i > 0 && lookups[i].va < lookups[i - 1].va)
            return error_set(err, -EINVAL, "addresses asked for do not ascend");
    }
    int r = binary_from_fds(fd, debug, &options, &b, err);
    if (r < 0)
        return r;
    binary_lookup(b, lookups, n);
    for (size_t i = 0; i < n; i++) {
        size_t before = ret->len;
        put_frames(ret, lookups[i].innermost);
        if (ret->len > ANSWER_ROOM) {
            /* One that fits no answer by itself stays without a name. */
            ret->len = before;
            if (i > 0)
                break;
            put16(ret, 0);
        }
    }
    return 0;
}

/* Reading an answer: sticky, so that it is checked once per address. */
struct reader {
    struct bytes rest;
    bool failed;
};

static uint32_t get(struct reader *r, size_t n)
{
    uint32_t v = 0;

    if (r->rest.len < n) {
        r->failed = true;
        return 0;
    }
    v = n == 2 ? le16_get(r->rest.data) : le32_get(r->rest.data);
    r->rest = bytes_from(r->rest, n);
    return v;
}

static const char *get_text(struct reader *r, struct arena *arena)
{
    size_t n = get(r, 2);

    if (n > r->rest.len)
        r->failed = true;
    if (n == 0 || r->failed)
        return NULL;
    const char *text = arena_strdup(arena, bytes_head(r->rest, n));
    r->rest = bytes_from(r->rest, n);
    return text;
}

static struct code_frame *get_frames(struct reader *r, struct arena *arena)
{
    struct code_frame *innermost = NULL, **end = &innermost;
    uint32_t n = get(r, 2);

    r->failed = r->failed || n > FRAMES_MAX;
    for (uint32_t i = 0; i < n && !r->failed; i++) {
        struct code_frame *f = arena_new(arena, struct code_frame, 1);
        if (!f)
            return innermost;
        f->line = get(r, 4);
        f->column = get(r, 4);
        f->start_line = get(r, 4);
        f->name = get_text(r, arena);
        f->file = get_text(r, arena);
        *end = f;
        end = &f->outer;
    }
    return innermost;
}

int parse_read_lines(struct bytes answer, struct arena *arena, struct lookup *lookups, size_t n,
                     struct error *err)
{
    struct reader r = {.rest = answer};
    size_t i = 0;

    for (; i < n && r.rest.len > 0; i++) {
        lookups[i].innermost = get_frames(&r, arena);
        if (r.failed)
            return error_set(err, -EBADMSG, "lines: the answer for address %zu is damaged", i);
        if (budget_failed(arena->budget))
            return budget_error(arena->budget, err);
    }
    if (r.rest.len > 0)
        return error_set(err, -EBADMSG, "lines: answers for more than was asked");
    return (int)i;
}

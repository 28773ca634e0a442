#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "abi/preload.h"
#include "base/cleanup.h"
#include "base/le.h"
#include "host/inspect_internal.h"
#include "host/inspect_text.h"
#include "wire/protobuf.h"

/* Text of one process that is read at most: some 10^5 mappings. */
#define MAPS_TEXT_MAX ((size_t)64 << 20)
/* A line: a path of 4,095 newlines takes four times as much. */
#define LINE_MAX_LEN  ((size_t)20 << 10)
#define CHUNK         ((size_t)64 << 10)

/* Lines of /proc/PID/maps, from a buffer that is refilled. */
struct maps_reader {
    int fd;
    uint8_t *data;
    size_t pos, end, total;
    bool is_cut;
};

static int maps_open(const struct target *t, struct maps_reader *ret)
{
    int fd = openat(t->fd, "maps", O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return -errno;
    /* One process is looked at at a time; the kernel hands out a page at once. */
    static uint8_t room[CHUNK];
    *ret = (struct maps_reader){.fd = fd, .data = room};
    return 0;
}

static void maps_close(const struct maps_reader *m)
{
    close(m->fd);
}

static bool maps_fill(struct maps_reader *m)
{
    memmove(m->data, m->data + m->pos, m->end - m->pos);
    m->end -= m->pos;
    m->pos = 0;
    if (m->end == CHUNK)
        m->end = 0; /* a line that no kernel writes */
    if (m->total >= MAPS_TEXT_MAX) {
        m->is_cut = true;
        return false;
    }
    ssize_t n = read(m->fd, m->data + m->end, CHUNK - m->end);
    if (n <= 0)
        return false;
    m->end += (size_t)n;
    m->total += (size_t)n;
    return true;
}

static bool maps_next(struct maps_reader *m, struct map_line *ret)
{
    for (;;) {
        struct bytes rest = {m->data + m->pos, m->end - m->pos};
        const uint8_t *newline = bytes_find_byte(rest, '\n');
        if (newline) {
            struct bytes line = bytes_head(rest, (size_t)(newline - rest.data));
            m->pos += line.len + 1;
            if (line.len <= LINE_MAX_LEN && map_line_read(line, ret))
                return true;
        } else if (!maps_fill(m)) {
            return false;
        }
    }
}

/* Merges and writes mappings as they come. */
struct maps_writer {
    struct buf *out; /* files go here */
    struct buf mappings;
    size_t max;           /* of both */
    struct map_line last; /* not written yet; its path is in last_path. end 0: none */
    struct buf last_path;
    uint64_t written_to; /* page behind the last one written */
    size_t n;
    uint32_t n_files, last_file;
    uint64_t file_inode; /* of last_file */
    uint32_t file_major, file_minor;
    bool is_cut;
};

/* The number of the file of `last`; files that come in a row are told once. */
static uint32_t file_number(struct maps_writer *w)
{
    const struct map_line *m = &w->last;
    struct bytes path = buf_bytes(&w->last_path);

    if (m->inode == 0 && !bytes_are(path, "[vdso]"))
        return 0;
    if (w->n_files > 0 && m->inode != 0 && w->file_inode == m->inode && w->file_major == m->major &&
        w->file_minor == m->minor)
        return w->last_file;
    struct buf name = {0};
    bool is_deleted = map_path(path, 4095, &name);
    size_t at = pb_begin(w->out, TOLD_FILE);
    pb_put_u64_opt(w->out, FILE_MAJOR, m->major);
    pb_put_u64_opt(w->out, FILE_MINOR, m->minor);
    pb_put_u64_opt(w->out, FILE_INODE, m->inode);
    pb_put_bytes(w->out, FILE_PATH, buf_bytes(&name));
    pb_put_u64_opt(w->out, FILE_DELETED, is_deleted);
    pb_end(w->out, at);
    buf_done(&name);
    w->file_inode = m->inode;
    w->file_major = m->major;
    w->file_minor = m->minor;
    w->last_file = ++w->n_files;
    return w->last_file;
}

static void write_last(struct maps_writer *w)
{
    const struct map_line *m = &w->last;

    if (m->end == 0)
        return;
    if (w->n == INSPECT_MAPPINGS_MAX || w->out->len + w->mappings.len + 4200 > w->max) {
        w->is_cut = true;
        return;
    }
    uint32_t file = file_number(w);
    pb_put_varint(&w->mappings, (m->begin >> INSPECT_PAGE_BITS) - w->written_to);
    pb_put_varint(&w->mappings, (m->end - m->begin) >> INSPECT_PAGE_BITS);
    pb_put_varint(&w->mappings, file == 0 ? 0 : m->offset >> INSPECT_PAGE_BITS);
    pb_put_varint(&w->mappings, file);
    w->written_to = m->end >> INSPECT_PAGE_BITS;
    w->n++;
}

static bool continues(const struct map_line *a, const struct map_line *b)
{
    return a->end == b->begin && a->inode == b->inode && a->major == b->major &&
           a->minor == b->minor && (a->inode == 0 || a->offset + (a->end - a->begin) == b->offset);
}

static void add_mapping(struct maps_writer *w, const struct map_line *m)
{
    if (m->begin < w->last.end || bytes_are(m->path, "[vsyscall]"))
        return;
    if (w->last.end > 0 && continues(&w->last, m) && !bytes_are(m->path, "[vdso]")) {
        w->last.end = m->end;
        return;
    }
    write_last(w);
    w->last = *m;
    buf_clear(&w->last_path);
    buf_add_bytes(&w->last_path, m->path);
}

static bool is_context(const struct map_line *m)
{
    return !m->is_executable && m->end - m->begin >= 32 &&
           (bytes_are(m->path, "[anon_shmem:OTEL_CTX]") || bytes_are(m->path, "[anon:OTEL_CTX]") ||
            bytes_are(m->path, "/memfd:OTEL_CTX") ||
            bytes_are(m->path, "/memfd:OTEL_CTX (deleted)"));
}

bool inspect_is_handover(struct bytes path)
{
    return bytes_are(path, "/memfd:" PRELOAD_MEMFD) ||
           bytes_are(path, "/memfd:" PRELOAD_MEMFD " (deleted)");
}

static void mark(struct map_marks *marks, const struct map_line *m)
{
    if (marks->context == 0 && is_context(m))
        marks->context = m->begin;
    if (marks->handover_begin == 0 && m->offset == 0 && inspect_is_handover(m->path)) {
        marks->handover_begin = m->begin;
        marks->handover_end = m->end;
        marks->handover_inode = m->inode;
    }
}

int inspect_maps(const struct target *t, size_t max, struct buf *out, bool *ret_cut,
                 struct map_marks *ret)
{
    struct maps_reader reader;
    struct maps_writer w = {.out = out, .max = max};
    struct map_line m;

    int r = maps_open(t, &reader);
    if (r < 0)
        return r;
    *ret = (struct map_marks){0};
    while (maps_next(&reader, &m)) {
        if (out && m.is_executable)
            add_mapping(&w, &m);
        else if (!m.is_executable)
            mark(ret, &m);
    }
    if (out) {
        write_last(&w);
        pb_put_bytes(out, TOLD_MAPPINGS, buf_bytes(&w.mappings));
    }
    *ret_cut = w.is_cut || reader.is_cut;
    maps_close(&reader);
    buf_done(&w.mappings);
    buf_done(&w.last_path);
    return 0;
}

bool inspect_map_at(const struct target *t, uint64_t address, struct buf *room,
                    struct map_line *ret)
{
    struct maps_reader reader;
    struct map_line m;
    bool is_found = false;

    if (maps_open(t, &reader) < 0)
        return false;
    while (!is_found && maps_next(&reader, &m) && m.begin <= address)
        is_found = address < m.end;
    if (is_found) {
        buf_clear(room);
        buf_add_bytes(room, m.path);
        m.path = buf_bytes(room);
        *ret = m;
    }
    maps_close(&reader);
    return is_found;
}

/*
 * A process context: 32 bytes at the start of its mapping, and a payload they point to. The
 * timestamp is 0 while it is written, and another one behind a change.
 */
#define CONTEXT_TRIES 3

static bool read_context(const struct target *t, uint64_t address, struct buf *out,
                         uint64_t *ret_time)
{
    uint8_t head[32], again[8];

    if (target_memory(t, address, head, sizeof(head)) != sizeof(head) ||
        memcmp(head, "OTEL_CTX", 8) != 0)
        return false;
    uint32_t version = le32_get(head + 8), size = le32_get(head + 12);
    uint64_t time = le64_get(head + 16), payload = le64_get(head + 24);
    if (version < 1 || version > 2 || time == 0 || size == 0 || size > INSPECT_CONTEXT_MAX)
        return false;
    uint8_t *to = buf_reserve(out, size);
    if (target_memory(t, payload, to, size) != size ||
        target_memory(t, address + 16, again, 8) != 8 || le64_get(again) != time)
        return false;
    out->len += size;
    *ret_time = time;
    return true;
}

bool inspect_context(const struct target *t, uint64_t address, struct buf *out, uint64_t *ret_time)
{
    for (int i = 0; i < CONTEXT_TRIES; i++) {
        if (read_context(t, address, out, ret_time))
            return true;
    }
    return false;
}

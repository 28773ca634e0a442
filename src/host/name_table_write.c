#include <endian.h>
#include <errno.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/le.h"
#include "base/must.h"
#include "base/vec.h"
#include "host/name_table.h"
#include "host/name_table_image.h"

#define LENGTH_MAX  0x7fffffffu
/* How many functions may hold one address; of more, those that count least are forgotten. */
#define ACTIVE_MAX  64
#define OUT_BYTES   ((size_t)64 << 10)
/* How much of two names is compared to order aliases. */
#define ALIAS_BYTES 64

struct row {
    uint64_t start;
    uint32_t length;
    uint32_t name;
    uint32_t file; /* of replaced code: when it was added */
    uint32_t line : 24, rank : 8;
};

struct name_table_writer {
    struct budget *budget;
    int fd;
    enum name_table_kind kind;
    int failure; /* the first one, as an errno */
    uint64_t text_len;
    VEC(struct row) rows;

    uint8_t *out; /* OUT_BYTES that are not written yet... */
    size_t n_out;
    uint64_t out_at; /* ...and where they go */

    uint8_t leaf[NAME_LEAF_BYTES];
    uint32_t n_leaf;
    uint64_t leaf_base;
    uint64_t n_entries;
    VEC(uint64_t) index;
    VEC(struct name_image_part) parts;

    /* The range that the next one may still extend. */
    const struct row *pending;
    uint64_t pending_start, pending_end;
};

struct name_table_writer *name_table_writer_new(int fd, enum name_table_kind kind, struct budget *b)
{
    struct name_table_writer *w = must_calloc(1, sizeof(*w));

    w->budget = b;
    w->fd = fd;
    w->kind = kind;
    w->out = must_calloc(1, OUT_BYTES);
    w->out_at = NAME_LEAF_BYTES;
    name_table_writer_raw(w, BYTES("\0")); /* text 0 is "" */
    return w;
}

void name_table_writer_free(struct name_table_writer *w)
{
    if (!w)
        return;
    vec_done(w->budget, &w->rows);
    vec_done(w->budget, &w->index);
    vec_done(w->budget, &w->parts);
    free(w->out);
    free(w);
}

static void write_at(struct name_table_writer *w, const void *data, size_t n, uint64_t at)
{
    const uint8_t *from = data;

    while (n > 0 && w->failure == 0) {
        ssize_t done = pwrite(w->fd, from, n, (off_t)at);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0) {
            w->failure = done < 0 ? -errno : -EIO;
            return;
        }
        from += done;
        at += (uint64_t)done;
        n -= (size_t)done;
    }
}

static void flush_out(struct name_table_writer *w)
{
    write_at(w, w->out, w->n_out, w->out_at);
    w->out_at += w->n_out;
    w->n_out = 0;
}

static void put(struct name_table_writer *w, const void *data, size_t n)
{
    const uint8_t *from = data;

    while (n > 0 && w->failure == 0) {
        size_t part = OUT_BYTES - w->n_out < n ? OUT_BYTES - w->n_out : n;
        memcpy(w->out + w->n_out, from, part);
        w->n_out += part;
        from += part;
        n -= part;
        if (w->n_out == OUT_BYTES)
            flush_out(w);
    }
}

uint32_t name_table_writer_raw(struct name_table_writer *w, struct bytes part)
{
    uint64_t at = w->text_len;

    if (w->failure == 0 && part.len > NAME_TABLE_TEXT_MAX - at)
        w->failure = -E2BIG;
    if (w->failure < 0)
        return 0;
    put(w, part.data, part.len);
    w->text_len += part.len;
    return (uint32_t)at;
}

uint32_t name_table_writer_text(struct name_table_writer *w, struct bytes text)
{
    const uint8_t *end = bytes_find_byte(text, 0);

    if (end)
        text = bytes_head(text, (size_t)(end - text.data));
    if (text.len == 0)
        return 0;
    uint32_t at = name_table_writer_raw(w, text);
    name_table_writer_raw(w, BYTES("\0"));
    return at;
}

void name_table_writer_add(struct name_table_writer *w, const struct name_table_row *row)
{
    if (row->end <= row->start || row->name == 0 || w->failure < 0)
        return;
    uint64_t length = row->end - row->start;
    struct row r = {.start = row->start,
                    .length = length < LENGTH_MAX ? (uint32_t)length : LENGTH_MAX,
                    .name = row->name,
                    .file = row->file,
                    .line = row->line & 0xffffff,
                    .rank = row->rank};
    if (w->kind == NAME_TABLE_REPLACED)
        r.file = (uint32_t)w->rows.len;
    if (w->rows.len >= UINT32_MAX / 2)
        w->failure = -E2BIG;
    else if (!vec_push(w->budget, &w->rows, r))
        w->failure = -ENOBUFS;
}

size_t name_table_writer_count(const struct name_table_writer *w)
{
    return w->rows.len;
}

bool name_table_writer_failed(const struct name_table_writer *w)
{
    return w->failure < 0;
}

/* By address; of those that start alike the best first, as far as that needs no names. */
static int compare_rows(const void *a, const void *b)
{
    const struct row *x = a, *y = b;

    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    if (x->rank >> 2 != y->rank >> 2)
        return x->rank > y->rank ? -1 : 1;
    return x->length == y->length ? 0 : x->length > y->length ? -1 : 1;
}

/* By address, then by when they were added. */
static int compare_replaced(const void *a, const void *b)
{
    const struct row *x = a, *y = b;

    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->file < y->file ? -1 : 1;
}

/* Texts are in the file by now: their start is read back. */
static void peek_name(const struct name_table_writer *w, const struct row *r,
                      char ret[ALIAS_BYTES + 1])
{
    ssize_t n = pread(w->fd, ret, ALIAS_BYTES, (off_t)(NAME_LEAF_BYTES + (uint64_t)r->name));

    ret[n > 0 ? n : 0] = '\0';
}

/* Whether b, with rank and length as good as a's, has the better name. */
static bool is_better_alias(const struct name_table_writer *w, const struct row *a,
                            const struct row *b)
{
    char x[ALIAS_BYTES + 1], y[ALIAS_BYTES + 1];

    if (a->name == b->name)
        return false;
    peek_name(w, a, x);
    peek_name(w, b, y);
    if ((x[0] == '_') != (y[0] == '_'))
        return x[0] == '_';
    if (a->rank != b->rank)
        return b->rank > a->rank;
    int order = strcmp(y, x);
    return order == 0 ? b->name < a->name : order < 0;
}

/* Keeps one row per address, and ends those without a size. */
static void settle(struct name_table_writer *w)
{
    struct row *rows = w->rows.data;
    size_t n = 0;

    for (size_t i = 0; i < w->rows.len; i++) {
        if (n == 0 || rows[n - 1].start != rows[i].start)
            rows[n++] = rows[i];
        else if (compare_rows(&rows[n - 1], &rows[i]) == 0 &&
                 is_better_alias(w, &rows[n - 1], &rows[i]))
            rows[n - 1] = rows[i];
    }
    w->rows.len = n;
    for (size_t i = 0; i + 1 < n; i++) {
        uint64_t gap = rows[i + 1].start - rows[i].start;
        if (!(rows[i].rank & NAME_RANK_HAS_SIZE) && rows[i].length > gap)
            rows[i].length = (uint32_t)gap;
    }
}

static size_t entry_size(const struct name_table_writer *w)
{
    return w->kind == NAME_TABLE_PLACES ? NAME_ENTRY_PLACE_SIZE : NAME_ENTRY_SIZE;
}

static void flush_leaf(struct name_table_writer *w)
{
    size_t head = sizeof(struct name_leaf_head);
    size_t used = head + w->n_leaf * entry_size(w);

    if (w->n_leaf == 0)
        return;
    memset(w->leaf + used, 0, sizeof(w->leaf) - used);
    le32_put(w->leaf + 4, w->n_leaf);
    le64_put(w->leaf + 8, w->leaf_base);
    le32_put(w->leaf, (uint32_t)checksum64(w->leaf + 4, sizeof(w->leaf) - 4));
    put(w, w->leaf, sizeof(w->leaf));
    if (!vec_push(w->budget, &w->index, htole64(w->leaf_base)))
        w->failure = -ENOBUFS;
    w->n_leaf = 0;
}

static void put_pending(struct name_table_writer *w)
{
    const struct row *r = w->pending;

    if (!r)
        return;
    w->pending = NULL;
    size_t size = entry_size(w);
    size_t room = (NAME_LEAF_BYTES - sizeof(struct name_leaf_head)) / size;
    if (w->n_leaf == room || w->pending_start - w->leaf_base > UINT32_MAX)
        flush_leaf(w);
    if (w->n_leaf == 0)
        w->leaf_base = w->pending_start;
    uint32_t length = (uint32_t)(w->pending_end - w->pending_start), name = r->name;
    if (w->pending_start != r->start) {
        struct name_image_part part = {.start = htole64(r->start), .name = htole32(r->name)};
        name = (uint32_t)w->parts.len;
        length |= NAME_ENTRY_IS_PART;
        if (!vec_push(w->budget, &w->parts, part))
            w->failure = -ENOBUFS;
    }
    uint8_t *p = w->leaf + sizeof(struct name_leaf_head) + w->n_leaf * size;
    le32_put(p, (uint32_t)(w->pending_start - w->leaf_base));
    le32_put(p + 4, length);
    le32_put(p + 8, name);
    if (size == NAME_ENTRY_PLACE_SIZE) {
        le32_put(p + 12, r->file);
        le32_put(p + 16, r->line);
    }
    w->n_leaf++;
    w->n_entries++;
}

static void emit(struct name_table_writer *w, const struct row *r, uint64_t start, uint64_t end)
{
    if (w->pending == r && w->pending_end == start) {
        w->pending_end = end;
        return;
    }
    put_pending(w);
    w->pending = r;
    w->pending_start = start;
    w->pending_end = end;
}

/* The rows that hold the address reached. */
struct sweep {
    const struct row *active[ACTIVE_MAX];
    size_t n;
    uint64_t at;
};

static uint64_t row_end(const struct row *r)
{
    return r->start + r->length;
}

/* Whether a counts where both are. */
static bool counts_over(const struct name_table_writer *w, const struct row *a, const struct row *b)
{
    return w->kind == NAME_TABLE_REPLACED ? a->file > b->file : a > b;
}

/* The active row that counts at s->at, or NULL; forgets those that ended. */
static const struct row *top(const struct name_table_writer *w, struct sweep *s)
{
    const struct row *best = NULL;
    size_t n = 0;

    for (size_t i = 0; i < s->n; i++) {
        const struct row *r = s->active[i];
        if (row_end(r) <= s->at)
            continue;
        s->active[n++] = r;
        if (!best || counts_over(w, r, best))
            best = r;
    }
    s->n = n;
    return best;
}

static void sweep_to(struct name_table_writer *w, struct sweep *s, uint64_t limit)
{
    while (s->at < limit) {
        const struct row *r = top(w, s);
        if (!r)
            break;
        uint64_t end = row_end(r) < limit ? row_end(r) : limit;
        emit(w, r, s->at, end);
        s->at = end;
    }
    s->at = limit;
}

static void sweep_add(const struct name_table_writer *w, struct sweep *s, const struct row *r)
{
    if (s->n < ACTIVE_MAX) {
        s->active[s->n++] = r;
        return;
    }
    size_t least = 0;
    for (size_t i = 1; i < s->n; i++) {
        if (counts_over(w, s->active[least], s->active[i]))
            least = i;
    }
    s->active[least] = r;
}

static void put_leaves(struct name_table_writer *w)
{
    struct sweep s = {.n = 0};

    for (size_t i = 0; i < w->rows.len && w->failure == 0; i++) {
        sweep_to(w, &s, w->rows.data[i].start);
        sweep_add(w, &s, &w->rows.data[i]);
    }
    sweep_to(w, &s, UINT64_MAX);
    put_pending(w);
    flush_leaf(w);
}

static void pad_to_leaf(struct name_table_writer *w)
{
    static const uint8_t zeros[NAME_LEAF_BYTES];
    uint64_t over = (w->out_at + w->n_out) % NAME_LEAF_BYTES;

    if (over > 0)
        put(w, zeros, (size_t)(NAME_LEAF_BYTES - over));
}

static int told_failure(const struct name_table_writer *w, struct error *err)
{
    if (w->failure == -ENOBUFS)
        return budget_error(w->budget, err);
    if (w->failure == -E2BIG)
        return error_set(err, w->failure, "its names are more than %ju bytes, or too many",
                         (uintmax_t)NAME_TABLE_TEXT_MAX);
    errno = -w->failure;
    return error_set(err, w->failure, "could not write names: %m");
}

static void put_head(struct name_table_writer *w, uint64_t leaves_at, uint64_t index_at,
                     uint64_t parts_at)
{
    struct name_image_head h = {
        .magic = NAME_IMAGE_MAGIC,
        .entry_size = htole16((uint16_t)entry_size(w)),
        .flags = htole16(w->kind == NAME_TABLE_REPLACED ? NAME_IMAGE_IS_PLAIN : 0),
        .n_parts = htole32((uint32_t)w->parts.len),
        .n_entries = htole64(w->n_entries),
        .n_leaves = htole64(w->index.len),
        .text_at = htole64(NAME_LEAF_BYTES),
        .text_len = htole64(w->text_len),
        .leaves_at = htole64(leaves_at),
        .index_at = htole64(index_at),
        .parts_at = htole64(parts_at),
    };

    h.checksum = htole64(checksum64(&h, offsetof(struct name_image_head, checksum)));
    write_at(w, &h, sizeof(h), 0);
}

int name_table_writer_save(struct name_table_writer *w, struct error *err)
{
    flush_out(w);
    if (w->failure < 0)
        return told_failure(w, err);
    if (w->rows.len > 0)
        qsort(w->rows.data, w->rows.len, sizeof(struct row),
              w->kind == NAME_TABLE_REPLACED ? compare_replaced : compare_rows);
    if (w->kind != NAME_TABLE_REPLACED)
        settle(w);
    pad_to_leaf(w);
    uint64_t leaves_at = w->out_at + w->n_out;
    put_leaves(w);
    uint64_t index_at = w->out_at + w->n_out;
    put(w, w->index.data, w->index.len * sizeof(uint64_t));
    uint64_t parts_at = w->out_at + w->n_out;
    put(w, w->parts.data, w->parts.len * sizeof(struct name_image_part));
    flush_out(w);
    put_head(w, leaves_at, index_at, parts_at);
    return w->failure < 0 ? told_failure(w, err) : 0;
}

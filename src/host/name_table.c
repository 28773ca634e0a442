#include "host/name_table.h"

#include <endian.h>
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bisect.h"
#include "base/checksum.h"
#include "base/le.h"
#include "base/must.h"
#include "host/name_table_image.h"
#include "symbols/demangle.h"

/* Addresses of leaves that are kept in memory; of more leaves, every second, third... one. */
#define TOP_MAX       1024
#define LEAVES_MAX    ((uint64_t)1 << 24)
#define NAME_READ     256 /* at first */
#define NAME_READ_MAX DEMANGLE_NAME_MAX

struct name_table {
    int fd;
    bool is_damaged, is_plain;
    uint32_t entry_size;
    uint32_t n_parts;
    uint64_t n_entries, n_leaves;
    uint64_t text_at, text_len, leaves_at, index_at, parts_at;
    uint32_t step; /* leaves per element of `top` */
    size_t n_top;
    uint64_t *top;
};

static bool read_at(const struct name_table *t, void *to, size_t n, uint64_t at)
{
    uint8_t *p = to;

    while (n > 0) {
        ssize_t got = pread(t->fd, p, n, (off_t)at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        p += got;
        n -= (size_t)got;
        at += (uint64_t)got;
    }
    return true;
}

static bool fits(uint64_t at, uint64_t n, uint64_t size)
{
    return at <= size && n <= size - at;
}

static bool read_head(struct name_table *t, uint64_t size)
{
    struct name_image_head h;

    if (!read_at(t, &h, sizeof(h), 0) || memcmp(h.magic, NAME_IMAGE_MAGIC, sizeof(h.magic)) != 0 ||
        le64toh(h.checksum) != checksum64(&h, offsetof(struct name_image_head, checksum)))
        return false;
    t->entry_size = le16toh(h.entry_size);
    t->is_plain = le16toh(h.flags) & NAME_IMAGE_IS_PLAIN;
    t->n_parts = le32toh(h.n_parts);
    t->n_entries = le64toh(h.n_entries);
    t->n_leaves = le64toh(h.n_leaves);
    t->text_at = le64toh(h.text_at);
    t->text_len = le64toh(h.text_len);
    t->leaves_at = le64toh(h.leaves_at);
    t->index_at = le64toh(h.index_at);
    t->parts_at = le64toh(h.parts_at);
    return (t->entry_size == NAME_ENTRY_SIZE || t->entry_size == NAME_ENTRY_PLACE_SIZE) &&
           t->n_leaves <= LEAVES_MAX && fits(t->text_at, t->text_len, size) &&
           fits(t->leaves_at, t->n_leaves * NAME_LEAF_BYTES, size) &&
           fits(t->index_at, t->n_leaves * 8, size) &&
           fits(t->parts_at, t->n_parts * (uint64_t)sizeof(struct name_image_part), size);
}

/* Keeps every step-th address of the index. */
static bool read_index(struct name_table *t)
{
    uint64_t part[512], last = 0;

    t->step = (uint32_t)((t->n_leaves + TOP_MAX - 1) / TOP_MAX);
    if (t->n_leaves == 0)
        return true;
    t->top = must_calloc((size_t)(t->n_leaves / t->step) + 1, sizeof(*t->top));
    for (uint64_t i = 0; i < t->n_leaves;) {
        size_t n = t->n_leaves - i < 512 ? (size_t)(t->n_leaves - i) : 512;
        if (!read_at(t, part, n * 8, t->index_at + i * 8))
            return false;
        for (size_t k = 0; k < n; k++, i++) {
            uint64_t base = le64toh(part[k]);
            if (i > 0 && base <= last)
                return false;
            last = base;
            if (i % t->step == 0)
                t->top[t->n_top++] = base;
        }
    }
    return true;
}

int name_table_open(int fd, struct name_table **ret, struct error *err)
{
    CLEANUP(name_table_closep) struct name_table *t = must_calloc(1, sizeof(*t));
    struct stat st;

    t->fd = fd;
    if (fstat(fd, &st) < 0)
        return error_set(err, -errno, "could not stat names: %m");
    if (st.st_size < 0 || !read_head(t, (uint64_t)st.st_size))
        return error_set(err, -EBADMSG, "names: no such image, or a damaged one");
    if (!read_index(t))
        return error_set(err, -EBADMSG, "names: the index is damaged");
    *ret = TAKE_PTR(t);
    return 0;
}

void name_table_close(struct name_table *t)
{
    if (!t)
        return;
    if (t->fd >= 0)
        close(t->fd);
    free(t->top);
    free(t);
}

uint64_t name_table_count(const struct name_table *t)
{
    return t->n_entries;
}

bool name_table_is_damaged(const struct name_table *t)
{
    return t->is_damaged;
}

void name_found_done(struct name_found *f)
{
    buf_done(&f->name);
    buf_done(&f->system_name);
}

static bool damaged(struct name_table *t)
{
    t->is_damaged = true;
    return false;
}

/* The last leaf that starts at or before the address. */
static bool find_leaf(struct name_table *t, uint64_t address, uint64_t *ret, uint64_t *ret_base)
{
    uint64_t part[512];
    size_t after = BISECT(t->n_top, i, t->top[i] <= address);

    if (after == 0)
        return false;
    *ret = (after - 1) * (uint64_t)t->step;
    *ret_base = t->top[after - 1];
    /* Very large images: the addresses between two that are kept. */
    for (uint64_t at = *ret, end = at + t->step; t->step > 1 && at < end && at < t->n_leaves;) {
        size_t n = end - at < ARRAY_SIZE(part) ? (size_t)(end - at) : ARRAY_SIZE(part);
        n = t->n_leaves - at < n ? (size_t)(t->n_leaves - at) : n;
        if (!read_at(t, part, n * 8, t->index_at + at * 8))
            return damaged(t);
        size_t before = BISECT(n, i, le64toh(part[i]) <= address);
        if (before > 0) {
            *ret = at + before - 1;
            *ret_base = le64toh(part[before - 1]);
        }
        if (before < n)
            break;
        at += n;
    }
    return true;
}

static bool find_entry(struct name_table *t, uint64_t address, struct name_image_entry *ret,
                       uint64_t *ret_start)
{
    uint8_t leaf[NAME_LEAF_BYTES];
    uint64_t number, base;
    size_t size = t->entry_size, head = sizeof(struct name_leaf_head);

    if (!find_leaf(t, address, &number, &base) || address - base > UINT32_MAX + (uint64_t)INT32_MAX)
        return false;
    if (!read_at(t, leaf, sizeof(leaf), t->leaves_at + number * NAME_LEAF_BYTES))
        return damaged(t);
    uint32_t n = le32_get(leaf + 4);
    if (le32_get(leaf) != (uint32_t)checksum64(leaf + 4, sizeof(leaf) - 4) ||
        n > (NAME_LEAF_BYTES - head) / size || le64_get(leaf + 8) != base)
        return damaged(t);
    size_t after = BISECT(n, i, base + le32_get(leaf + head + i * size) <= address);
    if (after == 0)
        return false;
    const uint8_t *p = leaf + head + (after - 1) * size;
    *ret = (struct name_image_entry){le32_get(p), le32_get(p + 4), le32_get(p + 8), 0, 0};
    if (size == NAME_ENTRY_PLACE_SIZE) {
        ret->file = le32_get(p + 12);
        ret->line = le32_get(p + 16);
    }
    *ret_start = base + ret->start;
    return address - *ret_start < (ret->length & ~NAME_ENTRY_IS_PART);
}

/* A text up to its NUL, or to `max`. False where there is none. */
static bool read_text(struct name_table *t, uint32_t at, size_t max, struct buf *ret)
{
    size_t want = NAME_READ < max ? NAME_READ : max;

    buf_clear(ret);
    while (at + (uint64_t)ret->len < t->text_len && ret->len < max) {
        uint64_t left = t->text_len - at - ret->len;
        size_t n = want < left ? want : (size_t)left;
        n = n < max - ret->len ? n : max - ret->len;
        uint8_t *to = buf_reserve(ret, n);
        if (!read_at(t, to, n, t->text_at + at + ret->len))
            return damaged(t);
        const uint8_t *end = memchr(to, 0, n);
        ret->len += end ? (size_t)(end - to) : n;
        if (end)
            break;
        want = NAME_READ_MAX;
    }
    return ret->len > 0 || damaged(t);
}

bool name_table_find(struct name_table *t, uint64_t address, struct name_found *ret)
{
    struct name_image_entry e;
    uint64_t start;

    if (!find_entry(t, address, &e, &start))
        return false;
    if (e.length & NAME_ENTRY_IS_PART) {
        struct name_image_part part;
        if (e.name >= t->n_parts ||
            !read_at(t, &part, sizeof(part), t->parts_at + e.name * (uint64_t)sizeof(part)))
            return damaged(t);
        start = le64toh(part.start);
        e.name = le32toh(part.name);
    }
    ret->file[0] = '\0';
    if (e.file != 0) {
        if (!read_text(t, e.file, sizeof(ret->file) - 1, &ret->name))
            return false;
        memcpy(ret->file, buf_cstr(&ret->name), ret->name.len + 1);
    }
    if (!read_text(t, e.name, NAME_READ_MAX, &ret->system_name))
        return false;
    ret->start = start;
    ret->line = e.line;
    demangle(buf_cstr(&ret->system_name), t->is_plain ? DEMANGLE_NONE : DEMANGLE_DEFAULT,
             &ret->name);
    if (bytes_equal(buf_bytes(&ret->name), buf_bytes(&ret->system_name)))
        buf_clear(&ret->system_name);
    return true;
}

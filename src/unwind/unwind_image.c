#include <errno.h>
#include <stddef.h>

#include "base/bisect.h"
#include "unwind/unwind_table.h"

/*
 * The image: this head, then the first rows of the pages, the rules and the rows, in the machine's
 * byte order. It is read by the machine that wrote it.
 */
struct image_head {
    uint32_t magic;
    uint32_t first_text_page;
    uint32_t wants_frame_pointers;
    uint32_t n_pages, n_rows, n_rules;
};

#define IMAGE_MAGIC 0x31775556u /* "VUw1" */
#define PAGES_MAX   (1u << 17)

_Static_assert(sizeof(struct image_head) == 24 && sizeof(struct unwind_row) == 4 &&
                   sizeof(struct unwind_rule) == 8,
               "no padding");

void unwind_table_write(const struct unwind_table *t, struct buf *out)
{
    struct image_head h = {
        .magic = IMAGE_MAGIC,
        .first_text_page = t->first_text_page,
        .wants_frame_pointers = t->wants_frame_pointers,
        .n_pages = t->pages.len > 0 ? (uint32_t)t->pages.len - 1 : 0,
        .n_rows = (uint32_t)t->rows.len,
        .n_rules = (uint32_t)t->rules.len,
    };
    static const uint32_t no_pages;

    buf_add(out, &h, sizeof(h));
    if (t->pages.len > 0)
        buf_add(out, t->pages.data, t->pages.len * sizeof(*t->pages.data));
    else
        buf_add(out, &no_pages, sizeof(no_pages));
    buf_add(out, t->rules.data, t->rules.len * sizeof(*t->rules.data));
    buf_add(out, t->rows.data, t->rows.len * sizeof(*t->rows.data));
}

static int damaged(struct error *err, const char *why)
{
    return error_set(err, -EBADMSG, "unwind table: %s", why);
}

static int check_rows(const struct unwind_view *v, struct error *err)
{
    if (v->pages[0] != 0 || v->pages[v->n_pages] != v->n_rows)
        return damaged(err, "its pages do not hold its rows");
    for (uint32_t p = 0; p < v->n_pages; p++) {
        uint32_t end = v->pages[p + 1];
        if (end < v->pages[p] || end > v->n_rows)
            return damaged(err, "a page ends before it begins");
        for (uint32_t i = v->pages[p]; i < end; i++) {
            if (v->rows[i].rule >= v->n_rules)
                return damaged(err, "a row has a rule that is not there");
            if (i > v->pages[p] && v->rows[i].pc_low <= v->rows[i - 1].pc_low)
                return damaged(err, "rows are not in order");
        }
    }
    return 0;
}

static int check_rules(const struct unwind_view *v, struct error *err)
{
    for (uint32_t i = 0; i < v->n_rules; i++) {
        if (v->rules[i].cfa > UNWIND_CFA_UNSUPPORTED || v->rules[i].saved > UNWIND_SAVED_AT_FP)
            return damaged(err, "a rule is of no known kind");
    }
    return 0;
}

int unwind_table_read(struct bytes image, struct unwind_view *ret, struct error *err)
{
    struct image_head h;

    if (image.len < sizeof(h))
        return damaged(err, "too short");
    memcpy(&h, image.data, sizeof(h));
    if (h.magic != IMAGE_MAGIC)
        return damaged(err, "not an image of one");
    if ((uintptr_t)image.data % _Alignof(uint32_t) != 0)
        return damaged(err, "not at an address that is a multiple of 4");
    if (h.n_pages > PAGES_MAX || h.n_rows > UNWIND_FILE_ROWS_MAX ||
        h.n_rules > UNWIND_FILE_RULES_MAX || h.wants_frame_pointers > 1)
        return damaged(err, "past the limits of one");
    size_t pages = ((size_t)h.n_pages + 1) * sizeof(uint32_t);
    size_t rules = (size_t)h.n_rules * sizeof(struct unwind_rule);
    if (image.len != sizeof(h) + pages + rules + (size_t)h.n_rows * sizeof(struct unwind_row))
        return damaged(err, "its length is not what its head says");
    const uint8_t *at = image.data + sizeof(h);
    struct unwind_view v = {
        .first_text_page = h.first_text_page,
        .wants_frame_pointers = h.wants_frame_pointers,
        .pages = (const void *)at,
        .n_pages = h.n_pages,
        .rules = (const void *)(at + pages),
        .n_rules = h.n_rules,
        .rows = (const void *)(at + pages + rules),
        .n_rows = h.n_rows,
    };
    int r = check_rows(&v, err);
    if (r == 0)
        r = check_rules(&v, err);
    if (r < 0)
        return r;
    *ret = v;
    return 0;
}

struct unwind_rule unwind_view_find(const struct unwind_view *v, uint64_t va)
{
    const struct unwind_rule gap = {.cfa = UNWIND_CFA_GAP};
    uint64_t page = va >> UNWIND_PAGE_BITS;

    if (page < v->first_text_page || page - v->first_text_page >= v->n_pages)
        return gap;
    page -= v->first_text_page;
    uint32_t first = v->pages[page], end = v->pages[page + 1];
    uint16_t low = (uint16_t)va;
    size_t n = BISECT(end - first, i, v->rows[first + i].pc_low <= low);
    return n > 0 ? v->rules[v->rows[first + n - 1].rule] : gap;
}

#include "store_local/salvage.h"

#include <errno.h>

#include "store_local/link.h"
#include "store_local/part.h"
#include "store_local/series_table.h"
#include "store_local/side.h"
#include "store_local/span_file.h"
#include "store_local/span_merge.h"
#include "store_local/version.h"

#define SPANS_BYTES_MAX ((size_t)1 << 30)

struct saving {
    struct local *l;
    struct segment *segment;
    struct part_writer *writer;
    struct part part;
    const struct epoch_entry *epoch;
    bool has_begun, has_strip; /* part and strip: not before they have a row */
    uint64_t n_lost;
};

bool is_own_trouble(int r)
{
    return r == -ENOMEM || r == -ENOBUFS || r == -EMFILE || r == -ENFILE;
}

struct saved_block {
    struct row_block rows;
    struct block *payloads, *sides;
};

static void saved_block_done(struct saved_block *b)
{
    row_block_done(&b->rows);
    block_unref(b->payloads);
    block_unref(b->sides);
}

static int save_row(struct saving *c, const struct strip *s, const struct saved_block *b,
                    uint32_t i, struct error *err)
{
    const struct row_block *rows = &b->rows;
    int64_t totals[UINT8_MAX];
    struct part_row row = {.start_ns = rows->start_ns[i],
                           .duration_ns = rows->duration_ns[i],
                           .period = rows->period[i],
                           .n_profiles = 1,
                           .content_hash = rows->content_hash[i],
                           .has_id = rows->has_id[i],
                           .n_samples = rows->n_samples[i],
                           .totals = totals,
                           .payload = strip_row_payload(rows, b->payloads, i)};
    int r = 0;

    if (!payload_is_sound(row.payload, s->n_types, c->epoch->mark.nodes,
                          c->epoch->mark.attr_sets)) {
        c->n_lost++;
        return 0;
    }
    memcpy(row.id, rows->id[i], sizeof(row.id));
    for (unsigned type = 0; type < s->n_types; type++)
        totals[type] = rows->totals[(size_t)type * rows->n + i];
    if (b->sides) {
        struct bytes side = strip_row_side(rows, b->sides, i);
        r = check_side(side, s->n_types, c->epoch->mark.nodes, c->epoch->mark.attr_sets, err);
        if (is_own_trouble(r))
            return r;
        if (r == 0)
            row.side = side;
        r = 0;
    }
    if (!c->has_begun)
        r = part_writer_begin(c->writer, c->epoch->id, err);
    if (r == 0 && !c->has_strip)
        r = part_writer_strip(c->writer, s->series, LEVEL_RAW, s->n_types, err);
    c->has_begun = c->has_strip = true;
    return r < 0 ? r : part_writer_row(c->writer, &row, err);
}

static int save_block(struct saving *c, const struct strip *s, const struct strip_block *b,
                      struct error *err)
{
    CLEANUP(saved_block_done) struct saved_block o = {0};

    int r = row_block_read(&c->part, s, b, ROWS_ALL, &o.rows, err);
    if (r == 0)
        r = strip_payloads(c->l, &c->part, b, &o.rows, &o.payloads, err);
    if (r < 0) {
        c->n_lost += b->n_rows;
        return is_own_trouble(r) ? r : 0;
    }
    /* Rows without their links are better than none. */
    if (o.rows.side_at)
        r = strip_sides(c->l, &c->part, b, &o.rows, &o.sides, err);
    if (is_own_trouble(r))
        return r;
    r = 0;
    for (uint32_t i = 0; i < o.rows.n && r == 0; i++)
        r = save_row(c, s, &o, i, err);
    return r;
}

static int save_part(struct saving *c, struct segment_file *f, uint32_t i, struct error *err)
{
    struct tenant *t = local_tenant(c->l, c->segment->tenant);
    int r = 0;

    c->epoch = version_epoch(c->l->version, f->parts[i].epoch);
    c->has_begun = false;
    if (t && c->epoch)
        r = part_open(c->l, f, i, &c->part, err);
    if (!t || !c->epoch || r < 0) {
        c->n_lost += f->parts[i].n_rows;
        return is_own_trouble(r) ? r : 0;
    }
    for (uint32_t k = 0; k < c->part.n_strips && r == 0; k++) {
        const struct strip *s = &c->part.strips[k];
        const struct series *series = series_table_get(t->series, s->series);
        if (s->level != LEVEL_RAW)
            continue;
        if (!series || series->n_types != s->n_types || series->is_group) {
            c->n_lost += s->n_rows;
            continue;
        }
        c->has_strip = false;
        for (uint32_t n = 0; n < s->n_blocks && r == 0; n++)
            r = save_block(c, s, &c->part.blocks[s->first_block + n], err);
    }
    part_done(&c->part);
    return r;
}

static int salvage_profiles(struct local *l, struct segment *s, struct segment **ret,
                            uint64_t *ret_lost, struct error *err)
{
    CLEANUP(part_writer_freep) struct part_writer *w = NULL;
    struct saving c = {.l = l, .segment = s};
    struct segment_file *f;
    struct part_options options = {.id = local_new_id(l),
                                   .tenant = s->tenant,
                                   .window_start_ns = s->window_start_ns,
                                   .window_len_ns = s->window_len_ns,
                                   .tombstone_seq = s->tombstone_seq};

    *ret_lost = s->n_rows;
    int r = segment_file_get(l, s, &f, err);
    if (r < 0)
        return is_own_trouble(r) ? r : 0;
    r = part_writer_new(l, &options, &w, err);
    c.writer = w;
    for (uint32_t i = 0; i < f->n_parts && r == 0; i++)
        r = save_part(&c, f, i, err);
    part_done(&c.part);
    *ret_lost = c.n_lost;
    return r < 0 || part_writer_rows(w) == 0 ? r : part_writer_finish(w, ret, err);
}

static int salvage_spans(struct local *l, struct segment *s, struct segment **ret,
                         uint64_t *ret_lost, struct error *err)
{
    CLEANUP(span_writer_freep) struct span_writer *w = NULL;
    struct span_file_options options = {.id = local_new_id(l),
                                        .tenant = s->tenant,
                                        .window_start_ns = s->window_start_ns,
                                        .window_len_ns = s->window_len_ns,
                                        .tombstone_seq = s->tombstone_seq};
    const struct store_span *span;
    struct span_file *f;
    struct budget budget;
    struct span_merge m;
    uint64_t n = 0;

    *ret_lost = s->n_rows;
    int r = span_file_get(l, s, &f, err);
    if (r < 0)
        return is_own_trouble(r) ? r : 0;
    budget_init(&budget, SPANS_BYTES_MAX);
    span_merge_init(&m, l, &budget, INT64_MIN, INT64_MAX);
    r = span_writer_new(l, &options, &w, err);
    for (uint32_t i = 0; i < f->n_blocks && r == 0; i++) {
        if (!span_merge_add_block(&m, s, f, &f->blocks[i]))
            r = error_set(err, -ENOMEM, "no memory for a list of blocks");
    }
    while (r >= 0 && (r = span_merge_next(&m, &span, err)) > 0) {
        r = span_writer_add(w, span, err);
        n++;
    }
    span_merge_done(&m);
    if (r < 0)
        return r;
    *ret_lost = s->n_rows - n;
    return n == 0 ? 0 : span_writer_finish(w, ret, err);
}

int salvage(struct local *l, struct segment *s, struct segment **ret, uint64_t *ret_lost,
            struct error *err)
{
    *ret = NULL;
    return s->kind == SEGMENT_SPANS ? salvage_spans(l, s, ret, ret_lost, err)
                                    : salvage_profiles(l, s, ret, ret_lost, err);
}

#include "store_local/row_stream.h"

#include <errno.h>
#include <stdlib.h>

void row_stream_close(struct row_stream *s)
{
    row_block_done(&s->rows);
    block_unref(s->payloads);
    block_unref(s->sides);
    s->payloads = s->sides = NULL;
    s->is_open = false;
}

static void drop_held(struct row_stream *s)
{
    block_unref(s->held[0]);
    block_unref(s->held[1]);
    s->held[0] = s->held[1] = NULL;
}

void row_stream_done(struct row_stream *s)
{
    row_stream_close(s);
    drop_held(s);
    free(s->hidden);
    *s = (struct row_stream){0};
}

static const struct strip_block *block_of(const struct row_stream *s)
{
    return &s->part->blocks[s->strip->first_block + s->block];
}

static int open_block(struct row_stream *s, struct error *err)
{
    const struct strip_block *b = block_of(s);

    if (s->is_open)
        return 0;
    row_stream_close(s);
    int r = row_block_read(s->part, s->strip, b, s->columns, &s->rows, err);
    if (r == 0)
        r = strip_payloads(s->l, s->part, b, &s->rows, &s->payloads, err);
    if (r == 0 && s->columns & ROWS_IDS && s->rows.side_at)
        r = strip_sides(s->l, s->part, b, &s->rows, &s->sides, err);
    s->is_open = r == 0;
    return r;
}

static bool is_hidden(const struct row_stream *s, int64_t start_ns)
{
    for (size_t i = 0; i < s->n_hidden; i++) {
        if (start_ns >= s->hidden[i].from_ns && start_ns < s->hidden[i].to_ns)
            return true;
    }
    return false;
}

/* Where the stream stands decides next_ns; rows that are hidden are passed. */
static int look(struct row_stream *s, struct error *err)
{
    for (;;) {
        if (s->block < s->strip->n_blocks && s->row >= block_of(s)->n_rows) {
            row_stream_close(s);
            s->block++;
            s->row = 0;
        }
        if (s->block >= s->strip->n_blocks) {
            s->next_ns = INT64_MAX;
            return 0;
        }
        /* The first row of a block is known without reading it. */
        if (s->row == 0 && s->n_hidden == 0) {
            s->next_ns = block_of(s)->min_ns;
            return 0;
        }
        int r = open_block(s, err);
        if (r < 0)
            return r;
        s->next_ns = s->rows.start_ns[s->row];
        if (!is_hidden(s, s->next_ns))
            return 0;
        s->row++;
    }
}

int row_stream_init(struct row_stream *s, const struct row_stream_from *from, struct error *err)
{
    *s = (struct row_stream){
        .l = from->l,
        .segment = from->segment,
        .part = from->part,
        .strip = from->strip,
        .columns = from->columns,
    };
    if (from->n_hidden > 0) {
        s->hidden = calloc(from->n_hidden, sizeof(*s->hidden));
        if (!s->hidden)
            return error_set(err, -ENOMEM, "could not read rows: no memory");
        memcpy(s->hidden, from->hidden, from->n_hidden * sizeof(*s->hidden));
        s->n_hidden = from->n_hidden;
    }
    return look(s, err);
}

int row_stream_rewind(struct row_stream *s, unsigned columns, struct error *err)
{
    row_stream_close(s);
    s->columns = columns;
    s->block = s->row = 0;
    return look(s, err);
}

static void fill(struct row_stream *s, struct part_row *ret)
{
    const struct row_block *b = &s->rows;
    uint32_t i = s->row;

    *ret = (struct part_row){
        .start_ns = b->start_ns[i],
        .n_profiles = 1,
        .n_samples = b->n_samples[i],
        .totals = s->totals,
        .payload = strip_row_payload(b, s->payloads, i),
    };
    for (unsigned type = 0; b->totals && type < b->n_types; type++)
        s->totals[type] = b->totals[(size_t)type * b->n + i];
    if (b->duration_ns) {
        ret->duration_ns = b->duration_ns[i];
        ret->period = b->period[i];
        ret->n_profiles = b->n_profiles[i];
    }
    if (b->has_id) {
        ret->has_id = b->has_id[i];
        ret->content_hash = b->content_hash[i];
        memcpy(ret->id, b->id[i], sizeof(ret->id));
    }
    if (s->sides)
        ret->side = strip_row_side(b, s->sides, i);
}

int row_stream_next(struct row_stream *s, struct part_row *ret, struct error *err)
{
    drop_held(s);
    if (s->next_ns == INT64_MAX)
        return 0;
    int r = open_block(s, err);
    if (r < 0)
        return r;
    fill(s, ret);
    s->row++;
    if (s->row < s->rows.n && s->n_hidden == 0) {
        s->next_ns = s->rows.start_ns[s->row];
        return 1;
    }
    /* Going on may give up the blocks that the row is in. */
    s->held[0] = block_ref(s->payloads);
    s->held[1] = s->sides ? block_ref(s->sides) : NULL;
    r = look(s, err);
    return r < 0 ? r : 1;
}

struct row_stream *row_streams_first(struct row_stream *streams, size_t n)
{
    struct row_stream *first = NULL;

    for (size_t i = 0; i < n; i++) {
        if (streams[i].next_ns != INT64_MAX && (!first || streams[i].next_ns < first->next_ns))
            first = &streams[i];
    }
    return first;
}

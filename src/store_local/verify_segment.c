#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/bisect.h"
#include "segment/bitpack.h"
#include "segment/file_name.h"
#include "segment/run.h"
#include "segment/varint.h"
#include "store_local/epoch.h"
#include "store_local/part_internal.h"
#include "store_local/row_stream.h"
#include "store_local/series_table.h"
#include "store_local/side.h"
#include "store_local/span_file.h"
#include "store_local/verify.h"

/* Streams that keep their blocks while others are read. */
#define OPEN_STREAMS_MAX 64

/* What samples add up to. The mix is linear, so the samples of a sum have the sum of the mixes:
 * it stands for a table of all stacks, which would be large. */
struct weight {
    int64_t totals[RUN_COLS_MAX];
    uint64_t mix;
    uint64_t n_samples, n_profiles;
    int64_t duration_ns;
};

struct check {
    struct verify *v;
    struct local *l;
    struct segment *segment;
    struct segment_file *file;
    struct part part;
    struct epoch_mark mark; /* of the part's epoch */
    struct tenant *tenant;
    struct budget budget;
    VEC(uint32_t) keys;
    VEC(int64_t) values;
    VEC(uint64_t) samples; /* attrs << 32 | node, of one row */
    VEC(uint32_t) traces;  /* fingerprints, of all side rows */
    struct side_vecs side;
};

static int64_t plus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static const struct series *series_of(const struct check *c, uint32_t id)
{
    return c->tenant ? series_table_get(c->tenant->series, id) : NULL;
}

/* ---- Samples */

static bool weigh_run(struct check *c, const struct run *run, uint32_t n_keys, struct weight *to)
{
    vec_clear(&c->keys);
    vec_clear(&c->values);
    if (run->n > n_keys || !vec_reserve(&c->budget, &c->keys, run->n) ||
        !vec_reserve(&c->budget, &c->values, run->n) || !run_keys(run, c->keys.data))
        return false;
    if (run->n > 0 && c->keys.data[run->n - 1] >= n_keys)
        return false;
    for (unsigned col = 0; col < run->n_cols; col++) {
        run_values(run, col, c->values.data);
        for (size_t i = 0; i < run->n; i++) {
            uint64_t v = (uint64_t)c->values.data[i];
            to->totals[col] = plus(to->totals[col], (int64_t)v);
            to->mix += v * stable_mix(c->keys.data[i], col);
        }
    }
    to->n_samples += run->n;
    return true;
}

/* Adds what a payload holds; c->samples says which. False when it is malformed or names what is not
 * there. */
static bool weigh_payload(struct check *c, struct bytes payload, const struct strip *s,
                          struct weight *to)
{
    enum level level = (enum level)s->level;
    uint32_t n_keys = level_is_functions(level) ? c->mark.strings : c->mark.nodes;
    uint64_t attrs, before = 0;
    struct run run;

    vec_clear(&c->samples);
    for (bool is_first = true; payload.len > 0; is_first = false, before = attrs) {
        if (!take_varint(&payload, &attrs) || attrs >= c->mark.attr_sets ||
            (!is_first && attrs <= before) || run_open(&payload, &run) < 0 ||
            run.n_cols != level_n_cols(level, s->n_types) || !weigh_run(c, &run, n_keys, to))
            return false;
        for (size_t i = 0; i < run.n; i++) {
            if (!vec_push(&c->budget, &c->samples, attrs << 32 | c->keys.data[i]))
                return false;
        }
    }
    return true;
}

/* ---- Side rows */

static bool has_sample(const struct check *c, const struct side_row *row)
{
    uint64_t key = (uint64_t)row->attrs << 32 | row->node;
    size_t at = BISECT(c->samples.len, i, c->samples.data[i] < key);

    return at < c->samples.len && c->samples.data[at] == key;
}

static void note_trace(void *arg, const uint8_t trace_id[16])
{
    struct check *c = arg;

    if (!c->file->has_too_many_traces)
        (void)vec_push(&c->budget, &c->traces, trace_fingerprint(trace_id));
}

static bool check_side(struct check *c, struct bytes in, int64_t start_ns, unsigned n_types)
{
    struct side_rows side = {0};

    if (in.len == 0)
        return true;
    if (side_decode(in, start_ns, n_types, &c->budget, &c->side, &side) < 0 ||
        side_traces(in, note_trace, c) < 0)
        return false;
    for (size_t i = 0; i < side.n; i++) {
        if (!has_sample(c, &side.rows[i]))
            return false;
    }
    return true;
}

static int by_u32(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return x < y ? -1 : x > y;
}

/* Whether the list of traces is exactly that of the side rows. */
static bool traces_match(struct check *c, const struct block *block)
{
    struct bytes in = block_bytes(block);
    uint64_t n, at, steps[BITPACK_CHUNK];
    struct bitpack packed;
    struct bitpack_cursor cursor;
    size_t have = 0;

    if (!take_varint(&in, &n) || n == 0 || n > PART_TRACES_MAX || !take_varint(&in, &at) ||
        bitpack_open(&in, (size_t)n - 1, &packed) < 0 || c->traces.len == 0)
        return false;
    qsort(c->traces.data, c->traces.len, sizeof(uint32_t), by_u32);
    bitpack_start(&packed, &cursor);
    for (size_t i = 0, left = (size_t)n - 1, in_chunk = 0, k = 0; i < n; i++) {
        if (i > 0) {
            if (k == in_chunk) {
                in_chunk = left < BITPACK_CHUNK ? left : BITPACK_CHUNK;
                bitpack_next(&cursor, in_chunk, steps);
                left -= in_chunk;
                k = 0;
            }
            at += steps[k++];
        }
        if (have == c->traces.len || c->traces.data[have] != at)
            return false;
        while (have < c->traces.len && c->traces.data[have] == at)
            have++;
    }
    return have == c->traces.len;
}

static void check_traces(struct check *c)
{
    CLEANUP(block_unrefp) struct block *block = NULL;
    struct error err;

    if (c->file->has_too_many_traces)
        return;
    if (c->file->traces.len == 0) {
        if (c->traces.len > 0)
            verify_bad(c->v, "it has samples with traces and no list of them");
        return;
    }
    if (block_file_read(c->file->file, c->file->traces, NULL, &block, &err) < 0)
        verify_bad(c->v, "%s", err.text);
    else if (!traces_match(c, block))
        verify_bad(c->v, "its list of traces is not that of its samples");
}

/* ---- Raw rows */

static bool is_in_window(const struct segment *s, int64_t start_ns)
{
    return start_ns >= s->window_start_ns &&
           ns_between(s->window_start_ns, start_ns) < s->window_len_ns;
}

struct opened {
    struct row_block rows;
    struct block *payloads, *sides;
};

static void opened_done(struct opened *o)
{
    row_block_done(&o->rows);
    block_unref(o->payloads);
    block_unref(o->sides);
}

static int open_block(struct check *c, const struct strip *s, const struct strip_block *b,
                      struct opened *o, struct error *err)
{
    int r = row_block_read(&c->part, s, b, ROWS_ALL, &o->rows, err);

    if (r == 0)
        r = strip_payloads(c->l, &c->part, b, &o->rows, &o->payloads, err);
    if (r == 0 && o->rows.side_at)
        r = strip_sides(c->l, &c->part, b, &o->rows, &o->sides, err);
    return r;
}

static void check_row(struct check *c, const struct strip *s, const struct opened *o, uint32_t i)
{
    struct weight w = {0};
    const struct row_block *rows = &o->rows;
    const char *wrong = NULL;

    if (!weigh_payload(c, strip_row_payload(rows, o->payloads, i), s, &w))
        wrong = "its samples are malformed or name what the dictionary has not";
    else if (w.n_samples != rows->n_samples[i])
        wrong = "the number of its samples is not right";
    for (unsigned type = 0; !wrong && !level_is_functions(s->level) && type < s->n_types; type++) {
        if (w.totals[type] != rows->totals[(size_t)type * rows->n + i])
            wrong = "its total is not the sum of its samples";
    }
    if (!wrong && s->level == LEVEL_RAW && !is_in_window(c->segment, rows->start_ns[i]))
        wrong = "it lies outside of the file's window";
    if (!wrong && o->sides &&
        !check_side(c, strip_row_side(rows, o->sides, i), rows->start_ns[i], s->n_types))
        wrong = "its links and times do not belong to its samples";
    if (wrong)
        verify_bad(c->v, "a row of series %" PRIu32 ", level %u, at %" PRId64 ": %s", s->series,
                   s->level, rows->start_ns[i], wrong);
}

static void check_block(struct check *c, const struct strip *s, const struct strip_block *b)
{
    CLEANUP(opened_done) struct opened o = {0};
    struct error err = {0};
    uint64_t n_samples = 0;

    if (open_block(c, s, b, &o, &err) < 0) {
        verify_bad(c->v, "%s", err.text);
        return;
    }
    for (uint32_t i = 0; i < o.rows.n; i++) {
        check_row(c, s, &o, i);
        n_samples += o.rows.n_samples[i];
    }
    if (o.rows.start_ns[0] != b->min_ns || o.rows.start_ns[o.rows.n - 1] != b->max_ns ||
        n_samples != b->n_samples)
        verify_bad(c->v, "a block of series %" PRIu32 ", level %u, is not what the index says",
                   s->series, s->level);
}

/* ---- Sums of rows */

/* The strips whose rows a strip of sums is made of: one level finer, or raw rows. */
struct below {
    VEC(struct row_stream) streams;
};

static bool add_stream(struct check *c, struct below *below, const struct strip *s)
{
    struct row_stream_from from = {.l = c->l,
                                   .segment = c->segment,
                                   .part = &c->part,
                                   .strip = s,
                                   .columns = ROWS_TOTALS | ROWS_WINDOW};
    struct error err;

    if (!vec_reserve(&c->budget, &below->streams, 1))
        return false;
    struct row_stream *stream = &below->streams.data[below->streams.len++];
    if (row_stream_init(stream, &from, &err) == 0)
        return true;
    verify_bad(c->v, "%s", err.text);
    return false;
}

static bool open_below(struct check *c, const struct strip *s, struct below *below)
{
    enum level finest = s->level == LEVEL_FUNCTIONS_HOUR  ? LEVEL_HOUR
                        : s->level == LEVEL_FUNCTIONS_DAY ? LEVEL_DAY
                                                          : (enum level)s->level - 1;
    const struct series *series = series_of(c, s->series);

    for (enum level level = finest; level > LEVEL_RAW; level--) {
        const struct strip *lower = part_strip(&c->part, s->series, level);
        if (lower)
            return add_stream(c, below, lower);
    }
    for (uint32_t i = 0; i < c->part.n_strips; i++) {
        const struct strip *raw = &c->part.strips[i];
        const struct series *member = series_of(c, raw->series);
        bool is_below = series && series->is_group ? member && member->group == s->series
                                                   : raw->series == s->series;
        if (raw->level == LEVEL_RAW && is_below && raw->n_types == s->n_types &&
            !add_stream(c, below, raw))
            return false;
    }
    return true;
}

static void add_part_row(struct weight *w, const struct part_row *row, unsigned n_types)
{
    w->n_profiles += row->n_profiles;
    w->duration_ns = plus(w->duration_ns, row->duration_ns);
    for (unsigned i = 0; i < n_types; i++)
        w->totals[i] = plus(w->totals[i], row->totals[i]);
}

/* What the rows below hold in [start, end). Rows before it were left out by the sums. */
static bool weigh_below(struct check *c, struct below *below, int64_t start, int64_t end,
                        struct weight *to)
{
    struct part_row row;
    struct error err;
    struct weight samples = {0};

    for (size_t i = 0; i < below->streams.len; i++) {
        struct row_stream *s = &below->streams.data[i];
        while (s->next_ns < end) {
            if (s->next_ns < start)
                return false;
            if (row_stream_next(s, &row, &err) <= 0 ||
                !weigh_payload(c, row.payload, s->strip, &samples))
                return false;
            add_part_row(to, &row, s->strip->n_types);
        }
        if (below->streams.len > OPEN_STREAMS_MAX)
            row_stream_close(s);
    }
    to->mix = samples.mix;
    return true;
}

static bool is_sum(const struct strip *s, const struct part_row *row, const struct weight *samples,
                   const struct weight *want)
{
    for (unsigned i = 0; i < s->n_types; i++) {
        if (row->totals[i] != want->totals[i])
            return false;
    }
    return row->n_profiles == want->n_profiles && row->duration_ns == want->duration_ns &&
           (level_is_functions(s->level) || samples->mix == want->mix);
}

static void check_sums(struct check *c, const struct strip *s)
{
    struct below below = {0}, own = {0};
    struct part_row row;
    struct error err;
    int64_t step = level_step_ns((enum level)s->level), end = 0;
    bool sound = add_stream(c, &own, s) && open_below(c, s, &below);

    while (sound && own.streams.data[0].next_ns != INT64_MAX) {
        struct weight samples = {0}, want = {0};
        int64_t start = own.streams.data[0].next_ns;
        end = start > INT64_MAX - step ? INT64_MAX : start + step;
        sound = row_stream_next(&own.streams.data[0], &row, &err) > 0 &&
                weigh_payload(c, row.payload, s, &samples) &&
                weigh_below(c, &below, start, end, &want) && is_sum(s, &row, &samples, &want);
    }
    for (size_t i = 0; i < below.streams.len; i++)
        sound &= below.streams.data[i].next_ns == INT64_MAX;
    if (!sound)
        verify_bad(c->v,
                   "the sums of series %" PRIu32 ", level %u, before %" PRId64
                   " are not those of its rows",
                   s->series, s->level, end);
    for (size_t i = 0; i < below.streams.len; i++)
        row_stream_done(&below.streams.data[i]);
    for (size_t i = 0; i < own.streams.len; i++)
        row_stream_done(&own.streams.data[i]);
    vec_done(&c->budget, &below.streams);
    vec_done(&c->budget, &own.streams);
}

/* ---- Parts */

static void check_strip(struct check *c, const struct strip *s)
{
    const struct series *series = series_of(c, s->series);
    uint64_t before = c->v->in_file;

    if (!series)
        verify_bad(c->v, "series %" PRIu32 " is not known", s->series);
    else if (series->n_types != s->n_types || (s->level == LEVEL_RAW && series->is_group))
        verify_bad(c->v, "series %" PRIu32 " is not of the kind that its rows are", s->series);
    if (s->series < c->part.entry->min_series || s->series > c->part.entry->max_series)
        verify_bad(c->v, "series %" PRIu32 " is not in the part's range", s->series);
    for (uint32_t i = 0; i < s->n_blocks; i++)
        check_block(c, s, &c->part.blocks[s->first_block + i]);
    if (s->level != LEVEL_RAW && c->v->in_file == before)
        check_sums(c, s);
}

static void check_counts(struct check *c)
{
    const struct part_entry *e = c->part.entry;
    uint64_t n_rows = 0, n_samples = 0;
    int64_t min = INT64_MAX, max = INT64_MIN;

    for (uint32_t i = 0; i < c->part.n_strips; i++) {
        const struct strip *s = &c->part.strips[i];
        if (s->level != LEVEL_RAW)
            continue;
        n_rows += s->n_rows;
        n_samples += s->n_samples;
        min = s->min_ns < min ? s->min_ns : min;
        max = s->max_ns > max ? s->max_ns : max;
    }
    if (n_rows != e->n_rows || n_samples != e->n_samples || min != e->min_ns || max != e->max_ns)
        verify_bad(c->v, "the part of epoch %" PRIu64 " is not what the footer says", e->epoch);
}

static void check_part(struct check *c, uint32_t i)
{
    const struct part_entry *e = &c->file->parts[i];
    const struct epoch_entry *epoch = version_epoch(c->l->version, e->epoch);
    struct error err;

    if (!epoch || epoch->tenant != c->segment->tenant) {
        verify_bad(c->v, "its dictionary, epoch %" PRIu64 ", is not known", e->epoch);
        return;
    }
    c->mark = epoch->mark;
    if (part_open(c->l, c->file, i, &c->part, &err) < 0) {
        verify_bad(c->v, "%s", err.text);
        return;
    }
    check_counts(c);
    for (uint32_t k = 0; k < c->part.n_strips; k++)
        check_strip(c, &c->part.strips[k]);
    part_done(&c->part);
}

static bool same_epochs(const struct segment *a, const struct segment *b)
{
    return a->n_epochs == b->n_epochs &&
           (a->n_epochs == 0 ||
            memcmp(a->epochs, b->epochs, a->n_epochs * sizeof(*a->epochs)) == 0);
}

/* What the manifest says of the file against what it says of itself. */
static void check_entry(struct verify *v, const struct segment *s)
{
    CLEANUP(segment_freep) struct segment *own = NULL;
    struct error err;

    int r = s->kind == SEGMENT_SPANS ? span_file_describe(v->l, s->id, &own, &err)
                                     : segment_describe(v->l, s->id, &own, &err);
    if (r == -ENOENT)
        return; /* it was there: whoever writes has just merged it, and said so in the manifest */
    if (r < 0)
        verify_bad(v, "%s", err.text);
    else if (own->tier != s->tier || own->window_start_ns != s->window_start_ns ||
             own->window_len_ns != s->window_len_ns || own->min_ns != s->min_ns ||
             own->max_ns != s->max_ns || own->n_rows != s->n_rows ||
             (s->kind == SEGMENT_PROFILES && own->n_samples != s->n_samples) ||
             own->bytes != s->bytes || !same_epochs(own, s))
        verify_bad(v, "it is not what the manifest says");
}

static void check_done(struct check *c)
{
    part_done(&c->part);
    side_vecs_done(&c->budget, &c->side);
    vec_done(&c->budget, &c->keys);
    vec_done(&c->budget, &c->values);
    vec_done(&c->budget, &c->samples);
    vec_done(&c->budget, &c->traces);
}

static int verify_profiles(struct verify *v, struct segment *s, struct error *err)
{
    CLEANUP(check_done)
    struct check c = {.v = v, .l = v->l, .segment = s, .tenant = local_tenant(v->l, s->tenant)};
    struct error why;

    budget_init(&c.budget, (size_t)1 << 30);
    int r = segment_file_get(v->l, s, &c.file, &why);
    if (r == -ENOENT || r == -ENOMEM)
        return error_set(err, r, "%s", why.text);
    if (r == 0)
        r = block_file_check_all(c.file->file, &why);
    if (r < 0) {
        verify_bad(v, "%s", why.text);
        return 0;
    }
    check_entry(v, s);
    for (uint32_t i = 0; i < c.file->n_parts; i++)
        check_part(&c, i);
    check_traces(&c);
    return budget_failed(&c.budget) ? budget_error(&c.budget, err) : 0;
}

static void on_span_finding(void *ctx, bool is_bad, const char *text)
{
    if (is_bad)
        verify_bad(ctx, "%s", text);
}

int verify_segment(struct verify *v, struct segment *s, struct error *err)
{
    struct file_name name = file_name("seg", s->id, "seg");

    verify_begin_file(v, name.text);
    if (s->kind == SEGMENT_PROFILES)
        return verify_profiles(v, s, err);
    struct span_file *spans;
    int r = span_file_get(v->l, s, &spans, err);
    if (r == -ENOENT || r == -ENOMEM)
        return r;
    if (span_file_verify(v->l, s, on_span_finding, v))
        check_entry(v, s);
    return 0;
}

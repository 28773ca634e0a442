#include "store_local/part_world.h"
#include "store_local/side.h"

/* A segment of two epochs, three series each, rows every ten seconds; every seventh row has an id,
 * every fifth of series 2 a side table. */
#define ROWS     1300
#define START_NS ((int64_t)1700000000 * 1000000000)

struct expected {
    uint64_t hash;
    int64_t totals[WORLD_TYPES];
    uint32_t n_samples;
};

static void side_of(uint32_t i, int64_t start_ns, struct buf *out)
{
    struct side_row row = {.node = 1, .time_ns = (uint64_t)start_ns + i};
    int64_t values[WORLD_TYPES] = {1, 10000000};

    memset(row.link.trace_id, (int)(i + 1), sizeof(row.link.trace_id));
    memset(row.link.span_id, 7, sizeof(row.link.span_id));
    side_encode(&(struct side_rows){&row, values, 1, WORLD_TYPES}, start_ns, out);
}

static void make_row(uint64_t epoch, uint32_t series, uint32_t i, struct buf *payload,
                     struct buf *side, int64_t totals[WORLD_TYPES], struct part_row *ret)
{
    uint64_t random = epoch * 1000003 + series * 1009 + i;

    buf_clear(payload);
    buf_clear(side);
    *ret = (struct part_row){
        .start_ns = START_NS + (int64_t)i * 10000000000,
        .duration_ns = 10000000000 + (i % 3),
        .period = 10000000,
        .n_profiles = 1,
        .content_hash = random * 0x9E3779B97F4A7C15u,
        .has_id = i % 7 == 0,
    };
    memset(ret->id, (int)i, sizeof(ret->id));
    ret->n_samples = world_payload(payload, &random, 250, 1 + series % 2, totals);
    if (series == 2 && i % 5 == 0)
        side_of(i, ret->start_ns, side);
    ret->totals = totals;
    ret->payload = buf_bytes(payload);
    ret->side = buf_bytes(side);
}

static struct segment *write_segment(struct test *t, struct world *w)
{
    CLEANUP(part_writer_freep) struct part_writer *pw = NULL;
    CLEANUP(buf_done) struct buf payload = {0}, side = {0};
    struct segment *segment = NULL;
    struct error err = {{0}};
    struct part_options options = {.id = 5,
                                   .tenant = 1,
                                   .tier = 1,
                                   .window_start_ns = START_NS,
                                   .window_len_ns = HOUR_NS,
                                   .tombstone_seq = 3};

    CHECK_INT(t, part_writer_new(&w->local, &options, &pw, &err), 0);
    for (uint64_t epoch = 10; epoch <= 20; epoch += 10) {
        CHECK_INT(t, part_writer_begin(pw, epoch, &err), 0);
        for (uint32_t series = 1; series <= 3; series++) {
            CHECK_INT(t, part_writer_strip(pw, series, LEVEL_RAW, WORLD_TYPES, &err), 0);
            for (uint32_t i = 0; i < ROWS; i++) {
                int64_t totals[WORLD_TYPES];
                struct part_row row;
                make_row(epoch, series, i, &payload, &side, totals, &row);
                CHECK_INT(t, part_writer_row(pw, &row, &err), 0);
            }
        }
    }
    CHECK_INT(t, part_writer_rows(pw), 6 * ROWS);
    CHECK_INT(t, part_writer_finish(pw, &segment, &err), 0);
    return segment;
}

/* Reads all rows of a strip and holds them against what was written. Returns 0, or the first error
 * that reading met; rows that were read are right in any case. */
static int check_strip(struct test *t, struct world *w, const struct part *p, uint32_t series,
                       struct error *err)
{
    CLEANUP(buf_done) struct buf payload = {0}, side = {0};
    const struct strip *s = part_strip(p, series, LEVEL_RAW);
    uint32_t at = 0;

    CHECK(t, s && s->n_rows == ROWS && s->n_types == WORLD_TYPES && s->n_blocks > 1);
    for (uint32_t b = 0; s && b < s->n_blocks; b++) {
        const struct strip_block *block = &p->blocks[s->first_block + b];
        CLEANUP(row_block_done) struct row_block rows = {0};
        CLEANUP(block_unrefp) struct block *payloads = NULL, *sides = NULL;
        int r = row_block_read(p, s, block, ROWS_ALL, &rows, err);
        if (r == 0)
            r = strip_payloads(&w->local, p, block, &rows, &payloads, err);
        if (r == 0 && rows.side_at)
            r = strip_sides(&w->local, p, block, &rows, &sides, err);
        if (r < 0)
            return r;
        for (uint32_t i = 0; i < rows.n; i++, at++) {
            int64_t totals[WORLD_TYPES];
            struct part_row row;
            make_row(p->entry->epoch, series, at, &payload, &side, totals, &row);
            CHECK_INT(t, rows.start_ns[i], row.start_ns);
            CHECK_INT(t, rows.duration_ns[i], row.duration_ns);
            CHECK_INT(t, rows.period[i], row.period);
            CHECK_INT(t, rows.n_profiles[i], 1);
            CHECK_INT(t, rows.n_samples[i], row.n_samples);
            CHECK_INT(t, rows.totals[i], totals[0]);
            CHECK_INT(t, rows.totals[rows.n + i], totals[1]);
            CHECK_INT(t, rows.has_id[i], row.has_id);
            CHECK(t, row.has_id ? memcmp(rows.id[i], row.id, 16) == 0
                                : rows.content_hash[i] == row.content_hash);
            CHECK(t, bytes_equal(strip_row_payload(&rows, payloads, i), row.payload));
            CHECK(t, !row.side.len || bytes_equal(strip_row_side(&rows, sides, i), row.side));
        }
    }
    CHECK_INT(t, at, ROWS);
    return 0;
}

/* All of a segment; returns how many strips could not be read. */
static int check_segment(struct test *t, struct world *w, struct segment *segment)
{
    struct segment_file *f;
    struct error err = {{0}};
    int n_bad = 0;

    if (segment_file_get(&w->local, segment, &f, &err) < 0) {
        CHECK(t, err.text[0] != '\0');
        return 6;
    }
    for (uint32_t i = 0; i < f->n_parts; i++) {
        CLEANUP(part_done) struct part p = {0};
        int r = part_open(&w->local, f, i, &p, &err);
        if (r < 0) {
            n_bad += 3;
            continue;
        }
        for (uint32_t series = 1; series <= 3; series++)
            n_bad += check_strip(t, w, &p, series, &err) < 0;
    }
    return n_bad;
}

static void reads_back_all_that_was_written(struct test *t)
{
    struct world w;
    world_init(&w);
    CLEANUP(segment_freep) struct segment *s = write_segment(t, &w);

    CHECK_INT(t, s->id, 5);
    CHECK_INT(t, s->tenant, 1);
    CHECK_INT(t, s->n_rows, 6 * ROWS);
    CHECK_INT(t, s->min_ns, START_NS);
    CHECK_INT(t, s->max_ns, START_NS + (ROWS - 1) * 10000000000);
    CHECK_INT(t, s->n_epochs, 2);
    CHECK_INT(t, s->epochs[1], 20);
    CHECK_INT(t, s->tombstone_seq, 3);
    CHECK_INT(t, check_segment(t, &w, s), 0);
    segment_free(TAKE_PTR(s));
    world_done(&w);
}

static void finds_strips_and_says_where_there_are_none(struct test *t)
{
    struct world w;
    struct segment_file *f;
    world_init(&w);
    CLEANUP(segment_freep) struct segment *s = write_segment(t, &w);
    CLEANUP(part_done) struct part p = {0};

    CHECK_INT(t, segment_file_get(&w.local, s, &f, NULL), 0);
    CHECK_INT(t, f->n_parts, 2);
    CHECK_INT(t, part_open(&w.local, f, 1, &p, NULL), 0);
    CHECK(t, part_strip(&p, 2, LEVEL_RAW) == &p.strips[1]);
    CHECK(t, part_strip(&p, 2, LEVEL_MINUTE) == NULL);
    CHECK(t, part_strip(&p, 4, LEVEL_RAW) == NULL);
    CHECK_INT(t, part_series_at(&p, 3), 2);
    CHECK_INT(t, part_series_at(&p, 9), 3);
    part_done(&p);
    segment_free(TAKE_PTR(s));
    world_done(&w);
}

static void knows_which_traces_it_has(struct test *t)
{
    struct world w;
    struct segment_file *f;
    uint8_t trace[16];
    world_init(&w);
    CLEANUP(segment_freep) struct segment *s = write_segment(t, &w);

    CHECK_INT(t, segment_file_get(&w.local, s, &f, NULL), 0);
    memset(trace, 1, sizeof(trace));
    CHECK_INT(t, segment_has_trace(&w.local, f, trace, NULL), 1);
    memset(trace, 6, sizeof(trace));
    CHECK_INT(t, segment_has_trace(&w.local, f, trace, NULL), 1);
    trace[3] = 77;
    CHECK_INT(t, segment_has_trace(&w.local, f, trace, NULL), 0);
    segment_free(TAKE_PTR(s));
    world_done(&w);
}

static void refuses_what_is_out_of_order(struct test *t)
{
    struct world w;
    struct segment *s = NULL;
    struct error err = {{0}};
    int64_t totals[WORLD_TYPES] = {0};
    struct part_row row = {.start_ns = 10, .totals = totals};
    world_init(&w);
    CLEANUP(part_writer_freep) struct part_writer *pw = NULL;

    CHECK_INT(t, part_writer_new(&w.local, &(struct part_options){.id = 9}, &pw, &err), 0);
    CHECK_INT(t, part_writer_strip(pw, 1, LEVEL_RAW, 2, &err), -EINVAL);
    CHECK_INT(t, part_writer_row(pw, &row, &err), -EINVAL);
    CHECK_INT(t, part_writer_finish(pw, &s, &err), -ENODATA);
    CHECK_STR(t, err.text, "could not write a segment: it would be empty");
    CHECK_INT(t, part_writer_begin(pw, 7, &err), 0);
    CHECK_INT(t, part_writer_strip(pw, 3, LEVEL_RAW, 2, &err), 0);
    CHECK_INT(t, part_writer_row(pw, &row, &err), 0);
    row.start_ns = 9;
    CHECK_INT(t, part_writer_row(pw, &row, &err), -EINVAL);
    CHECK_STR(t, err.text, "could not write a segment: rows do not ascend");
    CHECK_INT(t, part_writer_strip(pw, 3, LEVEL_RAW, 2, &err), -EINVAL);
    CHECK_STR(t, err.text, "could not write a segment: strips do not ascend");
    CHECK_INT(t, part_writer_strip(pw, 2, LEVEL_HOUR, 2, &err), -EINVAL);
    CHECK_INT(t, part_writer_begin(pw, 7, &err), -EINVAL);
    CHECK_STR(t, err.text, "could not write a segment: epochs do not ascend");
    part_writer_free(TAKE_PTR(pw));
    CHECK_INT(t, fs_exists(w.local.fs, "seg/0000000009.seg", NULL), 0);
    world_done(&w);
}

/* A part without rows and rows without samples are no special cases. */
static void takes_rows_without_samples(struct test *t)
{
    struct world w;
    struct segment_file *f;
    struct error err = {{0}};
    int64_t totals[WORLD_TYPES] = {0};
    struct part_row row = {.start_ns = INT64_MIN, .totals = totals};
    world_init(&w);
    CLEANUP(part_writer_freep) struct part_writer *pw = NULL;
    CLEANUP(segment_freep) struct segment *s = NULL;
    CLEANUP(part_done) struct part p = {0};
    CLEANUP(row_block_done) struct row_block rows = {0};
    CLEANUP(block_unrefp) struct block *payloads = NULL;

    CHECK_INT(t, part_writer_new(&w.local, &(struct part_options){.id = 9}, &pw, &err), 0);
    CHECK_INT(t, part_writer_begin(pw, 6, &err), 0);
    CHECK_INT(t, part_writer_begin(pw, 7, &err), 0);
    CHECK_INT(t, part_writer_strip(pw, 2, LEVEL_RAW, 2, &err), 0);
    CHECK_INT(t, part_writer_strip(pw, 3, LEVEL_RAW, 2, &err), 0);
    CHECK_INT(t, part_writer_row(pw, &row, &err), 0);
    row.start_ns = INT64_MAX;
    CHECK_INT(t, part_writer_row(pw, &row, &err), 0);
    CHECK_INT(t, part_writer_finish(pw, &s, &err), 0);
    CHECK_INT(t, segment_file_get(&w.local, s, &f, &err), 0);
    CHECK_INT(t, f->n_parts, 1);
    CHECK_INT(t, part_open(&w.local, f, 0, &p, &err), 0);
    CHECK_INT(t, p.n_strips, 1);
    CHECK_INT(t, row_block_read(&p, p.strips, p.blocks, 0, &rows, &err), 0);
    CHECK_INT(t, rows.start_ns[0], INT64_MIN);
    CHECK_INT(t, rows.start_ns[1], INT64_MAX);
    CHECK_INT(t, strip_payloads(&w.local, &p, p.blocks, &rows, &payloads, &err), 0);
    CHECK_INT(t, strip_row_payload(&rows, payloads, 1).len, 0);
    CHECK_INT(t, strip_sides(&w.local, &p, p.blocks, &rows, &payloads, &err), -ENOENT);
    part_done(&p);
    segment_free(TAKE_PTR(s));
    part_writer_free(TAKE_PTR(pw));
    world_done(&w);
}

/* Bytes all over the file, and many of the last ones, changed in turn: what is then read is right
 * or refused, and never is more lost than strips that need the byte. */
static void finds_any_changed_byte(struct test *t)
{
    struct world w;
    world_init(&w);
    CLEANUP(segment_freep) struct segment *s = write_segment(t, &w);
    CLEANUP(fs_closep) struct fs_file *file = NULL;
    uint64_t size = 0;
    int n_unseen = 0;

    CHECK_INT(t, fs_open(w.local.fs, "seg/0000000005.seg", FS_WRITE, &file, NULL), 0);
    CHECK_INT(t, fs_size(file, &size, NULL), 0);
    CHECK_INT(t, size, s->bytes);
    for (uint64_t at = 32; at < size; at += at < size - 200 ? 30011 : 7) {
        uint8_t good, bad;
        fs_pread(file, &good, 1, at, NULL);
        bad = good ^ 0x41;
        fs_pwrite(file, &bad, 1, at, NULL);
        CLEANUP(segment_freep) struct segment *again = calloc(1, sizeof(*again));
        again->id = s->id;
        again->tenant = 1;
        again->kind = SEGMENT_PROFILES;
        n_unseen += check_segment(t, &w, again) == 0;
        fs_pwrite(file, &good, 1, at, NULL);
    }
    CHECK_INT(t, n_unseen, 0);
    fs_close(TAKE_PTR(file));
    segment_free(TAKE_PTR(s));
    world_done(&w);
}

static void refuses_a_file_of_another_tenant(struct test *t)
{
    struct world w;
    struct segment_file *f;
    struct error err = {{0}};
    world_init(&w);
    CLEANUP(segment_freep) struct segment *s = write_segment(t, &w);

    s->tenant = 2;
    CHECK_INT(t, segment_file_get(&w.local, s, &f, &err), -EBADMSG);
    CHECK_STR(t, err.text, "segment 5: it belongs to tenant 1, not 2");
    CHECK(t, s->is_bad);
    s->kind = SEGMENT_SPANS;
    CHECK_INT(t, segment_file_get(&w.local, s, &f, &err), -EINVAL);
    s->kind = SEGMENT_PROFILES;
    segment_free(TAKE_PTR(s));
    world_done(&w);
}

static const struct test_case cases[] = {
    TEST(reads_back_all_that_was_written),  TEST(finds_strips_and_says_where_there_are_none),
    TEST(knows_which_traces_it_has),        TEST(refuses_what_is_out_of_order),
    TEST(takes_rows_without_samples),       TEST(finds_any_changed_byte),
    TEST(refuses_a_file_of_another_tenant),
};
TEST_MAIN(cases)

#include "profile/dict.h"
#include "store_local/cover.h"
#include "store_local/part_world.h"
#include "store_local/rollup.h"

/*
 * Rows of several series over a few hours, their rollups, and the same sums made the slow way.
 */
#define NODES    200
#define SETS     3
#define START_NS ((int64_t)1700000000 * 1000000000)

/* A trie whose nodes have few functions, some of them recursive; attribute sets 1 (kept), 2 (not
 * kept) beside the empty one. */
static struct dict *make_dict(struct budget *b)
{
    struct dict *d = dict_new(b);
    uint32_t names[20];
    uint64_t random = 3;

    for (uint32_t i = 0; i < 20; i++) {
        char name[16];
        snprintf(name, sizeof(name), "f%u", i);
        names[i] = dict_function(d, (struct function){.name = dict_cstring(d, name)});
    }
    for (uint32_t address = 1; dict_n_nodes(d) < NODES; address++) {
        struct line lines[2] = {{.function = names[world_random(&random) % 20], .line = address},
                                {.function = names[world_random(&random) % 20], .line = address}};
        uint32_t location =
            dict_location(d, (struct location){.address = address}, lines, 1 + address % 2);
        dict_node(d, (uint32_t)(world_random(&random) % dict_n_nodes(d)), location);
    }
    uint32_t thread = dict_string_attribute(d, dict_cstring(d, "thread.name"), names[1]);
    uint32_t pod = dict_string_attribute(d, dict_cstring(d, "request.id"), names[2]);
    dict_attrs(d, &thread, 1);
    dict_attrs(d, &pod, 1);
    return d;
}

struct fixture {
    struct world w;
    struct budget budget;
    struct dict *dict;
    uint32_t *projection;
    struct segment *raw, *rolled;
    struct segment_file *raw_file, *rolled_file;
    struct part raw_part, rolled_part;
};

struct shape {
    uint32_t n_series, n_rows;
    int64_t step_ns;
    uint32_t n_sets;
};

static void write_raw(struct test *t, struct fixture *f, const struct shape *shape)
{
    CLEANUP(part_writer_freep) struct part_writer *pw = NULL;
    CLEANUP(buf_done) struct buf payload = {0};
    struct error err = {{0}};
    uint64_t random = 5;

    CHECK_INT(t, part_writer_new(&f->w.local, &(struct part_options){.id = 1}, &pw, &err), 0);
    CHECK_INT(t, part_writer_begin(pw, 1, &err), 0);
    for (uint32_t series = 1; series <= shape->n_series; series++) {
        CHECK_INT(t, part_writer_strip(pw, series, LEVEL_RAW, WORLD_TYPES, &err), 0);
        for (uint32_t i = 0; i < shape->n_rows; i++) {
            int64_t totals[WORLD_TYPES];
            buf_clear(&payload);
            struct part_row row = {.start_ns = START_NS + (int64_t)i * shape->step_ns + series,
                                   .duration_ns = shape->step_ns,
                                   .period = 10,
                                   .n_profiles = 1,
                                   .totals = totals};
            row.n_samples = world_payload(&payload, &random, NODES, shape->n_sets, totals);
            row.payload = buf_bytes(&payload);
            CHECK_INT(t, part_writer_row(pw, &row, &err), 0);
        }
    }
    CHECK_INT(t, part_writer_finish(pw, &f->raw, &err), 0);
    CHECK_INT(t, segment_file_get(&f->w.local, f->raw, &f->raw_file, &err), 0);
    CHECK_INT(t, part_open(&f->w.local, f->raw_file, 0, &f->raw_part, &err), 0);
}

static int open_streams(struct fixture *f, struct row_stream *streams, size_t n,
                        const struct cover_range *hidden, struct error *err)
{
    int r = 0;

    for (size_t i = 0; i < n && r == 0; i++)
        r = row_stream_init(&streams[i],
                            &(struct row_stream_from){
                                .l = &f->w.local,
                                .segment = f->raw,
                                .part = &f->raw_part,
                                .strip = part_strip(&f->raw_part, (uint32_t)i + 1, LEVEL_RAW),
                                .columns = ROWS_TOTALS | ROWS_WINDOW,
                                .hidden = hidden,
                                .n_hidden = hidden != NULL,
                            },
                            err);
    return r;
}

/* Rolls all series up into one group, series 99. */
static void roll_up(struct test *t, struct fixture *f, const struct shape *shape,
                    const struct cover_range *hidden)
{
    CLEANUP(part_writer_freep) struct part_writer *pw = NULL;
    struct row_stream *streams = calloc(shape->n_series, sizeof(*streams));
    struct error err = {{0}};
    int64_t totals[WORLD_TYPES] = {0};
    size_t bad = SIZE_MAX;

    CHECK_INT(t, open_streams(f, streams, shape->n_series, hidden, &err), 0);
    CHECK_INT(t, part_writer_new(&f->w.local, &(struct part_options){.id = 2}, &pw, &err), 0);
    CHECK_INT(t, part_writer_begin(pw, 1, &err), 0);
    /* A part wants raw rows. */
    CHECK_INT(t, part_writer_strip(pw, 1, LEVEL_RAW, WORLD_TYPES, &err), 0);
    CHECK_INT(t, part_writer_row(pw, &(struct part_row){.totals = totals}, &err), 0);
    struct rollup_ask ask = {
        .dict = f->dict,
        .projection = f->projection,
        .streams = streams,
        .n_streams = shape->n_series,
        .series = 99,
        .n_types = WORLD_TYPES,
        .raw_samples = f->raw->n_samples,
        .has_days = true,
        .has_functions = true,
    };
    CHECK_INT(t, rollup_write(&ask, pw, &bad, &err), 0);
    CHECK_INT(t, part_writer_finish(pw, &f->rolled, &err), 0);
    CHECK_INT(t, segment_file_get(&f->w.local, f->rolled, &f->rolled_file, &err), 0);
    CHECK_INT(t, part_open(&f->w.local, f->rolled_file, 0, &f->rolled_part, &err), 0);
    for (size_t i = 0; i < shape->n_series; i++)
        row_stream_done(&streams[i]);
    free(streams);
}

static void fixture_init(struct test *t, struct fixture *f, const struct shape *shape,
                         const struct cover_range *hidden)
{
    *f = (struct fixture){0};
    world_init(&f->w);
    budget_init(&f->budget, BUDGET_DEFAULT_BYTES);
    f->dict = make_dict(&f->budget);
    f->projection = rollup_projection(f->dict);
    write_raw(t, f, shape);
    roll_up(t, f, shape, hidden);
}

static void fixture_done(struct fixture *f)
{
    part_done(&f->raw_part);
    part_done(&f->rolled_part);
    segment_free(f->raw);
    segment_free(f->rolled);
    free(f->projection);
    dict_free(f->dict);
    world_done(&f->w);
}

/* ---- The slow way */

struct slow {
    int64_t sums[SETS][NODES][WORLD_TYPES];
    int64_t totals[WORLD_TYPES], duration_ns;
    uint64_t n_profiles;
};

static void slow_payload(struct test *t, const struct fixture *f, struct bytes payload,
                         const uint32_t *projection, struct slow *slow)
{
    while (payload.len > 0) {
        struct run run;
        uint64_t set = 0;
        uint32_t keys[NODES];
        int64_t values[NODES];
        CHECK(t, take_varint(&payload, &set) && set < SETS && run_open(&payload, &run) == 0);
        CHECK(t, run.n_cols == WORLD_TYPES && run.n <= NODES && run_keys(&run, keys));
        for (unsigned c = 0; c < WORLD_TYPES; c++) {
            run_values(&run, c, values);
            for (size_t i = 0; i < run.n; i++)
                slow->sums[projection ? projection[set] : set][keys[i]][c] += values[i];
        }
    }
    (void)f;
}

/* Sums rows of a level that start in [from, to). */
static void slow_sum(struct test *t, struct fixture *f, const struct part *p, enum level level,
                     struct cover_range range, struct slow *ret)
{
    memset(ret, 0, sizeof(*ret));
    for (uint32_t i = 0; i < p->n_strips; i++) {
        const struct strip *s = &p->strips[i];
        for (uint32_t b = 0; s->level == level && b < s->n_blocks; b++) {
            const struct strip_block *block = &p->blocks[s->first_block + b];
            CLEANUP(row_block_done) struct row_block rows = {0};
            CLEANUP(block_unrefp) struct block *payloads = NULL;
            struct error err;
            CHECK_INT(t, row_block_read(p, s, block, ROWS_ALL, &rows, &err), 0);
            CHECK_INT(t, strip_payloads(&f->w.local, p, block, &rows, &payloads, &err), 0);
            for (uint32_t j = 0; j < rows.n; j++) {
                if (rows.start_ns[j] < range.from_ns || rows.start_ns[j] >= range.to_ns)
                    continue;
                ret->n_profiles += rows.n_profiles[j];
                ret->duration_ns += rows.duration_ns[j];
                for (unsigned c = 0; c < WORLD_TYPES; c++)
                    ret->totals[c] += rows.totals[c * rows.n + j];
                slow_payload(t, f, strip_row_payload(&rows, payloads, j),
                             level == LEVEL_RAW ? f->projection : NULL, ret);
            }
        }
    }
}

/* Every bucket of a level equals the sum of the raw rows in it. Returns how many buckets. */
static uint32_t check_level(struct test *t, struct fixture *f, enum level level)
{
    const struct strip *s = part_strip(&f->rolled_part, 99, level);
    struct slow *want = calloc(1, sizeof(*want)), *got = calloc(1, sizeof(*got));
    int64_t width = level_step_ns(level);
    uint32_t n = 0;

    for (int64_t at = cover_floor(START_NS, width); s && at <= f->raw->max_ns; at += width, n++) {
        struct cover_range range = {at, at + width};
        slow_sum(t, f, &f->raw_part, LEVEL_RAW, range, want);
        slow_sum(t, f, &f->rolled_part, level, range, got);
        CHECK(t, memcmp(want, got, sizeof(*want)) == 0);
    }
    CHECK(t, !s || s->n_rows == n);
    free(want);
    free(got);
    return n;
}

static void sums_minutes_hours_and_days_exactly(struct test *t)
{
    struct fixture f;
    fixture_init(t, &f, &(struct shape){4, 1200, 10 * (MINUTE_NS / 60), 1}, NULL);

    CHECK(t, check_level(t, &f, LEVEL_MINUTE) >= 200);
    CHECK(t, check_level(t, &f, LEVEL_HOUR) >= 4);
    CHECK(t, part_strip(&f.rolled_part, 99, LEVEL_FUNCTIONS_HOUR) != NULL);
    fixture_done(&f);
}

static void keeps_the_attributes_that_are_asked_by(struct test *t)
{
    struct fixture f;
    fixture_init(t, &f, &(struct shape){3, 600, 10 * (MINUTE_NS / 60), SETS}, NULL);

    CHECK_INT(t, f.projection[0], 0);
    CHECK_INT(t, f.projection[1], 1);
    CHECK_INT(t, f.projection[2], 0);
    CHECK(t, check_level(t, &f, LEVEL_MINUTE) >= 100);
    CHECK(t, check_level(t, &f, LEVEL_HOUR) >= 2);
    CHECK(t, rollup_keeps(BYTES("thread.name")));
    CHECK(t, rollup_keeps(BYTES("lock.kind")));
    CHECK(t, rollup_keeps(BYTES("memory.kind")));
    CHECK(t, rollup_keeps(BYTES("leak.suspect")));
    CHECK(t, !rollup_keeps(BYTES("request.id")));
    fixture_done(&f);
}

/* Six rows a minute, with most stacks in each minute: minutes do not pay, which shows early, and
 * hours go on where they left off. Two rows a minute: nobody tries. */
static void leaves_out_levels_that_do_not_pay(struct test *t)
{
    struct fixture f;
    fixture_init(t, &f, &(struct shape){1, 900, 10 * (MINUTE_NS / 60), 1}, NULL);
    CHECK(t, part_strip(&f.rolled_part, 99, LEVEL_MINUTE) == NULL);
    CHECK(t, check_level(t, &f, LEVEL_HOUR) >= 3);
    fixture_done(&f);

    fixture_init(t, &f, &(struct shape){1, 900, MINUTE_NS / 2, 1}, NULL);

    CHECK(t, part_strip(&f.rolled_part, 99, LEVEL_MINUTE) == NULL);
    CHECK(t, check_level(t, &f, LEVEL_HOUR) >= 7);
    fixture_done(&f);

    fixture_init(t, &f, &(struct shape){1, 3, DAY_NS, 1}, NULL);
    for (enum level level = LEVEL_MINUTE; level <= LEVEL_DAY; level++)
        CHECK(t, part_strip(&f.rolled_part, 99, level) == NULL);
    fixture_done(&f);
}

static void rolls_up_many_series_hour_by_hour(struct test *t)
{
    struct fixture f;
    fixture_init(t, &f, &(struct shape){ROLLUP_STREAMS_MAX + 10, 5, HOUR_NS / 3, 1}, NULL);

    CHECK(t, part_strip(&f.rolled_part, 99, LEVEL_MINUTE) == NULL);
    CHECK(t, check_level(t, &f, LEVEL_HOUR) >= 2);
    fixture_done(&f);
}

/* What a tombstone hides is in no sum. */
static void leaves_out_what_is_hidden(struct test *t)
{
    struct fixture f;
    struct cover_range hidden = {START_NS + HOUR_NS, START_NS + 2 * HOUR_NS};
    struct slow *want = calloc(2, sizeof(*want)), *got = calloc(1, sizeof(*got));
    fixture_init(t, &f, &(struct shape){4, 1200, 10 * (MINUTE_NS / 60), 1}, &hidden);

    slow_sum(t, &f, &f.raw_part, LEVEL_RAW, (struct cover_range){INT64_MIN, hidden.from_ns}, want);
    slow_sum(t, &f, &f.raw_part, LEVEL_RAW, (struct cover_range){hidden.to_ns, INT64_MAX},
             want + 1);
    slow_sum(t, &f, &f.rolled_part, LEVEL_HOUR, (struct cover_range){INT64_MIN, INT64_MAX}, got);
    CHECK_INT(t, got->n_profiles, want[0].n_profiles + want[1].n_profiles);
    CHECK_INT(t, got->totals[1], want[0].totals[1] + want[1].totals[1]);
    for (uint32_t i = 0; i < NODES; i++)
        CHECK_INT(t, got->sums[0][i][0], want[0].sums[0][i][0] + want[1].sums[0][i][0]);
    free(want);
    free(got);
    fixture_done(&f);
}

/* ---- Functions */

static bool node_has(const struct dict *d, uint32_t node, uint32_t name)
{
    for (; node; node = d->node_parent.data[node]) {
        const struct location *l = &d->locations.data[d->node_location.data[node]];
        for (uint32_t i = 0; i < l->n_lines; i++) {
            if (d->functions.data[d->lines.data[l->first_line + i].function].name == name)
                return true;
        }
    }
    return false;
}

static uint32_t leaf_name(const struct dict *d, uint32_t node)
{
    const struct location *l = &d->locations.data[d->node_location.data[node]];

    return l->n_lines ? d->functions.data[d->lines.data[l->first_line].function].name : 0;
}

static void check_function(struct test *t, const struct fixture *f, const struct slow *stacks,
                           uint32_t name, const int64_t got[2 * WORLD_TYPES])
{
    for (unsigned c = 0; c < WORLD_TYPES; c++) {
        int64_t flat = 0, cum = 0;
        for (uint32_t node = 0; node < NODES; node++) {
            int64_t v = stacks->sums[0][node][c];
            flat += leaf_name(f->dict, node) == name ? v : 0;
            cum += node_has(f->dict, node, name) ? v : 0;
        }
        CHECK_INT(t, got[c], flat);
        CHECK_INT(t, got[WORLD_TYPES + c], cum);
    }
}

/* A recursive function counts once per stack, a flat value goes to the innermost inlined one. */
static void sums_functions_once_per_stack(struct test *t)
{
    struct fixture f;
    struct slow *stacks = calloc(1, sizeof(*stacks));
    fixture_init(t, &f, &(struct shape){4, 1200, 10 * (MINUTE_NS / 60), 1}, NULL);
    const struct strip *s = part_strip(&f.rolled_part, 99, LEVEL_FUNCTIONS_HOUR);
    CLEANUP(row_block_done) struct row_block rows = {0};
    CLEANUP(block_unrefp) struct block *payloads = NULL;

    CHECK(t, s != NULL);
    const struct strip_block *b = &f.rolled_part.blocks[s->first_block];
    CHECK_INT(t, row_block_read(&f.rolled_part, s, b, ROWS_ALL, &rows, NULL), 0);
    CHECK_INT(t, strip_payloads(&f.w.local, &f.rolled_part, b, &rows, &payloads, NULL), 0);
    for (uint32_t i = 0; i < rows.n; i++) {
        struct bytes payload = strip_row_payload(&rows, payloads, i);
        uint64_t set = 0;
        struct run run;
        uint32_t keys[64];
        int64_t values[2 * WORLD_TYPES][64];
        slow_sum(t, &f, &f.raw_part, LEVEL_RAW,
                 (struct cover_range){rows.start_ns[i], rows.start_ns[i] + HOUR_NS}, stacks);
        CHECK(t, take_varint(&payload, &set) && set == 0 && run_open(&payload, &run) == 0);
        CHECK_INT(t, payload.len, 0);
        CHECK(t, run.n == 20 && run.n_cols == 2 * WORLD_TYPES && run_keys(&run, keys));
        for (unsigned c = 0; c < 2 * WORLD_TYPES; c++)
            run_values(&run, c, values[c]);
        for (size_t j = 0; j < run.n; j++) {
            int64_t got[2 * WORLD_TYPES];
            for (unsigned c = 0; c < 2 * WORLD_TYPES; c++)
                got[c] = values[c][j];
            check_function(t, &f, stacks, keys[j], got);
        }
    }
    free(stacks);
    block_unref(TAKE_PTR(payloads));
    fixture_done(&f);
}

static const struct test_case cases[] = {
    TEST(sums_minutes_hours_and_days_exactly), TEST(keeps_the_attributes_that_are_asked_by),
    TEST(leaves_out_levels_that_do_not_pay),   TEST(rolls_up_many_series_hour_by_hour),
    TEST(leaves_out_what_is_hidden),           TEST(sums_functions_once_per_stack),
};
TEST_MAIN(cases)

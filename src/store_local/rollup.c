#include "store_local/rollup.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/bisect.h"
#include "base/hash.h"
#include "segment/run.h"
#include "segment/varint.h"
#include "store_local/cover.h"
#include "store_local/fold.h"
#include "store_local/sums.h"

/* ---- Attributes */

/* Files that were written before a name came onto the list have rollups without it. */
static const char *const rollup_kept[] = {
    "endpoint",
    "feature_flag",
    "feature_flag.key",
    "feature_flag.variant",
    "http.route",
    "leak.suspect",
    "lock.kind",
    "memory.kind",
    "messaging.destination.name",
    "rpc.method",
    "span.name",
    "thread.name",
};

bool rollup_keeps(struct bytes attribute)
{
    for (size_t i = 0; i < ARRAY_SIZE(rollup_kept); i++) {
        if (bytes_are(attribute, rollup_kept[i]))
            return true;
    }
    return false;
}

/* An attribute set by the hash of its ids. */
struct known_set {
    uint64_t hash;
    uint32_t set;
};

static int by_hash(const void *a, const void *b)
{
    const struct known_set *x = a, *y = b;

    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    return x->set < y->set ? -1 : x->set > y->set;
}

/* The set of exactly these ids, or UINT32_MAX. */
static uint32_t find_set(const struct dict *d, const struct known_set *known, const uint32_t *ids,
                         uint32_t n)
{
    uint64_t hash = hash_bytes(ids, n * sizeof(*ids));

    for (size_t i = BISECT(d->attr_sets.len, k, known[k].hash < hash);
         i < d->attr_sets.len && known[i].hash == hash; i++) {
        const struct attrs *set = &d->attr_sets.data[known[i].set];
        if (set->n == n &&
            (n == 0 || memcmp(d->attr_ids.data + set->first, ids, n * sizeof(*ids)) == 0))
            return known[i].set;
    }
    return UINT32_MAX;
}

static void project(const struct dict *d, const struct known_set *known, const bool *kept,
                    uint32_t *ids, uint32_t *map)
{
    for (uint32_t a = 0; a < d->attr_sets.len; a++) {
        const struct attrs *set = &d->attr_sets.data[a];
        uint32_t n = 0;
        for (uint32_t i = 0; i < set->n; i++) {
            uint32_t id = d->attr_ids.data[set->first + i];
            if (kept[id])
                ids[n++] = id;
        }
        uint32_t to = n == 0 ? 0 : find_set(d, known, ids, n);
        map[a] = to == UINT32_MAX ? a : to;
    }
}

uint32_t *rollup_projection(const struct dict *d)
{
    size_t n = d->attr_sets.len;
    uint32_t *map = calloc(n + 1, sizeof(*map));
    CLEANUP(freep) struct known_set *known = calloc(n + 1, sizeof(*known));
    CLEANUP(freep) bool *kept = calloc(d->attributes.len + 1, sizeof(*kept));
    CLEANUP(freep) uint32_t *ids = calloc(d->attr_ids.len + 1, sizeof(*ids));

    if (!map || !known || !kept || !ids) {
        free(map);
        return NULL;
    }
    for (uint32_t i = 0; i < d->attributes.len; i++)
        kept[i] = rollup_keeps(dict_text(d, d->attributes.data[i].key));
    for (uint32_t a = 0; a < n; a++) {
        const struct attrs *set = &d->attr_sets.data[a];
        known[a] = (struct known_set){
            hash_bytes(set->n ? d->attr_ids.data + set->first : NULL, set->n * sizeof(*ids)), a};
    }
    qsort(known, n, sizeof(*known), by_hash);
    project(d, known, kept, ids, map);
    return map;
}

/* ---- Adding up */

/* Encoded rows of one level, until it is known whether they pay. */
struct level_rows {
    VEC(struct part_row) rows; /* payloads stand at `ends` */
    VEC(int64_t) totals;
    VEC(size_t) ends;
    struct buf payload;
    uint64_t n_samples;
    bool is_given_up;
};

/* The bucket being filled. */
struct bucket {
    bool is_open;
    int64_t start_ns;
    struct part_row row; /* what is added up beside samples */
    int64_t *totals;
    uint32_t sets[ROLLUP_SETS_MAX]; /* ascending */
    struct sums sums[ROLLUP_SETS_MAX];
    size_t n_sets;
};

struct rollup {
    const struct rollup_ask *ask;
    struct budget budget;
    struct bucket buckets[LEVEL_DAY + 1]; /* by level; 0 is not used */
    struct level_rows levels[LEVEL_COUNT];
    struct fold fold;
    struct sums functions, day_functions; /* 2 * n_types columns */
    uint8_t to[RUN_COLS_MAX];
    enum level finest, coarsest;
    uint64_t n_raw_samples; /* so far */
    bool has_functions;
    bool is_too_large;
};

static void rollup_done(struct rollup *r)
{
    for (size_t i = 0; i < ARRAY_SIZE(r->buckets); i++) {
        for (size_t j = 0; j < r->buckets[i].n_sets; j++)
            sums_done(&r->buckets[i].sums[j]);
        free(r->buckets[i].totals);
    }
    for (size_t i = 0; i < ARRAY_SIZE(r->levels); i++) {
        vec_done(&r->budget, &r->levels[i].rows);
        vec_done(&r->budget, &r->levels[i].totals);
        vec_done(&r->budget, &r->levels[i].ends);
        buf_done(&r->levels[i].payload);
    }
    if (r->has_functions) {
        sums_done(&r->functions);
        sums_done(&r->day_functions);
        fold_done(&r->fold);
    }
    free(r);
}

static void rollup_donep(struct rollup **r)
{
    if (*r)
        rollup_done(*r);
}

static void give_up(struct rollup *r, enum level level)
{
    struct level_rows *rows = &r->levels[level];

    rows->is_given_up = true;
    vec_done(&r->budget, &rows->rows);
    vec_done(&r->budget, &rows->totals);
    vec_done(&r->budget, &rows->ends);
    buf_done(&rows->payload);
    rows->payload = (struct buf){0};
}

/* The sums of an attribute set in a bucket, or NULL when there is no room. */
static struct sums *sums_of(struct rollup *r, struct bucket *b, uint32_t set)
{
    size_t at = 0;

    while (at < b->n_sets && b->sets[at] < set)
        at++;
    if (at < b->n_sets && b->sets[at] == set)
        return &b->sums[at];
    struct sums fresh;
    size_t n_nodes = dict_n_nodes(r->ask->dict);
    if (b->n_sets == ROLLUP_SETS_MAX || !sums_init(&fresh, &r->budget, n_nodes, r->ask->n_types)) {
        r->is_too_large = true;
        return NULL;
    }
    fresh.is_marked = n_nodes > 2048; /* else looking at all is as fast */
    memmove(&b->sums[at + 1], &b->sums[at], (b->n_sets - at) * sizeof(b->sums[0]));
    memmove(&b->sets[at + 1], &b->sets[at], (b->n_sets - at) * sizeof(b->sets[0]));
    b->sums[at] = fresh;
    b->sets[at] = set;
    b->n_sets++;
    return &b->sums[at];
}

static int64_t plus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static void bucket_open(struct bucket *b, int64_t start_ns, unsigned n_types)
{
    b->is_open = true;
    b->start_ns = start_ns;
    b->row = (struct part_row){.start_ns = start_ns};
    memset(b->totals, 0, n_types * sizeof(*b->totals));
}

static void bucket_add_row(struct bucket *b, const struct part_row *row, unsigned n_types)
{
    b->row.period = b->row.n_profiles == 0 || b->row.period == row->period ? row->period : 0;
    b->row.duration_ns = plus(b->row.duration_ns, row->duration_ns);
    b->row.n_profiles += row->n_profiles;
    for (unsigned i = 0; i < n_types; i++)
        b->totals[i] = plus(b->totals[i], row->totals[i]);
}

/* Adds the samples of a raw row. -EBADMSG when they are damaged. */
static int bucket_add_samples(struct rollup *r, struct bucket *b, struct bytes payload,
                              struct error *err)
{
    const struct rollup_ask *ask = r->ask;
    struct run run;
    uint64_t set;

    while (payload.len > 0 && !r->is_too_large) {
        if (!take_varint(&payload, &set) || set >= ask->dict->attr_sets.len ||
            run_open(&payload, &run) < 0 || run.n_cols != ask->n_types)
            return error_set(err, -EBADMSG, "the samples of a row are malformed");
        struct sums *s = sums_of(r, b, ask->projection[set]);
        if (s && !sums_add_run(s, &run, r->to, ask->n_types))
            return error_set(err, -EBADMSG, "a row names a stack that is not there");
    }
    return 0;
}

/* ---- Taking out */

static bool put_run(struct rollup *r, struct level_rows *rows, uint32_t set,
                    const struct sums_taken *taken)
{
    const int64_t *cols[RUN_COLS_MAX];

    for (unsigned c = 0; c < taken->n_cols; c++)
        cols[c] = taken->values + c * taken->n;
    add_varint(&rows->payload, set);
    if (run_encode(taken->keys, cols, taken->n, taken->n_cols, &rows->payload) < 0) {
        r->is_too_large = true;
        return false;
    }
    return true;
}

/* Ends a row whose samples have been put. */
static void put_row(struct rollup *r, enum level level, const struct bucket *b, uint64_t n_samples)
{
    struct level_rows *rows = &r->levels[level];
    struct part_row row = b->row;

    row.n_samples = (uint32_t)n_samples;
    rows->n_samples += n_samples;
    if (!vec_push(&r->budget, &rows->rows, row) ||
        !vec_append(&r->budget, &rows->totals, b->totals, r->ask->n_types) ||
        !vec_push(&r->budget, &rows->ends, rows->payload.len) ||
        rows->payload.len > ROLLUP_BYTES_MAX / 2)
        r->is_too_large = true;
    /* It cannot pay any more. Minutes, of which there are many, are given up sooner. */
    bool is_early = level == LEVEL_MINUTE && rows->rows.len >= 16 &&
                    rows->n_samples * ROLLUP_PAYS > r->n_raw_samples;
    if (is_early || rows->n_samples > r->ask->raw_samples / ROLLUP_PAYS)
        give_up(r, level);
}

/* Flat and cumulative values of what was taken, for every type. */
static void fold_taken(struct rollup *r, const struct sums_taken *taken)
{
    unsigned n_types = r->ask->n_types;

    for (unsigned type = 0; type < n_types; type++) {
        int64_t *cols[2] = {r->functions.cols[type], r->functions.cols[n_types + type]};
        struct sums both = r->functions;
        both.n_cols = 2;
        both.cols = cols;
        fold_stacks(&r->fold, taken, type, &both);
    }
}

/* Makes a row of what functions have; hours go on into their day: what is flat or cumulative in a
 * stack is so in any sum of stacks. */
static void put_functions(struct rollup *r, enum level level, const struct bucket *b)
{
    bool is_day = level == LEVEL_FUNCTIONS_DAY;
    struct sums_taken taken;

    if (!sums_take(is_day ? &r->day_functions : &r->functions, &taken)) {
        r->is_too_large = true;
        return;
    }
    if (!r->levels[level].is_given_up && put_run(r, &r->levels[level], 0, &taken))
        put_row(r, level, b, taken.n);
    for (unsigned c = 0; !is_day && r->ask->has_days && c < taken.n_cols; c++) {
        for (size_t i = 0; i < taken.n; i++)
            sums_add(&r->day_functions, taken.keys[i], c, taken.values[c * taken.n + i]);
    }
    sums_taken_done(&r->budget, &taken);
}

static void hand_up(struct rollup *r, struct bucket *up, uint32_t set,
                    const struct sums_taken *taken)
{
    struct sums *s = sums_of(r, up, set);

    for (unsigned c = 0; s && c < taken->n_cols; c++) {
        for (size_t i = 0; i < taken->n; i++)
            sums_add(s, taken->keys[i], c, taken->values[c * taken->n + i]);
    }
}

static enum level functions_level(enum level level)
{
    return level == LEVEL_HOUR  ? LEVEL_FUNCTIONS_HOUR
           : level == LEVEL_DAY ? LEVEL_FUNCTIONS_DAY
                                : LEVEL_COUNT;
}

/* Ends the bucket of a level: its row is made, and its sums go to the level above. */
static void bucket_close(struct rollup *r, enum level level)
{
    struct bucket *b = &r->buckets[level], *up = level < r->coarsest ? b + 1 : NULL;
    struct level_rows *rows = &r->levels[level];
    enum level functions = r->has_functions ? functions_level(level) : LEVEL_COUNT;
    uint64_t n_samples = 0;

    if (!b->is_open)
        return;
    b->is_open = false;
    if (up) {
        int64_t start = cover_floor(b->start_ns, level_step_ns(level + 1));
        if (up->is_open && up->start_ns != start)
            bucket_close(r, level + 1);
        if (!up->is_open)
            bucket_open(up, start, r->ask->n_types);
        b->row.totals = b->totals;
        bucket_add_row(up, &b->row, r->ask->n_types);
    }
    for (size_t i = 0; i < b->n_sets; i++) {
        struct sums_taken taken;
        if (!sums_take(&b->sums[i], &taken)) {
            r->is_too_large = true;
            return;
        }
        if (taken.n > 0 && !rows->is_given_up && put_run(r, rows, b->sets[i], &taken))
            n_samples += taken.n;
        if (up)
            hand_up(r, up, b->sets[i], &taken);
        if (functions == LEVEL_FUNCTIONS_HOUR)
            fold_taken(r, &taken);
        sums_taken_done(&r->budget, &taken);
    }
    if (!rows->is_given_up)
        put_row(r, level, b, n_samples);
    if (functions != LEVEL_COUNT)
        put_functions(r, functions, b);
}

/* ---- Reading */

static bool is_finest_given_up(const struct rollup *r)
{
    return r->finest == LEVEL_MINUTE && r->levels[LEVEL_MINUTE].is_given_up;
}

/* All rows of a stream that start before `end`. */
static int add_rows(struct rollup *r, struct row_stream *s, int64_t end, struct error *err)
{
    struct bucket *b = &r->buckets[r->finest];
    struct part_row row;
    int n = 1;

    while (s->next_ns < end && !r->is_too_large) {
        n = row_stream_next(s, &row, err);
        if (n <= 0)
            return n;
        bucket_add_row(b, &row, r->ask->n_types);
        r->n_raw_samples += row.n_samples;
        int e = bucket_add_samples(r, b, row.payload, err);
        if (e < 0)
            return e;
    }
    return 0;
}

static int add_bucket(struct rollup *r, int64_t start, size_t *ret_bad, struct error *err)
{
    const struct rollup_ask *ask = r->ask;
    struct bucket *b = &r->buckets[r->finest];
    int64_t width = level_step_ns(r->finest);
    int64_t end = start > INT64_MAX - width ? INT64_MAX : start + width;

    /* Where minutes were given up the hour has begun already. */
    if (b->is_open && b->start_ns != start)
        bucket_close(r, r->finest);
    if (!b->is_open)
        bucket_open(b, start, ask->n_types);
    for (size_t i = 0; i < ask->n_streams && !r->is_too_large; i++) {
        struct row_stream *s = &ask->streams[i];
        if (s->next_ns >= end)
            continue;
        int e = add_rows(r, s, end, err);
        if (e < 0) {
            *ret_bad = i;
            return e;
        }
        if (ask->n_streams > ROLLUP_STREAMS_MAX)
            row_stream_close(s);
    }
    bucket_close(r, r->finest);
    return 0;
}

static int add_all(struct rollup *r, size_t *ret_bad, struct error *err)
{
    const struct row_stream *first;

    while (!r->is_too_large &&
           (first = row_streams_first(r->ask->streams, r->ask->n_streams)) != NULL) {
        int64_t start = cover_floor(first->next_ns, level_step_ns(r->finest));
        int e = add_bucket(r, start, ret_bad, err);
        if (e < 0)
            return e;
        if (is_finest_given_up(r)) /* goes on with hours: the open one takes the rest of its rows */
            r->finest = LEVEL_HOUR;
    }
    for (enum level level = LEVEL_HOUR; level <= r->coarsest && !r->is_too_large; level++)
        bucket_close(r, level);
    return 0;
}

/* ---- Writing */

static int write_level(const struct rollup *r, enum level level, struct part_writer *w,
                       struct error *err)
{
    const struct level_rows *rows = &r->levels[level];
    unsigned n_types = r->ask->n_types;

    int e = part_writer_strip(w, r->ask->series, level, n_types, err);
    for (size_t i = 0; i < rows->rows.len && e == 0; i++) {
        struct part_row row = rows->rows.data[i];
        size_t begin = i ? rows->ends.data[i - 1] : 0;
        row.totals = rows->totals.data + i * n_types;
        row.payload = (struct bytes){rows->payload.data ? rows->payload.data + begin : NULL,
                                     rows->ends.data[i] - begin};
        e = part_writer_row(w, &row, err);
    }
    return e;
}

static int write_levels(struct rollup *r, struct part_writer *w, struct error *err)
{
    uint64_t below = r->ask->raw_samples;
    int e = 0;

    for (enum level level = LEVEL_MINUTE; level < LEVEL_COUNT && e == 0; level++) {
        const struct level_rows *rows = &r->levels[level];
        if (level == LEVEL_FUNCTIONS_HOUR)
            below = r->ask->raw_samples;
        if (rows->is_given_up || rows->rows.len == 0 || rows->n_samples > below / ROLLUP_PAYS)
            continue;
        e = write_level(r, level, w, err);
        below = rows->n_samples;
    }
    return e;
}

static void init_functions(struct rollup *r)
{
    size_t n = r->ask->dict->strings.len;
    unsigned n_cols = 2 * r->ask->n_types;

    r->has_functions = fold_init(&r->fold, &r->budget, r->ask->dict) &&
                       sums_init(&r->functions, &r->budget, n, n_cols) &&
                       sums_init(&r->day_functions, &r->budget, n, n_cols);
    r->functions.is_marked = r->day_functions.is_marked = true;
    if (r->has_functions)
        return;
    sums_done(&r->functions);
    sums_done(&r->day_functions);
    fold_done(&r->fold);
}

/* A bucket has at least as many samples as the mean of its rows: with few rows in each, on the
 * whole, minutes cannot pay. */
static bool minutes_may_pay(const struct rollup_ask *ask)
{
    int64_t min = INT64_MAX, max = INT64_MIN;
    uint64_t n_rows = 0;

    for (size_t i = 0; i < ask->n_streams; i++) {
        const struct strip *s = ask->streams[i].strip;
        min = s->min_ns < min ? s->min_ns : min;
        max = s->max_ns > max ? s->max_ns : max;
        n_rows += s->n_rows;
    }
    uint64_t n_minutes = n_rows ? ((uint64_t)max - (uint64_t)min) / MINUTE_NS + 1 : 0;
    return ask->n_streams <= ROLLUP_STREAMS_MAX && n_rows / ROLLUP_PAYS >= n_minutes;
}

static int rollup_new(const struct rollup_ask *ask, struct rollup **ret, struct error *err)
{
    CLEANUP(rollup_donep) struct rollup *r = calloc(1, sizeof(*r));

    if (!r)
        return error_set(err, -ENOMEM, "could not roll up: no memory");
    r->ask = ask;
    budget_init(&r->budget, ROLLUP_BYTES_MAX);
    r->finest = minutes_may_pay(ask) ? LEVEL_MINUTE : LEVEL_HOUR;
    r->coarsest = ask->has_days ? LEVEL_DAY : LEVEL_HOUR;
    for (unsigned i = 0; i < ask->n_types; i++)
        r->to[i] = (uint8_t)i;
    for (size_t i = 0; i < ARRAY_SIZE(r->buckets); i++) {
        r->buckets[i].totals = calloc(ask->n_types + 1, sizeof(int64_t));
        if (!r->buckets[i].totals)
            return error_set(err, -ENOMEM, "could not roll up: no memory");
    }
    if (ask->has_functions && 2 * ask->n_types <= RUN_COLS_MAX)
        init_functions(r);
    *ret = TAKE_PTR(r);
    return 0;
}

int rollup_write(const struct rollup_ask *ask, struct part_writer *w, size_t *ret_bad,
                 struct error *err)
{
    CLEANUP(rollup_donep) struct rollup *r = NULL;

    if (ask->n_types == 0 || ask->n_types > RUN_COLS_MAX)
        return 0;
    int e = rollup_new(ask, &r, err);
    if (e == 0)
        e = add_all(r, ret_bad, err);
    if (e < 0 || r->is_too_large)
        return e;
    return write_levels(r, w, err);
}

/*
 * What a run costs: bytes per row, and rows per second to encode, to add into dense sums and to add
 * all columns with marks, beside the bare loop over plain arrays.
 *
 *     measure_run [PROFILE]    also with the stacks of this profile as keys
 *
 * Times are of CPU, the median of some rounds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/cleanup.h"
#include "formats/formats.h"
#include "segment/run.h"

#define ROUNDS   9
#define ROWS_MAX ((size_t)2 << 20)
#define N_COLS   2

static uint64_t state = 88172645463325252u;

static uint64_t draw(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Runs back to back, as plain columns and encoded. */
struct work {
    uint32_t *keys;
    int64_t *values[N_COLS];
    size_t *lens; /* rows of each run */
    size_t n_runs, n_rows;
    size_t n_keys;
    struct buf encoded;
    int64_t *sums[N_COLS];
    uint64_t *marks;
};

static void *many(size_t n, size_t size)
{
    void *p = calloc(n, size);

    if (!p)
        abort();
    return p;
}

static void work_init(struct work *w, size_t n_keys)
{
    *w = (struct work){.n_keys = n_keys, .keys = many(ROWS_MAX, sizeof(*w->keys))};
    w->lens = many(ROWS_MAX, sizeof(*w->lens));
    w->marks = many(n_keys / 64 + 1, sizeof(*w->marks));
    for (unsigned c = 0; c < N_COLS; c++) {
        w->values[c] = many(ROWS_MAX, sizeof(int64_t));
        w->sums[c] = many(n_keys, sizeof(int64_t));
    }
}

static void work_done(struct work *w)
{
    for (unsigned c = 0; c < N_COLS; c++) {
        free(w->values[c]);
        free(w->sums[c]);
    }
    free(w->keys);
    free(w->lens);
    free(w->marks);
    buf_done(&w->encoded);
}

static int64_t geometric(void)
{
    return 1 + __builtin_ctzll(draw() | (uint64_t)1 << 62);
}

static int64_t log_uniform(void)
{
    return (int64_t)(draw() >> (24 + draw() % 40)) * 16;
}

static void encode_all(struct work *w)
{
    size_t at = 0;

    buf_clear(&w->encoded);
    for (size_t i = 0; i < w->n_runs; i++, at += w->lens[i - 1]) {
        const int64_t *values[N_COLS] = {w->values[0] + at, w->values[1] + at};
        if (run_encode(w->keys + at, values, w->lens[i], N_COLS, &w->encoded) < 0)
            abort();
    }
}

static void add_plain(struct work *w)
{
    for (size_t i = 0; i < w->n_rows; i++)
        w->sums[1][w->keys[i]] += w->values[1][i];
}

static void add_each(struct work *w)
{
    struct bytes in = buf_bytes(&w->encoded);
    struct run r;

    while (in.len > 0)
        if (run_open(&in, &r) < 0 || !run_add(&r, 1, w->sums[1], w->n_keys))
            abort();
}

static void add_all(struct work *w)
{
    struct bytes in = buf_bytes(&w->encoded);
    struct run r;

    while (in.len > 0)
        if (run_open(&in, &r) < 0 || !run_add_all(&r, w->sums, w->n_keys, w->marks))
            abort();
}

static void sum_masked(struct work *w)
{
    struct bytes in = buf_bytes(&w->encoded);
    struct run r;
    int64_t sum;

    while (in.len > 0)
        if (run_open(&in, &r) < 0 || !run_sum_masked(&r, 1, w->marks, w->n_keys, &sum))
            abort();
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void measure(const char *what, struct work *w, void (*work)(struct work *))
{
    double times[ROUNDS];

    for (unsigned i = 0; i < ROUNDS; i++) {
        double start = now();
        work(w);
        times[i] = now() - start;
    }
    qsort(times, ROUNDS, sizeof(*times), compare_doubles);
    printf("    %-28s %7.0f M rows/s\n", what, (double)w->n_rows / times[ROUNDS / 2] / 1e6);
}

static void report(const char *name, struct work *w)
{
    encode_all(w);
    printf("%s: %zu runs of %.0f rows over %zu keys: %.3f bytes per row\n", name, w->n_runs,
           (double)w->n_rows / (double)w->n_runs, w->n_keys,
           (double)w->encoded.len / (double)w->n_rows);
    measure("encode", w, encode_all);
    measure("plain arrays, one column", w, add_plain);
    measure("open and add one column", w, add_each);
    measure("open and add all, marked", w, add_all);
    measure("open and sum masked", w, sum_masked);
}

static void add_row(struct work *w, uint32_t key, bool heavy)
{
    int64_t v = heavy ? log_uniform() : geometric();

    w->keys[w->n_rows] = key;
    w->values[0][w->n_rows] = heavy ? geometric() : v;
    w->values[1][w->n_rows] = heavy ? v : v * 10000000;
    w->n_rows++;
}

/* Runs of about n/2 rows: each of the n keys with p = 0.5. */
static void halves(const char *name, const uint32_t *keys, size_t n, bool heavy)
{
    struct work w;

    work_init(&w, keys[n - 1] + 1);
    while (w.n_rows + n <= ROWS_MAX) {
        size_t start = w.n_rows;
        for (size_t i = 0; i < n; i++)
            if (draw() & 1)
                add_row(&w, keys[i], heavy);
        if (w.n_rows > start)
            w.lens[w.n_runs++] = w.n_rows - start;
    }
    report(name, &w);
    work_done(&w);
}

/* Nodes of stacks: near each other in groups that lie apart. */
static void clustered(const char *name, size_t n_keys, size_t n, bool heavy)
{
    struct work w;

    work_init(&w, n_keys);
    while (w.n_rows + n <= ROWS_MAX) {
        size_t start = w.n_rows, mean = n_keys / n;
        for (size_t key = draw() % 8; key < n_keys && w.n_rows - start < n;) {
            add_row(&w, (uint32_t)key, heavy);
            key += draw() % 8 ? 1 + draw() % 4 : 1 + draw() % (mean * 12);
        }
        w.lens[w.n_runs++] = w.n_rows - start;
    }
    report(name, &w);
    work_done(&w);
}

static int compare_u32(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

static void with_profile(const char *path)
{
    struct budget budget;
    struct error err = {""};
    struct input *opened = NULL;

    budget_init(&budget, SIZE_MAX / 2);
    if (input_open(path, &budget, &opened, &err) < 0) {
        fprintf(stderr, "measure_run: %s\n", err.text);
        exit(1);
    }
    CLEANUP(input_closep) struct input *in = opened;
    CLEANUP(profile_set_freep) struct profile_set *set = profile_set_new(&budget);
    if (format_read(in, NULL, set, NULL, &err) < 0) {
        fprintf(stderr, "measure_run: %s\n", err.text);
        exit(1);
    }
    struct profile *p = set->profiles.data[0];
    size_t n = 0;
    qsort(p->node, p->n_samples, sizeof(*p->node), compare_u32);
    for (size_t i = 0; i < p->n_samples; i++)
        if (i == 0 || p->node[i] != p->node[n - 1])
            p->node[n++] = p->node[i];
    halves("stacks of the profile", p->node, n, false);
}

int main(int argc, char **argv)
{
    uint32_t keys[647];

    for (uint32_t i = 0; i < 647; i++)
        keys[i] = i + 1;
    halves("consecutive keys", keys, 647, false);
    if (argc > 1)
        with_profile(argv[1]);
    clustered("many keys", 100000, 400, false);
    clustered("small runs", 100000, 100, false);
    clustered("heavy tail", 20000, 400, true);
    return 0;
}

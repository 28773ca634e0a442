/* Set L: a day of many services, sent as agents do it: all that a window has in one request. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "measure_store.h"

#define FIRST      "service-000"
#define HOUR_NS    INT64_C(3600000000000)
#define BATCH_MAX  64
#define FEW        10
#define MANY       1000
#define OPEN_TIMES 9

/* Profiles of one window that were not appended yet, with their labels. */
struct batch {
    struct store_incoming incoming[BATCH_MAX];
    struct label labels[BATCH_MAX][DATA_L_LABELS];
    char text[BATCH_MAX][DATA_L_LABELS][64];
    size_t n;
    int64_t time_ns;
};

struct large {
    struct store *store;
    struct store_source *source;
    struct batch batch;
    uint64_t profiles, samples;
    int64_t first_sum, first_hour_sum; /* of the first service: all of it, and its last hour */
    int64_t last_hour_ns;
};

static void append_batch(struct large *l)
{
    if (l->batch.n > 0)
        measure_append(l->source, l->batch.incoming, l->batch.n);
    l->batch.n = 0;
    store_source_reset(l->source);
}

static void add_to_batch(struct large *l, const struct data_l_profile *p)
{
    struct batch *b = &l->batch;
    size_t i = b->n++;

    for (size_t k = 0; k < DATA_L_LABELS; k++) {
        size_t n = p->labels[k].value.len;
        memcpy(b->text[i][k], p->labels[k].value.data, n);
        b->labels[i][k] = (struct label){p->labels[k].name, {(uint8_t *)b->text[i][k], n}};
    }
    b->incoming[i] = (struct store_incoming){
        .profile = p->profile, .labels = b->labels[i], .n_labels = DATA_L_LABELS, .has_id = true};
    memcpy(b->incoming[i].id, p->profile->profile_id, sizeof(b->incoming[i].id));
    b->time_ns = p->profile->time_unix_ns;
    l->profiles++;
    l->samples += p->profile->n_samples;
    if (p->service == 0) {
        int64_t total = profile_total(p->profile, 0);
        l->first_sum += total;
        l->first_hour_sum += b->time_ns >= l->last_hour_ns ? total : 0;
    }
}

static double ingest(struct large *l, struct data_l *data)
{
    struct data_l_profile p;
    double start = measure_wall();
    int rc;

    /* The source may forget its dictionary only between batches. */
    while ((rc = data_l_next(data, l->source->set, l->source->generation, &p)) > 0) {
        add_to_batch(l, &p);
        if (l->batch.n == BATCH_MAX) {
            atomic_store(&measure_clock.wall_ns, l->batch.time_ns + DATA_WINDOW_NS);
            append_batch(l);
        }
    }
    if (rc < 0)
        measure_die("set L", "the source is full");
    append_batch(l);
    return measure_wall() - start;
}

static void measure_l_merges(struct large *l, uint32_t hours)
{
    int64_t end = DATA_START_NS + hours * HOUR_NS;
    struct measure_question q = {.selector = "cpu{service.name=\"" FIRST "\"}",
                                 .from_ns = l->last_hour_ns,
                                 .to_ns = end,
                                 .want = l->first_hour_sum};

    (void)measure_print(l->store, &q, "l_merge_1h_ms");
    q.from_ns = DATA_START_NS;
    q.want = l->first_sum;
    (void)measure_print(l->store, &q, "l_merge_24h_ms");
    q.from_ns = DATA_START_NS + INT64_C(123000000000);
    q.to_ns = end - INT64_C(456000000000);
    q.want = -1;
    (void)measure_print(l->store, &q, "l_merge_24h_unaligned_ms");
}

/* A process of its own that opens the store and asks for an hour: prints what it took. */
static void run_cold(const char *dir, int64_t from_ns)
{
    char from[32];

    snprintf(from, sizeof(from), "%lld", (long long)from_ns);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        execl("/proc/self/exe", "measure_store", "cold", dir, from, (char *)NULL);
        _exit(127);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) < 0 || status != 0)
        measure_die("cold start", "it failed");
}

int measure_cold(const char *work, int64_t from_ns)
{
    double start = measure_wall();

    atomic_store(&measure_clock.wall_ns, from_ns + 2 * HOUR_NS);
    struct store *s = measure_open(work, false);
    double opened = measure_wall();
    struct measure_question q = {.selector = "cpu{service.name=\"" FIRST "\"}",
                                 .from_ns = from_ns,
                                 .to_ns = from_ns + HOUR_NS,
                                 .want = -1};
    (void)measure_ask_once(s, &q);
    double answered = measure_wall();
    printf("cold_open_ms: %.2f ms\n", (opened - start) * 1e3);
    printf("cold_first_query_ms: %.2f ms with opening\n", (answered - start) * 1e3);
    store_close(s);
    return 0;
}

int measure_set_l(const char *work, uint32_t hours)
{
    struct data_l_options options = DATA_L_DEFAULTS;
    struct data_l *made;
    struct error err;
    char dir[4096], text[DATA_L_TEXT_MAX];
    static struct large l;

    options.hours = hours;
    if (data_l_new(options, &made, &err) < 0)
        measure_die("set L", err.text);
    CLEANUP(data_l_freep) struct data_l *data = made;
    data_l_describe(&options, data_l_is_synthetic(data), text);
    printf("%s\n", text);
    double before = measure_peak_rss_mb();

    snprintf(dir, sizeof(dir), "%s/l", work);
    l.last_hour_ns = DATA_START_NS + (hours - 1) * HOUR_NS;
    l.store = measure_open(dir, true);
    if (store_source_new(l.store, 0, &l.source, &err) < 0)
        measure_die("source", err.text);
    double took = ingest(&l, data);
    printf("l_samples: %llu samples in %llu profiles\n", (unsigned long long)l.samples,
           (unsigned long long)l.profiles);
    printf("l_ingest_s: %.1f s, %.0f profiles a second, %u tries while memory was full\n", took,
           (double)l.profiles / took, atomic_load(&measure_retries));
    atomic_store(&measure_clock.wall_ns, DATA_START_NS + (hours + 2) * HOUR_NS);
    measure_settle(l.store);
    printf("l_bytes_per_sample: %.3f bytes\n", (double)measure_disk_bytes(dir) / (double)l.samples);
    double stored = measure_peak_rss_mb();
    measure_l_merges(&l, hours);
    store_source_free(l.source);
    store_close(l.store);
    printf(
        "peak_rss_mb: %.0f MB, %.0f of them before the store was opened, %.0f before questions\n",
        measure_peak_rss_mb(), before, stored);
    run_cold(dir, l.last_hour_ns);
    return 0;
}

/* A store of n segments: each holds one small profile of an hour of its own. */
static void make_segments(const char *dir, uint32_t n)
{
    struct error err;
    struct store_source *source;

    atomic_store(&measure_clock.wall_ns, DATA_START_NS);
    struct store *s = measure_open(dir, false);
    if (store_source_new(s, 0, &source, &err) < 0)
        measure_die("source", err.text);
    for (uint32_t i = 0; i < n; i++) {
        struct profile *p = profile_set_add(source->set);
        struct dict *d = source->set->dict;
        struct function f = {.name = dict_cstring(d, "main")};
        struct label labels[] = {{BYTES(LABEL_SERVICE), BYTES("few")}};
        profile_add_ctype(p, "cpu", "nanoseconds");
        p->time_unix_ns = DATA_START_NS - (int64_t)(n - i) * HOUR_NS / 2;
        p->duration_ns = DATA_WINDOW_NS;
        profile_add_value(p, dict_frame(d, 0, f, 1, 0, 0), 1);
        struct store_incoming in = {.profile = p, .labels = labels, .n_labels = 1};
        measure_append(source, &in, 1);
        if (store_upkeep(s, UPKEEP_FLUSH, &err) < 0)
            measure_die("flush", err.text);
        store_source_reset(source);
    }
    store_source_free(source);
    store_close(s);
}

static double open_ms(const char *dir)
{
    double times[OPEN_TIMES];

    for (size_t i = 0; i < OPEN_TIMES; i++) {
        double start = measure_wall();
        struct store *s = measure_open(dir, false);
        times[i] = (measure_wall() - start) * 1e3;
        store_close(s);
    }
    return measure_median(times, OPEN_TIMES);
}

int measure_segments(const char *work)
{
    char few[4096], many[4096];

    snprintf(few, sizeof(few), "%s/few", work);
    snprintf(many, sizeof(many), "%s/many", work);
    make_segments(few, FEW);
    make_segments(many, MANY);
    double few_ms = open_ms(few), many_ms = open_ms(many);
    printf("open_10_segments_ms: %.2f ms\n", few_ms);
    printf("open_1000_segments_ms: %.2f ms\n", many_ms);
    printf("open_1000_vs_10: %.2f times\n", many_ms / few_ms);
    return 0;
}

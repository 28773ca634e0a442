/* Set R: profiles come as packed bytes from ten pods, each in a request of its own. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "formats/formats.h"
#include "measure_store.h"

#define SERVICE  "shop"
#define SENDERS  8 /* requests at a time: what waits for the disk lets others decode */
#define PACE_HZ  1000
#define R_END_NS (DATA_START_NS + DATA_R_WINDOWS * DATA_WINDOW_NS)

/* What the threads that send set R share. */
struct sending {
    const struct data_r *r;
    struct store *store;
    atomic_size_t next;
    double start;
    bool is_paced;
    double *latencies; /* seconds of each append, by profile */
};

static void wait_until(double when)
{
    double left = when - measure_wall();

    if (left > 0)
        nanosleep(&(struct timespec){(time_t)left, (long)((left - (double)(time_t)left) * 1e9)},
                  NULL);
}

static void send_one(struct sending *s, struct store_source *source, size_t i)
{
    const struct data_r_profile *from = &s->r->profiles[i];
    struct error err;
    char pod[32];

    int n = snprintf(pod, sizeof(pod), "pod-%u", from->pod);
    CLEANUP(input_closep)
    struct input *in = input_from_bytes(from->packed, "set R", source->set->budget);
    if (format_read(in, &format_pprof, source->set, NULL, &err) < 0)
        measure_die("decode", err.text);
    struct label labels[] = {{BYTES("pod"), {(const uint8_t *)pod, (size_t)n}},
                             {BYTES(LABEL_SERVICE), BYTES(SERVICE)}};
    struct store_incoming incoming = {
        .profile = source->set->profiles.data[0], .labels = labels, .n_labels = 2};
    double start = measure_wall();
    measure_append(source, &incoming, 1);
    s->latencies[i] = measure_wall() - start;
    store_source_reset(source);
}

static void *sender(void *arg)
{
    struct sending *s = arg;
    struct store_source *source;
    struct error err;

    if (store_source_new(s->store, 0, &source, &err) < 0)
        measure_die("source", err.text);
    for (size_t i; (i = atomic_fetch_add(&s->next, 1)) < s->r->n;) {
        if (s->is_paced)
            wait_until(s->start + (double)i / PACE_HZ);
        send_one(s, source, i);
    }
    store_source_free(source);
    return NULL;
}

/* Sends all of set R; seconds until the last profile was durable. */
static double send_all(struct sending *s)
{
    pthread_t threads[SENDERS];

    s->start = measure_wall();
    for (size_t i = 0; i < SENDERS; i++) {
        if (pthread_create(&threads[i], NULL, sender, s) != 0)
            measure_die("thread", strerror(errno));
    }
    for (size_t i = 0; i < SENDERS; i++)
        pthread_join(threads[i], NULL);
    return measure_wall() - s->start;
}

/* From here on all threads of the process share one core, or may use any. */
static void use_cores(bool only_one)
{
    static cpu_set_t all;
    cpu_set_t one;

    if (CPU_COUNT(&all) == 0)
        sched_getaffinity(0, sizeof(all), &all);
    CPU_ZERO(&one);
    CPU_SET((unsigned)sched_getcpu(), &one);
    sched_setaffinity(0, sizeof(one), only_one ? &one : &all);
}

/* The sum of the asked hour, of all pods or of one, by decoding everything again. */
static int64_t expected(const struct data_r *r, int pod)
{
    struct budget budget;
    struct error err;
    int64_t sum = 0;

    budget_init(&budget, SIZE_MAX / 2);
    CLEANUP(profile_set_freep) struct profile_set *set = profile_set_new(&budget);
    for (size_t i = 0; i < r->n; i++) {
        const struct data_r_profile *p = &r->profiles[i];
        if (p->time_ns < DATA_R_FROM_NS || p->time_ns >= DATA_R_TO_NS ||
            (pod >= 0 && p->pod != (uint32_t)pod))
            continue;
        CLEANUP(input_closep) struct input *in = input_from_bytes(p->packed, "R", &budget);
        if (format_read(in, &format_pprof, set, NULL, &err) < 0)
            measure_die("decode", err.text);
        sum += profile_total(set->profiles.data[0], 1);
        profile_set_truncate(set, 0);
    }
    return sum;
}

/* The sum of everything as a pprof file, for go tool pprof to agree with. */
static void export_sum(struct store *s, const char *path)
{
    struct selector *selector;
    struct buf packed = {0}, losses = {0};
    struct error err;

    if (selector_parse(BYTES("{service.name=\"" SERVICE "\"}"), &selector, &err) < 0)
        measure_die("selector", err.text);
    struct store_plan plan = {.tenant = BYTES(STORE_DEFAULT_TENANT),
                              .selector = selector,
                              .from_ns = DATA_START_NS,
                              .to_ns = R_END_NS,
                              .what = PLAN_STACKS};
    CLEANUP(store_answer_freep) struct store_answer *answer = store_answer_new((size_t)1 << 30);
    if (store_aggregate(s, &plan, answer, &err) < 0 ||
        format_pprof.encode(answer->set, &packed, &losses, &err) < 0)
        measure_die("export", err.text);
    CLEANUP(fclosep) FILE *f = fopen(path, "wb");
    if (!f || fwrite(packed.data, 1, packed.len, f) != packed.len)
        measure_die(path, strerror(errno));
    selector_free(selector);
    buf_done(&packed);
    buf_done(&losses);
}

static void measure_merges(const struct data_r *r, struct store *s)
{
    struct measure_question q = {.selector = "cpu{service.name=\"" SERVICE "\"}",
                                 .from_ns = DATA_R_FROM_NS,
                                 .to_ns = DATA_R_TO_NS,
                                 .threads = 1,
                                 .raw_only = true,
                                 .want = expected(r, -1)};
    double all = measure_print(s, &q, "r_merge_ms"), least = measure_floor(r);

    q.selector = "cpu{service.name=\"" SERVICE "\", pod=\"pod-3\"}";
    q.want = expected(r, 3);
    double one = measure_print(s, &q, "r_merge_one_pod_ms");
    printf("r_merge_floor_ms: %.2f ms of CPU\n", least);
    printf("r_merge_vs_floor: %.2f times the floor\n", all / least);
    /* Names and tables of the answer cost the same for one pod and for all. */
    double others = (double)(DATA_R_PODS - 1) / DATA_R_PODS;
    printf("r_scan_vs_floor: %.2f times the floor, what nine pods more take\n",
           (all - one) / (least * others));
}

static double *new_latencies(size_t n)
{
    double *all = calloc(n, sizeof(*all));
    if (!all)
        abort();
    return all;
}

int measure_sum(const char *data, uint32_t pods, uint32_t windows, const char *work)
{
    struct error err;
    struct data_r *opened;
    char dir[4096], path[4096];

    if (data_r_open(data, pods, windows, &opened, &err) < 0)
        measure_die("set R", err.text);
    CLEANUP(data_r_closep) struct data_r *r = opened;
    CLEANUP(freep) double *latencies = new_latencies(r->n);
    snprintf(dir, sizeof(dir), "%s/sum", work);
    snprintf(path, sizeof(path), "%s/r.pb.gz", work);
    atomic_store(&measure_clock.wall_ns, R_END_NS);

    struct store *s = measure_open(dir, true);
    struct sending sending = {.r = r, .store = s, .latencies = latencies};
    (void)send_all(&sending);
    measure_settle(s);
    store_close(s);
    s = measure_open(dir, false);
    export_sum(s, path);
    store_close(s);
    return 0;
}

int measure_set_r(const char *data, const char *work)
{
    struct error err;
    struct data_r *opened;
    char dir[4096], path[4096];

    if (data_r_open(data, DATA_R_PODS, DATA_R_WINDOWS, &opened, &err) < 0)
        measure_die("set R", err.text);
    CLEANUP(data_r_closep) struct data_r *r = opened;
    CLEANUP(freep) double *latencies = new_latencies(r->n);
    atomic_store(&measure_clock.wall_ns, R_END_NS);

    snprintf(dir, sizeof(dir), "%s/r", work);
    use_cores(true);
    struct store *s = measure_open(dir, true);
    struct sending fast = {.r = r, .store = s, .latencies = latencies};
    double start = measure_cpu(), took = send_all(&fast);
    printf("r_ingest_s: %.3f s, %.3f of CPU\n", took, measure_cpu() - start);
    use_cores(false);
    atomic_store(&measure_clock.wall_ns, R_END_NS + INT64_C(7200000000000));
    measure_settle(s);
    printf("r_bytes_per_sample: %.3f bytes\n",
           (double)measure_disk_bytes(dir) / (double)r->n_samples);
    measure_merges(r, s);
    snprintf(path, sizeof(path), "%s/r.pb.gz", work);
    export_sum(s, path);
    store_close(s);

    snprintf(dir, sizeof(dir), "%s/paced", work);
    atomic_store(&measure_clock.wall_ns, R_END_NS);
    s = measure_open(dir, true);
    struct sending paced = {.r = r, .store = s, .latencies = latencies, .is_paced = true};
    send_all(&paced);
    store_close(s);
    (void)measure_median(latencies, r->n);
    printf("append_p50_ms: %.2f ms\n", latencies[r->n / 2] * 1e3);
    printf("append_p99_ms: %.2f ms at %d profiles a second\n", latencies[r->n * 99 / 100] * 1e3,
           PACE_HZ);
    return 0;
}

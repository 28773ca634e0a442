/*
 * What our own store costs, on the data of store_data.h:
 *
 *     measure_store r DATA WORK        set R: ingest, size, merges, latency of appending
 *     measure_store sum DATA PODS WINDOWS WORK   only stores a set R and writes WORK/r.pb.gz
 *     measure_store l WORK HOURS       set L: ingest, size, merges, memory, a cold start
 *     measure_store segments WORK      opening 10 and 1,000 segments
 *     measure_store cold WORK FROM     (run by l) a process that opens a store and asks once
 *
 * Each prints lines "metric: value unit". WORK is an empty folder. Times are of wall clock.
 */
#include "measure_store.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/fs.h"
#include "profile/merge.h"
#include "store_local/local.h"

#define ASKED 15

void measure_die(const char *what, const char *why)
{
    fprintf(stderr, "measure_store: %s: %s\n", what, why);
    exit(1);
}

double measure_wall(void)
{
    return (double)clock_monotonic_ns(clock_real()) * 1e-9;
}

double measure_cpu(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double measure_median(double *values, size_t n)
{
    qsort(values, n, sizeof(*values), compare_doubles);
    return values[n / 2];
}

static int64_t wall_of_data(const struct clock *c)
{
    return atomic_load(&((const struct measure_clock *)(const void *)c)->wall_ns);
}

static int64_t monotonic(const struct clock *c)
{
    (void)c;
    return clock_monotonic_ns(clock_real());
}

struct measure_clock measure_clock = {
    .clock = {.wall_ns = wall_of_data, .monotonic_ns = monotonic},
    .wall_ns = DATA_START_NS,
};

static void print_log(void *ctx, const char *text)
{
    (void)ctx;
    fprintf(stderr, "store: %s\n", text);
}

struct store *measure_open(const char *dir, bool background)
{
    struct local_options options = {
        .clock = &measure_clock.clock, .background = background, .seed = 1, .log = print_log};
    struct store *s = NULL;
    struct error err;

    if (fs_real_make_root(dir, &err) < 0 || fs_real_new(dir, &options.fs, &err) < 0 ||
        local_open(&options, &s, &err) < 0)
        measure_die(dir, err.text);
    return s;
}

void measure_settle(struct store *s)
{
    struct error err;
    int rc;

    while ((rc = store_upkeep(s, UPKEEP_SETTLE, &err)) > 0)
        ;
    if (rc < 0)
        measure_die("settle", err.text);
}

#define APPEND_MAX     64
#define RETRY_NS       10000000
#define RETRIES_IN_ROW 6000

atomic_uint measure_retries;

void measure_append(struct store_source *source, const struct store_incoming *in, size_t n)
{
    struct store_outcome outcomes[APPEND_MAX];
    struct error err;
    int rc;

    for (int tries = 0;; tries++) {
        rc = store_append(source, BYTES(STORE_DEFAULT_TENANT), in, n, outcomes, &err);
        if (rc != -EAGAIN || tries == RETRIES_IN_ROW)
            break;
        atomic_fetch_add(&measure_retries, 1);
        nanosleep(&(struct timespec){0, RETRY_NS}, NULL);
    }
    if (rc < 0)
        measure_die("append", err.text);
    for (size_t i = 0; i < n; i++) {
        if (outcomes[i].verdict != STORE_STORED)
            measure_die("append", outcomes[i].verdict == STORE_REJECTED ? outcomes[i].why.text
                                                                        : "taken for a duplicate");
    }
}

uint64_t measure_disk_bytes(const char *dir)
{
    DIR *d = opendir(dir);
    uint64_t sum = 0;

    if (!d)
        measure_die(dir, strerror(errno));
    for (struct dirent *e; (e = readdir(d));) {
        char path[4096];
        struct stat st;
        snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 || lstat(path, &st) < 0)
            continue;
        sum += S_ISDIR(st.st_mode) ? measure_disk_bytes(path) : (uint64_t)st.st_size;
    }
    closedir(d);
    return sum;
}

double measure_peak_rss_mb(void)
{
    CLEANUP(fclosep) FILE *f = fopen("/proc/self/status", "r");
    char line[256];
    unsigned long kb = 0;

    while (f && fgets(line, sizeof(line), f)) {
        if (sscanf(line, "VmHWM: %lu kB", &kb) == 1)
            break;
    }
    return (double)kb / 1024;
}

struct measure_time measure_ask_once(struct store *s, const struct measure_question *q)
{
    struct selector *parsed;
    struct error err;
    double start = measure_wall(), start_cpu = measure_cpu();

    if (selector_parse(bytes_of(q->selector), &parsed, &err) < 0)
        measure_die(q->selector, err.text);
    struct store_plan plan = {.tenant = BYTES(STORE_DEFAULT_TENANT),
                              .selector = parsed,
                              .from_ns = q->from_ns,
                              .to_ns = q->to_ns,
                              .what = PLAN_STACKS,
                              .raw_only = q->raw_only,
                              .threads = q->threads};
    CLEANUP(store_answer_freep) struct store_answer *answer = store_answer_new((size_t)1 << 30);
    if (store_aggregate(s, &plan, answer, &err) < 0)
        measure_die(q->selector, err.text);
    if (answer->cells.len != 1 || answer->is_incomplete)
        measure_die(q->selector, "one whole cell was expected");
    const struct profile *p = answer->cells.data[0].profile;
    CLEANUP(freep) int64_t *totals = calloc(dict_n_nodes(p->dict), sizeof(*totals));
    if (!totals)
        abort();
    profile_totals(p, 0, totals);
    struct measure_time took = {(measure_wall() - start) * 1e3, (measure_cpu() - start_cpu) * 1e3};
    if (q->want >= 0 && totals[0] != q->want)
        measure_die(q->selector, "the sum is wrong");
    selector_free(parsed);
    return took;
}

struct measure_time measure_ask(struct store *s, const struct measure_question *q)
{
    double walls[ASKED], cpus[ASKED];

    (void)measure_ask_once(s, q);
    for (size_t i = 0; i < ASKED; i++) {
        struct measure_time t = measure_ask_once(s, q);
        walls[i] = t.wall_ms;
        cpus[i] = t.cpu_ms;
    }
    return (struct measure_time){measure_median(walls, ASKED), measure_median(cpus, ASKED)};
}

double measure_print(struct store *s, const struct measure_question *q, const char *name)
{
    struct measure_time t = measure_ask(s, q);

    printf("%s: %.2f ms, %.2f of CPU\n", name, t.wall_ms, t.cpu_ms);
    return t.cpu_ms;
}

int main(int argc, char **argv)
{
    const char *command = argc > 1 ? argv[1] : "";

    if (strcmp(command, "r") == 0 && argc == 4)
        return measure_set_r(argv[2], argv[3]);
    if (strcmp(command, "sum") == 0 && argc == 6)
        return measure_sum(argv[2], (uint32_t)strtoul(argv[3], NULL, 10),
                           (uint32_t)strtoul(argv[4], NULL, 10), argv[5]);
    if (strcmp(command, "l") == 0 && argc == 4)
        return measure_set_l(argv[2], (uint32_t)strtoul(argv[3], NULL, 10));
    if (strcmp(command, "segments") == 0 && argc == 3)
        return measure_segments(argv[2]);
    if (strcmp(command, "cold") == 0 && argc == 4)
        return measure_cold(argv[2], strtoll(argv[3], NULL, 10));
    fprintf(stderr,
            "usage: measure_store r DATA WORK | sum DATA PODS WINDOWS WORK | l WORK HOURS | "
            "segments WORK\n");
    return 2;
}

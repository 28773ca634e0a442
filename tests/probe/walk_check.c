#include <time.h>

#include "probe/enlist.h"

/*
 * Samples processes for a while and says how their walks ended and what a sample cost. By hand:
 *
 *     walk_check HZ SECONDS PID...
 */
static const char *const end_names[UNWIND_END_COUNT] = {
    "outermost", "no user part", "no process",  "no mapping", "no table",
    "no frame",  "not readable", "unsupported", "too deep",   "not upward",
};

struct tally {
    const char *const *pids;
    int n_pids;
    uint64_t samples, frames, kernel_frames, ends[UNWIND_END_COUNT];
    uint64_t ended_at[UNWIND_END_COUNT][4]; /* some innermost addresses of what ended so */
};

static void on_event(void *arg, const struct event_head *head)
{
    struct tally *a = arg;
    const struct event_sample *e = (const void *)head;
    if (head->kind != EVENT_SAMPLE)
        return;
    bool is_ours = false;
    for (int i = 0; i < a->n_pids; i++)
        is_ours |= (uint32_t)atoi(a->pids[i]) == e->tgid;
    if (!is_ours)
        return;
    const uint64_t *user = (const uint64_t *)(e + 1) + e->n_kernel;
    a->ended_at[e->end][a->ends[e->end] % 4] = e->n_user ? user[e->n_user - 1] : 0;
    a->samples++;
    a->frames += e->n_user;
    a->kernel_frames += e->n_kernel;
    a->ends[e->end]++;
}

static double seconds(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void report(const struct tally *a, struct probe *p)
{
    struct probe_stats s;
    probe_stats(p, &s);
    printf("samples %lu, user frames each %.1f, kernel frames each %.1f, lost %lu\n", a->samples,
           a->samples ? (double)a->frames / (double)a->samples : 0,
           a->samples ? (double)a->kernel_frames / (double)a->samples : 0, s.lost);
    for (int i = 0; i < UNWIND_END_COUNT; i++)
        if (a->ends[i])
            printf("  %-12s %6lu   last frames %lx %lx %lx %lx\n", end_names[i], a->ends[i],
                   a->ended_at[i][0], a->ended_at[i][1], a->ended_at[i][2], a->ended_at[i][3]);
    printf("runs %lu, %.0f ns each; tables %.2f MB, all maps %.2f MB\n", s.runs,
           s.runs ? (double)s.run_ns / (double)s.runs : 0, (double)probe_table_bytes(p) / 1e6,
           (double)s.map_bytes / 1e6);
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: walk_check HZ SECONDS PID...\n");
        return 2;
    }
    struct error err;
    struct probe_options o = {.table_bytes = 32 << 20};
    CLEANUP(probe_closep) struct probe *p = NULL;
    double before = seconds();
    if (probe_open(&o, &p, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    printf("loaded in %.0f ms\n", (seconds() - before) * 1e3);
    probe_settings(p)->now_s = 1;
    static struct enlisted all;
    struct tally a = {(const char *const *)argv + 3, argc - 3, 0};
    for (int i = 3; i < argc; i++) {
        before = seconds();
        int r = enlist(p, &all, atoi(argv[i]), PROCESS_CPU);
        printf("%s: %s, %u mappings, %lu rows so far, %.0f ms\n", argv[i], strerror(-r), all.n,
               all.rows, (seconds() - before) * 1e3);
    }
    probe_settings(p)->has_filter = 1;
    /* By the programs' own watch, which sees only what became a sample. */
    if (probe_set_cpu_rate(p, (uint32_t)atoi(argv[1]), &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    before = seconds();
    while (seconds() - before < atof(argv[2])) {
        nanosleep(&(struct timespec){0, 50000000}, NULL);
        probe_drain(p, on_event, &a);
    }
    probe_set_cpu_rate(p, 0, &err);
    report(&a, p);
    return 0;
}

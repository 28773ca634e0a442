/*
 * A process that stores profiles from several threads is killed at any moment, again and again, in
 * one directory. What it acknowledged must be there once; what it did not, once or not at all, and
 * once after the client's retry.
 *
 *     test_kill [ROUNDS [SEED]]
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/random.h"
#include "lib/scratch.h"
#include "lib/test.h"
#include "store_local/local.h"
#include "store_local/numbered.h"

#define ROUNDS    200
#define THREADS   3
#define ROUND_MAX 4096 /* profiles of one thread in one round */
#define KILL_MS   60   /* at the latest */

/* Time goes on from round to round, so that hours are over and get merged. */
struct kill_clock {
    struct clock clock;
    int64_t offset_ns;
};

static int64_t wall(const struct clock *c)
{
    return clock_wall_ns(clock_real()) + ((const struct kill_clock *)c)->offset_ns;
}

static int64_t monotonic(const struct clock *c)
{
    return clock_monotonic_ns(clock_real()) + ((const struct kill_clock *)c)->offset_ns;
}

/* A profile is known by its number; what is in it follows from that. */
struct told {
    uint32_t seq;
    bool is_acked; /* else it is about to be sent */
};

struct killed {
    const char *path;
    struct kill_clock clock;
    uint8_t *state; /* per number: 0 unknown, 1 sent, 2 acknowledged */
    uint8_t *found; /* how often it was found */
    uint32_t n, cap;
    struct random random;
    struct error err;
};

static int open_store(struct killed *k, bool background, struct store **ret)
{
    struct fs *fs;
    int r = fs_real_new(k->path, &fs, &k->err);
    if (r < 0)
        return r;
    struct local_options options = {.fs = fs,
                                    .clock = &k->clock.clock,
                                    .threads = 1,
                                    .background = background,
                                    .memory_limit = (size_t)16 << 20,
                                    .disk_reserve = 1};
    return local_open(&options, ret, &k->err);
}

/* ---- The child */

struct thread {
    struct killed *k;
    struct store *store;
    uint32_t first;
    int pipe;
};

static void tell(int pipe, struct told t)
{
    if (write(pipe, &t, sizeof(t)) != (ssize_t)sizeof(t))
        _exit(3);
}

static void *store_profiles_on(void *arg)
{
    struct thread *t = arg;
    struct store_source *source;
    struct error err;

    if (store_source_new(t->store, 0, &source, &err) < 0)
        _exit(4);
    for (uint32_t seq = t->first; seq < t->first + ROUND_MAX * THREADS; seq += THREADS) {
        struct store_outcome out;
        tell(t->pipe, (struct told){seq, false});
        int r = numbered_append(source, seq, &out, &err);
        if (r < 0 && r != -EAGAIN)
            _exit(5);
        if (r == 0 && out.verdict == STORE_REJECTED)
            _exit(6);
        if (r == 0)
            tell(t->pipe, (struct told){seq, true});
    }
    return NULL;
}

static void live(struct killed *k, int pipe)
{
    struct thread threads[THREADS];
    pthread_t ids[THREADS];
    struct store *store;

    if (open_store(k, true, &store) < 0)
        _exit(2);
    for (uint32_t i = 0; i < THREADS; i++) {
        threads[i] = (struct thread){.k = k, .store = store, .first = k->n + i, .pipe = pipe};
        pthread_create(&ids[i], NULL, store_profiles_on, &threads[i]);
    }
    /* What the upkeep of hours does, in milliseconds. */
    for (struct error err;;)
        (void)store_upkeep(store, random_below(&k->random, 20) ? UPKEEP_FLUSH : UPKEEP_SETTLE,
                           &err);
}

/* ---- The parent */

static void hear(struct killed *k, int pipe)
{
    struct told t;

    while (read(pipe, &t, sizeof(t)) == (ssize_t)sizeof(t)) {
        if (t.seq >= k->cap) {
            uint32_t cap = t.seq * 2 + 65536;
            k->state = realloc(k->state, cap);
            k->found = realloc(k->found, cap);
            memset(k->state + k->cap, 0, cap - k->cap);
            k->cap = cap;
        }
        k->state[t.seq] = t.is_acked ? 2 : 1;
        if (t.seq >= k->n)
            k->n = t.seq + 1;
    }
}

/* One life; how the child ended. */
static int live_and_die(struct killed *k)
{
    int ends[2], status = 0;

    fflush(stdout);
    if (pipe(ends) < 0)
        return -1;
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        live(k, ends[1]);
    }
    close(ends[1]);
    usleep((useconds_t)random_below(&k->random, KILL_MS * 1000));
    kill(child, SIGKILL);
    hear(k, ends[0]);
    close(ends[0]);
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? 0 : WEXITSTATUS(status);
}

static int count(void *ctx, const struct store_found *f)
{
    struct killed *k = ctx;
    int64_t seq = numbered_of(f);

    if (seq < 0 || seq >= k->n)
        return 1;
    k->found[seq]++;
    return 0;
}

static void look(struct test *t, struct killed *k, struct store *store)
{
    struct store_find find = {
        .tenant = bytes_of("default"), .to_ns = INT64_MAX, .with_samples = true};

    if (k->n > 0)
        memset(k->found, 0, k->n);
    CHECK_INT(t, store_profiles(store, &find, count, k, &k->err), 0);
}

static void check_sum(struct test *t, struct killed *k, struct store *store)
{
    CLEANUP(selector_freep) struct selector *cpu = NULL;
    CLEANUP(store_answer_freep) struct store_answer *answer = store_answer_new((size_t)64 << 20);
    int64_t want = 0, got = 0;

    CHECK_INT(t, selector_parse(bytes_of("cpu"), &cpu, &k->err), 0);
    struct store_plan plan = {.tenant = bytes_of("default"),
                              .selector = cpu,
                              .to_ns = INT64_MAX,
                              .what = PLAN_TOTALS,
                              .threads = 1};
    CHECK_INT(t, store_aggregate(store, &plan, answer, &k->err), 0);
    CHECK(t, !answer->is_incomplete);
    for (size_t i = 0; i < answer->cells.len; i++)
        got += answer->cells.data[i].value;
    for (uint32_t seq = 0; seq < k->n; seq++)
        want += k->found[seq] ? numbered_value(seq) : 0;
    CHECK_INT(t, got, want);
}

/* What was sent and not acknowledged is sent again, as a client does. */
static void retry(struct test *t, struct killed *k, struct store *store)
{
    struct store_source *source;

    CHECK_INT(t, store_source_new(store, 0, &source, &k->err), 0);
    for (uint32_t seq = 0; seq < k->n; seq++) {
        struct store_outcome out;
        if (k->state[seq] != 1)
            continue;
        CHECK_INT(t, numbered_append(source, seq, &out, &k->err), 0);
        CHECK_INT(t, out.verdict, k->found[seq] ? STORE_DUPLICATE : STORE_STORED);
        k->state[seq] = 2;
        k->found[seq] = 1;
    }
    store_source_free(source);
}

static void check_round(struct test *t, struct killed *k)
{
    struct store *store;
    unsigned n_lost = 0, n_twice = 0, n_strange = 0;

    int r = open_store(k, false, &store);
    CHECK_INT(t, r, 0);
    if (r < 0) {
        printf("# %s\n", k->err.text);
        return;
    }
    look(t, k, store);
    for (uint32_t seq = 0; seq < k->n; seq++) {
        n_lost += k->state[seq] == 2 && k->found[seq] == 0;
        n_twice += k->found[seq] > 1;
        n_strange += k->state[seq] == 0 && k->found[seq] > 0;
    }
    CHECK_INT(t, n_lost, 0);
    CHECK_INT(t, n_twice, 0);
    CHECK_INT(t, n_strange, 0);
    retry(t, k, store);
    check_sum(t, k, store);
    store_close(store);
}

static unsigned n_rounds = ROUNDS;
static uint64_t seed = 1;

static void every_acknowledged_profile_is_there_once(struct test *t)
{
    struct scratch dir;
    struct killed k = {.clock = {.clock = {wall, monotonic}}};
    unsigned n_acked = 0;

    random_init(&k.random, seed);
    scratch_init(&dir);
    k.path = dir.path;
    k.clock.offset_ns = NUMBERED_FIRST_NS - clock_wall_ns(clock_real());
    for (unsigned i = 0; i < n_rounds && !t->failures; i++) {
        CHECK_INT(t, live_and_die(&k), 0);
        k.clock.offset_ns = numbered_start_ns(k.n) - clock_wall_ns(clock_real());
        check_round(t, &k);
        if (t->failures)
            printf("# in round %u\n", i + 1);
    }
    for (uint32_t seq = 0; seq < k.n; seq++)
        n_acked += k.state[seq] == 2;
    printf("# %u kills, %u profiles\n", n_rounds, n_acked);
    CHECK(t, n_acked > n_rounds);
    free(k.state);
    free(k.found);
    scratch_done(&dir);
}

int main(int argc, char **argv)
{
    struct test t = {.name = "every_acknowledged_profile_is_there_once"};

    if (argc > 1)
        n_rounds = (unsigned)strtoul(argv[1], NULL, 10);
    seed = argc > 2 ? strtoull(argv[2], NULL, 10) : seed;
    printf("1..1\n");
    every_acknowledged_profile_is_there_once(&t);
    printf("%s 1 - %s\n", t.failures ? "not ok" : "ok", t.name);
    return t.failures > 0;
}

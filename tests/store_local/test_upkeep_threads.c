#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "lib/sim_fs.h"
#include "lib/test.h"
#include "store_local/backup.h"
#include "store_local/local.h"

/*
 * Appending, asking, flushing, merging, expiring, erasing and backing up at the same time, on a
 * disk in memory: the total only grows, and in the end it is that of all that was stored. Meant for
 * ThreadSanitizer too.
 */
#define APPENDERS 4
#define ASKERS    2
#define BATCHES   50
#define BATCH     4
#define VALUE     15 /* of one profile */

#define SEC_NS ((int64_t)1000000000)

struct shared {
    struct store *store;
    struct sim_fs *sim;
    int64_t start_ns;
    atomic_uint n_stored, n_failed, n_spans, n_backups;
    atomic_bool is_over;
};

struct appender {
    struct shared *shared;
    unsigned number;
};

static struct profile *make_profile(struct store_source *source, int64_t start_ns, unsigned i)
{
    struct profile *p = profile_set_add(source->set);
    struct dict *d = p->dict;
    char name[16];

    profile_add_ctype(p, "cpu", "nanoseconds");
    p->period_type = (struct value_type){dict_cstring(d, "cpu"), dict_cstring(d, "nanoseconds")};
    p->time_unix_ns = start_ns;
    p->duration_ns = 10 * SEC_NS;
    uint32_t root = dict_frame(d, 0, (struct function){.name = dict_cstring(d, "main")}, 1, 0, 0);
    for (unsigned j = 0; j < 5; j++) {
        snprintf(name, sizeof(name), "f%u", i + j);
        profile_add_value(
            p, dict_frame(d, root, (struct function){.name = dict_cstring(d, name)}, 1, 0, 0),
            1 + j);
    }
    return p;
}

/* Spans of one trace for each batch, in the hours of its profiles. */
static int append_spans(struct shared *s, const struct appender *a, unsigned k, struct error *err)
{
    struct store_span spans[BATCH];

    for (unsigned i = 0; i < BATCH; i++)
        spans[i] = (struct store_span){.service = BYTES("checkout"),
                                       .name = BYTES("pay"),
                                       .trace_id = {1 + (uint8_t)a->number, (uint8_t)k},
                                       .span_id = {1 + (uint8_t)i},
                                       .start_ns = s->start_ns + (int64_t)(k * 37 + i) * SEC_NS,
                                       .duration_ns = SEC_NS};
    return store_append_spans(s->store, bytes_of("default"), spans, BATCH, err);
}

static void *append(void *arg)
{
    const struct appender *a = arg;
    struct shared *s = a->shared;
    CLEANUP(store_source_freep) struct store_source *source = NULL;
    struct error err;
    const char pod[] = {(char)('a' + a->number), '\0'};
    struct label labels[] = {{BYTES("pod"), bytes_of(pod)},
                             {BYTES("service.name"), BYTES("checkout")}};

    s->n_failed += store_source_new(s->store, 0, &source, &err) < 0;
    for (unsigned k = 0; k < BATCHES && source; k++) {
        struct store_incoming in[BATCH];
        struct store_outcome outcomes[BATCH];
        for (unsigned i = 0; i < BATCH; i++) {
            int64_t start = s->start_ns + (int64_t)(k * BATCH + i) * 37 * SEC_NS;
            in[i] = (struct store_incoming){
                .profile = make_profile(source, start, k + i), .labels = labels, .n_labels = 2};
        }
        int r = store_append(source, bytes_of("default"), in, BATCH, outcomes, &err);
        s->n_failed += r < 0;
        for (unsigned i = 0; r == 0 && i < BATCH; i++)
            s->n_stored += outcomes[i].verdict == STORE_STORED;
        r = append_spans(s, a, k, &err);
        s->n_failed += r < 0;
        s->n_spans += r == 0 ? BATCH : 0;
        store_source_reset(source);
    }
    return NULL;
}

static int64_t total(struct shared *s, bool raw_only)
{
    CLEANUP(store_answer_freep) struct store_answer *answer = store_answer_new(1 << 26);
    CLEANUP(selector_freep) struct selector *selector = NULL;
    struct error err;
    int64_t sum = 0;

    s->n_failed += selector_parse(bytes_of("cpu"), &selector, &err) < 0;
    struct store_plan plan = {.tenant = bytes_of("default"),
                              .selector = selector,
                              .to_ns = INT64_MAX,
                              .raw_only = raw_only};
    s->n_failed += store_aggregate(s->store, &plan, answer, &err) < 0 || answer->is_incomplete;
    for (size_t i = 0; i < answer->cells.len; i++)
        sum += profile_total(answer->cells.data[i].profile, 0);
    return sum;
}

static int count_span(void *ctx, const struct store_span *span)
{
    (void)span;
    ++*(unsigned *)ctx;
    return 0;
}

static unsigned total_spans(struct shared *s)
{
    struct store_span_find find = {.tenant = bytes_of("default"), .to_ns = INT64_MAX};
    struct error err;
    unsigned n = 0;

    s->n_failed += store_spans(s->store, &find, count_span, &n, &err) < 0;
    return n;
}

static void *ask(void *arg)
{
    struct shared *s = arg;
    int64_t before = 0;

    for (unsigned i = 0; !s->is_over; i++) {
        unsigned least_spans = s->n_spans;
        int64_t least = (int64_t)s->n_stored * VALUE, sum = total(s, i % 2);
        /* What was acknowledged before it was asked for is there, and nothing goes. */
        s->n_failed += sum < before || sum < least || sum % VALUE != 0;
        s->n_failed += total_spans(s) < least_spans;
        before = sum;
    }
    return NULL;
}

static void *back_up(void *arg)
{
    struct shared *s = arg;
    struct error err;

    while (!s->is_over) {
        CLEANUP(sim_fs_freep) struct sim_fs *copy = sim_fs_new(2);
        int r = backup_copy(sim_fs_fs(s->sim), NULL, sim_fs_fs(copy), &err);
        s->n_failed += r < 0 && r != -EAGAIN;
        s->n_backups += r == 0;
    }
    return NULL;
}

static void *keep_house(void *arg)
{
    static const enum store_upkeep turns[] = {UPKEEP_STEP, UPKEEP_FLUSH, UPKEEP_SETTLE,
                                              UPKEEP_EXPIRE};
    struct shared *s = arg;
    struct error err;

    for (unsigned i = 0; !s->is_over; i++) {
        s->n_failed += store_upkeep(s->store, turns[i % ARRAY_SIZE(turns)], &err) < 0;
        if (i % 8 == 0) /* a backup needs a moment in which nothing is flushed */
            nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    return NULL;
}

static void *erase_nothing(void *arg)
{
    struct shared *s = arg;
    struct error err;

    while (!s->is_over) {
        CLEANUP(selector_freep) struct selector *selector = NULL;
        s->n_failed += selector_parse(bytes_of("{pod=\"none\"}"), &selector, &err) < 0;
        s->n_failed +=
            store_erase(s->store,
                        &(struct store_scope){bytes_of("default"), selector, 0, INT64_MAX},
                        &err) < 0;
    }
    return NULL;
}

static void all_at_once(struct test *t)
{
    struct shared s = {.sim = sim_fs_new(1)};
    struct error err = {{0}};
    struct local_options options = {
        .fs = sim_fs_fs(s.sim), .threads = 2, .disk_reserve = 1, .background = true};
    void *(*const others[])(void *) = {keep_house, erase_nothing, back_up};
    pthread_t threads[APPENDERS + ASKERS + ARRAY_SIZE(others)];
    struct appender appenders[APPENDERS];
    unsigned n = 0;

    s.start_ns = clock_wall_ns(clock_real()) - 5 * 3600 * SEC_NS;
    CHECK_INT(t, local_open(&options, &s.store, &err), 0);
    for (unsigned i = 0; i < APPENDERS; i++) {
        appenders[i] = (struct appender){&s, i};
        pthread_create(&threads[n++], NULL, append, &appenders[i]);
    }
    for (unsigned i = 0; i < ASKERS; i++)
        pthread_create(&threads[n++], NULL, ask, &s);
    for (unsigned i = 0; i < ARRAY_SIZE(others); i++)
        pthread_create(&threads[n++], NULL, others[i], &s);
    for (unsigned i = 0; i < APPENDERS; i++)
        pthread_join(threads[i], NULL);
    s.is_over = true;
    for (unsigned i = APPENDERS; i < n; i++)
        pthread_join(threads[i], NULL);

    CHECK_INT(t, s.n_failed, 0);
    CHECK_INT(t, s.n_stored, APPENDERS * BATCHES * BATCH);
    CHECK_INT(t, store_upkeep(s.store, UPKEEP_SETTLE, &err), 0);
    CHECK_INT(t, total(&s, true), (int64_t)APPENDERS * BATCHES * BATCH * VALUE);
    CHECK_INT(t, total(&s, false), (int64_t)APPENDERS * BATCHES * BATCH * VALUE);
    CHECK_INT(t, total_spans(&s), APPENDERS * BATCHES * BATCH);
    printf("# %u backups\n", s.n_backups);
    store_close(s.store);
    sim_fs_free(s.sim);
}

static int64_t cpu_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * SEC_NS + now.tv_nsec;
}

static void a_store_with_nothing_to_do_sleeps(struct test *t)
{
    CLEANUP(sim_fs_freep) struct sim_fs *sim = sim_fs_new(1);
    struct local_options options = {.fs = sim_fs_fs(sim), .disk_reserve = 1, .background = true};
    struct store *store;
    struct error err;

    CHECK_INT(t, local_open(&options, &store, &err), 0);
    int64_t before = cpu_ns();
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
    CHECK(t, cpu_ns() - before < 50000000);
    store_close(store);
}

static const struct test_case cases[] = {
    TEST(all_at_once),
    TEST(a_store_with_nothing_to_do_sleeps),
};
TEST_MAIN(cases)

#include <pthread.h>

#include "store_fixture.h"

/*
 * A second process that only reads: it takes no lock, and whatever was acknowledged before it began
 * to open is there, however busily the writer flushes and merges.
 */
#define WRITTEN 300 /* profiles, while somebody reads */

struct writer {
    struct test *t;
    struct fixture f;
    atomic_uint n_acknowledged;
    atomic_bool is_over;
};

static void *write_all_the_time(void *arg)
{
    struct writer *w = arg;
    for (unsigned i = 0; !w->is_over; i++) {
        struct profile *p = make_profile(w->f.source, NOW_NS - (int64_t)i * SEC_NS, i % 7, 2);
        CHECK_APPEND(w->t, &w->f, p, "a", NULL, STORE_STORED);
        w->n_acknowledged++;
        store_source_reset(w->f.source);
        if (i % 2 == 0)
            (void)store_upkeep(w->f.store, i % 16 ? UPKEEP_FLUSH : UPKEEP_SETTLE, &w->f.err);
    }
    return NULL;
}

static int count_one(void *ctx, const struct store_found *found)
{
    (void)found;
    ++*(unsigned *)ctx;
    return 0;
}

static int count_from_outside(struct writer *w, unsigned *ret, struct error *err)
{
    CLEANUP(store_closep) struct store *store = NULL;
    struct local_options options = w->f.options;
    options.read_only = true;
    options.log = NULL;
    int r = fs_real_new(w->f.dir.path, &options.fs, err);
    if (r == 0)
        r = local_open(&options, &store, err);
    struct store_find find = {.tenant = BYTES("default"), .from_ns = 0, .to_ns = INT64_MAX};
    *ret = 0;
    return r < 0 ? r : store_profiles(store, &find, count_one, ret, err);
}

static void a_reader_sees_what_was_acknowledged_before_it_opened(struct test *t)
{
    struct writer w = {.t = t};
    pthread_t thread;
    fixture_init(t, &w.f);
    pthread_create(&thread, NULL, write_all_the_time, &w);
    while (w.n_acknowledged < WRITTEN) {
        struct error err = {""};
        unsigned before = w.n_acknowledged, found = 0;
        int r = count_from_outside(&w, &found, &err);
        unsigned after = w.n_acknowledged + 1;
        /* Files may go between opening and asking: that is said, and asking again helps. */
        if (r < 0) {
            CHECK(t, r == -ENOENT || r == -EBADMSG || r == -ESTALE);
            continue;
        }
        if (found < before || found > after)
            printf("# %u found, %u were acknowledged before and %u after\n", found, before, after);
        CHECK(t, found >= before && found <= after);
    }
    w.is_over = true;
    pthread_join(thread, NULL);
    fixture_done(&w.f);
}

static const struct test_case cases[] = {
    TEST(a_reader_sees_what_was_acknowledged_before_it_opened)};
TEST_MAIN(cases)

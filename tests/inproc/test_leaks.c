#include <math.h>

#include "base/random.h"
#include "base/vec.h"
#include "inproc/leaks.h"
#include "lib/test.h"

/*
 * A heap of the test's own: objects of sites come and go in simulated time, are sampled as the
 * library samples them, and what is alive is told to the judge at its steps.
 */
#define SECOND ((uint64_t)1000000000)
#define RATE   ((uint32_t)4096)

enum { LEAK = 1, CACHE, POOL, CHURN, QUEUE, SLOW_CACHE, SITES };

struct object {
    uint32_t site, size;
    uint64_t time_ns;
    bool is_sampled;
};

struct world {
    struct random random;
    struct budget budget;
    struct leaks *leaks;
    VEC(struct object) alive[SITES];
    uint64_t now;
    unsigned named[SITES]; /* at how many snapshots */
    unsigned snapshots;
};

static double uniform(struct world *w)
{
    return (double)(random_u64(&w->random) >> 11) * 0x1p-53;
}

static void world_init(struct world *w, uint64_t seed, const struct leaks_options *o)
{
    *w = (struct world){.now = 1000 * SECOND};
    random_init(&w->random, seed);
    budget_init(&w->budget, (size_t)1 << 30);
    w->leaks = leaks_new(o);
}

static void world_done(struct world *w)
{
    for (size_t i = 0; i < SITES; i++)
        vec_done(&w->budget, &w->alive[i]);
    leaks_free(w->leaks);
}

static void allocate(struct world *w, uint32_t site, uint32_t size)
{
    bool is_sampled = uniform(w) < -expm1(-(double)size / RATE);

    vec_push(&w->budget, &w->alive[site], (struct object){site, size, w->now, is_sampled});
}

static void release(struct world *w, uint32_t site, size_t at)
{
    w->alive[site].data[at] = vec_last(&w->alive[site]);
    w->alive[site].len--;
}

static void look(struct world *w)
{
    size_t n;

    if (!leaks_is_due(w->leaks, w->now))
        return;
    leaks_begin(w->leaks, w->now);
    for (uint32_t site = 1; site < SITES; site++)
        for (size_t i = 0; i < w->alive[site].len; i++) {
            const struct object *o = &w->alive[site].data[i];
            if (o->is_sampled)
                leaks_add(w->leaks, o->site, o->size, RATE, o->time_ns);
        }
    leaks_end(w->leaks);
    w->snapshots++;
    (void)leaks_suspects(w->leaks, &n);
    for (uint32_t site = 1; site < SITES; site++)
        w->named[site] += leaks_find(w->leaks, site) != NULL;
}

/* A tenth of a second in the life of a program that leaks 40 objects in it. */
static void live(struct world *w, unsigned tick)
{
    for (unsigned i = 0; i < 40; i++)
        allocate(w, LEAK, 200 + (uint32_t)random_below(&w->random, 400));
    /* Filled in the first two seconds, then full. */
    for (unsigned i = 0; tick < 20 && i < 500; i++)
        allocate(w, CACHE, 300);
    /* 4000 objects, of which some are replaced all the time. */
    while (w->alive[POOL].len < 4000)
        allocate(w, POOL, 500);
    for (unsigned i = 0; i < 60; i++) {
        release(w, POOL, (size_t)random_below(&w->random, w->alive[POOL].len));
        allocate(w, POOL, 500);
    }
    /* What is made goes in the next moment, but for a few. */
    for (size_t i = w->alive[CHURN].len; i-- > 0;)
        if (uniform(w) < 0.99)
            release(w, CHURN, i);
    for (unsigned i = 0; i < 800; i++)
        allocate(w, CHURN, 100 + (uint32_t)random_below(&w->random, 2000));
    /* A queue that is now long, now short. */
    unsigned want = (unsigned)(1000 + 900 * sin(tick / 7.0));
    while (w->alive[QUEUE].len > want)
        release(w, QUEUE, 0);
    while (w->alive[QUEUE].len < want)
        allocate(w, QUEUE, 400);
    /* Each key is put once: it fills ever more slowly. */
    for (unsigned i = 0; i < 150; i++)
        if (uniform(w) > (double)w->alive[SLOW_CACHE].len / 3000)
            allocate(w, SLOW_CACHE, 600);
    w->now += SECOND / 10;
    look(w);
}

static const struct leaks_options short_windows = {.window_ns = SECOND};
static const struct leaks_options growing_steps = {
    .window_ns = 10 * SECOND, .step_ns = SECOND / 4, .step_max_ns = 100 * SECOND};

static void check_only_the_leak(struct test *t, const struct leaks_options *o, unsigned ticks)
{
    unsigned leaks = 0, others = 0, rounds = 12;

    for (uint64_t seed = 1; seed <= rounds; seed++) {
        struct world w;
        size_t n;
        world_init(&w, seed, o);
        for (unsigned tick = 0; tick < ticks; tick++)
            live(&w, tick);
        const struct leak_suspect *s = leaks_suspects(w.leaks, &n);
        leaks += leaks_find(w.leaks, LEAK) != NULL;
        others += (unsigned)n - (leaks_find(w.leaks, LEAK) != NULL);
        for (size_t i = 0; i < n; i++)
            if (s[i].stack != LEAK)
                printf("# seed %u names site %u\n", (unsigned)seed, s[i].stack);
        if (leaks_find(w.leaks, LEAK)) {
            double rate = leaks_find(w.leaks, LEAK)->growth_per_s;
            CHECK(t, rate > 0.65 * 400 * 400 && rate < 1.35 * 400 * 400);
        }
        world_done(&w);
    }
    CHECK_INT(t, leaks, rounds);
    CHECK_INT(t, others, 0);
}

static void the_leak_and_only_it_is_named(struct test *t)
{
    check_only_the_leak(t, &short_windows, 200);
}

static void a_short_life_is_enough_when_steps_begin_short(struct test *t)
{
    check_only_the_leak(t, &growing_steps, 100);
}

/* The verdict holds at every window, not by luck at one; and others are not named in between. */
static void verdicts_are_steady(struct test *t)
{
    struct world w;

    world_init(&w, 99, &short_windows);
    for (unsigned tick = 0; tick < 600; tick++)
        live(&w, tick);
    CHECK_INT(t, w.snapshots, 60);
    CHECK(t, w.named[LEAK] >= 50);
    CHECK_INT(t, w.named[POOL], 0);
    CHECK_INT(t, w.named[CHURN], 0);
    CHECK_INT(t, w.named[QUEUE], 0);
    CHECK_INT(t, w.named[CACHE], 0);
    world_done(&w);
}

/* A site that leaks and churns at once is named: what stays decides. */
static void a_leak_among_churn_of_the_same_stack_is_named(struct test *t)
{
    unsigned named = 0;

    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct world w;
        world_init(&w, seed, &short_windows);
        for (unsigned tick = 0; tick < 200; tick++) {
            while (w.alive[CHURN].len > 0)
                release(&w, CHURN, 0);
            for (unsigned i = 0; i < 100; i++)
                allocate(&w, LEAK, 512);
            for (unsigned i = 0; i < 100; i++) {
                allocate(&w, CHURN, 512);
                vec_last(&w.alive[CHURN]).site = LEAK;
            }
            w.now += SECOND / 10;
            look(&w);
        }
        named += leaks_find(w.leaks, LEAK) != NULL;
        world_done(&w);
    }
    CHECK(t, named >= 9);
}

static void a_few_samples_are_no_proof(struct test *t)
{
    struct world w;

    world_init(&w, 3, &short_windows);
    for (unsigned tick = 0; tick < 300; tick++) {
        if (tick % 20 == 0)
            allocate(&w, LEAK, 64);
        w.now += SECOND / 10;
        look(&w);
    }
    CHECK_INT(t, w.named[LEAK], 0);
    world_done(&w);
}

/* Large blocks are all sampled: one in each window is a leak, known for certain. */
static void large_blocks_need_no_statistics(struct test *t)
{
    struct world w;

    world_init(&w, 3, &short_windows);
    for (unsigned tick = 0; tick < 150; tick++) {
        if (tick % 10 == 3)
            allocate(&w, LEAK, 1 << 20);
        w.now += SECOND / 10;
        look(&w);
    }
    CHECK(t, leaks_find(w.leaks, LEAK) != NULL);
    world_done(&w);
}

/* Stacks 10 to 19 are of one place, 20 to 29 of another... */
static uint64_t place_by_tens(void *arg, uint32_t stack, unsigned level)
{
    (void)arg;
    return level < LEAKS_LEVELS ? stack : stack / 10;
}

/*
 * A leak through ten callers is too thin for each of them. Beside it, in the same function, what
 * was there before and what lives shortly, each through callers of its own; and a place where one
 * caller leaks by itself, and another keeps a cache.
 */
static void thin_stacks_are_judged_by_their_place(struct test *t)
{
    struct leaks_options o = {.window_ns = SECOND, .place = place_by_tens};
    unsigned named[40] = {0}, others = 0;

    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct world w;
        size_t n;
        world_init(&w, seed, &o);
        for (unsigned tick = 0; tick < 200; tick++) {
            for (unsigned i = 0; i < 40; i++) {
                allocate(&w, LEAK, 400);
                vec_last(&w.alive[LEAK]).site = 10 + (uint32_t)random_below(&w.random, 8);
            }
            for (unsigned i = 0; tick == 0 && i < 2000; i++) {
                allocate(&w, CACHE, 400);
                vec_last(&w.alive[CACHE]).site = i % 2 ? 18 : 21;
            }
            while (w.alive[CHURN].len > 0)
                release(&w, CHURN, 0);
            for (unsigned i = 0; i < 100; i++) {
                allocate(&w, CHURN, 400);
                vec_last(&w.alive[CHURN]).site = 19;
            }
            for (unsigned i = 0; i < 40; i++) {
                allocate(&w, POOL, 400);
                vec_last(&w.alive[POOL]).site = 20;
            }
            w.now += SECOND / 10;
            look(&w);
        }
        const struct leak_suspect *s = leaks_suspects(w.leaks, &n);
        for (size_t i = 0; i < n; i++)
            named[s[i].stack]++;
        others += leaks_find(w.leaks, 18) || leaks_find(w.leaks, 19) || leaks_find(w.leaks, 21);
        world_done(&w);
    }
    for (unsigned i = 10; i < 18; i++)
        CHECK(t, named[i] >= 7);
    CHECK(t, named[20] >= 9);
    CHECK_INT(t, others, 0);
}

static void what_stops_is_not_named_any_more(struct test *t)
{
    struct world w;

    world_init(&w, 5, &short_windows);
    for (unsigned tick = 0; tick < 150; tick++) {
        for (unsigned i = 0; i < 40; i++)
            allocate(&w, LEAK, 400);
        w.now += SECOND / 10;
        look(&w);
    }
    CHECK(t, leaks_find(w.leaks, LEAK) != NULL);
    for (unsigned tick = 0; tick < 21; tick++) {
        w.now += SECOND / 10;
        look(&w);
    }
    CHECK(t, leaks_find(w.leaks, LEAK) == NULL);
    world_done(&w);
}

/* A leak that begins when many other stacks have come and gone. */
static void stacks_that_are_gone_make_room(struct test *t)
{
    struct leaks_options o = {.window_ns = SECOND, .max_memory = 256 << 10};
    struct leaks *l = leaks_new(&o);
    uint64_t now = SECOND;
    size_t n;

    for (uint32_t round = 0; round < 40; round++, now += SECOND) {
        leaks_begin(l, now);
        for (uint32_t i = 0; round < 20 && i < 100; i++) /* others each time */
            leaks_add(l, 1000 + round * 100 + i, 4096, RATE, now - 1);
        for (uint32_t i = 0; round >= 20 && i < 10 * (round - 19); i++)
            leaks_add(l, 7, 100000, RATE, 20 * SECOND + i / 10 * SECOND + SECOND / 2);
        leaks_end(l);
    }
    CHECK_INT(t, leaks_unfollowed(l), 0);
    (void)leaks_suspects(l, &n);
    CHECK_INT(t, n, 1);
    CHECK(t, leaks_find(l, 7));
    leaks_free(l);
}

static void what_is_not_followed_is_counted(struct test *t)
{
    struct leaks_options o = {.window_ns = SECOND, .max_memory = 64 << 10};
    struct leaks *l = leaks_new(&o);

    leaks_begin(l, SECOND);
    for (uint32_t i = 0; i < 10000; i++)
        leaks_add(l, i, 4096, RATE, 1);
    leaks_end(l);
    uint64_t unfollowed = leaks_unfollowed(l);
    CHECK(t, unfollowed > 9000 && unfollowed < 10000);
    /* When they are gone, there is room for others. */
    leaks_begin(l, 2 * SECOND);
    leaks_end(l);
    leaks_begin(l, 3 * SECOND);
    for (uint32_t i = 20000; i < 20010; i++)
        leaks_add(l, i, 4096, RATE, 1);
    leaks_end(l);
    CHECK_INT(t, leaks_unfollowed(l), 0);
    leaks_free(l);
}

static void memory_is_bounded(struct test *t)
{
    struct leaks_options o = {.window_ns = SECOND, .max_memory = 64 << 10};
    struct leaks *l = leaks_new(&o);

    for (unsigned round = 0; round < 10; round++) {
        leaks_begin(l, (round + 1) * SECOND);
        for (uint32_t i = 0; i < 100000; i++)
            leaks_add(l, i * 977, 4096, RATE, round * SECOND + 1);
        leaks_end(l);
    }
    leaks_free(l);
    CHECK(t, true);
}

static const struct test_case cases[] = {
    TEST(the_leak_and_only_it_is_named),
    TEST(a_short_life_is_enough_when_steps_begin_short),
    TEST(verdicts_are_steady),
    TEST(a_leak_among_churn_of_the_same_stack_is_named),
    TEST(a_few_samples_are_no_proof),
    TEST(large_blocks_need_no_statistics),
    TEST(thin_stacks_are_judged_by_their_place),
    TEST(what_stops_is_not_named_any_more),
    TEST(stacks_that_are_gone_make_room),
    TEST(what_is_not_followed_is_counted),
    TEST(memory_is_bounded),
};
TEST_MAIN(cases)

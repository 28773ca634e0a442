#include <errno.h>
#include <math.h>
#include <signal.h>
#include <unistd.h>

#include "lib/test.h"
#include "preload/handover.h"
#include "preload/inside.h"

static void draws_are_exponential(struct test *t)
{
    static const uint32_t means[] = {1, 7, 4096, 512u << 10, UINT32_MAX};
    enum { N = 200000, PARTS = 20 };
    for (size_t m = 0; m < sizeof(means) / sizeof(means[0]); m++) {
        uint64_t random = 12345 + m;
        double sum = 0, mean = means[m];
        int parts[PARTS] = {0};
        for (int i = 0; i < N; i++) {
            double x = (double)sample_draw(&random, means[m]);
            sum += x;
            /* Rounded down, so a part of it is spread evenly again. */
            int part = (int)((1 - exp(-(x + 0.5) / mean)) * PARTS);
            parts[part < PARTS ? part : PARTS - 1]++;
        }
        /* The mean of a number that was rounded down is 1 / (exp(1 / mean) - 1). */
        double expected = 1 / expm1(1 / mean);
        CHECK(t, fabs(sum / N - expected) < 5 * mean / sqrt(N));
        if (means[m] < 1000)
            continue;
        double chi = 0;
        for (int i = 0; i < PARTS; i++)
            chi += pow(parts[i] - N / (double)PARTS, 2) / (N / (double)PARTS);
        CHECK(t, chi < 50); /* 19 degrees: more than this is one in ten thousand */
    }
}

static void seeds_lead_different_ways(struct test *t)
{
    uint64_t a = 1, b = 2;
    int same = 0;
    for (int i = 0; i < 1000; i++)
        same += sample_draw(&a, 1u << 30) == sample_draw(&b, 1u << 30);
    CHECK(t, same < 3);
}

static void weights_are_those_of_the_formula(struct test *t)
{
    static const uint64_t values[] = {1, 8, 100, 65536, 512u << 10, 100u << 20, 1ull << 40};
    static const uint32_t rates[] = {1, 64, 4096, 512u << 10, UINT32_MAX};
    for (size_t v = 0; v < sizeof(values) / sizeof(values[0]); v++) {
        for (size_t r = 0; r < sizeof(rates) / sizeof(rates[0]); r++) {
            double exact = (double)values[v] / -expm1(-(double)values[v] / rates[r]);
            double got = (double)sample_weight(values[v], rates[r]);
            CHECK(t, fabs(got - exact) < 1 + exact * 1e-8);
        }
    }
    CHECK_INT(t, sample_weight(77, 0), 77);
    CHECK_INT(t, sample_weight(0, 4096), 0);
}

/* Counts events as hooks do; what the samples stand for, in *ret. */
static void count_events(const uint64_t *sizes, size_t n, uint32_t rate, double ret[2])
{
    struct preload_thread *t = &preload_thread;
    t->alloc_left = 0;
    t->alloc_rate = 0;
    ret[0] = ret[1] = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t size = sizes[i] ? sizes[i] : 1;
        uint32_t drawn;
        if (!sample_count(&t->alloc_left, size) ||
            !sample_due(&t->alloc_left, &t->alloc_rate, size, rate, &drawn))
            continue;
        double p = -expm1(-(double)size / drawn);
        ret[0] += 1 / p;
        ret[1] += (double)sizes[i] / p;
    }
}

/* Over many seeds the mean of what samples stand for is the truth, and it scatters as it should. */
static void totals_are_unbiased_over_many_seeds(struct test *t)
{
    enum { SEEDS = 400, N = 3000 };
    static uint64_t sizes[N];
    static const uint32_t rates[] = {64, 4096, 65536};
    uint64_t random = 7;
    double objects = N, bytes = 0;
    for (size_t i = 0; i < N; i++) {
        uint64_t x = sample_draw(&random, 1000);
        sizes[i] = i % 10 == 0 ? 0 : i % 100 == 1 ? 40000 + x : x;
        bytes += (double)sizes[i];
    }
    for (size_t r = 0; r < sizeof(rates) / sizeof(rates[0]); r++) {
        double variance[2] = {0, 0}, sum[2] = {0, 0}, squares[2] = {0, 0};
        for (size_t i = 0; i < N; i++) {
            double s = (double)(sizes[i] ? sizes[i] : 1), q = exp(-s / rates[r]);
            variance[0] += q / (1 - q);
            variance[1] += (double)sizes[i] * (double)sizes[i] * q / (1 - q);
        }
        for (int seed = 1; seed <= SEEDS; seed++) {
            double got[2];
            preload_thread.random = (uint64_t)seed * 0x1234567;
            count_events(sizes, N, rates[r], got);
            double off[2] = {got[0] - objects, got[1] - bytes};
            for (int k = 0; k < 2; k++) {
                sum[k] += off[k];
                squares[k] += off[k] * off[k];
            }
        }
        for (int k = 0; k < 2; k++) {
            CHECK(t, fabs(sum[k] / SEEDS) < 4.5 * sqrt(variance[k] / SEEDS));
            /* Rare small ones make the scatter of objects itself scatter. */
            double ratio = squares[k] / SEEDS / variance[k];
            CHECK(t, ratio > 0.6 && ratio < 1.6);
        }
    }
}

static void another_rate_does_not_bias(struct test *t)
{
    struct preload_thread *me = &preload_thread;
    enum { EVENTS = 400000, SIZE = 100 };
    me->alloc_left = 0;
    me->alloc_rate = 0;
    me->random = 99;
    double total = 0, variance = 0;
    for (int i = 0; i < EVENTS; i++) {
        uint32_t wanted = i / 1000 % 2 ? 1000 : 20000, drawn;
        double q = exp(-(double)SIZE / 20000);
        variance += SIZE * SIZE * q / (1 - q); /* at most */
        if (sample_count(&me->alloc_left, SIZE) &&
            sample_due(&me->alloc_left, &me->alloc_rate, SIZE, wanted, &drawn))
            total += SIZE / -expm1(-(double)SIZE / drawn);
    }
    CHECK(t, fabs(total - (double)EVENTS * SIZE) < 4.5 * sqrt(variance));
}

static void huge_sizes_do_not_stop_the_count(struct test *t)
{
    struct preload_thread *me = &preload_thread;
    uint32_t rate;
    for (uint64_t size = UINT64_MAX - 3; size != 1; size++) {
        me->alloc_left = 1000;
        me->alloc_rate = 4096;
        CHECK(t, sample_count(&me->alloc_left, size ? size : 1) == (size > 1000));
        if (size > 1000)
            CHECK(t, sample_due(&me->alloc_left, &me->alloc_rate, size, 4096, &rate));
        CHECK(t, me->alloc_left < 1u << 20);
    }
}

/* From within: as a signal handler does, whose frame is not small. */
static __attribute__((noinline)) bool begins_further_in(void)
{
    volatile char frame[1024];
    frame[0] = 0;
    bool has_begun = sample_begin(PRELOAD_ALLOC);
    return has_begun || frame[0];
}

static void who_jumps_out_is_not_busy_for_ever(struct test *t)
{
    CHECK(t, begins_further_in());
    CHECK_INT(t, preload_thread.busy, 1); /* nobody has ended it */
    CHECK(t, sample_begin(PRELOAD_ALLOC));
    CHECK(t, !begins_further_in());
    sample_end();
    CHECK_INT(t, preload_thread.busy, 0);
    segment.header->lost[PRELOAD_LOSS_BUSY] = 0;
}

/* What a busy thread cannot sample are as many as it would have sampled: all are counted. */
static void refused_samples_keep_the_rate(struct test *t)
{
    enum { SIZE = 1000, EVENTS = 200000, RATE = 16384 };
    struct preload_thread *me = &preload_thread;
    uint64_t *lost = (uint64_t *)&segment.header->lost[PRELOAD_LOSS_BUSY];
    me->alloc_left = me->alloc_rate = 0;
    CHECK(t, sample_begin(PRELOAD_ALLOC));
    for (int i = 0; i < EVENTS; i++)
        if (sample_count(&me->alloc_left, SIZE)) {
            CHECK(t, !begins_further_in());
            sample_refused(PRELOAD_ALLOC, &me->alloc_left, &me->alloc_rate, RATE);
        }
    sample_end();
    double wanted = (double)SIZE * EVENTS / RATE;
    CHECK(t, fabs((double)*lost - wanted) < 6 * sqrt(wanted) + wanted * SIZE / RATE);
    CHECK_INT(t, me->alloc_rate, RATE);
    *lost = 0;
    CHECK(t, sample_begin(PRELOAD_LOCK));
    segment.header->wanted = PRELOAD_WANTS(PRELOAD_LOCK);
    CHECK(t, !begins_further_in()); /* what nobody wants is not lost */
    sample_refused(PRELOAD_ALLOC, &me->alloc_left, &me->alloc_rate, RATE);
    CHECK_INT(t, me->alloc_left, SAMPLE_ASK_AGAIN);
    CHECK_INT(t, *lost, 0);
    sample_end();
    segment.header->wanted = 0; /* this may last */
    CHECK(t, !sample_begin(PRELOAD_ALLOC));
    sample_refused(PRELOAD_ALLOC, &me->alloc_left, &me->alloc_rate, RATE);
    CHECK_INT(t, me->alloc_left, SAMPLE_ASK_AGAIN);
    CHECK_INT(t, me->alloc_rate, 0);
    segment.header->wanted = preload_settings.wanted;
}

static void samples_only_what_is_wanted(struct test *t)
{
    errno = 77;
    CHECK(t, sample_begin(PRELOAD_ALLOC));
    CHECK(t, sample_wants(PRELOAD_LIVE));
    CHECK(t, !begins_further_in()); /* a signal came */
    sample_end();
    CHECK_INT(t, errno, 77);
    CHECK_INT(t, segment.header->lost[PRELOAD_LOSS_BUSY], 1);
    CHECK_INT(t, preload_thread.tid, getpid());
    segment.header->wanted = PRELOAD_WANTS(PRELOAD_LOCK);
    CHECK(t, !sample_begin(PRELOAD_ALLOC));
    CHECK_INT(t, preload_thread.busy, 0);
    CHECK(t, sample_begin(PRELOAD_LOCK));
    sample_end();
    segment.header->wanted = 0;
    CHECK(t, !sample_begin(PRELOAD_LOCK));
    segment.header->wanted = preload_settings.wanted;
    CHECK(t, sample_begin(PRELOAD_ALLOC));
    sample_end();
}

static const struct test_case cases[] = {
    TEST(draws_are_exponential),
    TEST(seeds_lead_different_ways),
    TEST(weights_are_those_of_the_formula),
    TEST(totals_are_unbiased_over_many_seeds),
    TEST(another_rate_does_not_bias),
    TEST(huge_sizes_do_not_stop_the_count),
    TEST(who_jumps_out_is_not_busy_for_ever),
    TEST(refused_samples_keep_the_rate),
    TEST(samples_only_what_is_wanted),
};
TEST_MAIN(cases)

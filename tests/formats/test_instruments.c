#include <errno.h>

#include "lib/decode.h"

#define FORMAT (&format_instruments)

static const char old[] = "Running Time\tSelf (ms)\t\tSymbol Name\n"
                          "30.0ms   99.9%\t0\t \tstart\n"
                          "30.0ms   99.9%\t10\t \t main\n"
                          "20.0ms   49.7%\t20\t \t  delta()\n"
                          "1.0ms   49.7%\t1\t \t other\n"
                          "\n";
static const char new[] = "Weight\tSelf Weight\tSymbol Names\n"
                          "4.93 s  100.0%\t0 s\t   start\n"
                          "4.93 s  100.0%\t1.50 s\t    main\n"
                          "4.93 s  100.0%\t846.25 ms\t     delta()\n";

static void the_own_weight_of_each_line_is_a_sample(struct test *t)
{
    struct decoded d;
    decode_text(&d, NULL, old);
    CHECK_STR(t, d.err.text, "");
    CHECK_STR(t, d.format->name, "instruments");
    CHECK_INT(t, decoded_total(t, &d, "cpu", "nanoseconds"), 31000000);
    const struct profile *p = d.set->profiles.data[0];
    CHECK_INT(t, p->n_samples, 3);
    CHECK_STACK(t, p->dict, p->node[0], "start;main");
    CHECK_STACK(t, p->dict, p->node[1], "start;main;delta()");
    CHECK_STACK(t, p->dict, p->node[2], "start;other");
    decoded_done(t, &d);
    decode_text(&d, NULL, new);
    CHECK_INT(t, decoded_total(t, &d, "cpu", "nanoseconds"), 2346250000);
    decoded_done(t, &d);
}

static void weights_may_be_bytes_or_counts(struct test *t)
{
    struct decoded d;
    decode_text(&d, NULL, "Weight\tSelf Weight\tSymbol Names\n1 KB\t1.5 KB\tf\n");
    CHECK_INT(t, decoded_total(t, &d, "weight", "bytes"), 1536);
    decoded_done(t, &d);
    decode_text(&d, NULL, "Weight\tSelf Weight\tSymbol Names\n1\t7\tf\n");
    CHECK_INT(t, decoded_total(t, &d, "weight", "count"), 7);
    decoded_done(t, &d);
}

static void refuses_what_it_cannot_read_and_says_where(struct test *t)
{
#define HEAD "Weight\tSelf Weight\tSymbol Names\n"
    static const struct refusal cases[] = {
        {HEAD "x\n", "not a table of weight, self weight and symbol"},
        {HEAD "1 s\t1 s\n", "there is no symbol"},
        {HEAD "1 s\t1 s\t  \n", "there is no symbol"},
        {HEAD "1 s\tx\tf\n", "the self weight is not a number"},
        {HEAD "1 s\t1 parsec\tf\n", "the self weight has a unit that is not known"},
        {HEAD "1 s\t99999999999999 h\tf\n", "the self weight is too large"},
    };

    check_refusals(t, FORMAT, "instruments at line 2: ", cases, ARRAY_SIZE(cases));
    struct decoded d;
    decode_text(&d, FORMAT, HEAD "1 s\t1 s\tf\n1 s\t1 KB\tg\n");
    CHECK_STR(t, d.err.text,
              "test: instruments at line 3: the self weight is of another kind than those above");
    decoded_done(t, &d);
}

static void survives_running_out_of_memory_anywhere(struct test *t)
{
    check_budget_sweep(t, FORMAT, bytes_of(old), 211);
}

static void survives_being_cut_anywhere(struct test *t)
{
    check_truncation(t, FORMAT, bytes_of(new));
}

static const struct test_case cases[] = {
    TEST(the_own_weight_of_each_line_is_a_sample),
    TEST(weights_may_be_bytes_or_counts),
    TEST(refuses_what_it_cannot_read_and_says_where),
    TEST(survives_running_out_of_memory_anywhere),
    TEST(survives_being_cut_anywhere),
};
TEST_MAIN(cases)

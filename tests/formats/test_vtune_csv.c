#include <errno.h>

#include "lib/decode.h"

#define FORMAT (&format_vtune_csv)
#define HEAD   "Function Stack,CPU Time:Self,Module\n"

static const char simple[] = HEAD "Total,0.0,[Unknown]\n"
                                  " start,0.5,ntdll.dll\n"
                                  "  \"std::f<a, b>\",0.25,x.exe\n"
                                  " other,0.125,[Unknown]\n";

static void seconds_of_each_function_are_a_sample(struct test *t)
{
    struct decoded d;
    decode_text(&d, NULL, simple);
    CHECK_STR(t, d.err.text, "");
    CHECK_STR(t, d.format->name, "vtune-csv");
    CHECK_INT(t, decoded_total(t, &d, "cpu", "nanoseconds"), 875000000);
    const struct profile *p = d.set->profiles.data[0];
    CHECK_INT(t, p->n_samples, 3);
    CHECK_STACK(t, p->dict, p->node[1], "start;std::f<a, b>");
    CHECK_STACK(t, p->dict, p->node[2], "other");
    decoded_done(t, &d);
    decode_text(&d, NULL, "Function Stack,CPU Time\n\"f\",1\n\n");
    CHECK_INT(t, decoded_total(t, &d, "cpu", "nanoseconds"), 1000000000);
    decoded_done(t, &d);
}

static void refuses_what_it_cannot_read_and_says_where(struct test *t)
{
    static const struct refusal cases[] = {
        {"Function Stack,Module\n", "VTune CSV at line 1: there is no column \"CPU Time:Self\""},
        {HEAD "f,x,m\n", "VTune CSV at line 2: the time is not a number of seconds"},
        {HEAD "f\n", "VTune CSV at line 2: the time is not a number of seconds"},
        {HEAD "f,-1,m\n", "VTune CSV at line 2: the time is not a number of seconds"},
        {HEAD "f,nan,m\n", "VTune CSV at line 2: the time is not a number of seconds"},
        {HEAD "f,1e30,m\n", "VTune CSV at line 2: the time is not a number of seconds"},
        {HEAD " f,1,m\n", "VTune CSV at line 2: a function is too far to the right"},
    };

    check_refusals(t, FORMAT, "", cases, ARRAY_SIZE(cases));
}

static void survives_running_out_of_memory_anywhere(struct test *t)
{
    check_budget_sweep(t, FORMAT, bytes_of(simple), 211);
}

static void survives_being_cut_anywhere(struct test *t)
{
    check_truncation(t, FORMAT, bytes_of(simple));
}

static const struct test_case cases[] = {
    TEST(seconds_of_each_function_are_a_sample),
    TEST(refuses_what_it_cannot_read_and_says_where),
    TEST(survives_running_out_of_memory_anywhere),
    TEST(survives_being_cut_anywhere),
};
TEST_MAIN(cases)

#include <errno.h>

#include "lib/decode.h"

#define FORMAT (&format_macos_sample)
#define HEAD                                                                                       \
    "Analysis of sampling rg (pid 64751) every 2 milliseconds\nProcess: rg\n\nCall graph:\n"

static const char simple[] = HEAD "    10 Thread_1   DispatchQueue_1: main  (serial)\n"
                                  "    + 10 start  (in libdyld.dylib) + 1  [0x7fff737cf3d5]\n"
                                  "    +   6 main  (in rg) + 41  [0x10384b549]\n"
                                  "    +   ! 2 leaf  (in rg) + 41  [0x10384b550]\n"
                                  "    +   3 ???  (in rg)  load address 0x1 + 0x2  [0x10384b560]\n"
                                  "    5 Thread_2\n"
                                  "      5 start\n"
                                  "\n"
                                  "Total number in stack (recursive counted multiple, when >=5):\n"
                                  "        12 whatever\n";

static void what_callees_do_not_have_is_a_functions_own(struct test *t)
{
    struct decoded d;
    decode_text(&d, NULL, simple);
    CHECK_STR(t, d.err.text, "");
    CHECK_STR(t, d.format->name, "macos-sample");
    CHECK_INT(t, decoded_total(t, &d, "samples", "count"), 15);
    CHECK_INT(t, decoded_total(t, &d, "wall", "nanoseconds"), 30000000);
    const struct profile *p = d.set->profiles.data[0];
    CHECK_INT(t, p->n_samples, 5);
    CHECK_STACK(t, p->dict, p->node[0], "start;main;leaf");
    CHECK_INT(t, p->values[0][1], 4);
    CHECK_STACK(t, p->dict, p->node[2], "start;0x10384b560");
    CHECK_STACK(t, p->dict, p->node[4], "start");
    CHECK(t, p->attrs[4] != p->attrs[3]);
    decoded_done(t, &d);
}

static void refuses_what_it_cannot_read_and_says_where(struct test *t)
{
    static const struct refusal cases[] = {
        {"Analysis of sampling\n", "macOS sample at line 1: there is no call graph"},
        {HEAD "nonsense\n", "macOS sample at line 5: not \"count function\""},
        {HEAD "    5\n", "macOS sample at line 5: not \"count function\""},
        {HEAD "  99999999999999 Thread_1\n", "macOS sample at line 5: the count is too large"},
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
    TEST(what_callees_do_not_have_is_a_functions_own),
    TEST(refuses_what_it_cannot_read_and_says_where),
    TEST(survives_running_out_of_memory_anywhere),
    TEST(survives_being_cut_anywhere),
};
TEST_MAIN(cases)

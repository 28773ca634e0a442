#include <errno.h>

#include "lib/decode.h"

#define FORMAT (&format_pmcstat)

static const char simple[] = "@ inst_retired.any [100 samples]\n"
                             "\n"
                             "50.00%  [60]     leaf @ /boot/kernel/zfs.ko\n"
                             " 50.62%  [40]      caller1\n"
                             "  50.62%  [40]      main @ /bin/x\n"
                             " 10.00%  [15]      caller2\n"
                             "\n"
                             "10.00%  [10]     alone @ /bin/x\n"
                             "@ cycles [5 samples]\n"
                             "10.00%  [5]     alone @ /bin/x\n";

static void stacks_end_where_no_caller_follows(struct test *t)
{
    struct decoded d;
    decode_text(&d, NULL, simple);
    CHECK_STR(t, d.err.text, "");
    CHECK_STR(t, d.format->name, "pmcstat");
    CHECK_INT(t, decoded_total(t, &d, "inst_retired.any", "count"), 65);
    CHECK_INT(t, decoded_total(t, &d, "cycles", "count"), 5);
    const struct profile *p = d.set->profiles.data[0];
    CHECK_INT(t, p->n_samples, 4);
    CHECK_STACK(t, p->dict, p->node[0], "main;caller1;leaf");
    CHECK_STR(t, leaf_type(p->dict, p->node[0]), "kernel");
    CHECK_STACK(t, p->dict, p->node[1], "caller2;leaf");
    CHECK_STR(t, leaf_type(p->dict, p->node[2]), "native");
    CHECK(t, has_note(&d, "5 samples have callers that pmcstat did not list"));
    CHECK_STR(t, dict_cstr(p->dict, p->default_type), "inst_retired.any");
    decoded_done(t, &d);
}

static void refuses_what_it_cannot_read_and_says_where(struct test *t)
{
    static const struct refusal cases[] = {
        {"@ e\n", "pmcstat at line 1: an event without its number of samples"},
        {"50% [1] f\n", "pmcstat at line 1: not \"percent [samples] function\""},
        {"@ e [1 samples]\n50% [x] f\n", "pmcstat at line 2: not \"percent [samples] function\""},
        {"@ e [1 samples]\n50% ]1[ f\n", "pmcstat at line 2: not \"percent [samples] function\""},
        {"@ e [1 samples]\n50 [1] f\n", "pmcstat at line 2: not \"percent [samples] function\""},
        {"@ e [1 samples]\n50% [1] \n", "pmcstat at line 2: a line without a function"},
        {"@ e [1 samples]\n 50% [1] f\n", "pmcstat at line 2: a caller is too far to the right"},
        {"@ e [1 samples]\n5% [9223372036854775807] f\n 5% [9223372036854775807] g\n 5% [1] h\n",
         "pmcstat at line 4: the callers of a function have too many samples"},
    };

    check_refusals(t, FORMAT, "", cases, ARRAY_SIZE(cases));
    CLEANUP(buf_done) struct buf many = {0};
    for (int i = 0; i < 65; i++)
        buf_addf(&many, "@ e%d [1 samples]\n", i);
    struct decoded d;
    decode_bytes(&d, FORMAT, buf_bytes(&many), 1 << 22);
    CHECK_STR(t, d.err.text, "test: pmcstat at line 65: more than 64 events");
    decoded_done(t, &d);
    CHECK_INT(t, format_pmcstat.sniff(BYTES("")), 0);
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
    TEST(stacks_end_where_no_caller_follows),
    TEST(refuses_what_it_cannot_read_and_says_where),
    TEST(survives_running_out_of_memory_anywhere),
    TEST(survives_being_cut_anywhere),
};
TEST_MAIN(cases)

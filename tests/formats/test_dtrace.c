#include <errno.h>

#include "lib/decode.h"

#define FORMAT (&format_dtrace)

static const char simple[] = "CPU     ID                    FUNCTION:NAME\n"
                             " 30  76446                       :tick-10ms \n"
                             "\n"
                             "              genunix`fop_write+0x5d\n"
                             "              unix`sys_syscall+0x17d\n"
                             "\n"
                             "              libc.so.1`__pwrite+0xa\n"
                             "              0x7f3\n"
                             "                3\n"
                             "\n"
                             "              libc.so.1`operator+\n"
                             "                4\n";

static void kernel_and_user_frames_are_one_stack(struct test *t)
{
    struct decoded d;
    decode_text(&d, NULL, simple);
    CHECK_STR(t, d.err.text, "");
    CHECK_STR(t, d.format->name, "dtrace");
    CHECK_INT(t, decoded_total(t, &d, "samples", "count"), 7);
    const struct profile *p = d.set->profiles.data[0];
    CHECK_STACK(t, p->dict, p->node[0], "0x7f3;__pwrite;sys_syscall;fop_write");
    CHECK_STR(t, leaf_type(p->dict, p->node[0]), "kernel");
    CHECK_STACK(t, p->dict, p->node[1], "operator+");
    CHECK_STR(t, leaf_type(p->dict, p->node[1]), "");
    decoded_done(t, &d);
    decode_text(&d, NULL, "  a`b+0x1\n  a`c+0x1\n  a`d+0x1\n  5\n");
    CHECK_STR(t, d.format->name, "dtrace");
    CHECK_INT(t, decoded_total(t, &d, "samples", "count"), 5);
    decoded_done(t, &d);
}

static void refuses_what_it_cannot_read_and_says_where(struct test *t)
{
    struct decoded d;
    decode_text(&d, FORMAT, "  a`b\n");
    CHECK_STR(t, d.err.text, "test: dtrace at line 1: a stack without its count");
    decoded_done(t, &d);
    decode_text(&d, FORMAT, "\n");
    CHECK_STR(t, d.err.text, "test: dtrace at line 1: there is no stack");
    decoded_done(t, &d);
    decode_bytes(&d, FORMAT, BYTES("  a\0b\n"), 1 << 22);
    CHECK_STR(t, d.err.text, "test: dtrace at line 1: a NUL byte; this is not text");
    decoded_done(t, &d);
    CHECK_INT(t, format_dtrace.sniff(BYTES("  a`b\n  c\n")), 0);
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
    TEST(kernel_and_user_frames_are_one_stack),
    TEST(refuses_what_it_cannot_read_and_says_where),
    TEST(survives_running_out_of_memory_anywhere),
    TEST(survives_being_cut_anywhere),
};
TEST_MAIN(cases)

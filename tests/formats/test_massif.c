#include <errno.h>

#include "lib/decode.h"

#define FORMAT (&format_massif)
#define HEAD   "desc: (none)\ncmd: ./work 1\ntime_unit: i\n#-----------\n"

static const char simple[] =
    HEAD "snapshot=0\n#-----------\ntime=0\nmem_heap_B=900\nmem_heap_extra_B=0\n"
         "heap_tree=detailed\nn0: 900 (heap allocation functions) malloc/new/new[]\n"
         "#-----------\nsnapshot=1\n#-----------\nmem_heap_B=100\nheap_tree=peak\n"
         "n2: 100 (heap allocation functions) malloc/new/new[], --alloc-fns, etc.\n"
         " n2: 90 0x1095DE: ins (work.c:21)\n"
         "  n0: 60 0x1095AF: main (work.c:30)\n"
         "  n0: 30 in 2 places, all below massif's threshold (1.00%)\n"
         " n0: 10 in 1 place, below massif's threshold (1.00%)\n"
         "#-----------\nsnapshot=2\n#-----------\nmem_heap_B=50\nheap_tree=empty\n";

static void the_peak_snapshot_is_the_profile(struct test *t)
{
    struct decoded d;
    decode_text(&d, NULL, simple);
    CHECK_STR(t, d.err.text, "");
    CHECK_STR(t, d.format->name, "massif");
    CHECK_INT(t, decoded_total(t, &d, "inuse_space", "bytes"), 100);
    const struct profile *p = d.set->profiles.data[0];
    CHECK_INT(t, p->n_samples, 3);
    CHECK_STACK(t, p->dict, p->node[0], "main;ins");
    CHECK_STACK(t, p->dict, p->node[1], "ins");
    CHECK_STACK(t, p->dict, p->node[2], "");
    CHECK_STR(t, dict_cstr(p->dict, p->comments.data[0]), "./work 1");
    CHECK(t, has_note(&d, "3 snapshots, 2 of them with stacks; this is snapshot 1, the peak"));
    decoded_done(t, &d);
}

static void without_a_peak_the_largest_snapshot_counts(struct test *t)
{
    struct decoded d;
    decode_text(&d, NULL,
                HEAD "snapshot=0\nmem_heap_B=5\nheap_tree=detailed\nn0: 5 (heap)\n"
                     "snapshot=1\nmem_heap_B=9\nheap_tree=detailed\nn0: 9 (heap)\n"
                     "snapshot=2\nmem_heap_B=7\nheap_tree=detailed\nn0: 7 (heap)\n");
    CHECK_INT(t, decoded_total(t, &d, "inuse_space", "bytes"), 9);
    CHECK(t, has_note(&d, "snapshot 1, the largest with stacks"));
    decoded_done(t, &d);
    decode_text(&d, NULL, HEAD "snapshot=0\nmem_heap_B=5\nheap_tree=empty\n");
    CHECK_INT(t, decoded_total(t, &d, "inuse_space", "bytes"), 0);
    CHECK(t, has_note(&d, "1 snapshots, none of them with stacks"));
    decoded_done(t, &d);
}

static void refuses_what_it_cannot_read_and_says_where(struct test *t)
{
    static const struct refusal cases[] = {
        {HEAD, "massif at line 4: there is no snapshot"},
        {HEAD "nonsense\n", "massif at line 5: neither a key nor a snapshot"},
        {HEAD "heap_tree=peak\nn1: 5 (x)\n", "massif at line 6: a heap tree is cut short"},
        {HEAD "heap_tree=peak\nm1: 5 (x)\n", "massif at line 6: not a line of a heap tree"},
        {HEAD "heap_tree=peak\nnx: 5 (x)\n", "massif at line 6: not a line of a heap tree"},
        {HEAD "heap_tree=peak\nn1: x (x)\n", "massif at line 6: a heap tree line has no size"},
        {HEAD "heap_tree=peak\nn1: 5\n", "massif at line 6: a heap tree line has no size"},
        {HEAD "heap_tree=peak\nn1: 5 (x)\n  n0: 5 0x1: f (a.c:1)\n",
         "massif at line 7: a heap tree line is too far to the right"},
        {HEAD "heap_tree=peak\nn18446744073709551615: 5 (x)\n n5: 5 y\n",
         "massif at line 7: too many callers"},
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
    TEST(the_peak_snapshot_is_the_profile),
    TEST(without_a_peak_the_largest_snapshot_counts),
    TEST(refuses_what_it_cannot_read_and_says_where),
    TEST(survives_running_out_of_memory_anywhere),
    TEST(survives_being_cut_anywhere),
};
TEST_MAIN(cases)

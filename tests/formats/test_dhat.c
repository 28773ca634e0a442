#include <errno.h>

#include "lib/decode.h"

#define FORMAT (&format_dhat)

static const char simple[] =
    "{\"dhatFileVersion\":2,\"mode\":\"heap\",\"verb\":\"Allocated\",\"cmd\":\"./work\",\"pid\":5,"
    "\"pps\":[{\"tb\":100,\"tbk\":2,\"tl\":9,\"mb\":1,\"gb\":50,\"gbk\":1,\"eb\":7,\"ebk\":1,"
    "\"rb\":3,\"wb\":4,\"acc\":[-8,1],\"fs\":[1,2,3]},{\"tb\":11,\"tbk\":1,\"fs\":[0]}],"
    "\"ftbl\":[\"[root]\",\"0x48: malloc (in /lib/x.so)\",\"0x10: f (a.c:7)\","
    "\"0x20: core::g<T> (src/a.rs:8:9)\"]}";

static void program_points_are_samples_with_every_sum(struct test *t)
{
    struct decoded d;
    decode_text(&d, NULL, simple);
    CHECK_STR(t, d.err.text, "");
    CHECK_STR(t, d.format->name, "dhat");
    CHECK_INT(t, decoded_total(t, &d, "alloc_space", "bytes"), 111);
    CHECK_INT(t, decoded_total(t, &d, "alloc_objects", "count"), 3);
    CHECK_INT(t, decoded_total(t, &d, "peak_space", "bytes"), 50);
    CHECK_INT(t, decoded_total(t, &d, "inuse_space", "bytes"), 7);
    CHECK_INT(t, decoded_total(t, &d, "written_space", "bytes"), 4);
    const struct profile *p = d.set->profiles.data[0];
    CHECK_STR(t, dict_cstr(p->dict, p->default_type), "alloc_space");
    CHECK_STACK(t, p->dict, p->node[0], "core::g<T>;f;malloc");
    CHECK_STACK(t, p->dict, p->node[1], "");
    const struct location *l =
        &p->dict->locations
             .data[p->dict->node_location.data[p->dict->node_parent.data[p->node[0]]]];
    CHECK_INT(t, l->address, 0x10);
    CHECK_INT(t, p->dict->lines.data[l->first_line].line, 7);
    decoded_done(t, &d);
}

static void other_modes_count_units(struct test *t)
{
    struct decoded d;
    decode_text(&d, NULL,
                "{\"dhatFileVersion\":2,\"mode\":\"ad-hoc\",\"pps\":[{\"tb\":5,\"tbk\":2,"
                "\"fs\":[1]}],\"ftbl\":[\"[root]\",\"0x1: ???\"]}");
    CHECK_INT(t, decoded_total(t, &d, "alloc_space", "units"), 5);
    decoded_done(t, &d);
}

static void refuses_what_contradicts_itself(struct test *t)
{
    static const struct refusal cases[] = {
        {"{}", "dhat: there is no dhatFileVersion"},
        {"{\"dhatFileVersion\":3}", "dhat at byte 20: version 3 of the format is not known"},
        {"{\"dhatFileVersion\":2,\"pps\":[{\"fs\":[1]}],\"ftbl\":[\"\"]}",
         "dhat: program point 0 has frame 1 of a table of 1"},
        {"{\"dhatFileVersion\":2,\"pps\":[{\"fs\":[4294967296]}]}",
         "dhat at byte 45: a frame index is too large"},
    };

    check_refusals(t, FORMAT, "", cases, ARRAY_SIZE(cases));
}

static void survives_running_out_of_memory_anywhere(struct test *t)
{
    check_budget_sweep(t, FORMAT, bytes_of(simple), 503);
}

static void survives_being_cut_anywhere(struct test *t)
{
    check_truncation(t, FORMAT, bytes_of(simple));
}

static const struct test_case cases[] = {
    TEST(program_points_are_samples_with_every_sum),
    TEST(other_modes_count_units),
    TEST(refuses_what_contradicts_itself),
    TEST(survives_running_out_of_memory_anywhere),
    TEST(survives_being_cut_anywhere),
};
TEST_MAIN(cases)

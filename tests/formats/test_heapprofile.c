#include <errno.h>

#include "lib/decode.h"

#define FORMAT (&format_heapprofile)

static const char heap[] =
    "{\"head\":{\"callFrame\":{\"functionName\":\"(root)\",\"lineNumber\":-1},\"selfSize\":16,"
    "\"id\":1,\"children\":[{\"callFrame\":{\"functionName\":\"f\",\"url\":\"a.js\","
    "\"lineNumber\":1,\"columnNumber\":2},\"selfSize\":0,\"id\":2,\"children\":[{\"callFrame\":"
    "{\"functionName\":\"g\"},\"selfSize\":100,\"id\":3,\"children\":[]}]}]},"
    "\"samples\":[{\"size\":50,\"nodeId\":3,\"ordinal\":1},{\"size\":50,\"nodeId\":3},"
    "{\"size\":7,\"nodeId\":99}]}";

static void adds_up_what_is_in_use(struct test *t)
{
    struct decoded d;
    decode_text(&d, NULL, heap);
    CHECK_INT(t, d.r, 0);
    CHECK_STR(t, d.format->name, "heapprofile");
    const struct profile *p = d.set->profiles.data[0];
    CHECK_INT(t, p->n_samples, 2);
    CHECK_INT(t, decoded_total(t, &d, "inuse_space", "bytes"), 116);
    CHECK_INT(t, decoded_total(t, &d, "samples", "count"), 2);
    CHECK_STACK(t, p->dict, p->node[0], "(root)");
    CHECK_STACK(t, p->dict, p->node[1], "(root);f;g");
    CHECK_INT(t, p->values[1][1], 100);
    CHECK(t, has_note(&d, "1 samples of 7 bytes name nodes that are not in the tree"));
    decoded_done(t, &d);
}

static void needs_neither_ids_nor_samples(struct test *t)
{
    struct decoded d;
    decode_text(&d, NULL,
                "{\"head\":{\"selfSize\":3,\"callFrame\":{\"functionName\":\"x\"},\"children\":["
                "{\"selfSize\":4,\"callFrame\":{\"functionName\":\"y\"},\"children\":[]}]},"
                "\"other\":1}");
    CHECK_INT(t, d.r, 0);
    CHECK_INT(t, d.set->profiles.data[0]->n_types, 1);
    CHECK_INT(t, decoded_total(t, &d, "inuse_space", "bytes"), 7);
    CHECK_STACK(t, d.set->dict, d.set->profiles.data[0]->node[1], "x;y");
    decoded_done(t, &d);
}

static void reads_trees_as_deep_as_v8_makes_them(struct test *t)
{
    struct buf text = {0};
    const int depth = 500;

    buf_add_byte(&text, '{');
    for (int i = 0; i < depth; i++)
        buf_addf(&text, "%s{\"selfSize\":1,\"callFrame\":{\"functionName\":\"f%d\"},\"children\":[",
                 i ? "" : "\"head\":", i);
    for (int i = 0; i < depth; i++)
        buf_add_str(&text, "]}");
    buf_add_byte(&text, '}');
    struct decoded d;
    decode_bytes(&d, FORMAT, buf_bytes(&text), (size_t)1 << 24);
    CHECK_INT(t, d.r, 0);
    CHECK_INT(t, decoded_total(t, &d, "inuse_space", "bytes"), depth);
    CHECK_INT(t, dict_n_nodes(d.set->dict), depth + 1);
    decoded_done(t, &d);
    buf_done(&text);
}

static void refuses_what_is_no_heap_profile_and_says_where(struct test *t)
{
    static const struct refusal wrong[] = {
        {"{}", "heapprofile at byte 2: there is no \"head\""},
        {"{\"head\":1}", "heapprofile at byte 8: an object was expected and a number was found"},
        {"{\"head\":{\"selfSize\":-5}}",
         "heapprofile at byte 22: a node has a negative count or size"},
        {"{\"head\":{\"id\":1,\"children\":[{\"id\":1}]}}",
         "heapprofile at byte 35: node id 1 is given twice"},
        {"{\"head\":{\"id\":1,\"parent\":1}}", "heapprofile at byte 8: a node is below itself"},
        {"{\"head\":{\"id\":1},\"samples\":[{\"nodeId\":[]}]}",
         "heapprofile at byte 38: a number was expected and an array was found"},
        {"{\"head\":{}} x", "heapprofile at byte 12: something follows the end of the document"},
    };

    check_refusals(t, FORMAT, "", wrong, ARRAY_SIZE(wrong));
}

static void knows_its_files_by_their_content(struct test *t)
{
    CHECK(t, FORMAT->sniff(BYTES("{\"head\":{\"selfSize\":")) > 0);
    CHECK(t, FORMAT->sniff(BYTES("{\"samples\":[],\"head\": {\"callFrame\":")) > 0);
    CHECK_INT(t, FORMAT->sniff(BYTES("{\"head\":{\"functionName\":\"x\"")), 0);
    CHECK_INT(t, FORMAT->sniff(BYTES("{\"nodes\":[]}")), 0);
}

static void survives_running_out_of_memory_anywhere(struct test *t)
{
    check_budget_sweep(t, FORMAT, BYTES(heap), 61);
}

static void survives_being_cut_anywhere(struct test *t)
{
    check_truncation(t, FORMAT, BYTES(heap));
}

static const struct test_case cases[] = {
    TEST(adds_up_what_is_in_use),
    TEST(needs_neither_ids_nor_samples),
    TEST(reads_trees_as_deep_as_v8_makes_them),
    TEST(refuses_what_is_no_heap_profile_and_says_where),
    TEST(knows_its_files_by_their_content),
    TEST(survives_running_out_of_memory_anywhere),
    TEST(survives_being_cut_anywhere),
};
TEST_MAIN(cases)

#include <errno.h>

#include "lib/decode.h"

#define FORMAT (&format_cpuprofile)

#define ROOT                                                                                       \
    "{\"id\":1,\"callFrame\":{\"functionName\":\"(root)\",\"url\":\"\"},\"children\":[2,4]}"
#define MAIN                                                                                       \
    "{\"id\":2,\"callFrame\":{\"functionName\":\"main\",\"scriptId\":\"7\",\"url\":\"file:///"     \
    "a.js\","                                                                                      \
    "\"lineNumber\":9,\"columnNumber\":4},\"hitCount\":1,\"children\":[3]}"
#define ANONYMOUS                                                                                  \
    "{\"id\":3,\"callFrame\":{\"functionName\":\"\",\"url\":\"file:///lib/"                        \
    "b.js\",\"lineNumber\":0,"                                                                     \
    "\"columnNumber\":0},\"hitCount\":4,\"positionTicks\":[{\"line\":3,\"ticks\":3},"              \
    "{\"line\":5,\"ticks\":1}]}"
#define IDLE "{\"id\":4,\"callFrame\":{\"functionName\":\"(idle)\",\"lineNumber\":-1}}"

static const char modern[] =
    "{\"nodes\":[" ROOT "," MAIN "," ANONYMOUS "," IDLE "],\"startTime\":1000,\"endTime\":1100,"
    "\"samples\":[2,3,3,4,3,3],\"timeDeltas\":[10,20,5,5,30,4],\"extra\":[{}]}";

static void a_sample_lasts_until_the_next_one(struct test *t)
{
    static const int64_t want[] = {20000, 5000, 5000, 30000, 4000, 0};
    static const int64_t times[] = {1010000, 1030000, 1035000, 1040000, 1070000, 1074000};
    struct decoded d;
    decode_text(&d, NULL, modern);
    CHECK_INT(t, d.r, 0);
    CHECK_STR(t, d.format->name, "cpuprofile");
    const struct profile *p = d.set->profiles.data[0];
    CHECK_INT(t, p->n_samples, 6);
    for (size_t i = 0; i < 6; i++) {
        CHECK_INT(t, p->values[0][i], 1);
        CHECK_INT(t, p->values[1][i], want[i]);
        CHECK_INT(t, p->time_ns[i], times[i]);
    }
    CHECK_INT(t, decoded_total(t, &d, "samples", "count"), 6);
    CHECK_INT(t, decoded_total(t, &d, "cpu", "nanoseconds"), 64000);
    CHECK_INT(t, p->time_unix_ns, 0);
    CHECK_INT(t, p->duration_ns, 100000);
    CHECK_STACK(t, p->dict, p->node[0], "main");
    CHECK_STACK(t, p->dict, p->node[1], "main;(anonymous b.js:1)");
    CHECK_STACK(t, p->dict, p->node[3], "(idle)");
    CHECK_STR(t, leaf_type(p->dict, p->node[0]), "v8js");
    CHECK(t, has_note(&d, "times are those of a clock of the process"));
    decoded_done(t, &d);
}

static const struct line *leaf_line(const struct dict *d, uint32_t node)
{
    return &d->lines.data[d->locations.data[d->node_location.data[node]].first_line];
}

static void keeps_places_and_counts_them_from_one(struct test *t)
{
    struct decoded d;
    decode_text(&d, FORMAT, modern);
    const struct profile *p = d.set->profiles.data[0];
    const struct line *l = leaf_line(p->dict, p->node[0]);
    CHECK_INT(t, l->line, 10);
    CHECK_INT(t, l->column, 5);
    CHECK_INT(t, p->dict->functions.data[l->function].start_line, 10);
    CHECK_STR(t, dict_cstr(p->dict, p->dict->functions.data[l->function].file), "file:///a.js");
    CHECK_INT(t, leaf_line(p->dict, p->node[3])->line, 0);
    decoded_done(t, &d);
}

static void spreads_samples_over_lines_as_often_as_each_was_seen(struct test *t)
{
    struct decoded d;
    int on_line_3 = 0, on_line_5 = 0;
    decode_text(&d, FORMAT, modern);
    const struct profile *p = d.set->profiles.data[0];
    for (size_t i = 0; i < p->n_samples; i++) {
        on_line_3 += leaf_line(p->dict, p->node[i])->line == 3;
        on_line_5 += leaf_line(p->dict, p->node[i])->line == 5;
    }
    CHECK_INT(t, on_line_3, 3);
    CHECK_INT(t, on_line_5, 1);
    decoded_done(t, &d);
}

static void a_sample_out_of_order_cuts_the_one_before_short(struct test *t)
{
    static const char text[] =
        "{\"nodes\":[" ROOT "," MAIN ",{\"id\":3}," IDLE "],\"samples\":[2,2,4,2,2,4,4],"
        "\"timeDeltas\":[10,10,-5,15,-50,55,1],\"startTime\":0,\"endTime\":40}";
    /* Raw times: 10 20 15 30 -20 35 36. */
    static const int64_t want[] = {5000, 0, 15000, 0, 5000, 1000, 0};
    struct decoded d;
    decode_text(&d, FORMAT, text);
    CHECK_INT(t, d.r, 0);
    const struct profile *p = d.set->profiles.data[0];
    for (size_t i = 0; i < 7; i++)
        CHECK_INT(t, p->values[1][i], want[i]);
    CHECK_INT(t, decoded_total(t, &d, "cpu", "nanoseconds"), 26000);
    decoded_done(t, &d);
}

static const char old[] =
    "{\"head\":{\"functionName\":\"(root)\",\"url\":\"\",\"lineNumber\":-1,\"id\":1,\"hitCount\":0,"
    "\"children\":[{\"functionName\":\"f\",\"url\":\"x.js\",\"lineNumber\":4,\"id\":2,"
    "\"hitCount\":2,\"lineTicks\":null,\"children\":[{\"functionName\":\"g\",\"id\":3,"
    "\"children\":null}]}]},\"startTime\":5,\"endTime\":5,\"samples\":[2,3,1],"
    "\"timestamps\":[5000010,5000030,5000031,5000040]}";

static void reads_the_old_form_with_a_tree_and_timestamps(struct test *t)
{
    struct decoded d;
    decode_text(&d, NULL, old);
    CHECK_INT(t, d.r, 0);
    CHECK_STR(t, d.format->name, "cpuprofile");
    const struct profile *p = d.set->profiles.data[0];
    CHECK_INT(t, p->n_samples, 3);
    CHECK_INT(t, decoded_total(t, &d, "cpu", "nanoseconds"), 21000);
    CHECK_INT(t, p->time_unix_ns, 0);
    CHECK_INT(t, p->duration_ns, 31000);
    CHECK_STACK(t, p->dict, p->node[0], "f");
    CHECK_STACK(t, p->dict, p->node[1], "f;g");
    CHECK_STACK(t, p->dict, p->node[2], "(root)");
    CHECK(t, has_note(&d, "1 timestamps behind the last sample were left out"));
    decoded_done(t, &d);
}

static void counts_hits_where_there_are_no_samples(struct test *t)
{
    struct decoded d;
    decode_text(&d, NULL, "{\"nodes\":[" ROOT "," MAIN "," ANONYMOUS ",{\"id\":4}]}");
    CHECK_INT(t, d.r, 0);
    const struct profile *p = d.set->profiles.data[0];
    CHECK_INT(t, p->n_types, 1);
    CHECK_INT(t, p->n_samples, 3);
    CHECK_INT(t, decoded_total(t, &d, "samples", "count"), 5);
    CHECK_INT(t, p->values[0][1], 3);
    CHECK_INT(t, leaf_line(p->dict, p->node[1])->line, 3);
    decoded_done(t, &d);

    /* Hits beyond the ticks are on no known line. */
    decode_text(&d, NULL,
                "{\"nodes\":[{\"id\":1,\"callFrame\":{\"functionName\":\"f\"},\"hitCount\":5,"
                "\"positionTicks\":[{\"line\":2,\"ticks\":3},{\"line\":0,\"ticks\":9},"
                "{\"column\":1}]}]}");
    CHECK_INT(t, d.r, 0);
    CHECK_INT(t, decoded_total(t, &d, "samples", "count"), 5);
    CHECK_INT(t, d.set->profiles.data[0]->n_samples, 2);
    decoded_done(t, &d);
}

static void reads_samples_that_have_no_times(struct test *t)
{
    struct decoded d;
    decode_text(&d, NULL,
                "{\"samples\":[2,3],\"nodes\":[" ROOT "," MAIN "," ANONYMOUS "," IDLE "]}");
    CHECK_INT(t, d.r, 0);
    CHECK_INT(t, d.set->profiles.data[0]->n_types, 1);
    CHECK_INT(t, decoded_total(t, &d, "samples", "count"), 2);
    decoded_done(t, &d);
}

static void finds_parents_behind_and_before_their_children(struct test *t)
{
    struct decoded d;
    decode_text(&d, FORMAT,
                "{\"nodes\":[{\"id\":3,\"parent\":2,\"callFrame\":{\"functionName\":\"c\"}},"
                "{\"id\":2,\"parent\":1,\"callFrame\":{\"functionName\":\"b\"},\"children\":[3]},"
                "{\"id\":1,\"callFrame\":{\"functionName\":\"a\"}}],\"samples\":[3,\"2\"],"
                "\"timeDeltas\":[1.5,0.25]}");
    CHECK_INT(t, d.r, 0);
    const struct profile *p = d.set->profiles.data[0];
    CHECK_STACK(t, p->dict, p->node[0], "a;b;c");
    CHECK_STACK(t, p->dict, p->node[1], "a;b");
    CHECK_INT(t, p->values[1][0], 250);
    decoded_done(t, &d);
}

static void tells_the_calendar_from_a_clock(struct test *t)
{
    struct decoded d;
    decode_text(&d, FORMAT,
                "{\"nodes\":[{\"id\":1}],\"samples\":[1],\"timeDeltas\":[0],"
                "\"startTime\":1700000000000000,\"endTime\":1700000000000001}");
    CHECK_INT(t, d.r, 0);
    CHECK_INT(t, d.set->notes.len, 0);
    CHECK_INT(t, d.set->profiles.data[0]->time_unix_ns, 1700000000000000000);
    CHECK_STACK(t, d.set->dict, d.set->profiles.data[0]->node[0], "(anonymous)");
    decoded_done(t, &d);
}

static void refuses_what_contradicts_itself_and_says_where(struct test *t)
{
    static const struct refusal wrong[] = {
        {"[]", "cpuprofile at byte 0: an object was expected and an array was found"},
        {"{\"nodes\":[]}", "cpuprofile at byte 12: there are neither \"nodes\" nor a \"head\""},
        {"{\"nodes\":[{\"id\":1},{\"id\":1}]}", "cpuprofile at byte 26: node id 1 is given twice"},
        {"{\"nodes\":[{\"id\":1,\"id\":2}]}", "cpuprofile at byte 24: node id 2 is given twice"},
        {"{\"nodes\":[{\"id\":1,\"parent\":9}]}",
         "cpuprofile at byte 10: a node names parent 9, which does not exist"},
        {"{\"nodes\":[{\"id\":1,\"children\":[2]},{\"id\":2,\"children\":[1]}]}",
         "cpuprofile at byte 10: a node is below itself"},
        {"{\"nodes\":[{\"id\":1,\"parent\":1}]}", "cpuprofile at byte 10: a node is below itself"},
        {"{\"nodes\":[{\"id\":1,\"children\":[3]},{\"id\":2,\"children\":[3]},{\"id\":3}]}",
         "cpuprofile at byte 58: node 3 has two parents"},
        {"{\"nodes\":[{\"id\":1}],\"samples\":[1,7]}",
         "cpuprofile at byte 31: sample 1 names node 7, which does not exist"},
        {"{\"nodes\":[{\"id\":1}],\"samples\":[1,1],\"timeDeltas\":[1]}",
         "cpuprofile at byte 31: 2 samples have only 1 time deltas"},
        {"{\"nodes\":[{\"id\":1}],\"samples\":[1,1],\"timestamps\":[1]}",
         "cpuprofile at byte 31: 2 samples have only 1 timestamps"},
        {"{\"nodes\":[{\"id\":1,\"hitCount\":-1}]}",
         "cpuprofile at byte 31: a node has a negative count or size"},
        {"{\"nodes\":[{\"id\":1,\"positionTicks\":[{\"line\":1,\"ticks\":4000000000}]}]}",
         "cpuprofile at byte 64: a node has more than 2147483647 ticks"},
        {"{\"nodes\":[{\"id\":1}],\"timeDeltas\":[1e300]}",
         "cpuprofile at byte 39: a time is out of range"},
        {"{\"nodes\":[{\"id\":1}],\"samples\":[1,1,1],"
         "\"timeDeltas\":[4e15,4e15,4e15]}",
         "cpuprofile at byte 52: the times of the samples are out of range"},
        {"{\"head\":{\"id\":1},\"startTime\":4e15,\"endTime\":1}",
         "cpuprofile at byte 0: the times of the samples are out of range"},
        {"{\"nodes\":[{\"id\":99999999999999999999}]}",
         "cpuprofile at byte 36: a number is out of range for 64 bits"},
        {"{\"nodes\":[{\"id\":1,\"children\":[{}",
         "cpuprofile at byte 32: the document ends where a "
         "comma or the end of the array was expected"},
    };

    check_refusals(t, FORMAT, "", wrong, ARRAY_SIZE(wrong));
}

/* A node that a parent names but that is left out matters only to samples. */
static void passes_over_children_that_are_left_out(struct test *t)
{
    struct decoded d;
    decode_text(&d, FORMAT, "{\"nodes\":[{\"id\":1,\"children\":[2,3]}],\"samples\":[1]}");
    CHECK_INT(t, d.r, 0);
    decoded_done(t, &d);
}

/* 100,000 nodes, each the child of the next: time and memory stay in proportion. */
static void makes_stacks_of_a_long_chain_at_once(struct test *t)
{
    struct buf text = {0};
    const int n = 100000;

    buf_add_str(&text, "{\"nodes\":[");
    for (int i = 0; i < n; i++)
        buf_addf(&text, "{\"id\":%d,\"parent\":%d},", i, i + 1);
    buf_addf(&text, "{\"id\":%d}],\"samples\":[0]}", n);
    struct decoded d;
    decode_bytes(&d, FORMAT, buf_bytes(&text), (size_t)1 << 26);
    CHECK_INT(t, d.r, 0);
    CHECK_INT(t, dict_n_nodes(d.set->dict), n + 2);
    decoded_done(t, &d);
    buf_done(&text);
}

static void limits_how_deep_a_tree_is(struct test *t)
{
    struct buf text = {0};
    buf_add_byte(&text, '{');
    for (int i = 0; i < 600; i++)
        buf_add_str(&text, i ? "{\"children\":[" : "\"head\":{\"children\":[");
    struct decoded d;
    decode_bytes(&d, FORMAT, buf_bytes(&text), (size_t)1 << 24);
    CHECK_INT(t, d.r, -EBADMSG);
    CHECK(t, strstr(d.err.text, "nested deeper than the limit of 1024 levels") != NULL);
    decoded_done(t, &d);
    buf_done(&text);
}

static void knows_its_files_by_their_content(struct test *t)
{
    static const struct {
        const char *text;
        bool is_ours;
    } heads[] = {
        {" {\"startTime\" : 1, \"nodes\": [ {\"id\":1, \"callFrame\":{", true},
        {"{\"head\":{\"functionName\":\"(root)\"", true},
        {"{\"timeDeltas\":[1,2", true},
        {"{\"samples\":[1,2", true},
        {"{\"timestamps\":[1", true},
        {"{\"a\":\"b\\\"c\",\"b\":[{\"x\":[]}],\"timeDeltas\":[", true},
        {"{\"samples\":[[1,2", false},
        {"{\"nodes\":[{\"id\":1", false},
        {"{\"nodes\":[", false},
        {"{\"nodes\"", false},
        {"{\"head", false},
        {"[1", false},
        {"", false},
        {"{}", false},
        {"{\"a\":1}", false},
    };
    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++)
        CHECK_INT(t, FORMAT->sniff(bytes_of(heads[i].text)) > 0, heads[i].is_ours);
}

static void survives_running_out_of_memory_anywhere(struct test *t)
{
    check_budget_sweep(t, FORMAT, BYTES(modern), 61);
    check_budget_sweep(t, FORMAT, BYTES(old), 61);
}

static void survives_being_cut_anywhere(struct test *t)
{
    check_truncation(t, FORMAT, BYTES(modern));
    check_truncation(t, FORMAT, BYTES(old));
}

static const struct test_case cases[] = {
    TEST(a_sample_lasts_until_the_next_one),
    TEST(keeps_places_and_counts_them_from_one),
    TEST(spreads_samples_over_lines_as_often_as_each_was_seen),
    TEST(a_sample_out_of_order_cuts_the_one_before_short),
    TEST(reads_the_old_form_with_a_tree_and_timestamps),
    TEST(counts_hits_where_there_are_no_samples),
    TEST(reads_samples_that_have_no_times),
    TEST(finds_parents_behind_and_before_their_children),
    TEST(tells_the_calendar_from_a_clock),
    TEST(refuses_what_contradicts_itself_and_says_where),
    TEST(passes_over_children_that_are_left_out),
    TEST(makes_stacks_of_a_long_chain_at_once),
    TEST(limits_how_deep_a_tree_is),
    TEST(knows_its_files_by_their_content),
    TEST(survives_running_out_of_memory_anywhere),
    TEST(survives_being_cut_anywhere),
};
TEST_MAIN(cases)

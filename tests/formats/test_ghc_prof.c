#include <errno.h>

#include "lib/decode.h"

#define FORMAT (&format_ghc_prof)
#define HEAD                                                                                       \
    "{\"program\":\"trees\",\"rts_arguments\":[\"-pj\"],\"tick_interval\":1000,\"cost_centres\":[" \
    "{\"id\":1,\"label\":\"MAIN\",\"module\":\"MAIN\",\"src_loc\":\"<built-in>\"},"                \
    "{\"id\":2,\"label\":\"make\",\"module\":\"Main\",\"src_loc\":\"src/Main.hs:(61,1)-(63,2)\","  \
    "\"is_caf\":false},{\"id\":3,\"label\":\"sum\",\"src_loc\":\"a.hs:5:9-31\"}]"

static const char simple[] =
    HEAD ",\"profile\":{\"id\":1,\"entries\":0,\"alloc\":0,\"ticks\":0,\"children\":["
         "{\"id\":2,\"entries\":3,\"alloc\":100,\"ticks\":4,\"children\":["
         "{\"id\":3,\"entries\":1,\"alloc\":11,\"ticks\":1,\"children\":[],\"x\":1}]}]}}";

static void every_cost_centre_counts_what_is_its_own(struct test *t)
{
    struct decoded d;
    decode_text(&d, NULL, simple);
    CHECK_STR(t, d.err.text, "");
    CHECK_STR(t, d.format->name, "ghc-prof");
    CHECK_INT(t, decoded_total(t, &d, "samples", "count"), 5);
    CHECK_INT(t, decoded_total(t, &d, "cpu", "nanoseconds"), 5000000);
    CHECK_INT(t, decoded_total(t, &d, "alloc_space", "bytes"), 111);
    CHECK_INT(t, decoded_total(t, &d, "entries", "count"), 4);
    const struct profile *p = d.set->profiles.data[0];
    CHECK_INT(t, p->n_samples, 2);
    CHECK_STACK(t, p->dict, p->node[0], "MAIN.MAIN;Main.make;sum");
    CHECK_INT(t, p->period, 1000000);
    const struct location *l = &p->dict->locations.data[p->dict->node_location.data[p->node[1]]];
    const struct line *line = &p->dict->lines.data[l->first_line];
    CHECK_INT(t, line->line, 61);
    CHECK_STR(t, dict_cstr(p->dict, p->dict->functions.data[line->function].file), "src/Main.hs");
    decoded_done(t, &d);
}

static void refuses_what_contradicts_itself(struct test *t)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        {HEAD "}", "GHC profile: there is no tree of cost centres"},
        {HEAD ",\"profile\":{\"id\":9}}", "there is no cost centre 9 in front of the tree"},
        {HEAD ",\"profile\":{\"children\":[]}}",
         "children in front of the id of their cost centre"},
        {HEAD ",\"profile\":{\"id\":1,\"ticks\":9223372036854775807}}",
         "the time of a cost centre is too large"},
        {"{\"tick_interval\":-1}", "a tick interval of -1 microseconds"},
        {"{\"cost_centres\":[{\"id\":1},{\"id\":1}]}", "two cost centres have id 1"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct decoded d;
        decode_text(&d, FORMAT, cases[i].text);
        CHECK_INT(t, d.r, -EBADMSG);
        CHECK(t, strstr(d.err.text, cases[i].why) != NULL);
        CHECK(t, strncmp(d.err.text, "test: GHC profile", 17) == 0);
        decoded_done(t, &d);
    }
}

static void a_tree_without_end_stops_at_the_depth_limit(struct test *t)
{
    CLEANUP(buf_done) struct buf text = {0};
    buf_add_str(&text, HEAD ",\"profile\":");
    for (int i = 0; i < 100000; i++)
        buf_add_str(&text, "{\"id\":1,\"children\":[");
    struct decoded d;
    decode_bytes(&d, NULL, buf_bytes(&text), 1 << 26);
    CHECK_INT(t, d.r, -EBADMSG);
    decoded_done(t, &d);
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
    TEST(every_cost_centre_counts_what_is_its_own),
    TEST(refuses_what_contradicts_itself),
    TEST(a_tree_without_end_stops_at_the_depth_limit),
    TEST(survives_running_out_of_memory_anywhere),
    TEST(survives_being_cut_anywhere),
};
TEST_MAIN(cases)

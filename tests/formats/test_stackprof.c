#include "lib/decode.h"

#define FRAMES                                                                                     \
    "\"frames\":{\"1\":{\"name\":\"main\",\"file\":\"a.rb\",\"line\":1,\"total_samples\":9,"       \
    "\"samples\":0,\"edges\":{\"2\":9},\"lines\":{\"3\":[9,0]}},"                                  \
    "\"2\":{\"name\":\"Object#f\",\"file\":\"a.rb\",\"line\":5,\"total_"                           \
    "samples\":9,"                                                                                 \
    "\"samples\":7,\"lines\":{\"6\":[9,4],\"7\":[2,2,2],\"x\":[1,1],\"8\":3}},"                    \
    "\"3\":{\"name\":\"Array#each\",\"file\":\"<cfunc>\",\"line\":null,\"samples\":2}}"

static const char cpu[] =
    "{\"version\":1.2,\"mode\":\"cpu\",\"interval\":2000,\"samples\":9,\"gc_samples\":0,"
    "\"missed_samples\":2,\"metadata\":{\"user\":\"me\",\"n\":1}," FRAMES
    ",\"raw\":[2,1,2,7,3,1,2,3,2],\"raw_lines\":[2,3,6,7,3,3,7,0,2],"
    "\"raw_timestamp_deltas\":[1,2,3,4,5,6,7,8,9]}";

static void reads_raw_stacks_with_their_lines(struct test *t)
{
    struct decoded d;
    decode_text(&d, NULL, cpu);
    CHECK_STR(t, d.err.text, "");
    CHECK_STR(t, d.format ? d.format->name : "", "stackprof");
    CHECK_INT(t, decoded_total(t, &d, "samples", "count"), 9);
    CHECK_INT(t, decoded_total(t, &d, "cpu", "nanoseconds"), 18000000);
    const struct profile *p = d.set->profiles.data[0];
    CHECK_INT(t, p->n_samples, 2);
    CHECK_STACK(t, p->dict, p->node[0], "main;Object#f");
    CHECK_STACK(t, p->dict, p->node[1], "main;Object#f;Array#each");
    CHECK_STR(t, leaf_type(p->dict, p->node[0]), "ruby");
    const struct dict *dict = p->dict;
    const struct location *l = &dict->locations.data[dict->node_location.data[p->node[0]]];
    CHECK_INT(t, dict->lines.data[l->first_line].line, 6);
    CHECK_INT(t, dict->functions.data[dict->lines.data[l->first_line].function].start_line, 5);
    CHECK_INT(t, p->period, 2000000);
    CHECK_STR(t, dict_cstr(dict, p->comments.data[0]), "user: me");
    CHECK(t, has_note(&d, "2 samples were missed"));
    decoded_done(t, &d);
}

static void knows_the_modes(struct test *t)
{
    static const struct {
        const char *mode, *rest, *type, *unit;
        int64_t total;
    } cases[] = {
        {"wall", ",\"raw_timestamp_deltas\":[10,20,30]", "wall", "nanoseconds", 60000},
        {"wall", "", "wall", "nanoseconds", 15000},
        {"object", ",\"raw_timestamp_deltas\":[10,20,30]", "alloc_objects", "count", 15},
        {"custom", "", "samples", "count", 3},
        {"cpu", ",\"raw_lines\":[1]", "cpu", "nanoseconds", 15000},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct buf text = {0};
        struct decoded d;
        buf_addf(&text,
                 "{\"mode\":\"%s\",\"interval\":5,\"missed_samples\":0,\"raw\":[1,7,2,0,1],"
                 "\"frames\":{\"7\":{\"name\":\"x\"}}%s}",
                 cases[i].mode, cases[i].rest);
        decode_bytes(&d, NULL, buf_bytes(&text), 1 << 24);
        CHECK_STR(t, d.err.text, "");
        CHECK_INT(t, decoded_total(t, &d, cases[i].type, cases[i].unit), cases[i].total);
        CHECK_INT(t, decoded_total(t, &d, "samples", "count"), 3);
        decoded_done(t, &d);
        buf_done(&text);
    }
}

static void keeps_self_costs_where_there_are_no_stacks(struct test *t)
{
    struct decoded d;
    decode_text(&d, NULL, "{\"mode\":\"cpu\",\"interval\":1,\"missed_samples\":0," FRAMES "}");
    CHECK_STR(t, d.err.text, "");
    CHECK_INT(t, decoded_total(t, &d, "samples", "count"), 9);
    CHECK_INT(t, decoded_total(t, &d, "cpu", "nanoseconds"), 9000);
    const struct profile *p = d.set->profiles.data[0];
    CHECK_INT(t, p->n_samples, 4); /* lines 6 and 7 of f, the rest of f, each */
    CHECK(t, has_note(&d, "no stacks"));
    decoded_done(t, &d);
}

static void says_what_is_wrong(struct test *t)
{
    static const struct {
        const char *rest, *why;
    } cases[] = {
        {"\"raw\":[9,7,1]",
         "test: stackprof: element 0 of \"raw\" is a depth that runs past the end"},
        {"\"raw\":[-1,7,1]",
         "test: stackprof: element 0 of \"raw\" is a depth that runs past the end"},
        {"\"raw\":[1,7]",
         "test: stackprof: element 0 of \"raw\" is a depth that runs past the end"},
        {"\"raw\":[1,7,1,3]",
         "test: stackprof: element 3 of \"raw\" is a depth that runs past the end"},
        {"\"raw\":[1,8,1]",
         "test: stackprof: element 1 of \"raw\" names a frame that is not described"},
        {"\"raw\":[1,7,-1]",
         "test: stackprof: element 2 of \"raw\" is a negative number of samples"},
        {"\"raw\":[1,7,9000000000000000000]",
         "test: stackprof: \"raw_timestamp_deltas\" has 1 elements, fewer than there are samples"},
        {"\"mode\":\"cpu\",\"raw\":[1,7,9000000000000000000]",
         "test: stackprof: 9000000000000000000 samples in one place"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct buf text = {0};
        struct decoded d;
        buf_addf(&text,
                 "{\"mode\":\"wall\",\"interval\":1000,\"frames\":{\"7\":{\"name\":\"x\"}},"
                 "\"raw_timestamp_deltas\":[5],%s}",
                 cases[i].rest);
        decode_bytes(&d, &format_stackprof, buf_bytes(&text), 1 << 24);
        CHECK_INT(t, d.r, -EBADMSG);
        CHECK_STR(t, d.err.text, cases[i].why);
        decoded_done(t, &d);
        buf_done(&text);
    }

    static const struct {
        const char *text, *why;
    } others[] = {
        {"{\"frames\":{\"x\":{}}}", "the id of a frame is not a number"},
        {"{\"frames\":{\"1\":{},\"1\":{}}}", "frame 1 is described twice"},
        {"{\"interval\":-5}", "the interval is -5"},
        {"{\"interval\":5000000000}", "the interval is 5000000000"},
        {"{\"raw\":{}}", "an array was expected"},
        {"{\"raw\":[", "stackprof at byte"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
        struct decoded d;
        decode_text(&d, &format_stackprof, others[i].text);
        CHECK_INT(t, d.r, -EBADMSG);
        if (!strstr(d.err.text, others[i].why))
            CHECK_STR(t, d.err.text, others[i].why);
        CHECK(t, strstr(d.err.text, "stackprof at byte "));
        decoded_done(t, &d);
    }
}

static void survives_small_budgets_and_cut_files(struct test *t)
{
    static const char good[] = "{\"mode\":\"cpu\",\"interval\":1,\"metadata\":{\"a\":\"b\"}," FRAMES
                               ",\"raw\":[1,1,1,2,3,1,2],\"missed_samples\":0}";
    check_budget_sweep(t, &format_stackprof, BYTES(good), 89);
    check_truncation(t, &format_stackprof, BYTES(good));
    static const char flat[] = "{\"mode\":\"cpu\",\"missed_samples\":0,\"interval\":1," FRAMES "}";
    check_budget_sweep(t, &format_stackprof, BYTES(flat), 89);
    CHECK_INT(t, format_stackprof.sniff(BYTES(good)), 85);
    CHECK_INT(t, format_stackprof.sniff(BYTES("{\"frames\":{\"1\":{\"total_samples\":1")), 70);
    CHECK_INT(t, format_stackprof.sniff(BYTES("{\"frames\":[]}")), 0);
    CHECK_INT(t, format_stackprof.sniff(BYTES("[]")), 0);
}

static const struct test_case cases[] = {
    TEST(reads_raw_stacks_with_their_lines),          TEST(knows_the_modes),
    TEST(keeps_self_costs_where_there_are_no_stacks), TEST(says_what_is_wrong),
    TEST(survives_small_budgets_and_cut_files),
};
TEST_MAIN(cases)

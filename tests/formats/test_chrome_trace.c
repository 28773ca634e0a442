#include <errno.h>

#include "lib/decode.h"

#define FORMAT (&format_chrome_trace)

/* An event of thread 1 of process 1. */
#define EVENT(ph, name, rest)                                                                      \
    "{\"pid\":1,\"tid\":1,\"ph\":\"" ph "\",\"name\":\"" name "\"," rest "}"
#define BEGIN(name, ts)         EVENT("B", name, "\"ts\":" #ts)
#define END(name, ts)           EVENT("E", name, "\"ts\":" #ts)
#define COMPLETE(name, ts, dur) EVENT("X", name, "\"ts\":" #ts ",\"dur\":" #dur)

/* Wall time of a stack in all profiles, in microseconds. */
static int64_t wall(struct test *t, const struct decoded *d, const char *stack)
{
    int64_t total = 0;
    bool found = false;

    for (size_t i = 0; i < d->set->profiles.len; i++) {
        const struct profile *p = d->set->profiles.data[i];
        for (size_t k = 0; k < p->n_samples; k++) {
            struct buf text = {0};
            stack_text(p->dict, p->node[k], &text);
            if (strcmp(buf_cstr(&text), stack) == 0) {
                total += p->values[p->n_types - 1][k];
                found = true;
            }
            buf_done(&text);
        }
    }
    if (!found)
        printf("# no stack %s\n", stack);
    CHECK(t, found);
    return total / 1000;
}

/* The text of an attribute of a set, or "". */
static const char *attribute(const struct dict *d, uint32_t set, const char *key)
{
    uint32_t id = dict_attrs_get(d, set, dict_find_string(d, bytes_of(key)));
    return dict_cstr(d, d->attributes.data[id].text);
}

static void gives_each_event_the_time_that_was_its_own(struct test *t)
{
    struct decoded d;
    decode_text(&d, NULL,
                "[" BEGIN("a", 10) "," COMPLETE("b", 12.5, 5) "," COMPLETE("c", 13, 1) "," END(
                    "a", 30) "," EVENT("i", "tick", "\"ts\":11") "]");
    CHECK_INT(t, d.r, 0);
    CHECK_STR(t, d.format->name, "chrome-trace");
    const struct profile *p = d.set->profiles.data[0];
    CHECK_INT(t, p->n_samples, 3);
    CHECK_INT(t, decoded_total(t, &d, "calls", "count"), 3);
    CHECK_INT(t, decoded_total(t, &d, "wall", "nanoseconds"), 20000);
    CHECK_INT(t, wall(t, &d, "a"), 15);
    CHECK_INT(t, wall(t, &d, "a;b"), 4);
    CHECK_INT(t, wall(t, &d, "a;b;c"), 1);
    CHECK_INT(t, p->time_unix_ns, 0);
    CHECK_INT(t, p->duration_ns, 20000);
    CHECK_INT(t, p->time_ns[0], 13000);
    CHECK(t, has_note(&d, "1 events without a duration"));
    decoded_done(t, &d);
}

static void pairs_begins_and_ends_whatever_their_order(struct test *t)
{
    struct decoded d;
    /* Out of order; an end too many; one that does not fit; two that never come. */
    decode_text(&d, NULL,
                "[" END("late", 90) "," BEGIN("b", 1) "," END("b", 9) "," BEGIN("a", 0) "," END(
                    "a", 10) "," BEGIN("c", 20) "," BEGIN("d", 21) "," END("c", 25) "]");
    CHECK_INT(t, d.r, 0);
    CHECK_INT(t, wall(t, &d, "a"), 2);
    CHECK_INT(t, wall(t, &d, "a;b"), 8);
    CHECK_INT(t, wall(t, &d, "c"), 1);
    CHECK_INT(t, wall(t, &d, "c;d"), 0);
    CHECK(t, has_note(&d, "2 ends of events match no begin"));
    CHECK(t, has_note(&d, "2 events never end"));
    decoded_done(t, &d);
}

static void puts_the_longer_event_outside_and_matches_ends_of_one_time(struct test *t)
{
    struct decoded d;
    decode_text(&d, NULL,
                "[" COMPLETE("in", 5, 1) "," COMPLETE("out", 5, 3) "," BEGIN("x", 20) "," BEGIN(
                    "y", 20) "," END("x", 25) "," END("y", 25) "," COMPLETE("zero", 30, 0) "]");
    CHECK_INT(t, d.r, 0);
    CHECK_INT(t, wall(t, &d, "out"), 2);
    CHECK_INT(t, wall(t, &d, "out;in"), 1);
    CHECK_INT(t, wall(t, &d, "x"), 0);
    CHECK_INT(t, wall(t, &d, "x;y"), 5);
    CHECK_INT(t, wall(t, &d, "zero"), 0);
    CHECK_INT(t, d.set->notes.len, 1);
    decoded_done(t, &d);
}

static void keeps_arguments_as_attributes_of_the_frame(struct test *t)
{
    struct decoded d;
    struct buf text = {0};
    buf_add_str(
        &text,
        "[" EVENT("B", "f", "\"ts\":0,\"args\":{ \"x\" : \"a \\\" b\" }") "," EVENT(
            "E", "f",
            "\"ts\":1,\"args\":{\"x\":\"a \\\" b\"}") "," EVENT("X", "f",
                                                                "\"ts\":2,\"tdur\":3,\"args\":"
                                                                "{}") "," EVENT("X", "",
                                                                                "\"ts\":9"));
    buf_add_str(&text,
                ",{\"ph\":\"X\",\"name\":\"f\",\"pid\":1,\"tid\":1,\"ts\":20,\"args\":{\"l\":\"");
    for (int i = 0; i < 2000; i++)
        buf_add_byte(&text, 'x');
    buf_add_str(&text, "\"}},{\"ph\":\"X\",\"name\":\"g\",\"ts\":30,\"args\":7}]");
    decode_bytes(&d, NULL, buf_bytes(&text), (size_t)1 << 24);
    CHECK_INT(t, d.r, 0);
    const struct profile *p = d.set->profiles.data[1];
    const struct dict *dict = d.set->dict;
    CHECK_INT(t, p->n_samples, 4);
    CHECK_STR(
        t,
        attribute(dict, dict->locations.data[dict->node_location.data[p->node[0]]].attrs, "args"),
        "{\"x\":\"a \\\" b\"}");
    CHECK(t, p->node[0] != p->node[1] && p->node[1] == p->node[3]);
    CHECK_INT(t, wall(t, &d, "f"), 4);
    CHECK_INT(t, wall(t, &d, "(unnamed)"), 0);
    CHECK(t, has_note(&d, "the arguments of 1 events are too long"));
    decoded_done(t, &d);
    buf_done(&text);
}

static void knows_where_hermes_functions_are(struct test *t)
{
    struct decoded d;
    decode_text(
        &d, NULL,
        "[" EVENT(
            "X", "f",
            "\"ts\":0,\"dur\":4,\"args\":{\"url\":\"/a.js\",\"line\":5,\"column\":6,"
            "\"allocatedName\":\"f\",\"params\":null}") "," EVENT("X", "r",
                                                                  "\"ts\":1,\"dur\":1,\"args\":{"
                                                                  "\"url\":null,\"line\":null,"
                                                                  "\"column\":null,"
                                                                  "\"allocatedName\":\"r\"}") "]");
    CHECK_INT(t, d.r, 0);
    const struct dict *dict = d.set->dict;
    const struct profile *p = d.set->profiles.data[0];
    const struct location *l = &dict->locations.data[dict->node_location.data[p->node[1]]];
    CHECK_INT(t, dict->lines.data[l->first_line].line, 5);
    CHECK_INT(t, dict->lines.data[l->first_line].column, 6);
    CHECK_INT(t, l->attrs, 0);
    CHECK_INT(t, wall(t, &d, "f;r"), 1);
    decoded_done(t, &d);
}

static void splits_by_thread_and_names_them(struct test *t)
{
    struct decoded d;
    decode_text(
        &d, NULL,
        "{\"displayTimeUnit\":\"ms\",\"traceEvents\":["
        "{\"ph\":\"X\",\"pid\":2,\"tid\":\"7\",\"ts\":\"1\",\"dur\":1,\"name\":\"b\"},"
        "{\"ph\":\"X\",\"pid\":1,\"tid\":\"worker\",\"ts\":1,\"dur\":1,\"name\":\"a\"},"
        "{\"ph\":\"M\",\"pid\":2,\"tid\":7,\"name\":\"thread_name\",\"args\":{\"name\":\"main\"}},"
        "{\"ph\":\"M\",\"pid\":2,\"name\":\"process_name\",\"args\":{\"x\":1,\"name\":\"node\"}},"
        "{\"ph\":\"M\",\"pid\":2,\"name\":\"process_labels\",\"args\":{\"labels\":\"\"}},"
        "{\"ph\":\"M\",\"pid\":2,\"name\":\"process_name\"}]}");
    CHECK_INT(t, d.r, 0);
    CHECK_INT(t, d.set->profiles.len, 2);
    const struct profile *first = d.set->profiles.data[0], *second = d.set->profiles.data[1];
    const struct dict *dict = d.set->dict;
    CHECK_STR(t, attribute(dict, first->profile_attrs, "thread.name"), "worker");
    CHECK_STR(t, attribute(dict, second->profile_attrs, "thread.name"), "main");
    CHECK_STR(t, attribute(dict, second->attrs[0], "process.executable.name"), "node");
    uint32_t id =
        dict_attrs_get(dict, second->attrs[0], dict_find_string(dict, BYTES("thread.id")));
    CHECK_INT(t, dict->attributes.data[id].number, 7);
    decoded_done(t, &d);
}

static void takes_any_number_of_threads(struct test *t)
{
    for (int n = 1; n < 40; n++) {
        struct buf text = {0};
        struct decoded d;
        buf_add_byte(&text, '[');
        for (int i = 0; i < n; i++)
            buf_addf(&text, "{\"ph\":\"X\",\"ts\":1,\"dur\":2,\"pid\":%d,\"tid\":%d},", i / 2, i);
        decode_bytes(&d, FORMAT, buf_bytes(&text), (size_t)1 << 24);
        CHECK_INT(t, d.r, 0);
        CHECK_INT(t, d.set->profiles.len, n);
        decoded_done(t, &d);
        buf_done(&text);
    }
}

#define CHUNK_1                                                                                    \
    "{\"args\":{\"data\":{\"cpuProfile\":{\"nodes\":[{\"id\":1,\"callFrame\":{\"functionName\":"   \
    "\"(root)\"}},{\"id\":2,\"parent\":1,\"callFrame\":{\"functionName\":\"f\",\"lineNumber\":3}}" \
    "],"                                                                                           \
    "\"samples\":[2,2]},\"lines\":[5,0],\"timeDeltas\":[10,10]}},\"id\":\"0x1\",\"name\":"         \
    "\"ProfileChunk\",\"ph\":\"P\",\"pid\":1,\"tid\":9,\"ts\":100}"
#define CHUNK_2                                                                                    \
    "{\"args\":{\"data\":{\"cpuProfile\":{\"samples\":[1,2]},\"timeDeltas\":[30,40],\"endTime\":"  \
    "200}},"                                                                                       \
    "\"id\":\"0x1\",\"name\":\"ProfileChunk\",\"ph\":\"P\",\"pid\":1,\"tid\":9,\"ts\":200}"
#define PROFILE                                                                                    \
    "{\"args\":{\"data\":{\"startTime\":50}},\"id\":\"0x1\",\"name\":\"Profile\",\"ph\":\"P\","    \
    "\"pid\":1,\"tid\":1,\"ts\":50}"
#define LOST                                                                                       \
    "{\"args\":{\"data\":{\"cpuProfile\":{\"samples\":[1]}}},\"id\":\"0x2\",\"name\":"             \
    "\"ProfileChunk\",\"ph\":\"P\",\"pid\":1,\"tid\":9,\"ts\":70}"

static void joins_the_chunks_of_a_cpu_profile_in_order_of_time(struct test *t)
{
    static const char *const orders[] = {
        "[" PROFILE "," CHUNK_1 "," CHUNK_2 "]",
        "[" CHUNK_2 "," COMPLETE("x", 1, 1) "," CHUNK_1 "," LOST "," PROFILE "]",
    };
    for (size_t i = 0; i < 2; i++) {
        struct decoded d;
        decode_text(&d, NULL, orders[i]);
        CHECK_INT(t, d.r, 0);
        CHECK_INT(t, d.set->profiles.len, 1);
        const struct profile *p = d.set->profiles.data[0];
        CHECK_INT(t, p->n_samples, 4);
        CHECK_INT(t, p->time_unix_ns, 0);
        CHECK_INT(t, p->duration_ns, 150000);
        CHECK_INT(t, p->values[1][0], 10000);
        CHECK_INT(t, p->values[1][1], 30000);
        CHECK_INT(t, p->values[1][2], 40000);
        CHECK_STACK(t, p->dict, p->node[1], "f");
        CHECK_STACK(t, p->dict, p->node[2], "(root)");
        const struct dict *dict = p->dict;
        uint32_t first = dict->locations.data[dict->node_location.data[p->node[0]]].first_line;
        CHECK_INT(t, dict->lines.data[first].line, 5);
        CHECK_INT(t, has_note(&d, "1 samples of profiles that were never begun"), i == 1);
        CHECK_INT(t, has_note(&d, "1 events with a duration were left out"), i == 1);
        decoded_done(t, &d);
    }
}

static void reads_a_cpu_profile_in_one_piece(struct test *t)
{
    struct decoded d;
    decode_text(
        &d, NULL,
        "[" EVENT("I", "CpuProfile",
                  "\"ts\":9,\"args\":{\"other\":1,\"data\":{\"cpuProfile\":{\"nodes\":[{"
                  "\"id\":1,\"callFrame\":{\"functionName\":\"f\"}}],\"startTime\":1,"
                  "\"endTime\":5,\"samples\":[1],\"timeDeltas\":[1],\"x\":0},\"y\":0}}") "]");
    CHECK_INT(t, d.r, 0);
    CHECK_INT(t, d.set->profiles.data[0]->n_samples, 1);
    CHECK_INT(t, d.set->profiles.data[0]->duration_ns, 4000);
    decoded_done(t, &d);
    /* Chunks out of order that are empty. */
    decode_text(&d, NULL,
                "[" EVENT("I", "Profile", "\"ts\":9,\"args\":{}") "," EVENT(
                    "P", "ProfileChunk", "\"ts\":5,\"args\":{\"data\":{}}") "]");
    CHECK_INT(t, d.r, 0);
    CHECK_INT(t, d.set->profiles.data[0]->n_samples, 0);
    decoded_done(t, &d);
    decode_text(&d, NULL, "[" EVENT("I", "CpuProfile", "\"ts\":9,\"args\":{\"data\":null}") "]");
    CHECK_INT(t, d.r, 0);
    decoded_done(t, &d);
}

static const char sampled[] =
    "{\"traceEvents\":[],\"samples\":["
    "{\"ts\":\"100\",\"pid\":1,\"tid\":\"2\",\"weight\":\"1\",\"sf\":3,\"cpu\":\"-1\"},"
    "{\"ts\":\"130\",\"pid\":1,\"tid\":\"2\",\"weight\":\"1\",\"sf\":2},"
    "{\"ts\":\"110\",\"pid\":1,\"tid\":\"3\",\"sf\":\"1\"},"
    "{\"ts\":\"135\",\"pid\":1,\"tid\":\"2\",\"sf\":0}],"
    "\"stackFrames\":{\"3\":{\"name\":\"c\",\"parent\":2,\"line\":\"4\",\"column\":\"1\"},"
    "\"2\":{\"name\":\"b\",\"category\":\"js\",\"parent\":\"1\",\"file\":\"b.js\"},"
    "\"1\":{\"name\":\"a\",\"parent\":null}}}";

static void reads_samples_over_stack_frames(struct test *t)
{
    struct decoded d;
    decode_text(&d, NULL, sampled);
    CHECK_INT(t, d.r, 0);
    CHECK_INT(t, d.set->profiles.len, 2);
    CHECK_INT(t, decoded_total(t, &d, "samples", "count"), 4);
    CHECK_INT(t, decoded_total(t, &d, "cpu", "nanoseconds"), 35000);
    CHECK_INT(t, wall(t, &d, "a;b;c"), 30);
    CHECK_INT(t, wall(t, &d, "a;b"), 5);
    CHECK_INT(t, wall(t, &d, "a"), 0);
    CHECK_INT(t, d.set->profiles.data[0]->duration_ns, 35000);
    decoded_done(t, &d);
}

static void takes_an_array_that_was_never_closed(struct test *t)
{
    static const char *const ends[] = {"", ",", " , \n\n"};
    for (size_t i = 0; i < 3; i++) {
        struct buf text = {0};
        struct decoded d;
        buf_addf(&text, "\n\n[" COMPLETE("a", 1, 2) "%s", ends[i]);
        decode_bytes(&d, NULL, buf_bytes(&text), (size_t)1 << 24);
        CHECK_INT(t, d.r, 0);
        CHECK_INT(t, wall(t, &d, "a"), 2);
        CHECK(t, has_note(&d, "the trace ends without a closing bracket"));
        decoded_done(t, &d);
        buf_done(&text);
    }
}

static void says_so_when_there_is_nothing_to_show(struct test *t)
{
    struct decoded d;
    decode_text(&d, NULL, "{\"traceEvents\":[]}");
    CHECK_INT(t, d.r, 0);
    CHECK_INT(t, d.set->profiles.len, 0);
    CHECK(t, has_note(&d, "the trace has no events with a duration and no samples"));
    decoded_done(t, &d);
}

static void refuses_what_contradicts_itself_and_says_where(struct test *t)
{
    static const struct refusal wrong[] = {
        {"[1]", "chrome-trace at byte 1: an object was expected and a number was found"},
        {"[{\"ph\":\"X\"}]", "chrome-trace at byte 1: an event of phase X has no \"ts\""},
        {"[{\"ph\":\"X\",\"ts\":1e300}]", "chrome-trace at byte 21: a time is out of range"},
        {"[{\"ph\":\"X\",\"ts\":\"x\"}]",
         "chrome-trace at byte 16: a number was expected and another string was found"},
        {"{\"traceEvents\":[",
         "chrome-trace at byte 16: the document ends where a comma or the end "
         "of the array was expected"},
        {"[{\"name\":\"ProfileChunk\",\"args\":{\"data\":{\"timeDeltas\":[true]}}}]",
         "chrome-trace at byte 54: a number was expected and true was found"},
        {"[{\"name\":\"CpuProfile\",\"args\":{\"data\":{\"cpuProfile\":{\"nodes\":[{\"id\":1}],"
         "\"samples\":[2]}}}}]",
         "chrome-trace at byte 82: sample 0 names node 2, which does not exist"},
        {"{\"traceEvents\":[],\"samples\":[{\"sf\":5}]}",
         "chrome-trace at byte 29: a sample names stack frame 5, which does not exist"},
        {"{\"samples\":[{\"sf\":1}],\"stackFrames\":{\"1\":{\"parent\":1}}}",
         "chrome-trace at byte 41: a node is below itself"},
        {"{\"samples\":[{\"sf\":1}],\"stackFrames\":{\"1\":{},\"1\":{}}}",
         "chrome-trace at byte 50: node id 1 is given twice"},
        {"{\"stackFrames\":{\"x\":{}}}",
         "chrome-trace at byte 20: the key of a stack frame is not a number"},
    };

    check_refusals(t, FORMAT, "", wrong, ARRAY_SIZE(wrong));
}

/* Many ends of one time, none of which fits what is open, must not be searched over and over. */
static void stays_fast_on_many_ends_of_one_time(struct test *t)
{
    struct buf text = {0};
    struct decoded d;

    buf_add_byte(&text, '[');
    for (int i = 0; i < 50000; i++)
        buf_addf(&text,
                 "{\"ph\":\"B\",\"name\":\"b\",\"ts\":0},{\"ph\":\"E\",\"name\":\"e%d\",\"ts\":1},",
                 i);
    decode_bytes(&d, FORMAT, buf_bytes(&text), (size_t)1 << 28);
    CHECK_INT(t, d.r, 0);
    CHECK(t, has_note(&d, "50000 ends of events match no begin"));
    CHECK(t, has_note(&d, "50000 events never end"));
    decoded_done(t, &d);
    buf_done(&text);
}

static void knows_its_files_by_their_content(struct test *t)
{
    CHECK(t, FORMAT->sniff(BYTES("[ {\"name\":\"x\",\"ph\":\"")) > 0);
    CHECK(t, FORMAT->sniff(BYTES("[{\"args\":{\"data\":")) > 0);
    CHECK(t, FORMAT->sniff(BYTES("[{\"cat\":\"x\",\"pid\":1")) > 0);
    CHECK(t, FORMAT->sniff(BYTES("{\"metadata\":{},\"traceEvents\":[")) > 0);
    CHECK_INT(t, FORMAT->sniff(BYTES("[{\"a\":1}]")), 0);
    CHECK_INT(t, FORMAT->sniff(BYTES("[]")), 0);
    CHECK_INT(t, FORMAT->sniff(BYTES("{\"nodes\":[]}")), 0);
}

static const char everything[] =
    "[" CHUNK_2 "," BEGIN("a", 3) "," CHUNK_1 "," LOST "," PROFILE "," END("a", 4) "]";
static const char spans[] = "[" BEGIN("a", 0) "," COMPLETE("b", 1, 2) "," EVENT(
    "X", "c", "\"ts\":3,\"args\":{\"k\":[1, 2]}") "," END("a",
                                                          9) ",{\"ph\":\"M\",\"name\":\"thread_"
                                                             "name\",\"pid\":1,\"tid\":1,\"args\":{"
                                                             "\"name\":\"n\"}}]";

static void survives_running_out_of_memory_anywhere(struct test *t)
{
    check_budget_sweep(t, FORMAT, BYTES(everything), 61);
    check_budget_sweep(t, FORMAT, BYTES(spans), 61);
    check_budget_sweep(t, FORMAT, BYTES(sampled), 61);
}

static void survives_being_cut_anywhere(struct test *t)
{
    check_truncation(t, FORMAT, BYTES(everything));
    check_truncation(t, FORMAT, BYTES(spans));
    check_truncation(t, FORMAT, BYTES(sampled));
}

static const struct test_case cases[] = {
    TEST(gives_each_event_the_time_that_was_its_own),
    TEST(pairs_begins_and_ends_whatever_their_order),
    TEST(puts_the_longer_event_outside_and_matches_ends_of_one_time),
    TEST(keeps_arguments_as_attributes_of_the_frame),
    TEST(knows_where_hermes_functions_are),
    TEST(splits_by_thread_and_names_them),
    TEST(takes_any_number_of_threads),
    TEST(joins_the_chunks_of_a_cpu_profile_in_order_of_time),
    TEST(reads_a_cpu_profile_in_one_piece),
    TEST(reads_samples_over_stack_frames),
    TEST(takes_an_array_that_was_never_closed),
    TEST(says_so_when_there_is_nothing_to_show),
    TEST(refuses_what_contradicts_itself_and_says_where),
    TEST(stays_fast_on_many_ends_of_one_time),
    TEST(knows_its_files_by_their_content),
    TEST(survives_running_out_of_memory_anywhere),
    TEST(survives_being_cut_anywhere),
};
TEST_MAIN(cases)

#include "lib/decode.h"

/* As Gecko writes it; the schema of one table comes after its data, libs after the threads. */
static const char gecko[] =
    "{\"meta\":{\"version\":24,\"startTime\":1000,\"interval\":2,\"stackwalk\":1,\"product\":"
    "\"Fox\","
    "\"sampleUnits\":{\"time\":\"ms\",\"threadCPUDelta\":\"ns\"}},"
    "\"threads\":[{\"name\":\"Main\",\"tid\":7,\"pid\":\"12\",\"processName\":\"fox\","
    "\"samples\":{\"schema\":{\"stack\":0,\"time\":1,\"threadCPUDelta\":2},"
    "\"data\":[[1,10,5],[2,12.5],[null,13,7],[4,20,null]]},"
    "\"markers\":{\"schema\":{\"name\":0},\"data\":[[0,1,{}]]},"
    "\"stackTable\":{\"data\":[[null,0],[0,1],[1,2],[0,3],[3,4]],\"schema\":{\"prefix\":0,"
    "\"frame\":1}},"
    "\"frameTable\":{\"schema\":{\"location\":0,\"line\":1,\"column\":2},\"data\":[[0],[1,55,3],[2]"
    ",[3],"
    "[4]]},\"stringTable\":[\"(root)\",\"run (loader.js -> "
    "http://x/a.js:50:9)\",\"0x1010\",\"js::Run (x)\","
    "\"0x5000\"]}],"
    "\"counters\":[{\"name\":\"malloc\"}],"
    "\"libs\":[{\"start\":4096,\"end\":8192,\"offset\":0,\"name\":\"fox\",\"path\":\"/bin/fox\","
    "\"breakpadId\":\"B1\"},{\"start\":0,\"end\":16,\"name\":\"low\",\"codeId\":\"c0de\"}],"
    "\"processes\":[{\"meta\":{\"startTime\":2000,\"interval\":1},\"threads\":[{\"name\":\"Tab\","
    "\"samples\":"
    "{\"schema\":{\"time\":1,\"stack\":0},\"data\":[[0,5]]},\"stackTable\":{\"schema\":{\"prefix\":"
    "0,"
    "\"frame\":1},\"data\":[[null,0]]},\"frameTable\":{\"schema\":{\"location\":0},\"data\":[[0]]},"
    "\"stringTable\":[\"tab\"]}]}]}";

static const char *attribute_text(const struct profile *p, size_t row, const char *key)
{
    uint32_t id =
        dict_attrs_get(p->dict, profile_attrs(p, row), dict_find_string(p->dict, bytes_of(key)));
    return dict_cstr(p->dict, p->dict->attributes.data[id].text);
}

static int64_t attribute_number(const struct profile *p, size_t row, const char *key)
{
    uint32_t id =
        dict_attrs_get(p->dict, profile_attrs(p, row), dict_find_string(p->dict, bytes_of(key)));
    return p->dict->attributes.data[id].number;
}

static const struct location *leaf(const struct profile *p, size_t row)
{
    return &p->dict->locations.data[p->dict->node_location.data[p->node[row]]];
}

static void reads_what_gecko_writes(struct test *t)
{
    struct decoded d;
    decode_text(&d, NULL, gecko);
    CHECK_STR(t, d.err.text, "");
    CHECK_STR(t, d.format ? d.format->name : "", "firefox");
    CHECK_INT(t, decoded_total(t, &d, "samples", "count"), 5);
    CHECK_INT(t, decoded_total(t, &d, "wall", "nanoseconds"), 13000000);
    CHECK_INT(t, decoded_total(t, &d, "cpu", "nanoseconds"), 12);
    const struct profile *p = d.set->profiles.data[0];
    const struct dict *dict = p->dict;
    /* The process within comes first: it is read before its parent ends. */
    CHECK_STACK(t, dict, p->node[0], "tab");
    CHECK_STR(t, attribute_text(p, 0, "thread.name"), "Tab");
    CHECK_INT(t, p->time_ns[0], 2005000000);
    CHECK_STACK(t, dict, p->node[1], "(root);run");
    CHECK_INT(t, p->time_ns[1], 1010000000);
    CHECK_INT(t, p->values[1][1], 2500000);
    CHECK_INT(t, p->values[1][4], 2000000); /* the last: one interval */
    CHECK_STR(t, attribute_text(p, 1, "thread.name"), "Main");
    CHECK_STR(t, attribute_text(p, 1, "process.executable.name"), "fox");
    CHECK_INT(t, attribute_number(p, 1, "thread.id"), 7);
    CHECK_INT(t, attribute_number(p, 1, "process.pid"), 12);
    const struct line *line = &dict->lines.data[leaf(p, 1)->first_line];
    CHECK_INT(t, line->line, 55);
    CHECK_INT(t, line->column, 3);
    CHECK_INT(t, dict->functions.data[line->function].start_line, 50);
    CHECK_STR(t, dict_cstr(dict, dict->functions.data[line->function].file), "http://x/a.js");
    CHECK_STACK(t, dict, p->node[2], "(root);run;0x1010");
    CHECK_STR(t, dict_cstr(dict, dict->mappings.data[leaf(p, 2)->mapping].file), "/bin/fox");
    CHECK_STR(t, dict_cstr(dict, dict->mappings.data[leaf(p, 2)->mapping].build_id), "B1");
    CHECK_STR(t, leaf_type(dict, p->node[2]), "native");
    CHECK_INT(t, p->node[3], 0);
    CHECK_STACK(t, dict, p->node[4], "(root);js::Run (x);0x5000");
    CHECK_INT(t, leaf(p, 4)->mapping, 0);
    CHECK_STR(t, dict_cstr(dict, p->comments.data[0]), "Fox");
    CHECK(t, has_note(&d, "markers are not kept"));
    CHECK(t, has_note(&d, "counters are not kept"));
    decoded_done(t, &d);
}

static const char processed[] =
    "{\"meta\":{\"preprocessedProfileVersion\":41,\"startTime\":1000.5,\"interval\":0.5,"
    "\"sampleUnits\":{\"threadCPUDelta\":\"\xc2\xb5s\"}},"
    "\"libs\":[{\"name\":\"ls\",\"path\":null,\"codeId\":\"abc\",\"breakpadId\":\"x\"}],"
    "\"shared\":{\"sources\":{\"length\":1,\"filename\":[3]},\"stringArray\":[\"main\",\"0x20\","
    "\"a.c\","
    "\"b.js\",\"go\"]},"
    "\"threads\":[{\"name\":\"T\",\"pid\":\"none\",\"tid\":null,"
    "\"samples\":{\"length\":3,\"stack\":[2,null,0],\"timeDeltas\":[1,2,3],\"weight\":[4,1,null],"
    "\"weightType\":\"samples\",\"threadCPUDelta\":[10,null,20]},"
    "\"stackTable\":{\"length\":3,\"prefix\":[null,0,1],\"frame\":[0,1,2],\"category\":[0,0,0]},"
    "\"frameTable\":{\"length\":3,\"func\":[0,1,2],\"address\":[16,32,-1],\"line\":[7,null,null],"
    "\"column\":[1,null,null],\"inlineDepth\":[0,0,0]},"
    "\"funcTable\":{\"length\":3,\"name\":[0,1,4],\"resource\":[0,0,-1],\"fileName\":[2,null,null],"
    "\"lineNumber\":[5,null,9],\"isJS\":[false,false,true],\"source\":[null,null,0]},"
    "\"resourceTable\":{\"length\":1,\"name\":[0],\"lib\":[0]},"
    "\"markers\":{\"length\":0,\"data\":[{\"a\":1}]}}]}";

static void reads_what_the_profiler_saves(struct test *t)
{
    struct decoded d;
    decode_text(&d, NULL, processed);
    CHECK_STR(t, d.err.text, "");
    CHECK_INT(t, decoded_total(t, &d, "samples", "count"), 6);
    CHECK_INT(t, decoded_total(t, &d, "wall", "nanoseconds"), 3000000);
    CHECK_INT(t, decoded_total(t, &d, "cpu", "nanoseconds"), 30000);
    const struct profile *p = d.set->profiles.data[0];
    const struct dict *dict = p->dict;
    CHECK_STACK(t, dict, p->node[0], "main;0x20;go");
    CHECK_INT(t, p->time_ns[0], 1001500000);
    CHECK_INT(t, p->time_ns[2], 1006500000);
    CHECK_INT(t, p->period, 500000);
    CHECK_INT(t, p->duration_ns, 5000000);
    const struct line *line = &dict->lines.data[leaf(p, 0)->first_line];
    CHECK_INT(t, line->line, 9);
    CHECK_STR(t, dict_cstr(dict, dict->functions.data[line->function].file), "b.js");
    CHECK_STR(t, dict_cstr(dict, dict->mappings.data[leaf(p, 2)->mapping].file), "ls");
    CHECK_INT(t, leaf(p, 2)->address, 16);
    CHECK_INT(t, dict->lines.data[leaf(p, 2)->first_line].line, 7);
    CHECK_INT(t, dict_find_string(dict, BYTES("thread.id")), 0);
    decoded_done(t, &d);
}

static void reads_text_within_text_and_old_recordings(struct test *t)
{
    struct decoded d;
    decode_text(
        &d, &format_firefox,
        "{\"label\":\"x\",\"profile\":{\"meta\":{\"interval\":1},"
        "\"libs\":\"[{\\\"name\\\":\\\"fox\\\",\\\"start\\\":0,\\\"end\\\":99}]\",\"threads\":["
        "\"{\\\"meta\\\":{},\\\"threads\\\":[{\\\"samples\\\":{\\\"schema\\\":{\\\"stack\\\":0,"
        "\\\"time\\\":1},\\\"data\\\":[[null,1]]}}]}\","
        "{\"name\":\"A\",\"samples\":{\"length\":2,\"stack\":[0,0],\"time\":[1,0.5]},"
        "\"stackTable\":{\"prefix\":[null],\"frame\":[0]},\"frameTable\":{\"location\":[0]},"
        "\"stringTable\":[\"0x10\"]}]}}");
    CHECK_STR(t, d.err.text, "");
    CHECK_INT(t, decoded_total(t, &d, "samples", "count"), 3);
    CHECK_INT(t, decoded_total(t, &d, "wall", "nanoseconds"), 2000000); /* time never runs back */
    const struct profile *p = d.set->profiles.data[0];
    CHECK_STR(t, dict_cstr(p->dict, p->dict->mappings.data[leaf(p, 1)->mapping].file), "fox");
    decoded_done(t, &d);
}

static void knows_other_weights_and_units(struct test *t)
{
    static const struct {
        const char *weight, *unit, *type, *type_unit;
        int64_t total;
    } cases[] = {
        {"bytes", "ns", "space", "bytes", 30},
        {"tracing-ms", "ns", "wall", "nanoseconds", 30000000},
        {"samples", "ms", "cpu", "nanoseconds", 7000000},
        {"samples", "variable CPU cycles", "cycles", "count", 7},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct buf text = {0};
        struct decoded d;
        buf_addf(&text,
                 "{\"meta\":{\"preprocessedProfileVersion\":1,\"sampleUnits\":{\"threadCPUDelta\":"
                 "\"%s\"}},"
                 "\"threads\":[{\"samples\":{\"stack\":[null,null],\"weight\":[10,20],"
                 "\"weightType\":\"%s\","
                 "\"threadCPUDelta\":[3,4]}}]}",
                 cases[i].unit, cases[i].weight);
        decode_bytes(&d, NULL, buf_bytes(&text), 1 << 24);
        CHECK_STR(t, d.err.text, "");
        CHECK_INT(t, decoded_total(t, &d, cases[i].type, cases[i].type_unit), cases[i].total);
        decoded_done(t, &d);
        buf_done(&text);
    }
    struct decoded d;
    decode_text(
        &d, &format_firefox,
        "{\"meta\":{\"sampleUnits\":null},\"threads\":[{\"samples\":{\"stack\":[null],\"time\":"
        "[1e300],\"weight\":null}}]}");
    CHECK_STR(t, d.err.text, "");
    CHECK_INT(t, decoded_total(t, &d, "samples", "count"), 1);
    decoded_done(t, &d);
}

static void says_what_is_wrong(struct test *t)
{
    static const struct {
        const char *thread, *why;
    } cases[] = {
        {"\"samples\":{\"stack\":[1]}", "thread \"T\": no such stack for sample 0"},
        {"\"samples\":{\"stack\":[0.5]}", "thread \"T\": no such stack for sample 0"},
        {"\"stackTable\":{\"frame\":[9],\"prefix\":[null]}",
         "thread \"T\": no such frame for stack 0"},
        {"\"stackTable\":{\"frame\":[0,0],\"prefix\":[null,1]}",
         "thread \"T\": no earlier stack to be the prefix of stack 1"},
        {"\"stackTable\":{\"frame\":[0,0],\"prefix\":[1,0]}",
         "thread \"T\": no earlier stack to be the prefix of stack 0"},
        {"\"frameTable\":{\"func\":[3]}", "thread \"T\": no such function for frame 0"},
        {"\"frameTable\":{\"location\":[3]}", "thread \"T\": no such string for frame 0"},
        {"\"funcTable\":{\"name\":[-1]}", "thread \"T\": no such string for function 0"},
        {"\"samples\":{\"length\":1000000000,\"stack\":[]}",
         "samples says 1000000000 rows and \"stack\" has 0"},
        {"\"libs\":\"[1\"", "in a text that holds JSON, at byte 1:"},
        {"\"libs\":{}", "an array was expected"},
        {"\"stringArray\":[", "firefox at byte"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct buf text = {0};
        struct decoded d;
        buf_addf(&text,
                 "{\"meta\":{},\"threads\":[{\"name\":\"T\",\"samples\":{\"stack\":[0]},"
                 "\"stackTable\":{\"frame\":[0],\"prefix\":[null]},\"frameTable\":{\"func\":[0]},"
                 "\"funcTable\":{\"name\":[0]},\"stringArray\":[\"f\"],%s}]}",
                 cases[i].thread);
        decode_bytes(&d, &format_firefox, buf_bytes(&text), 1 << 24);
        CHECK_INT(t, d.r, -EBADMSG);
        if (!strstr(d.err.text, cases[i].why))
            CHECK_STR(t, d.err.text, cases[i].why);
        CHECK(t, strncmp(d.err.text, "test: firefox at byte ", 22) == 0);
        decoded_done(t, &d);
        buf_done(&text);
    }
    struct decoded d;
    decode_text(&d, &format_firefox,
                "{\"processes\":[{\"processes\":[{\"processes\":[{\"processes\":[{}]}]}]}]}");
    CHECK(t, strstr(d.err.text, "processes within processes, more than 4 deep"));
    decoded_done(t, &d);
}

static void survives_small_budgets_and_cut_files(struct test *t)
{
    check_budget_sweep(t, &format_firefox, BYTES(gecko), 211);
    check_budget_sweep(t, &format_firefox, BYTES(processed), 211);
    check_truncation(t, &format_firefox, BYTES(gecko));
    check_truncation(t, &format_firefox, BYTES(processed));
    CHECK_INT(t, format_firefox.sniff(BYTES("{\"stackTable\":{},\"frameTable\":{}")), 80);
    CHECK_INT(t, format_firefox.sniff(BYTES("{\"nodes\":[]}")), 0);
    CHECK_INT(t, format_firefox.sniff(BYTES("[{}]")), 0);
}

static const struct test_case cases[] = {
    TEST(reads_what_gecko_writes),
    TEST(reads_what_the_profiler_saves),
    TEST(reads_text_within_text_and_old_recordings),
    TEST(knows_other_weights_and_units),
    TEST(says_what_is_wrong),
    TEST(survives_small_budgets_and_cut_files),
};
TEST_MAIN(cases)

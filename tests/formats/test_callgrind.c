#include "lib/decode.h"

static const char graph[] = "# callgrind format\n"
                            "version: 1\n"
                            "creator: callgrind-3.19.0\n"
                            "pid: 77\n"
                            "cmd: ./a.out -x\n"
                            "part: 1\n"
                            "\n"
                            "positions: line\n"
                            "events: Ir Dr\n"
                            "summary: 1001 101\n"
                            "\n"
                            "ob=(1) /bin/a.out\n"
                            "fl=(1) main.c\n"
                            "fn=(1) main\n"
                            "10 100 10\n"
                            "cfn=(2) left\n"
                            "calls=2 20\n"
                            "+1 300 30\n"
                            "cfn=(3) right\n"
                            "calls=3 30\n"
                            "+1 600 60\n"
                            "\n"
                            "fn=(2)\n"
                            "20 100 10\n"
                            "cob=(2) /lib/libc.so\n"
                            "cfi=(2) libc.c\n"
                            "cfn=(4) leaf\n"
                            "calls=4 40\n"
                            "* 200 20\n"
                            "\n"
                            "fn=(3)\n"
                            "30 200 20\n"
                            "cob=(2)\n"
                            "cfi=(2)\n"
                            "cfn=(4)\n"
                            "calls=8 40\n"
                            "* 400 40\n"
                            "\n"
                            "ob=(2)\n"
                            "fl=(2)\n"
                            "fn=(4)\n"
                            "40 500 60\n"
                            "fi=(3) inlined.h\n"
                            "7 100\n"
                            "fe=(2)\n"
                            "jump=5 40\n"
                            "*\n"
                            "jcnd=5/9 +1\n"
                            "*\n"
                            "\n"
                            "totals: 1000 100\n";

/* Sum of a column over the samples whose stack reads `stack`. */
static int64_t sum_at(const struct decoded *d, const char *stack, uint32_t column)
{
    int64_t sum = 0;

    for (size_t i = 0; i < d->set->profiles.len; i++) {
        const struct profile *p = d->set->profiles.data[i];
        for (size_t s = 0; s < p->n_samples; s++) {
            struct buf text = {0};
            stack_text(p->dict, p->node[s], &text);
            if (strcmp(buf_cstr(&text), stack) == 0)
                sum += p->values[column][s];
            buf_done(&text);
        }
    }
    return sum;
}

static void shares_a_call_graph_out_among_callers(struct test *t)
{
    struct decoded d;
    decode_text(&d, NULL, graph);
    CHECK_INT(t, d.r, 0);
    CHECK_STR(t, d.format ? d.format->name : "", "callgrind");
    CHECK_INT(t, decoded_total(t, &d, "Ir", "count"), 1001);
    CHECK_INT(t, decoded_total(t, &d, "Dr", "count"), 101);
    CHECK_INT(t, decoded_total(t, &d, "calls", "count"), 17);
    CHECK_INT(t, sum_at(&d, "main", 0), 100);
    CHECK_INT(t, sum_at(&d, "main;left", 0), 100);
    CHECK_INT(t, sum_at(&d, "main;right", 0), 200);
    CHECK_INT(t, sum_at(&d, "main;left;leaf", 0), 200);
    CHECK_INT(t, sum_at(&d, "main;right;leaf", 0), 400);
    CHECK_INT(t, sum_at(&d, "main;left", 2), 2);
    CHECK_INT(t, sum_at(&d, "main;right;leaf", 2), 8);
    CHECK_INT(t, sum_at(&d, "", 0), 1);
    CHECK(t, has_note(&d, "call graph and no stacks"));
    CHECK(t, has_note(&d, "belong to no function"));

    const struct profile *p = d.set->profiles.data[0];
    CHECK_STR(t, dict_cstr(p->dict, p->default_type), "Ir");
    CHECK_STR(t, leaf_type(p->dict, p->node[0]), "native");
    CHECK_INT(t, p->comments.len, 3);
    uint32_t pid =
        dict_attrs_get(p->dict, p->resource_attrs, dict_find_string(p->dict, BYTES("process.pid")));
    CHECK_INT(t, p->dict->attributes.data[pid].number, 77);
    decoded_done(t, &d);
}

/* Lines: the file of an inlined line is the header's, the function is still the one around it. */
static void keeps_files_lines_addresses_and_objects(struct test *t)
{
    struct decoded d;
    decode_text(&d, NULL,
                "positions: instr line\nevents: Ir\nob=bin\nfl=a.c\nfn=f\n0x100 5 1\n+4 +2 2\n"
                "-4 * 4\n* -1 8\nfi=b.h\n0x200 9 16\nfl=???\nfn=g\n0x300 0 32\n");
    CHECK_INT(t, d.r, 0);
    static const struct {
        const char *name, *file;
        uint64_t address;
        int64_t line, value;
    } want[] = {{"f", "a.c", 0x100, 5, 1}, {"f", "a.c", 0x104, 7, 2},  {"f", "a.c", 0x100, 7, 4},
                {"f", "a.c", 0x100, 6, 8}, {"f", "b.h", 0x200, 9, 16}, {"g", "", 0x300, 0, 32}};
    CHECK_INT(t, d.set->profiles.len, 1);
    const struct profile *p = d.set->profiles.data[0];
    const struct dict *dict = p->dict;
    CHECK_INT(t, p->n_samples, ARRAY_SIZE(want));
    for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
        size_t s = 0;
        while (s < p->n_samples - 1 && p->values[0][s] != want[i].value)
            s++;
        const struct location *l = &dict->locations.data[dict->node_location.data[p->node[s]]];
        const struct line *line = &dict->lines.data[l->first_line];
        CHECK_INT(t, p->values[0][s], want[i].value);
        CHECK_INT(t, l->address, want[i].address);
        CHECK_INT(t, line->line, want[i].line);
        CHECK_STR(t, dict_cstr(dict, dict->functions.data[line->function].name), want[i].name);
        CHECK_STR(t, dict_cstr(dict, dict->functions.data[line->function].file), want[i].file);
        CHECK_STR(t, dict_cstr(dict, dict->mappings.data[l->mapping].file), "bin");
    }
    decoded_done(t, &d);
}

static void folds_recursion_and_keeps_self_costs(struct test *t)
{
    struct decoded d;
    decode_text(&d, NULL,
                "events: Ir\nfn=main\n1 10\ncfn=even\ncalls=1 2\n1 100\n"
                "fn=even\n2 40\ncfn=odd\ncalls=5 3\n2 150\ncfn=even\ncalls=1 2\n2 7\n"
                "fn=odd\n3 60\ncfn=even\ncalls=4 2\n3 90\n"
                "fn=alone\n4 5\ncfn=alone2\ncalls=1 5\n4 6\n"
                "fn=alone2\n5 1\ncfn=alone\ncalls=1 4\n5 5\n");
    CHECK_INT(t, d.r, 0);
    CHECK_INT(t, decoded_total(t, &d, "Ir", "count"), 116);
    CHECK_INT(t, sum_at(&d, "main;even", 0), 40);
    CHECK_INT(t, sum_at(&d, "main;even;odd", 0), 60);
    CHECK_INT(t, sum_at(&d, "alone", 0), 5);
    CHECK_INT(t, sum_at(&d, "alone;alone2", 0), 1);
    CHECK_INT(t, sum_at(&d, "main;even;odd;even", 1), 4);
    CHECK(t, has_note(&d, "recursive calls are folded"));
    decoded_done(t, &d);
}

/* Three callers share 100 calls and 100 units: the parts add up though none divides evenly. */
static void deals_costs_out_without_losing_any(struct test *t)
{
    struct decoded d;
    decode_text(&d, NULL,
                "events: Ir\nfn=a\ncfn=x\ncalls=1 1\n1 10\nfn=b\ncfn=x\ncalls=1 1\n1 10\n"
                "fn=c\ncfn=x\ncalls=1 1\n1 10\nfn=x\n5 7\ncfn=y\ncalls=100 1\n6 23\nfn=y\n9 11\n"
                "10 11\n11 1\n");
    CHECK_INT(t, d.r, 0);
    CHECK_INT(t, decoded_total(t, &d, "Ir", "count"), 30);
    CHECK_INT(t, decoded_total(t, &d, "calls", "count"), 103);
    CHECK_INT(t, sum_at(&d, "a;x", 0) + sum_at(&d, "b;x", 0) + sum_at(&d, "c;x", 0), 7);
    CHECK(t, sum_at(&d, "a;x;y", 0) >= 7 && sum_at(&d, "a;x;y", 0) <= 9);
    decoded_done(t, &d);
}

static void adds_up_what_is_listed_twice(struct test *t)
{
    struct decoded d;
    decode_text(&d, NULL,
                "events: Ir\nfn=a\n1 5\n2 1\n1 6\ncfn=b\ncalls=1 9\n3 4\ncfn=b\ncalls=2 9\n3 4\n"
                "fn=b\n9 8\nfn=a\n1 7\n");
    CHECK_INT(t, sum_at(&d, "a", 0), 19);
    CHECK_INT(t, sum_at(&d, "a;b", 0), 8);
    CHECK_INT(t, sum_at(&d, "a;b", 1), 3);
    CHECK_INT(t, d.set->profiles.data[0]->n_samples, 4); /* one of them for the calls */
    decoded_done(t, &d);
}

/* A function that its callers account for only in part has a root of its own for the rest. */
static void keeps_what_no_caller_accounts_for(struct test *t)
{
    struct decoded d;
    decode_text(&d, NULL, "events: Ir\nfn=a\n1 1\ncfn=x\ncalls=1 1\n1 25\nfn=x\n5 100\n");
    CHECK_INT(t, sum_at(&d, "a;x", 0), 25);
    CHECK_INT(t, sum_at(&d, "x", 0), 75);
    decoded_done(t, &d);
}

/* Two functions per level, each calling both of the next: 2^40 chains must not be walked. */
static void cuts_chains_that_multiply(struct test *t)
{
    struct buf text = {0};
    struct decoded d;
    buf_add_str(&text, "events: Ir\n");
    for (int level = 0; level < 40; level++) {
        for (int i = 0; i < 2; i++)
            buf_addf(&text,
                     "fn=f%d_%d\n1 1\ncfn=f%d_0\ncalls=1 1\n2 %d\ncfn=f%d_1\ncalls=1 1\n3 %d\n",
                     level, i, level + 1, 40 - level, level + 1, 40 - level);
    }
    decode_text(&d, NULL, buf_cstr(&text));
    CHECK_INT(t, d.r, 0);
    CHECK_INT(t, decoded_total(t, &d, "Ir", "count"), 80);
    CHECK(t, has_note(&d, "cut to the direct caller"));
    decoded_done(t, &d);

    /* Many callers of a function of many lines: forgotten rather than multiplied. */
    buf_clear(&text);
    buf_add_str(&text, "events: Ir\n");
    for (int i = 0; i < 5000; i++)
        buf_addf(&text, "fn=f%d\n1 1\ncfn=x\ncalls=1 1\n2 10\n", i);
    buf_add_str(&text, "fn=x\n");
    for (int i = 0; i < 5000; i++)
        buf_addf(&text, "%d 10\n", i);
    decode_text(&d, NULL, buf_cstr(&text));
    CHECK_INT(t, d.r, 0);
    CHECK_INT(t, sum_at(&d, "x", 0), 50000);
    CHECK(t, has_note(&d, "cut to the direct caller"));
    decoded_done(t, &d);
    buf_done(&text);
}

static void reads_units_parts_threads_and_odd_lines(struct test *t)
{
    struct decoded d;
    decode_text(&d, NULL,
                "version: 1\ncreator: xdebug 3.0.2 (PHP 7.4.14)\nthread: 4\n"
                "events: Time_(10ns) Memory_(bytes) x(y) (z)\nfn=main\n"
                "1 20 15000\nevent: a : b\npart: 2\nthread: 5\nevents: Time_(10ns)\n"
                "fn=main\n1 3\n* *\n+1 +4\ntotals: 9\n");
    CHECK_STR(t, d.err.text, "");
    CHECK_INT(t, d.r, 0);
    CHECK_INT(t, d.set->profiles.len, 2);
    CHECK_INT(t, decoded_total(t, &d, "Time", "nanoseconds"), 300);
    CHECK_INT(t, decoded_total(t, &d, "Memory", "bytes"), 15000);
    CHECK_INT(t, decoded_total(t, &d, "x(y)", "count"), 0);
    CHECK(t, has_note(&d, "cost more than the summary line says"));
    const struct profile *p = d.set->profiles.data[1];
    uint32_t id =
        dict_attrs_get(p->dict, profile_attrs(p, 0), dict_find_string(p->dict, BYTES("thread.id")));
    CHECK_INT(t, p->dict->attributes.data[id].number, 5);
    CHECK_STR(t, leaf_type(p->dict, p->node[0]), "php");
    decoded_done(t, &d);

    decode_text(&d, NULL, "events: Ir\nob=(8)\nfn=(9)\n1 2\njfi=(3) a.c\njfn=(4) f\nfn=(4)\n1 2\n");
    CHECK_INT(t, d.r, 0);
    CHECK_INT(t, sum_at(&d, "(9)", 0), 2);
    CHECK_INT(t, sum_at(&d, "f", 0), 2);
    CHECK(t, has_note(&d, "is used and never given"));
    decoded_done(t, &d);
}

static void says_what_is_wrong_and_where(struct test *t)
{
    static const struct refusal cases[] = {
        {"fn=main\n1 2\n", "line 2: costs before the \"events:\" line"},
        {"fn=main\ncfn=x\ncalls=1 2\n", "line 3: calls before the \"events:\" line"},
        {"events: Ir\n1 2\n", "line 2: costs before the first \"fn=\" line"},
        {"events: Ir\nfn=a\n1 2 3\n", "line 3: more costs than events"},
        {"events: Ir\nfn=a\n1 x\n", "line 3: a cost is not a number"},
        {"events: Ir\nfn=a\n1 99999999999999999999\n", "line 3: a cost is not a number"},
        {"events: Ir\nfn=a\n1x 1\n", "line 3: a position is not a number"},
        {"events: Ir\nfn=a\n+x 1\n", "line 3: a position is not a number"},
        {"events: Ir\nfn=a\ncalls=1 1\n", "line 3: \"calls=\" without a \"cfn=\" line"},
        {"events: Ir\nfn=a\ncfn=b\ncalls=x 1\n", "line 4: the number of calls is not a number"},
        {"events: Ir\nfn=a\ncfn=b\ncalls=1 x\n", "line 4: a position is not a number"},
        {"events: Ir\nsummary: x\n", "line 2: the summary is not a list of numbers"},
        {"events: Ir\nevents: Ir\n", "line 2: a second \"events:\" line in one part"},
        {"events: Ir Ir\n", "line 1: an event is listed twice"},
        {"events: calls\n", "line 1: an event is called \"calls\""},
        {"events:\n", "line 1: no event is listed"},
        {"positions:\nevents: Ir\n", "line 1: no position is listed"},
        {"positions: a b c d e\nevents: Ir\n", "line 1: more than 4 positions"},
        {"version: 2\nevents: Ir\n", "line 1: only version 1 of the format is known"},
        {"events: Ir\nhello\n", "line 2: not a line of this format"},
        {"events: Ir\nzz=1\n", "line 2: not a line of this format"},
        {"pid: 1\n", "line 1: the file ends without an \"events:\" line"},
    };

    check_refusals(t, &format_callgrind, "callgrind at ", cases, ARRAY_SIZE(cases));

    struct buf many = {0};
    struct decoded d;
    buf_add_str(&many, "events:");
    for (int i = 0; i < 64; i++)
        buf_addf(&many, " e%d", i);
    decode_bytes(&d, NULL, buf_bytes(&many), 1 << 20);
    CHECK_STR(t, d.err.text, "test: callgrind at line 1: more than 63 events");
    decoded_done(t, &d);
    buf_done(&many);
}

static void survives_small_budgets_and_cut_files(struct test *t)
{
    check_budget_sweep(t, &format_callgrind, BYTES(graph), 61);
    check_truncation(t, &format_callgrind, BYTES(graph));
}

static void encode(struct test *t, const struct decoded *d, struct buf *out, struct buf *losses)
{
    struct error err = {""};
    CHECK_INT(t, format_callgrind.encode(d->set, out, losses, &err), 0);
}

static void writes_what_it_reads(struct test *t)
{
    struct decoded a, b;
    struct buf out = {0}, losses = {0};
    decode_text(&a, NULL, graph);
    encode(t, &a, &out, &losses);
    CHECK(t, strstr(buf_cstr(&out), "\npid: 77\ncmd: ./a.out -x\npositions: line\nevents: Ir Dr\n"
                                    "summary: 1001 101\n"));
    CHECK(t, strstr(buf_cstr(&out), "\ntotals: 1000 100\n"));
    CHECK(t, strstr(buf_cstr(&out), "\ncfn=(2) left\ncalls=2 20\n11 300 30\n"));
    CHECK(t, strstr(buf_cstr(&losses), "chain of callers"));
    CHECK(t, !strstr(buf_cstr(&losses), "number of calls"));

    decode_bytes(&b, NULL, buf_bytes(&out), 1 << 24);
    CHECK_STR(t, b.err.text, "");
    static const char *const stacks[] = {"",           "main",           "main;left",
                                         "main;right", "main;left;leaf", "main;right;leaf"};
    for (size_t i = 0; i < ARRAY_SIZE(stacks); i++) {
        for (uint32_t k = 0; k < 3; k++)
            CHECK_INT(t, sum_at(&b, stacks[i], k), sum_at(&a, stacks[i], k));
    }
    decoded_done(t, &a);
    decoded_done(t, &b);
    buf_done(&out);
    buf_done(&losses);
}

/* f -> g -> f -> g: the outer call from f to g already holds all of it. */
static void counts_recursion_once_when_writing(struct test *t)
{
    struct decoded d = {.r = 0};
    struct buf out = {0}, losses = {0};
    budget_init(&d.budget, 1 << 20);
    d.set = profile_set_new(&d.budget);
    struct dict *dict = d.set->dict;
    struct profile *p = profile_set_add(d.set);
    profile_add_ctype(p, "cpu time", "nano seconds");
    uint32_t f[2], node = 0;
    for (size_t i = 0; i < 2; i++) {
        struct line l = {.function = dict_function(
                             dict, (struct function){.name = dict_cstring(dict, i ? "g\ng" : "f")}),
                         .line = 3};
        f[i] = dict_location(dict, (struct location){0}, &l, 1);
    }
    for (size_t i = 0; i < 4; i++)
        node = dict_node(dict, node, f[i % 2]);
    node = dict_node(dict, node, dict_location(dict, (struct location){.address = 0x40}, NULL, 0));
    uint32_t attribute = dict_string_attribute(dict, dict_cstring(dict, "k"), f[0]);
    int64_t value = 5;
    profile_add(p, &(struct sample){.node = node,
                                    .values = &value,
                                    .attrs = dict_attrs(dict, &attribute, 1),
                                    .link = dict_link(dict, (struct link){{1}, {2}}),
                                    .time_ns = 9});
    uint32_t comment = dict_cstring(dict, "a comment");
    vec_push(&d.budget, &p->comments, comment);
    encode(t, &d, &out, &losses);
    CHECK(t, strstr(buf_cstr(&out), "desc: a comment\npositions: instr line\n"
                                    "events: cpu_time(nano_seconds)\nsummary: 5\n"));
    CHECK(t, strstr(buf_cstr(&out), "fn=(1) f\ncfn=(2) g g\ncalls=1 0x0 3\n0x0 3 5\n"));
    CHECK(t, strstr(buf_cstr(&out), "fn=(3)\n0x40 0 5\n"));
    CHECK(t, strstr(buf_cstr(&out), "cfn=(1)\ncalls=1 0x0 3\n0x0 3 5\n"));
    CHECK(t, strstr(buf_cstr(&losses), "number of calls is not known"));
    CHECK(t, strstr(buf_cstr(&losses), "no labels"));
    CHECK(t, strstr(buf_cstr(&losses), "no timestamps"));
    CHECK(t, strstr(buf_cstr(&losses), "no links"));
    buf_clear(&out);

    /* Too little memory is an error, not half a file. */
    size_t used = d.budget.used, limit = used;
    struct error err = {""};
    int r;
    do {
        d.budget.limit = limit += 8;
        d.budget.failed = false;
        buf_clear(&out);
        r = format_callgrind.encode(d.set, &out, &losses, &err);
        CHECK(t, r == 0 || (r == -ENOBUFS && out.len == 0));
        CHECK_INT(t, d.budget.used, used);
    } while (r < 0 && limit < used + (1 << 20));
    CHECK_INT(t, r, 0);
    profile_set_truncate(d.set, 0);
    buf_clear(&out);
    encode(t, &d, &out, &losses);
    CHECK_INT(t, out.len, 0);
    decoded_done(t, &d);
    buf_done(&out);
    buf_done(&losses);
}

static void writes_nothing_without_a_sample_type(struct test *t)
{
    struct decoded d = {.r = 0};
    struct buf out = {0}, losses = {0};
    struct error err = {""};
    budget_init(&d.budget, 1 << 20);
    d.set = profile_set_new(&d.budget);
    profile_set_add(d.set);
    CHECK_INT(t, format_callgrind.encode(d.set, &out, &losses, &err), -EOPNOTSUPP);
    CHECK_STR(t, err.text, "callgrind needs a profile with a sample type");
    decoded_done(t, &d);
    buf_done(&out);
    buf_done(&losses);
}

static void is_told_apart_by_content(struct test *t)
{
    CHECK_INT(t, format_callgrind.sniff(BYTES("# callgrind format\n")), 100);
    CHECK_INT(t, format_callgrind.sniff(BYTES("desc: x\ncmd: y\nevents: Ir\nfl=a\n")), 90);
    CHECK_INT(t, format_callgrind.sniff(BYTES("version: 1\nhello\nevents: Ir\n")), 0);
    CHECK_INT(t, format_callgrind.sniff(BYTES("version: 1\n")), 0);
    CHECK_INT(t, format_callgrind.sniff(BYTES("main;f 1\n")), 0);
}

static const struct test_case cases[] = {
    TEST(shares_a_call_graph_out_among_callers),
    TEST(keeps_files_lines_addresses_and_objects),
    TEST(folds_recursion_and_keeps_self_costs),
    TEST(deals_costs_out_without_losing_any),
    TEST(adds_up_what_is_listed_twice),
    TEST(keeps_what_no_caller_accounts_for),
    TEST(cuts_chains_that_multiply),
    TEST(reads_units_parts_threads_and_odd_lines),
    TEST(says_what_is_wrong_and_where),
    TEST(survives_small_budgets_and_cut_files),
    TEST(writes_what_it_reads),
    TEST(counts_recursion_once_when_writing),
    TEST(writes_nothing_without_a_sample_type),
    TEST(is_told_apart_by_content),
};
TEST_MAIN(cases)

#include <errno.h>

#include "lib/decode.h"

#define FORMAT (&format_collapsed)

static void reads_stacks_root_first_one_row_per_line(struct test *t)
{
    struct decoded d;
    decode_text(&d, NULL, "a;b;c 1\na;b;c 1\na;b;d 4\n\na;b 5");
    CHECK_INT(t, d.r, 0);
    CHECK_STR(t, d.format->name, "collapsed");
    const struct profile *p = d.set->profiles.data[0];
    CHECK_INT(t, p->n_samples, 4);
    CHECK_INT(t, decoded_total(t, &d, "samples", "count"), 11);
    CHECK_INT(t, p->node[0], p->node[1]);
    CHECK_STACK(t, p->dict, p->node[2], "a;b;d");
    CHECK_STACK(t, p->dict, p->node[3], "a;b");
    decoded_done(t, &d);
}

static void shares_a_prefix_only_at_frame_ends(struct test *t)
{
    struct decoded d;
    decode_text(&d, FORMAT, "main;foo;x 1\nmain;foobar 1\nmain;foo 1\nmain;fo 1\nma 1\n;;y 1\n");
    CHECK_INT(t, d.r, 0);
    const struct profile *p = d.set->profiles.data[0];
    CHECK_STACK(t, p->dict, p->node[1], "main;foobar");
    CHECK_STACK(t, p->dict, p->node[2], "main;foo");
    CHECK_STACK(t, p->dict, p->node[3], "main;fo");
    CHECK_STACK(t, p->dict, p->node[4], "ma");
    CHECK_INT(t, p->dict->node_parent.data[p->node[0]], p->node[2]);
    decoded_done(t, &d);
}

static void keeps_spaces_in_frames_and_takes_crlf_and_comments(struct test *t)
{
    struct decoded d;
    decode_text(&d, NULL,
                "# a comment 7\r\n#\r\nimpl Default for [T; _];my fn\t 3\r\n#<Class:X>;go 2\r\n");
    CHECK_INT(t, d.r, 0);
    const struct profile *p = d.set->profiles.data[0];
    CHECK_INT(t, p->n_samples, 2);
    CHECK_STACK(t, p->dict, p->node[0], "impl Default for [T; _];my fn");
    CHECK_STACK(t, p->dict, p->node[1], "#<Class:X>;go");
    CHECK_INT(t, decoded_total(t, &d, "samples", "count"), 5);
    decoded_done(t, &d);
}

static void suffixes_become_frame_types(struct test *t)
{
    struct decoded d;
    decode_text(&d, NULL, "a_[j];b_[i] 1\na_[j];k_[k] 1\nc_[1] 1\nc_[0] 1\nplain 1\n_[k] 1\n");
    CHECK_INT(t, d.r, 0);
    const struct profile *p = d.set->profiles.data[0];
    CHECK_STACK(t, p->dict, p->node[0], "a;b");
    CHECK_STR(t, leaf_type(p->dict, p->node[0]), "jvm");
    CHECK_STACK(t, p->dict, p->node[1], "a;k");
    CHECK_STR(t, leaf_type(p->dict, p->node[1]), "kernel");
    CHECK(t, p->node[2] != p->node[3]);
    CHECK_STR(t, leaf_type(p->dict, p->node[4]), "");
    CHECK_STACK(t, p->dict, p->node[5], "_[k]");
    decoded_done(t, &d);
}

static void fractions_are_kept_in_millionths(struct test *t)
{
    struct decoded d;
    decode_text(&d, NULL, "a 3\nb 14.5\nc -0.000001\nd 20.\ne .25\nf 1e2\ng 1.5e-6\n");
    CHECK_INT(t, d.r, 0);
    const struct profile *p = d.set->profiles.data[0];
    CHECK_INT(t, p->values[0][0], 3000000);
    CHECK_INT(t, p->values[0][1], 14500000);
    CHECK_INT(t, p->values[0][2], -1);
    CHECK_INT(t, p->values[0][3], 20000000);
    CHECK_INT(t, p->values[0][4], 250000);
    CHECK_INT(t, p->values[0][5], 100000000);
    CHECK_INT(t, p->values[0][6], 2);
    CHECK_STR(t, dict_cstr(p->dict, p->types[0].unit), "microcount");
    CHECK(t, has_note(&d, "counts have fractions: all are kept in millionths, rounded"));
    decoded_done(t, &d);
    decode_text(&d, NULL, "a 3.0\nb 4.\nc 2e3\nd +1\n");
    CHECK_INT(t, decoded_total(t, &d, "samples", "count"), 2008);
    CHECK_INT(t, d.set->notes.len, 0);
    decoded_done(t, &d);
    decode_text(&d, NULL, "a 0.9999999\nb 0.12345649\n");
    CHECK_INT(t, decoded_total(t, &d, "samples", "microcount"), 1000000 + 123456);
    decoded_done(t, &d);
}

static void two_counts_on_every_line_are_before_and_after(struct test *t)
{
    struct decoded d;
    decode_text(&d, NULL, "a;b 10 12\na;c 0 3\na 1.5 2\n");
    CHECK_INT(t, d.r, 0);
    CHECK_INT(t, decoded_total(t, &d, "before", "microcount"), 11500000);
    CHECK_INT(t, decoded_total(t, &d, "after", "microcount"), 17000000);
    CHECK_STACK(t, d.set->dict, d.set->profiles.data[0]->node[0], "a;b");
    CHECK(t, has_note(&d, "before and after"));
    decoded_done(t, &d);
    decode_text(&d, NULL, "a;b 10 12\na;c 3\n");
    CHECK_INT(t, decoded_total(t, &d, "samples", "count"), 15);
    CHECK_STACK(t, d.set->dict, d.set->profiles.data[0]->node[0], "a;b 10");
    decoded_done(t, &d);
}

static void refuses_what_is_not_collapsed_and_says_where(struct test *t)
{
    static const struct refusal cases[] = {
        {"main", "collapsed at line 1: not \"frame;frame count\""},
        {"main 1\nmain x\n", "collapsed at line 2: not \"frame;frame count\""},
        {" 1\n", "collapsed at line 1: not \"frame;frame count\""},
        {"a 1e\n", "collapsed at line 1: not \"frame;frame count\""},
        {"a .\n", "collapsed at line 1: not \"frame;frame count\""},
        {"a 99999999999999999999\n", "collapsed at line 1: the count is too large"},
        {"a 1e30\n", "collapsed at line 1: the count is too large"},
        {"a 9000000000000000000\nb 0.5\n",
         "collapsed at line 2: the counts are too large to be kept in millionths"},
        {"a 9000000000000000000\nb 5e-1\n",
         "collapsed at line 2: the counts are too large to be kept in millionths"},
        {"a 0.5\nb 9000000000000000000\n",
         "collapsed at line 2: the count is too large to be kept in millionths"},
    };

    check_refusals(t, FORMAT, "", cases, ARRAY_SIZE(cases));
    struct decoded d;
    decode_bytes(&d, FORMAT, BYTES("a\0b 1\n"), 1 << 20);
    CHECK_STR(t, d.err.text, "test: collapsed at line 1: a NUL byte; this is not text");
    decoded_done(t, &d);
    char number[80] = "a 1e";
    memset(number + 4, '0', 70);
    decode_text(&d, FORMAT, number);
    CHECK_STR(t, d.err.text, "test: collapsed at line 1: the count is not a number");
    decoded_done(t, &d);
}

static void a_differential_file_stays_one(struct test *t)
{
    CLEANUP(buf_done) struct buf text = {0};
    while (text.len < 2 * INPUT_PEEK_BYTES)
        buf_add_str(&text, "main;work 10 20\n");
    size_t n = text.len / 16;
    buf_add_str(&text, "main;work 10\n");
    struct decoded d;
    decode_bytes(&d, NULL, buf_bytes(&text), 1 << 26);
    char want[128];
    snprintf(want, sizeof(want),
             "test: collapsed at line %zu: not \"frame;frame count count\" as the lines above",
             n + 1);
    CHECK_STR(t, d.err.text, want);
    decoded_done(t, &d);
}

static void a_line_of_megabytes_is_held_within_the_budget(struct test *t)
{
    CLEANUP(buf_done) struct buf text = {0};
    while (text.len < (size_t)3 << 20)
        buf_add_str(&text, "frame;");
    buf_add_str(&text, "leaf 7");
    struct decoded d;
    decode_bytes(&d, NULL, buf_bytes(&text), (size_t)1 << 28);
    CHECK_INT(t, d.r, 0);
    CHECK_INT(t, decoded_total(t, &d, "samples", "count"), 7);
    decoded_done(t, &d);
    decode_bytes(&d, NULL, buf_bytes(&text), (size_t)1 << 20);
    CHECK_INT(t, d.r, -ENOBUFS);
    decoded_done(t, &d);
}

static void takes_nothing_else_for_collapsed(struct test *t)
{
    static const char *const texts[] = {
        "", "{\"a\": 1}\n", "hello\n", "# only a comment\n", "a 1\nb\n", "\x01;a 1\n",
    };

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        CHECK_INT(t, format_collapsed.sniff(bytes_of(texts[i])), 0);
}

static void check_write(struct test *t, const char *from, const char *to, const char *losses)
{
    struct decoded d;
    struct buf out = {0}, lost = {0};

    decode_text(&d, FORMAT, from);
    CHECK_INT(t, d.r, 0);
    CHECK_INT(t, format_collapsed.encode(d.set, &out, &lost, &d.err), 0);
    CHECK_STR(t, buf_cstr(&out), to);
    CHECK_STR(t, buf_cstr(&lost), losses);
    buf_done(&out);
    buf_done(&lost);
    decoded_done(t, &d);
}

static void writes_each_stack_once_sorted(struct test *t)
{
    check_write(t, "b 1\na;c_[k] 2\na 3\nb 4\n", "a 3\na;c_[k] 2\nb 5\n", "");
    check_write(t, "x_[j];y_[i] 1\nz_[1] 1\nz_[0] 1\n", "x_[j];y_[i] 1\nz_[0] 1\nz_[1] 1\n", "");
    check_write(t, "a 1.5\nb 2\nc -0.25\n", "a 1.5\nb 2\nc -0.25\n", "");
    check_write(t, "a 1 2\n", "a 2\n", "sample types other than after/count: before/count\n");
    check_write(t, "a 1\na -1\nb 1\n", "b 1\n", "2 samples of stacks whose total is 0\n");
    check_write(t, "a;;b 1\n", "a;[unknown];b 1\n", "");
}

static void writing_states_every_loss(struct test *t)
{
    struct budget b;
    struct buf out = {0}, lost = {0};
    struct error err;
    budget_init(&b, 1 << 24);
    struct profile_set *set = profile_set_new(&b);
    struct dict *d = set->dict;
    CHECK_INT(t, format_collapsed.encode(set, &out, &lost, &err), -EOPNOTSUPP);
    CHECK_STR(t, err.text, "collapsed stacks hold one profile, not 0");
    struct profile *p = profile_set_add(set);
    CHECK_INT(t, format_collapsed.encode(set, &out, &lost, &err), 0);
    CHECK_INT(t, out.len, 0);
    profile_add_ctype(p, "cpu", "nanoseconds");

    uint32_t m = dict_mapping(d, (struct mapping){.start = 16, .file = dict_cstring(d, "/bin/x")});
    struct line lines[2] = {
        {.function = dict_function(d, (struct function){.name = dict_cstring(d, "in;ner\n")})},
        {.function = dict_function(d, (struct function){.name = dict_cstring(d, "outer"),
                                                        .file = dict_cstring(d, "x.c")}),
         .line = 7},
    };
    uint32_t stack[4] = {
        dict_location(d, (struct location){.address = 32, .mapping = m}, NULL, 0),
        dict_location(d, (struct location){.address = 33}, lines, 2),
        dict_location(d, (struct location){.address = 34}, NULL, 0),
        dict_location(d, (struct location){.mapping = m}, NULL, 0),
    };
    int64_t v = 5;
    uint32_t label = dict_string_attribute(d, dict_cstring(d, "k"), dict_cstring(d, "v"));
    uint32_t node = dict_stack(d, stack, 4);
    profile_add(p, &(struct sample){.node = node,
                                    .attrs = dict_attrs(d, &label, 1),
                                    .link = dict_link(d, (struct link){.span_id = {1}}),
                                    .time_ns = 1,
                                    .values = &v});
    profile_add(p, &(struct sample){.node = 0, .values = &v});
    p->period = 1;
    CHECK_INT(t, format_collapsed.encode(set, &out, &lost, &err), 0);
    CHECK_STR(t, buf_cstr(&out), "[no stack] 5\nx;0x22;outer;in:ner ;x+0x20 5\n");
    CHECK_STR(t, buf_cstr(&lost),
              "the unit of the counts (nanoseconds)\n"
              "labels of samples\n"
              "links to spans\n"
              "times of samples\n"
              "addresses and mappings of frames\n"
              "line numbers\n"
              "source file names\n"
              "time, duration, period and comments of the profile\n"
              "semicolons and line ends in names (written as ':' and ' ')\n");
    for (size_t room = 0; room < 1 << 16; room += 16) {
        b.limit = b.used + room;
        int r = format_collapsed.encode(set, &out, &lost, &err);
        CHECK(t, r == 0 || r == -ENOBUFS);
        b.failed = false;
    }
    buf_done(&out);
    buf_done(&lost);
    profile_set_free(set);
    CHECK_INT(t, b.used, 0);
}

static void survives_running_out_of_memory_anywhere(struct test *t)
{
    check_budget_sweep(t, FORMAT, BYTES("main;parse_[j];read_token 42\nmain;write 1.5\n"), 97);
}

static void survives_being_cut_anywhere(struct test *t)
{
    check_truncation(t, FORMAT, BYTES("a;b_[k] 10\r\n# c\nmain;write 1.5e1\n"));
}

static const struct test_case cases[] = {
    TEST(reads_stacks_root_first_one_row_per_line),
    TEST(shares_a_prefix_only_at_frame_ends),
    TEST(keeps_spaces_in_frames_and_takes_crlf_and_comments),
    TEST(suffixes_become_frame_types),
    TEST(fractions_are_kept_in_millionths),
    TEST(two_counts_on_every_line_are_before_and_after),
    TEST(refuses_what_is_not_collapsed_and_says_where),
    TEST(a_differential_file_stays_one),
    TEST(a_line_of_megabytes_is_held_within_the_budget),
    TEST(takes_nothing_else_for_collapsed),
    TEST(writes_each_stack_once_sorted),
    TEST(writing_states_every_loss),
    TEST(survives_running_out_of_memory_anywhere),
    TEST(survives_being_cut_anywhere),
};
TEST_MAIN(cases)

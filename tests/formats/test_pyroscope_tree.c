#include <errno.h>

#include "lib/decode.h"
#include "wire/protobuf.h"

#define TREE (&format_pyroscope_tree)
#define TRIE (&format_pyroscope_trie)

/* A node: a name of fewer than 128 bytes, a value and a number of children, both below 128. */
static void put(struct buf *b, const char *name, uint8_t value, uint8_t children)
{
    buf_add_byte(b, (uint8_t)strlen(name));
    buf_add_str(b, name);
    buf_add_byte(b, value);
    buf_add_byte(b, children);
}

static void check_row(struct test *t, const struct decoded *d, size_t i, const char *stack,
                      int64_t value)
{
    const struct profile *p = d->set->profiles.data[0];

    CHECK(t, i < p->n_samples);
    if (i >= p->n_samples)
        return;
    CHECK_STACK(t, p->dict, p->node[i], stack);
    CHECK_INT(t, p->values[0][i], value);
}

static void a_tree_has_a_frame_for_each_node(struct test *t)
{
    CLEANUP(buf_done) struct buf b = {0};
    struct decoded d;

    put(&b, "", 3, 2);
    put(&b, "main", 0, 2);
    put(&b, "parse", 1, 1);
    put(&b, "read", 100, 0);
    put(&b, "write", 2, 0);
    put(&b, "idle;not split", 7, 0);
    decode_bytes(&d, TREE, buf_bytes(&b), 1 << 20);
    CHECK_INT(t, d.r, 0);
    CHECK_INT(t, decoded_total(t, &d, "samples", "count"), 113);
    check_row(t, &d, 0, "", 3);
    check_row(t, &d, 1, "main;parse", 1);
    check_row(t, &d, 2, "main;parse;read", 100);
    check_row(t, &d, 3, "main;write", 2);
    check_row(t, &d, 4, "idle;not split", 7);
    CHECK_INT(t, d.set->profiles.data[0]->n_samples, 5);
    decoded_done(t, &d);
}

static void numbers_are_varints(struct test *t)
{
    struct decoded d;

    decode_bytes(&d, TREE, BYTES("\0\0\1\1a\xac\x02\0"), 1 << 20);
    CHECK_INT(t, d.r, 0);
    check_row(t, &d, 0, "a", 300);
    decoded_done(t, &d);
}

static void a_trie_spells_stacks_along_its_way(struct test *t)
{
    CLEANUP(buf_done) struct buf b = {0};
    struct decoded d;

    put(&b, "", 0, 2);
    put(&b, "main", 5, 3);
    put(&b, ";parse", 0, 2);
    put(&b, ";read", 1, 1);
    put(&b, "_all", 2, 0);
    put(&b, "r;x_[k]", 3, 0);
    put(&b, "2", 4, 0);
    put(&b, ":run;parse", 6, 0);
    put(&b, "z", 8, 0);
    decode_bytes(&d, TRIE, buf_bytes(&b), 1 << 20);
    CHECK_INT(t, d.r, 0);
    check_row(t, &d, 0, "main", 5);
    check_row(t, &d, 1, "main;parse;read", 1);
    check_row(t, &d, 2, "main;parse;read_all", 2);
    check_row(t, &d, 3, "main;parser;x", 3);
    check_row(t, &d, 4, "main2", 4);
    check_row(t, &d, 5, "main:run;parse", 6);
    check_row(t, &d, 6, "z", 8);
    CHECK_INT(t, d.set->profiles.data[0]->n_samples, 7);
    CHECK_STR(t, leaf_type(d.set->dict, d.set->profiles.data[0]->node[3]), "kernel");
    decoded_done(t, &d);
}

static void a_tree_of_nothing_is_an_empty_profile(struct test *t)
{
    const struct format *both[] = {TREE, TRIE};

    for (size_t i = 0; i < 2; i++) {
        struct decoded d;
        decode_bytes(&d, both[i], BYTES("\0\0\0"), 1 << 20);
        CHECK_INT(t, d.r, 0);
        CHECK_INT(t, d.set->profiles.data[0]->n_samples, 0);
        decoded_done(t, &d);
    }
}

static void refuses_what_is_not_one_and_says_where(struct test *t)
{
    static const struct {
        const struct format *format;
        struct bytes content;
        const char *why;
    } cases[] = {
        {TREE, BYTES("\0\0\1"), "tree at byte 3: nodes are missing: it is cut short"},
        {TREE, BYTES("\0\0\1\5abc"), "tree at byte 3: a name runs past the end"},
        {TREE, BYTES("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
         "tree at byte 0: a name runs past the end"},
        {TREE, BYTES("\0\xff"), "tree at byte 1: a value is cut short or too long"},
        {TREE, BYTES("\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\0"),
         "tree at byte 1: a value is too large"},
        {TREE, BYTES("\0\0"), "tree at byte 2: a number of children is cut short or too long"},
        {TREE, BYTES("\0\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
         "tree at byte 12: nodes are missing: it is cut short"},
        {TREE, BYTES("\0\0\0more"), "tree at byte 3: bytes follow behind the last node"},
        {TRIE, BYTES("\0\0\2\1a\1\0\1a\1\0"), "trie at byte 8: two children of a node begin alike"},
        {TRIE, BYTES("\0\0\1\0\1\0"), "trie at byte 6: a node below the root has no name"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct decoded d;
        char want[200];
        decode_bytes(&d, cases[i].format, cases[i].content, 1 << 20);
        snprintf(want, sizeof(want), "test: pyroscope %s", cases[i].why);
        CHECK_INT(t, d.r, -EBADMSG);
        CHECK_STR(t, d.err.text, want);
        decoded_done(t, &d);
    }
}

static void depth_costs_budget_and_not_stack(struct test *t)
{
    CLEANUP(buf_done) struct buf b = {0};
    struct decoded d;

    for (size_t i = 0; i < 200000; i++)
        put(&b, "f", 0, 1);
    put(&b, "f", 1, 0);
    decode_bytes(&d, TREE, buf_bytes(&b), (size_t)1 << 28);
    CHECK_INT(t, d.r, 0);
    decoded_done(t, &d);
    decode_bytes(&d, TRIE, buf_bytes(&b), (size_t)1 << 28);
    CHECK_INT(t, d.r, 0);
    decoded_done(t, &d);
    decode_bytes(&d, TREE, buf_bytes(&b), (size_t)1 << 20);
    CHECK_INT(t, d.r, -ENOBUFS);
    decoded_done(t, &d);
}

/* 32 MB of key in front of a hundred thousand short stacks: a pass over it for each of them would
 * take hours. */
static void a_long_beginning_is_read_once(struct test *t)
{
    CLEANUP(buf_done) struct buf b = {0};
    struct decoded d;
    size_t len = (size_t)32 << 20;

    pb_put_varint(&b, len);
    memset(buf_reserve(&b, len), 'x', len);
    b.len += len;
    b.data[b.len - 1] = ';';
    buf_add_byte(&b, 0);
    buf_add_byte(&b, 100);
    for (int i = 0; i < 100; i++) {
        char first[2] = {(char)(100 + i), 0};
        put(&b, first, 0, 100);
        for (int k = 0; k < 100; k++) {
            char second[2] = {(char)(100 + k), 0};
            put(&b, second, 0, 10);
            for (int j = 0; j < 10; j++) {
                char third[2] = {(char)('0' + j), 0};
                put(&b, third, 1, 0);
            }
        }
    }
    decode_bytes(&d, TRIE, buf_bytes(&b), (size_t)1 << 30);
    CHECK_INT(t, d.r, 0);
    CHECK_INT(t, decoded_total(t, &d, "samples", "count"), 100000);
    decoded_done(t, &d);
}

static void lines_count_one_each(struct test *t)
{
    struct decoded d;

    decode_text(&d, &format_pyroscope_lines, "main;parse 2\r\n\nmain;parse 2\nmain\nx;y");
    CHECK_INT(t, d.r, 0);
    CHECK_INT(t, decoded_total(t, &d, "samples", "count"), 4);
    check_row(t, &d, 0, "main;parse 2", 1);
    check_row(t, &d, 2, "main", 1);
    check_row(t, &d, 3, "x;y", 1);
    decoded_done(t, &d);
    decode_bytes(&d, &format_pyroscope_lines, BYTES("a;b\nc\0d\n"), 1 << 20);
    CHECK_STR(t, d.err.text, "test: pyroscope lines at line 2: a NUL byte; this is not text");
    decoded_done(t, &d);
    check_budget_sweep(t, &format_pyroscope_lines, BYTES("main;a\nmain;b\n"), 97);
}

static void groups_end_in_a_count(struct test *t)
{
    static const struct refusal refused[] = {
        {"main", "line 1: not \"frame;frame count\""},
        {"a 1\n 5\n", "line 2: not \"frame;frame count\""},
        {"a 1.5\n", "line 1: the count is not a whole number"},
        {"a 99999999999999999999\n", "line 1: the count is not a whole number"},
    };
    struct decoded d;

    decode_text(&d, &format_pyroscope_groups, "main;line 10 2\r\n\nmain;line 11 3\n# x 4");
    CHECK_INT(t, d.r, 0);
    CHECK_INT(t, decoded_total(t, &d, "samples", "count"), 9);
    check_row(t, &d, 0, "main;line 10", 2);
    check_row(t, &d, 2, "# x", 4);
    decoded_done(t, &d);
    check_refusals(t, &format_pyroscope_groups, "pyroscope groups at ", refused,
                   ARRAY_SIZE(refused));
}

static const struct bytes small = BYTES("\0\0\2\4main\1\2\2;a\3\0\1b\2\0\1z\1\0");

static void survives_running_out_of_memory_anywhere(struct test *t)
{
    check_budget_sweep(t, TREE, small, 97);
    check_budget_sweep(t, TRIE, small, 97);
}

static void survives_being_cut_anywhere(struct test *t)
{
    check_truncation(t, TREE, small);
    check_truncation(t, TRIE, small);
}

static const struct test_case cases[] = {
    TEST(a_tree_has_a_frame_for_each_node),
    TEST(numbers_are_varints),
    TEST(a_trie_spells_stacks_along_its_way),
    TEST(a_tree_of_nothing_is_an_empty_profile),
    TEST(refuses_what_is_not_one_and_says_where),
    TEST(depth_costs_budget_and_not_stack),
    TEST(a_long_beginning_is_read_once),
    TEST(lines_count_one_each),
    TEST(groups_end_in_a_count),
    TEST(survives_running_out_of_memory_anywhere),
    TEST(survives_being_cut_anywhere),
};
TEST_MAIN(cases)

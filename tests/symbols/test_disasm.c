#include <errno.h>
#include <unistd.h>

#include "lib/corpus.h"
#include "lib/test.h"
#include "symbols/disasm.h"
#include "symbols/disasm_internal.h"

struct seen {
    size_t rows, calls, placed;
    uint64_t next; /* rows must follow each other */
    bool is_gapless;
    char first[128], function[128];
    uint64_t start, end;
    size_t stop_after;
};

static int take_row(const struct disasm_row *row, void *opaque)
{
    struct seen *s = opaque;

    if (s->rows == 0) {
        snprintf(s->first, sizeof(s->first), "%s", row->text);
        s->is_gapless = true;
    } else if (row->address != s->next) {
        s->is_gapless = false;
    }
    s->next = row->address + row->code.len;
    s->rows++;
    s->calls += strstr(row->text, "<") != NULL;
    s->placed += row->file && row->line > 0;
    return s->stop_after && s->rows == s->stop_after ? -ECANCELED : 0;
}

static int take_symbol(const char *name, uint64_t start, uint64_t end, void *opaque)
{
    struct seen *s = opaque;

    snprintf(s->function, sizeof(s->function), "%s", name);
    s->start = start;
    s->end = end;
    return 0;
}

static struct binary *open_own(const char *name)
{
    char path[256];
    struct binary *b = NULL;
    struct error err;

    snprintf(path, sizeof(path), "elf/own/%s", name);
    return binary_open(corpus_path(path), NULL, &b, &err) < 0 ? NULL : b;
}

static void find(struct test *t, struct binary *b, const char *pattern, struct seen *s)
{
    struct regex *re = NULL;
    struct error err;

    CHECK_INT(t, regex_new(bytes_of(pattern), &re, &err), 0);
    CHECK_INT(t, disasm_find(b, re, 0, take_symbol, s), 0);
    regex_free(re);
}

static void disassembles_functions_with_their_lines(struct test *t)
{
    static const struct {
        const char *file, *pattern, *first;
    } cases[] = {
        {"work", "^main$", "pushq %rbp"},
        {"fib-aarch64", "^inner$", NULL},
        {"fib-i686", "^inner$", NULL},
        {"shapes-gxx12", "^geo::Circle::area$", NULL},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct seen s = {0};
        struct error err;
        CLEANUP(binary_closep) struct binary *b = open_own(cases[i].file);
        if (!b)
            TEST_SKIP(t, CORPUS_ABSENT);
        find(t, b, cases[i].pattern, &s);
        CHECK(t, s.end > s.start);
        CHECK_INT(
            t, disasm_code(b, &(struct disasm_request){s.start, s.end, false}, take_row, &s, &err),
            0);
        CHECK(t, s.rows > 3 && s.is_gapless && s.next == s.end);
        CHECK(t, s.placed > s.rows / 2);
        if (cases[i].first)
            CHECK_STR(t, s.first, cases[i].first);
    }
}

static void names_branch_targets_and_knows_intels_syntax(struct test *t)
{
    struct seen s = {0};
    struct error err;
    CLEANUP(binary_closep) struct binary *b = open_own("work");

    if (!b)
        TEST_SKIP(t, CORPUS_ABSENT);
    find(t, b, "^fib$", &s);
    CHECK_INT(t, disasm_code(b, &(struct disasm_request){s.start, s.end, true}, take_row, &s, &err),
              0);
    CHECK(t, s.calls > 0);
    CHECK(t, !strchr(s.first, '%'));
    /* The sink may stop it. */
    struct seen two = {.stop_after = 2};
    CHECK_INT(t,
              disasm_code(b, &(struct disasm_request){s.start, s.end, false}, take_row, &two, &err),
              -ECANCELED);
    CHECK_INT(t, two.rows, 2);
    /* A function may also be found by an address in it. */
    struct seen by_address = {0};
    CHECK_INT(t, disasm_find(b, NULL, s.start + 3, take_symbol, &by_address), 0);
    CHECK_STR(t, by_address.function, "fib");
}

static void runs_objdump_for_other_machines(struct test *t)
{
    struct seen s = {0};
    struct error err;
    CLEANUP(binary_closep) struct binary *b = open_own("fib-riscv64");

    if (!b)
        TEST_SKIP(t, CORPUS_ABSENT);
    find(t, b, "^inner$", &s);
    int r = disasm_code(b, &(struct disasm_request){s.start, s.end, false}, take_row, &s, &err);
    /* This objdump may know RISC-V or not; it must say so. */
    if (r < 0) {
        CHECK_INT(t, r, -EOPNOTSUPP);
        CHECK(t, strstr(err.text, "capstone does not know this machine"));
    } else {
        CHECK(t, s.rows > 3);
    }
}

static void reads_objdumps_lines(struct test *t)
{
    char x86[] = "    1139:\t48 89 e5             \tmov    %rsp,%rbp\n";
    char riscv[] = "   111a8:\t1141                \taddi\tsp,sp,-16\n";
    char other[] = "0000000000001139 <main>:\n";
    uint8_t code[32];
    struct disasm_row row;

    CHECK(t, disasm_parse_objdump(x86, code, &row));
    CHECK(t, row.address == 0x1139 && row.code.len == 3 && code[2] == 0xe5);
    CHECK_STR(t, row.text, "mov    %rsp,%rbp");
    CHECK(t, disasm_parse_objdump(riscv, code, &row));
    CHECK(t, row.address == 0x111a8 && row.code.len == 2);
    CHECK_STR(t, row.text, "addi sp,sp,-16");
    CHECK(t, !disasm_parse_objdump(other, code, &row));
}

static void refuses_ranges_without_code(struct test *t)
{
    struct seen s = {0};
    struct error err;
    CLEANUP(binary_closep) struct binary *b = open_own("work");

    if (!b)
        TEST_SKIP(t, CORPUS_ABSENT);
    CHECK_INT(t,
              disasm_code(b, &(struct disasm_request){0x2000, 0x1000, false}, take_row, &s, &err),
              -ERANGE);
    CHECK_STR(t, err.text, "no code from 0x2000 to 0x1000");
    CHECK_INT(t, disasm_code(b, &(struct disasm_request){0, 1ull << 40, false}, take_row, &s, &err),
              -E2BIG);
    CHECK_STR(t, err.text, "1099511627776 bytes of code are more than the limit of 16777216");
    CHECK_INT(t,
              disasm_code(b, &(struct disasm_request){1ull << 40, (1ull << 40) + 8, false},
                          take_row, &s, &err),
              -ERANGE);
    CLEANUP(binary_closep) struct binary *debug = open_own("work-stripped.debug");
    CHECK_INT(
        t, disasm_code(debug, &(struct disasm_request){0x1100, 0x1110, false}, take_row, &s, &err),
        -ERANGE);
    CHECK(t, strstr(err.text, "holds debug info only, not the code"));
}

static const struct test_case cases[] = {
    TEST(disassembles_functions_with_their_lines),
    TEST(names_branch_targets_and_knows_intels_syntax),
    TEST(runs_objdump_for_other_machines),
    TEST(reads_objdumps_lines),
    TEST(refuses_ranges_without_code),
};
TEST_MAIN(cases)

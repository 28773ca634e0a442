/*
 * What code says about itself: lengths of instructions, and frames as followed through real
 * libraries, against what their tables say.
 */
#include <errno.h>

#include "lib/test.h"
#include "unwind/code_walk.h"
#include "unwind/unwind_table.h"
#include "unwind/x86_decode.h"

struct instruction {
    struct bytes code;
    enum x86_kind kind;
    int32_t value;
};

static void knows_what_moves_the_stack(struct test *t)
{
    static const struct instruction cases[] = {
        {BYTES("\x55"), X86_PUSH_FP, 0},
        {BYTES("\x41\x55"), X86_PUSH, 0},
        {BYTES("\x6a\xff"), X86_PUSH, -1},
        {BYTES("\x68\x01\x02\x03\x04"), X86_PUSH, 0x04030201},
        {BYTES("\xff\x75\x08"), X86_PUSH, 0},
        {BYTES("\x9c"), X86_PUSH, 0},
        {BYTES("\x5d"), X86_POP_FP, 0},
        {BYTES("\x41\x5d"), X86_POP, 0},
        {BYTES("\x5c"), X86_SET_SP, 0},
        {BYTES("\x8f\x45\x08"), X86_POP, 0},
        {BYTES("\x48\x83\xec\x18"), X86_ADD_SP, -24},
        {BYTES("\x48\x83\xc4\x18"), X86_ADD_SP, 24},
        {BYTES("\x48\x81\xec\x00\x10\x00\x00"), X86_ADD_SP, -4096},
        {BYTES("\x48\x8d\x64\x24\xf8"), X86_ADD_SP, -8},
        {BYTES("\x48\x8d\xa4\x24\x00\x01\x00\x00"), X86_ADD_SP, 256},
        {BYTES("\x48\x8d\x65\xd8"), X86_SP_FROM_FP, -40},
        {BYTES("\x48\x89\xec"), X86_SP_FROM_FP, 0},
        {BYTES("\x48\x89\xe5"), X86_FP_FROM_SP, 0},
        {BYTES("\x48\x8b\xec"), X86_FP_FROM_SP, 0},
        {BYTES("\x48\x83\xe4\xe0"), X86_ALIGN_SP, 0},
        {BYTES("\xc9"), X86_LEAVE, 0},
        {BYTES("\x48\x89\xc4"), X86_SET_SP, 0},
        {BYTES("\x48\x29\xc4"), X86_ALIGN_SP, 0},
        {BYTES("\x48\x2b\x20"), X86_ALIGN_SP, 0},
        {BYTES("\x48\x87\xe0"), X86_SET_SP, 0},
        {BYTES("\x80\xcc\x0c"), X86_OTHER, 0},
        {BYTES("\x40\x80\xcc\x0c"), X86_SET_SP, 0},
        {BYTES("\x31\xed"), X86_SET_FP, 0},
        {BYTES("\x48\x8d\x2d\x00\x00\x00\x00"), X86_SET_FP, 0},
        {BYTES("\xbd\x01\x00\x00\x00"), X86_SET_FP, 1},
        {BYTES("\x41\xbd\x01\x00\x00\x00"), X86_OTHER, 1},
        {BYTES("\x48\x83\xfc\x10"), X86_OTHER, 0},
        {BYTES("\x48\x39\xc4"), X86_OTHER, 0},
        {BYTES("\x48\x89\x04\x24"), X86_OTHER, 0},
        {BYTES("\x49\x89\xc4"), X86_OTHER, 0},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct x86_instruction got = {0};
        bool good = x86_decode(cases[i].code, &got) && got.kind == cases[i].kind &&
                    got.len == cases[i].code.len &&
                    (got.value == cases[i].value || got.kind == X86_OTHER);
        if (!good)
            printf("# case %zu: kind %d, length %d, value %d\n", i, got.kind, got.len, got.value);
        CHECK(t, good);
        for (size_t n = 0; n < cases[i].code.len; n++)
            CHECK(t, !x86_decode(bytes_head(cases[i].code, n), &got) || got.len <= n);
    }
}

static void knows_where_code_goes_on(struct test *t)
{
    static const struct instruction cases[] = {
        {BYTES("\xe8\x10\x00\x00\x00"), X86_CALL, 16},
        {BYTES("\xff\xd0"), X86_CALL_AWAY, 0},
        {BYTES("\x41\xff\x54\x24\x08"), X86_CALL_AWAY, 0},
        {BYTES("\xeb\xfe"), X86_JUMP, -2},
        {BYTES("\xe9\x00\x01\x00\x00"), X86_JUMP, 256},
        {BYTES("\xff\xe0"), X86_JUMP_AWAY, 0},
        {BYTES("\x3e\xff\x24\xc5\x00\x00\x00\x00"), X86_JUMP_AWAY, 0},
        {BYTES("\xff\x25\x70\x14\x00\x00"), X86_JUMP_SLOT, 0},
        {BYTES("\x74\x05"), X86_BRANCH, 5},
        {BYTES("\x0f\x84\x00\x01\x00\x00"), X86_BRANCH, 256},
        {BYTES("\xe3\x10"), X86_BRANCH, 16},
        {BYTES("\xc3"), X86_RETURN, 0},
        {BYTES("\xf3\xc3"), X86_RETURN, 0},
        {BYTES("\xc2\x08\x00"), X86_RETURN, 0},
        {BYTES("\xf4"), X86_STOP, 0},
        {BYTES("\xcc"), X86_STOP, 0},
        {BYTES("\x0f\x0b"), X86_STOP, 0},
        {BYTES("\x48\x8d\x05\x93\xff\xff\xff"), X86_CODE_ADDRESS, -109},
        {BYTES("\x90"), X86_NOP, 0},
        {BYTES("\x66\x2e\x0f\x1f\x84\x00\x00\x00\x00\x00"), X86_NOP, 0},
        {BYTES("\xf3\x0f\x1e\xfa"), X86_OTHER, 0},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct x86_instruction got = {0};
        bool good = x86_decode(cases[i].code, &got) && got.kind == cases[i].kind &&
                    got.len == cases[i].code.len &&
                    (got.value == cases[i].value || got.kind == X86_OTHER);
        if (!good)
            printf("# case %zu: kind %d, length %d, value %d\n", i, got.kind, got.len, got.value);
        CHECK(t, good);
    }
}

static void knows_how_long_instructions_are(struct test *t)
{
    static const struct bytes cases[] = {
        BYTES("\x48\xb8\x01\x02\x03\x04\x05\x06\x07\x08"),     /* mov $imm64,%rax */
        BYTES("\xa1\x01\x02\x03\x04\x05\x06\x07\x08"),         /* mov from an absolute address */
        BYTES("\x66\xc7\x04\x24\x01\x02"),                     /* movw $imm16,(%rsp) */
        BYTES("\xf7\x04\x25\x00\x00\x00\x00\x01\x00\x00\x00"), /* testl $1,0x0 */
        BYTES("\xf7\xd8"),                                     /* neg %eax */
        BYTES("\xf6\xc1\x01"),                                 /* test $1,%cl */
        BYTES("\xc8\x10\x00\x01"),                             /* enter */
        BYTES("\x0f\xba\xe0\x05"),                             /* bt $5,%eax */
        BYTES("\x0f\x05"),                                     /* syscall */
        BYTES("\x0f\xc8"),                                     /* bswap */
        BYTES("\x66\x0f\x70\xc0\x1b"),                         /* pshufd */
        BYTES("\x66\x0f\x3a\x0f\xc1\x08"),                     /* palignr */
        BYTES("\x66\x0f\x38\x00\xc1"),                         /* pshufb */
        BYTES("\xc5\xf8\x77"),                                 /* vzeroupper */
        BYTES("\xc5\xfd\x6f\x44\x24\x20"),                     /* vmovdqa 32(%rsp),%ymm0 */
        BYTES("\xc4\xe3\x7d\x39\xc1\x01"),                     /* vextracti128 */
        BYTES("\xc4\xe2\x7d\x58\x05\x00\x00\x00\x00"),         /* vpbroadcastd 0(%rip),%ymm0 */
        BYTES("\x62\xf1\x7c\x48\x10\x44\x24\x01"),             /* vmovups 64(%rsp),%zmm0 */
        BYTES("\x62\xf3\x7d\x48\x25\xc0\xff"),                 /* vpternlogd */
        BYTES("\xf0\x48\x0f\xb1\x0d\x00\x00\x00\x00"),         /* lock cmpxchg */
        BYTES("\xf3\x48\xab"),                                 /* rep stos */
        BYTES("\xd9\x44\x24\x08"),                             /* flds */
        BYTES("\x64\x48\x8b\x04\x25\x28\x00\x00\x00"),         /* mov %fs:0x28,%rax */
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct x86_instruction got = {0};
        CHECK(t, x86_decode(cases[i], &got));
        CHECK_INT(t, got.len, cases[i].len);
        for (size_t n = 0; n < cases[i].len; n++)
            CHECK(t, !x86_decode(bytes_head(cases[i], n), &got));
    }
    struct x86_instruction got;
    CHECK(t, !x86_decode(BYTES("\x06"), &got) && !x86_decode(BYTES("\x0f\x04"), &got));
    CHECK(t, !x86_decode(BYTES("\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x90"),
                         &got));
}

struct comparison {
    struct unwind_view tables;
    struct code_walk walk;
    size_t n_same, n_other;
};

static void compare_piece(struct comparison *c, uint64_t va, struct bytes code)
{
    code_walk_run(&c->walk, code, va, 0);
    for (size_t i = 0; i < code.len; i++) {
        const struct code_place *p = &c->walk.places[i];
        struct unwind_rule want = unwind_view_find(&c->tables, va + i);
        if (want.cfa != UNWIND_CFA_SP || !p->is_good || p->state.sp_is_lost)
            continue;
        c->n_same += want.cfa_off == p->state.depth * 8;
        c->n_other += want.cfa_off != p->state.depth * 8;
    }
}

static void frames_found_in_code_are_those_of_the_tables(struct test *t)
{
    struct comparison c = {0};
    struct unwind_table table = {0};
    struct elf_file *f = NULL;
    struct buf image = {0};
    struct budget b;
    struct bytes code;

    budget_init(&b, (size_t)64 << 20);
    int r = elf_open("/lib/x86_64-linux-gnu/libc.so.6", &b, &f, NULL);
    if (r == -ENOENT)
        TEST_SKIP(t, "no /lib/x86_64-linux-gnu/libc.so.6 here");
    CHECK_INT(t, r, 0);
    CHECK_INT(t, unwind_table_build(f, NULL, &b, &table, NULL), 0);
    unwind_table_write(&table, &image);
    CHECK_INT(t, unwind_table_read(buf_bytes(&image), &c.tables, NULL), 0);
    CHECK(t, code_walk_init(&c.walk, &b));
    const struct elf_section *text = elf_find_section(f, ".text");
    CHECK_INT(t, elf_section_bytes(f, text, &code, NULL), 0);
    for (size_t at = 0; at < code.len; at += CODE_WALK_BYTES_MAX)
        compare_piece(&c, text->addr + at, bytes_head(bytes_from(code, at), CODE_WALK_BYTES_MAX));
    printf("# %zu instructions with the same frame, %zu with another\n", c.n_same, c.n_other);
    CHECK(t, c.n_same > 100000 && c.n_other * 300 < c.n_same);
    code_walk_done(&c.walk);
    unwind_table_done(&table);
    elf_close(f);
    buf_done(&image);
    CHECK_INT(t, b.used, 0);
}

/* Walks a piece of code; how many of its bytes add up. */
static uint64_t walk(struct test *t, struct bytes code)
{
    struct budget b;
    struct code_walk w;

    budget_init(&b, (size_t)4 << 20);
    CHECK(t, code_walk_init(&w, &b));
    code_walk_run(&w, code, 0x10000, 0);
    uint64_t n = w.n_good;
    code_walk_done(&w);
    CHECK_INT(t, b.used, 0);
    return n;
}

static void only_what_adds_up_counts(struct test *t)
{
    static const struct bytes bad[] = {
        BYTES("\x53\xc3"),             /* pushes, then returns */
        BYTES("\x53\x5b\x5b\xc3"),     /* pops more than it pushed */
        BYTES("\x74\x01\x53\x90\xc3"), /* one way pushes, one does not */
        BYTES("\x48\x89\xc4\xc3"),     /* another stack */
        BYTES("\x48\x83\xec\x04\xc3"), /* half a word */
        BYTES("\x53\x06\x5b\xc3"),     /* no instruction */
        BYTES("\xc9\xc3"),             /* leaves a frame it did not make */
        BYTES("\xff\xd0\xc3"),         /* calls with sp out of line */
        BYTES("\x50\x50"),             /* runs off the end */
    };
    static const struct bytes good[] = {
        BYTES("\xc3"), BYTES("\x53\xff\xd0\x5b\xc3"),
        BYTES("\x55\x48\x89\xe5\x48\x83\xe4\xe0\xff\xd0\xc9\xc3"), /* aligns its stack */
        BYTES("\x74\x03\x53\x90\x5b\xc3"),                         /* both ways */
        BYTES("\x53\xeb\x01\x90\x75\xfd\x5b\xc3"),                 /* a loop, entered inside */
        /* Aligns its stack by a register, jumps by a table to code that nothing else reaches. */
        BYTES("\x55\x48\x89\xe5\x48\x29\xc4\xff\xe0\xff\xd0\xeb\x02\xff\xd1\xc9\xc3"),
        BYTES("\xf3\x0f\x1e\xfa\xff\x25\x70\x14\x00\x00"), /* of a PLT */
        BYTES("\x48\x83\xec\x08\xe8\xf7\xff\xff\xff"),     /* calls what does not return */
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        CHECK_INT(t, (int)(walk(t, bad[i]) > bad[i].len / 2) * (int)(i + 1), 0);
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        CHECK_INT(t, walk(t, good[i]), good[i].len);
}

static const struct test_case cases[] = {
    TEST(knows_what_moves_the_stack),      TEST(knows_where_code_goes_on),
    TEST(knows_how_long_instructions_are), TEST(frames_found_in_code_are_those_of_the_tables),
    TEST(only_what_adds_up_counts),
};
TEST_MAIN(cases)

/*
 * Unwind tables: a copy of this program's own says the same as they do; broken ones never lead
 * outside of them; expressions yield what DWARF says.
 *
 * Links: nothing more.
 */
#include "preload/code_modules.h"
#include "preload/frame_rules.h"
#include "preload/stack_memory.h"
#include "preload/walk_world.h"

static uint32_t random_state = 5;

static uint32_t draw(uint32_t below)
{
    random_state = random_state * 1664525 + 1013904223;
    return (uint32_t)((uint64_t)random_state * below >> 32);
}

/* A copy of the tables of this program, in memory that ends where they end. */
struct copy {
    struct code_module m;
    struct frame_tables tables;
    uint8_t *bytes;
    size_t size;
    uint64_t shift; /* from the program's addresses to those that the copy speaks of */
};

/* The segment also has texts, with gaps that ASan watches. */
FOREIGN_READ static void copy_bytes(uint8_t *to, uintptr_t from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = ((const volatile uint8_t *)from)[i];
}

static bool copy_tables(struct test *t, struct copy *c)
{
    const struct frame_tables *own = &c->m.tables;

    walk_start();
    CHECK(t, modules_find((uintptr_t)copy_tables, &c->m) && own->header != 0);
    if (t->failures)
        return false;
    c->size = own->end - own->start;
    c->bytes = malloc(c->size);
    copy_bytes(c->bytes, own->start, c->size);
    c->shift = (uintptr_t)c->bytes - own->start;
    c->tables.start = (uintptr_t)c->bytes;
    c->tables.end = c->tables.start + c->size;
    c->tables.header = own->header + c->shift;
    return true;
}

static bool is_same_row(const struct frame_row *a, const struct frame_row *b)
{
    return a->is_signal == b->is_signal && a->cfa_is_expression == b->cfa_is_expression &&
           a->cfa_register == b->cfa_register && a->cfa_offset == b->cfa_offset &&
           memcmp(a->place, b->place, sizeof(a->place)) == 0 &&
           memcmp(a->offset, b->offset, sizeof(a->offset)) == 0;
}

static void a_copy_says_the_same(struct test *t)
{
    struct copy c;
    uint32_t found = 0;

    if (!copy_tables(t, &c))
        return;
    for (uint64_t pc = c.m.start; pc < c.m.end; pc++) {
        struct frame_row a, b;
        bool has_a = frame_row_find(&c.m.tables, pc, &a);
        bool has_b = frame_row_find(&c.tables, pc + c.shift, &b);
        found += has_a;
        if (has_a != has_b || (has_a && !is_same_row(&a, &b))) {
            CHECK(t, !"the same row");
            break;
        }
    }
    CHECK(t, found > (c.m.end - c.m.start) / 2);
    free(c.bytes);
}

static bool read_anything(void *ctx, uint64_t address, uint64_t *ret)
{
    (void)ctx;
    *ret = address * 31;
    return address % 5 != 0;
}

static void use_tables(const struct frame_tables *tables, uint64_t pc, uint32_t *n_rows)
{
    struct frame_registers regs = {.known = draw(1 << FRAME_REGISTERS)}, next;
    struct frame_world w = {tables, &regs, read_anything, NULL};
    struct frame_row row;

    if (!frame_row_find(tables, pc, &row))
        return;
    ++*n_rows;
    regs.value[FRAME_RSP] = draw(UINT32_MAX);
    frame_row_apply(&w, &row, &next);
}

static void broken_tables_do_no_harm(struct test *t)
{
    struct copy c;
    uint32_t n_rows = 0;
    size_t header;

    if (!copy_tables(t, &c))
        return;
    header = c.tables.header - c.tables.start;
    for (int round = 0; round < 40000; round++) {
        /* Anywhere, or in the few bytes that all depends on. */
        size_t at[3] = {draw((uint32_t)c.size), draw((uint32_t)c.size), header + draw(16)};
        uint8_t was[3];
        struct frame_tables cut = c.tables;
        uint64_t pc = c.m.start + c.shift + draw((uint32_t)(c.m.end - c.m.start));
        int n = round % 16 ? 2 : 3;
        for (int i = 0; i < n; i++) {
            was[i] = c.bytes[at[i]];
            c.bytes[at[i]] = (uint8_t)draw(256);
        }
        if (round % 8 == 0)
            cut.end = cut.header + draw((uint32_t)(cut.end - cut.header));
        use_tables(&cut, pc, &n_rows);
        while (n-- > 0)
            c.bytes[at[n]] = was[n];
    }
    CHECK(t, n_rows > 1000);
    free(c.bytes);
}

/* ---- One function's instructions, broken byte by byte ---- */

/* Tables of one function at `code`, 256 bytes long, with these instructions. */
struct tiny {
    struct frame_tables tables;
    uint8_t bytes[400];
    uint64_t code;
};

static void put32(uint8_t *to, int64_t v)
{
    int32_t cut = (int32_t)v;

    memcpy(to, &cut, 4);
}

static void make_tiny(struct tiny *y, const uint8_t *program, size_t n)
{
    /* Augmentation zR, factors 1 and -8, rip; cfa = rsp + 8, rip at cfa - 8. */
    static const uint8_t common[] = {1,    'z',  'R', 0, 1,    0x78, 16, 1,
                                     0x1b, 0x0c, 7,   8, 0x90, 1,    0,  0};
    uint8_t *b = y->bytes, *cie = b + 20, *fde = cie + 8 + sizeof(common);

    memset(b, 0, sizeof(y->bytes));
    y->code = (uintptr_t)b + 100000;
    y->tables = (struct frame_tables){(uintptr_t)b, (uintptr_t)b + sizeof(y->bytes), (uintptr_t)b};
    memcpy(b, (const uint8_t[]){1, 0x1b, 0x03, 0x3b}, 4);
    put32(b + 4, cie - (b + 4));
    put32(b + 8, 1);
    put32(b + 12, 100000);
    put32(b + 16, fde - b);
    put32(cie, 4 + sizeof(common));
    memcpy(cie + 8, common, sizeof(common));
    put32(fde, (int64_t)(13 + n));
    put32(fde + 4, fde + 4 - cie);
    put32(fde + 8, (int64_t)(y->code - (uintptr_t)(fde + 8)));
    put32(fde + 12, 256);
    memcpy(fde + 17, program, n);
}

static bool row_of(const uint8_t *program, size_t n, uint64_t offset, struct frame_row *ret)
{
    static struct tiny y;

    make_tiny(&y, program, n);
    return frame_row_find(&y.tables, y.code + offset, ret);
}

#define ROW_OF(offset, row, ...)                                                                   \
    row_of((const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}), offset, row)

static void instructions(struct test *t)
{
    struct frame_row row;

    CHECK(t, ROW_OF(0, &row, 0));
    CHECK(t, row.cfa_register == FRAME_RSP && row.cfa_offset == 8);
    CHECK(t, row.place[FRAME_RIP] == FRAME_AT_CFA && row.offset[FRAME_RIP] == -8);
    CHECK(t, !ROW_OF(256, &row, 0));
    CHECK(t, !ROW_OF(~0ull, &row, 0));

    /* push rbp; mov rsp, rbp: */
    CHECK(t, ROW_OF(0, &row, 0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6) && row.cfa_offset == 8);
    CHECK(t, ROW_OF(1, &row, 0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6) && row.cfa_offset == 16);
    CHECK(t, row.place[FRAME_RBP] == FRAME_AT_CFA && row.offset[FRAME_RBP] == -16);
    CHECK(t, ROW_OF(4, &row, 0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6));
    CHECK(t, row.cfa_register == FRAME_RBP && row.cfa_offset == 16);

    /* Remembered and brought back; more than was remembered. */
    CHECK(t, ROW_OF(9, &row, 0x0a, 0x0e, 99, 0x42, 0x0b) && row.cfa_offset == 8);
    CHECK(t, !ROW_OF(9, &row, 0x0b));
    CHECK(t, !ROW_OF(9, &row, 10, 10, 10, 10, 10, 10, 10, 10, 10));

    CHECK(t, ROW_OF(9, &row, 0x83, 3, 0x03, 5, 0, 0xc3) && row.place[FRAME_RBX] == FRAME_SAME);
    CHECK(t, ROW_OF(9, &row, 0x07, 16) && row.place[FRAME_RIP] == FRAME_UNDEFINED);
    CHECK(t, ROW_OF(9, &row, 0x09, 3, 12) && row.place[3] == FRAME_IN_REGISTER);
    CHECK_INT(t, row.offset[3], 12);
    CHECK(t, ROW_OF(9, &row, 0x11, 12, 0x7e) && row.offset[12] == 16);
    CHECK(t, ROW_OF(9, &row, 0x14, 12, 2) && row.place[12] == FRAME_CFA_PLUS);
    CHECK(t, ROW_OF(9, &row, 0x2f, 12, 2) && row.offset[12] == 16);
    CHECK(t, ROW_OF(9, &row, 0x2e, 32) && row.cfa_offset == 8);
    CHECK(t, ROW_OF(9, &row, 0x12, 6, 0x7e) && row.cfa_register == 6 && row.cfa_offset == 16);
    CHECK(t, ROW_OF(9, &row, 0x05, 40, 2)); /* a register that is not followed */
    CHECK(t, !ROW_OF(9, &row, 0x3e));
    CHECK(t, !ROW_OF(9, &row, 0x0c, 60, 8));
    CHECK(t, !ROW_OF(9, &row, 0x0f, 100, 0));
    CHECK(t, !ROW_OF(9, &row, 0x0e, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1));
}

/* ---- Expressions ---- */

static bool value_of(const uint8_t *program, uint64_t *ret)
{
    struct frame_tables tables = {(uintptr_t)program, (uintptr_t)program + program[0] + 1, 0};
    struct frame_registers regs = {.known = 1u << FRAME_RSP | 1u << FRAME_RIP};
    struct frame_world w = {&tables, &regs, read_anything, NULL};

    regs.value[FRAME_RSP] = 0x1000;
    regs.value[FRAME_RIP] = 0x2b;
    return frame_expression(&w, 0, NULL, ret);
}

#define EXPRESSION(...)                                                                            \
    (const uint8_t[])                                                                              \
    {                                                                                              \
        sizeof((const uint8_t[]){__VA_ARGS__}), __VA_ARGS__                                        \
    }
#define CHECK_VALUE(t, want, ...)                                                                  \
    do {                                                                                           \
        uint64_t v_ = 0;                                                                           \
        CHECK(t, value_of(EXPRESSION(__VA_ARGS__), &v_));                                          \
        CHECK_INT(t, v_, want);                                                                    \
    } while (0)
#define CHECK_NO_VALUE(t, ...)                                                                     \
    do {                                                                                           \
        uint64_t v_;                                                                               \
        CHECK(t, !value_of(EXPRESSION(__VA_ARGS__), &v_));                                         \
    } while (0)

static void expressions(struct test *t)
{
    /* Linkers' for calls that are bound late: rsp + 8 + ((rip & 15) >= 11) << 3. */
    CHECK_VALUE(t, 0x1010, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22);
    CHECK_VALUE(t, 2, 0x35, 0x33, 0x1c);
    CHECK_VALUE(t, -1, 0x09, 0xff);
    CHECK_VALUE(t, 0x1234, 0x0a, 0x34, 0x12);
    CHECK_VALUE(t, -2, 0x11, 0x7e);
    CHECK_VALUE(t, 3, 0x33, 0x35, 0x16, 0x13, 0x33); /* 3 5 swap drop 3: top is 3 */
    CHECK_VALUE(t, 1, 0x31, 0x32, 0x33, 0x17, 0x13, 0x13, 0x31, 0x1a, 0x31);
    CHECK_VALUE(t, 31 * 0x1001, 0x77, 1, 0x06);
    CHECK_VALUE(t, (31 * 0x1001) & 0xff, 0x77, 1, 0x94, 1);
    CHECK_VALUE(t, 7, 0x31, 0x28, 2, 0, 0x30, 0x30, 0x37);
    CHECK_VALUE(t, -4, 0x09, 0xf8, 0x31, 0x26);
    CHECK_VALUE(t, 0, 0x31, 0x08, 64, 0x24);
    CHECK_VALUE(t, -3, 0x09, 0xfa, 0x32, 0x1b);
    CHECK_VALUE(t, 5, 0x09, 0xfb, 0x19);
    CHECK_NO_VALUE(t, 0x77, 4, 0x06);    /* cannot be read */
    CHECK_NO_VALUE(t, 0x70, 0);          /* not known */
    CHECK_NO_VALUE(t, 0x31, 0x30, 0x1b); /* by 0 */
    CHECK_NO_VALUE(t, 0x31, 0x30, 0x1d);
    CHECK_NO_VALUE(t, 0x22); /* of nothing */
    CHECK_NO_VALUE(t, 0x13);
    CHECK_NO_VALUE(t, 0x96);                         /* nothing */
    CHECK_NO_VALUE(t, 0x31, 0x12, 0x2f, 0xfc, 0xff); /* too many */
    CHECK_NO_VALUE(t, 0x2f, 0xfd, 0xff);             /* no end */
    CHECK_NO_VALUE(t, 0x2f, 0x10, 0);                /* outside */
    CHECK_NO_VALUE(t, 0x2f, 0xf0, 0xff);
    CHECK_NO_VALUE(t, 0x0e, 1, 2); /* cut */
    CHECK_NO_VALUE(t, 0xff);
    CHECK_NO_VALUE(t, 0x31, 0x15, 1);
}

static const struct test_case cases[] = {
    TEST(a_copy_says_the_same),
    TEST(broken_tables_do_no_harm),
    TEST(instructions),
    TEST(expressions),
};
TEST_MAIN(cases)

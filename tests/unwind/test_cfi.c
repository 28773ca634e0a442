/* Every instruction of call frame information, and what damage does. */
#include <errno.h>

#include "lib/elf_maker.h"
#include "lib/test.h"
#include "unwind/unwind_table.h"

#define START ELF_MAKER_CODE
#define SIZE  64u

static const uint8_t code[4096] = {0xcc};

/* A table and what it was made from. */
struct made {
    struct budget budget;
    struct buf elf, image;
    struct elf_file *file;
    struct unwind_table table;
    struct unwind_view view;
    struct error err;
    int result;
};

static void build(struct made *m, const struct elf_parts *p)
{
    *m = (struct made){0};
    budget_init(&m->budget, (size_t)64 << 20);
    make_elf(p, &m->elf);
    m->result = elf_from_bytes(buf_bytes(&m->elf), "made", &m->budget, &m->file, &m->err);
    if (m->result == 0)
        m->result = unwind_table_build(m->file, NULL, &m->budget, &m->table, &m->err);
    if (m->result == 0) {
        unwind_table_write(&m->table, &m->image);
        m->result = unwind_table_read(buf_bytes(&m->image), &m->view, &m->err);
    }
}

static bool done(struct made *m)
{
    unwind_table_done(&m->table);
    elf_close(m->file);
    buf_done(&m->elf);
    buf_done(&m->image);
    return m->budget.used == 0;
}

static void build_frames(struct made *m, struct bytes eh_frame)
{
    build(m, &(struct elf_parts){.code = {code, sizeof(code)}, .eh_frame = eh_frame});
}

static struct unwind_rule at(const struct made *m, uint32_t offset)
{
    return unwind_view_find(&m->view, START + offset);
}

#define SP_OFF(n)      ((struct unwind_rule){.cfa = UNWIND_CFA_SP, .cfa_off = (n)})
#define KIND(k)        ((struct unwind_rule){.cfa = UNWIND_CFA_##k})
#define SAVED(k, n, o) ((struct unwind_rule){UNWIND_CFA_##k, UNWIND_SAVED_FP, (o), (n)})

static bool same(struct unwind_rule a, struct unwind_rule b)
{
    if (memcmp(&a, &b, sizeof(a)) == 0)
        return true;
    printf("# kind %d off %d saved %d at %d, not kind %d off %d saved %d at %d\n", a.cfa, a.cfa_off,
           a.saved, a.saved_off, b.cfa, b.cfa_off, b.saved, b.saved_off);
    return false;
}

struct instruction_case {
    const char *what;
    struct bytes program;
    struct unwind_rule first, later; /* at byte 0, and at 4 and behind */
};

/* Byte 0x44 moves on by 4. */
static const struct instruction_case x86_64_cases[] = {
    {"advance, def_cfa_offset", BYTES("\x44\x0e\x10"), SP_OFF(8), SP_OFF(16)},
    {"advance_loc1", BYTES("\x02\x04\x0e\x10"), SP_OFF(8), SP_OFF(16)},
    {"advance_loc2", BYTES("\x03\x04\x00\x0e\x10"), SP_OFF(8), SP_OFF(16)},
    {"advance_loc4", BYTES("\x04\x04\x00\x00\x00\x0e\x10"), SP_OFF(8), SP_OFF(16)},
    {"advance_loc8", BYTES("\x1d\x04\x00\x00\x00\x00\x00\x00\x00\x0e\x10"), SP_OFF(8), SP_OFF(16)},
    {"def_cfa", BYTES("\x44\x0c\x06\x10"), SP_OFF(8), {UNWIND_CFA_FP, 0, 0, 16}},
    {"def_cfa_register", BYTES("\x44\x0d\x06"), SP_OFF(8), {UNWIND_CFA_FP, 0, 0, 8}},
    {"def_cfa_sf", BYTES("\x44\x12\x07\x7e"), SP_OFF(8), SP_OFF(16)},
    {"def_cfa_offset_sf", BYTES("\x44\x13\x7e"), SP_OFF(8), SP_OFF(16)},
    {"offset of fp", BYTES("\x44\x0e\x10\x86\x02"), SP_OFF(8), SAVED(SP, 16, -16)},
    {"offset_extended", BYTES("\x44\x05\x06\x02"), SP_OFF(8), SAVED(SP, 8, -16)},
    {"offset_extended_sf", BYTES("\x44\x11\x06\x02"), SP_OFF(8), SAVED(SP, 8, -16)},
    {"negative_offset_extended", BYTES("\x44\x2f\x06\x02"), SP_OFF(8), SAVED(SP, 8, 16)},
    {"restore", BYTES("\x86\x02\x44\xc6"), SAVED(SP, 8, -16), SP_OFF(8)},
    {"restore_extended", BYTES("\x86\x02\x44\x06\x06"), SAVED(SP, 8, -16), SP_OFF(8)},
    {"same_value", BYTES("\x86\x02\x44\x08\x06"), SAVED(SP, 8, -16), SP_OFF(8)},
    {"undefined fp", BYTES("\x44\x07\x06"), SP_OFF(8), {UNWIND_CFA_SP, UNWIND_SAVED_LOST, 0, 8}},
    {"undefined return address", BYTES("\x44\x07\x10"), SP_OFF(8), KIND(END)},
    {"register", BYTES("\x44\x09\x06\x03"), SP_OFF(8), {UNWIND_CFA_SP, UNWIND_SAVED_LOST, 0, 8}},
    {"return address in a register", BYTES("\x44\x09\x10\x05"), SP_OFF(8), KIND(UNSUPPORTED)},
    {"val_offset", BYTES("\x44\x14\x06\x02"), SP_OFF(8), {UNWIND_CFA_SP, UNWIND_SAVED_LOST, 0, 8}},
    {"val_offset_sf",
     BYTES("\x44\x15\x06\x02"),
     SP_OFF(8),
     {UNWIND_CFA_SP, UNWIND_SAVED_LOST, 0, 8}},
    {"val_expression",
     BYTES("\x44\x16\x06\x02\x77\x00"),
     SP_OFF(8),
     {UNWIND_CFA_SP, UNWIND_SAVED_LOST, 0, 8}},
    {"expression: fp at fp",
     BYTES("\x0c\x06\x10\x44\x10\x06\x02\x76\x00"),
     {UNWIND_CFA_FP, 0, 0, 16},
     {UNWIND_CFA_FP, UNWIND_SAVED_AT_FP, 0, 16}},
    {"expression of other kinds",
     BYTES("\x44\x10\x06\x03\x77\x08\x06"),
     SP_OFF(8),
     {UNWIND_CFA_SP, UNWIND_SAVED_LOST, 0, 8}},
    {"remember and restore", BYTES("\x0a\x0e\x20\x44\x0b"), SP_OFF(32), SP_OFF(8)},
    {"args_size", BYTES("\x44\x2e\x85\x01\x0e\x10"), SP_OFF(8), SP_OFF(16)},
    {"other registers", BYTES("\x83\x02\x44\x8c\x03\xc3"), SP_OFF(8), SP_OFF(8)},
    {"cfa in another register", BYTES("\x44\x0c\x0a\x00"), SP_OFF(8), KIND(UNSUPPORTED)},
    {"*(fp - 8)",
     BYTES("\x44\x0f\x03\x76\x78\x06"),
     SP_OFF(8),
     {UNWIND_CFA_FP_DEREF, 0, 0, -8 * 256}},
    {"*(sp + 152) + 8",
     BYTES("\x44\x0f\x06\x77\x98\x01\x06\x23\x08"),
     SP_OFF(8),
     {UNWIND_CFA_SP_DEREF, 0, 0, 152 * 256 + 8}},
    {"*(sp) + lit8",
     BYTES("\x44\x0f\x05\x77\x00\x06\x38\x22"),
     SP_OFF(8),
     {UNWIND_CFA_SP_DEREF, 0, 0, 8}},
    {"sp + 24 as an expression", BYTES("\x44\x0f\x02\x77\x18"), SP_OFF(8), SP_OFF(24)},
    {"bregx", BYTES("\x44\x0f\x03\x92\x07\x18"), SP_OFF(8), SP_OFF(24)},
    {"a PLT of threshold 11",
     BYTES("\x44\x0f\x0b\x77\x08\x80\x00\x3f\x1a\x3b\x2a\x33\x24\x22"),
     SP_OFF(8),
     {UNWIND_CFA_PLT, 0, 0, 11}},
    {"a PLT of threshold 10",
     BYTES("\x44\x0f\x0b\x77\x08\x80\x00\x3f\x1a\x3a\x2a\x33\x24\x22"),
     SP_OFF(8),
     {UNWIND_CFA_PLT, 0, 0, 10}},
    {"an expression nobody knows", BYTES("\x44\x0f\x03\x77\x08\x1f"), SP_OFF(8), KIND(UNSUPPORTED)},
    {"an empty expression", BYTES("\x44\x0f\x00"), SP_OFF(8), KIND(UNSUPPORTED)},
    {"a constant too large", BYTES("\x44\x0f\x06\x77\x08\x06\x23\x80\x02"), SP_OFF(8),
     KIND(UNSUPPORTED)},
    {"a return address that was popped", BYTES("\x44\x0e\x00"), SP_OFF(8), KIND(END)},
    {"an offset past 32 bits", BYTES("\x44\x0e\x80\x80\x80\x80\x10"), SP_OFF(8), KIND(UNSUPPORTED)},
    {"fp further than a rule can say",
     BYTES("\x44\x86\x80\x40"),
     SP_OFF(8),
     {UNWIND_CFA_SP, UNWIND_SAVED_LOST, 0, 8}},
    {"nop", BYTES("\x00\x44\x00\x0e\x10\x00"), SP_OFF(8), SP_OFF(16)},
};

static void check_case(struct test *t, const struct instruction_case *c, size_t common,
                       struct buf *frames, uint16_t machine)
{
    struct made m;

    frames_function(frames, common, START, SIZE, c->program);
    build(&m, &(struct elf_parts){
                  .machine = machine, .code = {code, sizeof(code)}, .eh_frame = buf_bytes(frames)});
    bool good = m.result == 0 && same(at(&m, 0), c->first) && same(at(&m, 3), c->first) &&
                same(at(&m, 4), c->later) && same(at(&m, SIZE - 1), c->later) &&
                same(at(&m, SIZE), KIND(GAP));
    if (!good)
        printf("# %s: %s\n", c->what, m.result < 0 ? m.err.text : "not these");
    CHECK(t, good);
    CHECK(t, done(&m));
}

static void runs_every_instruction(struct test *t)
{
    for (size_t i = 0; i < sizeof(x86_64_cases) / sizeof(x86_64_cases[0]); i++) {
        struct buf frames = {0};
        size_t common = frames_common_x86_64(&frames);
        check_case(t, &x86_64_cases[i], common, &frames, EM_X86_64);
        buf_done(&frames);
    }
}

static void knows_where_aarch64_saves_its_registers(struct test *t)
{
    /* Code moves in words of 4: 0x41 is 4 bytes on. */
    static const struct instruction_case cases[] = {
        {"a leaf", BYTES("\x41\x0e\x10"), SP_OFF(0), SP_OFF(16)},
        {"a pair",
         BYTES("\x41\x0e\x20\x9d\x04\x9e\x03"),
         SP_OFF(0),
         {UNWIND_CFA_SP, UNWIND_SAVED_PAIR, -32, 32}},
        {"a pair by fp",
         BYTES("\x41\x0c\x1d\x20\x9d\x04\x9e\x03"),
         SP_OFF(0),
         {UNWIND_CFA_FP, UNWIND_SAVED_PAIR, -32, 32}},
        {"only the return address",
         BYTES("\x41\x0e\x10\x9e\x02"),
         SP_OFF(0),
         {UNWIND_CFA_SP, UNWIND_SAVED_RA, -16, 16}},
        {"only fp",
         BYTES("\x41\x0e\x10\x9d\x02"),
         SP_OFF(0),
         {UNWIND_CFA_SP, UNWIND_SAVED_FP, -16, 16}},
        {"signed return addresses", BYTES("\x2d\x41\x2d\x0e\x10"), SP_OFF(0), SP_OFF(16)},
        {"apart", BYTES("\x41\x0e\x20\x9d\x04\x9e\x01"), SP_OFF(0), KIND(UNSUPPORTED)},
        {"the outermost", BYTES("\x41\x07\x1e"), SP_OFF(0), KIND(END)},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct buf frames = {0};
        size_t common = frames_common(&frames, "zR", 30, BYTES("\x0c\x1f\x00"));
        check_case(t, &cases[i], common, &frames, EM_AARCH64);
        buf_done(&frames);
    }
}

static void signal_frames_start_a_byte_early(struct test *t)
{
    struct buf frames = {0};
    struct made m;
    size_t plain = frames_common_x86_64(&frames);

    frames_function(&frames, plain, START, 16, BYTES("\x44\x0e\x10"));
    size_t common = frames_common(&frames, "zRS", 16, BYTES(""));
    frames_function(&frames, common, START + 16, 16,
                    BYTES("\x0f\x04\x77\xa0\x01\x06\x10\x10\x03\x77\xa8\x01"));
    /* Called one by its maker, but with a return address as of any function. */
    size_t other = frames_common(&frames, "zRS", 16, BYTES("\x0c\x07\x08\x90\x01"));
    frames_function(&frames, other, START + 32, 16, BYTES(""));
    build_frames(&m, buf_bytes(&frames));
    CHECK_INT(t, m.result, 0);
    CHECK(t, same(at(&m, 14), SP_OFF(16)));
    CHECK(t, same(at(&m, 15), KIND(SIGNAL)));
    CHECK(t, same(at(&m, 31), KIND(SIGNAL)));
    CHECK(t, same(at(&m, 32), SP_OFF(8)));
    CHECK(t, done(&m));
    buf_done(&frames);
}

static void small_gaps_are_passed_over_and_overlaps_settled(struct test *t)
{
    struct buf frames = {0};
    struct made m;
    size_t common = frames_common_x86_64(&frames);

    frames_function(&frames, common, START + 100, 50, BYTES("\x0e\x20"));
    frames_function(&frames, common, START, 35, BYTES("\x0e\x10"));
    frames_function(&frames, common, START + 50, 20, BYTES("\x0e\x18"));      /* 15 bytes behind */
    frames_function(&frames, common, START + 140, 60, BYTES("\x44\x0e\x28")); /* overlaps by 10 */
    frames_function(&frames, common, START, 20, BYTES("\x0e\x70"));           /* said already */
    build_frames(&m, buf_bytes(&frames));
    CHECK_INT(t, m.result, 0);
    CHECK(t, same(at(&m, 0), SP_OFF(16)) && same(at(&m, 49), SP_OFF(16)));
    CHECK(t, same(at(&m, 50), SP_OFF(24)) && same(at(&m, 69), SP_OFF(24)));
    CHECK(t, same(at(&m, 70), KIND(GAP)) && same(at(&m, 99), KIND(GAP)));
    CHECK(t, same(at(&m, 100), SP_OFF(32)) && same(at(&m, 149), SP_OFF(32)));
    CHECK(t, same(at(&m, 150), SP_OFF(40)) && same(at(&m, 199), SP_OFF(40)));
    CHECK(t, same(at(&m, 200), KIND(GAP)));
    CHECK(t, done(&m));
    buf_done(&frames);
}

static void pages_begin_with_the_rule_that_holds(struct test *t)
{
    static uint8_t large[5 << 16];
    struct buf frames = {0};
    struct made m;
    size_t common = frames_common_x86_64(&frames);

    memset(large, 0xcc, sizeof(large));
    /* 64 KiB of nothing, then one function over three pages that changes at its second byte. */
    frames_function(&frames, common, START + 0x10010, 0x2ff00,
                    BYTES("\x41\x0e\x10\x04\x00\x00\x02\x00\x0e\x18"));
    build(&m, &(struct elf_parts){.code = {large, sizeof(large)}, .eh_frame = buf_bytes(&frames)});
    CHECK_INT(t, m.result, 0);
    CHECK_INT(t, m.view.first_text_page, (START + 0x10010) >> 16);
    CHECK_INT(t, m.view.n_pages, 3);
    CHECK(t, same(at(&m, 0x1000f), KIND(GAP)));
    CHECK(t, same(at(&m, 0x10010), SP_OFF(8)));
    CHECK(t, same(at(&m, 0x10011), SP_OFF(16)));
    CHECK(t, same(at(&m, 0x20000), SP_OFF(16)) && same(at(&m, 0x2ffff), SP_OFF(16)));
    CHECK(t, same(at(&m, 0x30000), SP_OFF(16)) && same(at(&m, 0x30011), SP_OFF(24)));
    CHECK(t, same(at(&m, 0x3ff0f), SP_OFF(24)) && same(at(&m, 0x3ff10), KIND(GAP)));
    CHECK_INT(t, m.view.rows[m.view.pages[1]].pc_low, 0);
    CHECK(t, done(&m));
    buf_done(&frames);
}

static void damaged_functions_are_left_out(struct test *t)
{
    static const struct {
        const char *what;
        struct bytes program;
    } cases[] = {
        {"an unknown instruction", BYTES("\x3f\x00\x00\x00")},
        {"a number that does not end", BYTES("\x0e\xff\xff")},
        {"a number of 80 bits", BYTES("\x0e\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01")},
        {"a block past the end", BYTES("\x44\x0f\x7f\x77")},
        {"restore without remember", BYTES("\x44\x0b\x0e\x10")},
        {"remember without end",
         BYTES(
             "\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a"
             "\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a")},
        {"an offset where there is an expression", BYTES("\x0f\x03\x77\x08\x06\x0e\x10\x00")},
        {"aarch64's instructions", BYTES("\x2d\x44\x0e\x10")},
        {"moving by 2^64", BYTES("\x1d\xff\xff\xff\xff\xff\xff\xff\xff\x0e\x10\x00")},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct buf frames = {0};
        struct made m;
        size_t common = frames_common_x86_64(&frames);
        frames_function(&frames, common, START, SIZE, cases[i].program);
        frames_function(&frames, common, START + SIZE, SIZE, BYTES("\x0e\x18"));
        build_frames(&m, buf_bytes(&frames));
        if (m.result != 0 || at(&m, 0).cfa != UNWIND_CFA_GAP)
            printf("# %s\n", cases[i].what);
        CHECK_INT(t, m.result, 0);
        CHECK(t, m.result == 0 && same(at(&m, 0), KIND(GAP)) && same(at(&m, SIZE), SP_OFF(24)));
        CHECK(t, done(&m));
        buf_done(&frames);
    }
}

static void set_loc_moves_forward_only(struct test *t)
{
    for (int back = 0; back < 2; back++) {
        struct buf frames = {0};
        struct made m;
        size_t common = frames_common_x86_64(&frames);
        size_t function = frames.len;
        frames_function(&frames, common, START + SIZE, SIZE, BYTES("\x01\x00\x00\x00\x00\x0e\x18"));
        size_t pointer = function + 8 + 8 + 1 + 1;
        uint64_t va = ELF_MAKER_FRAMES + ELF_MAKER_HEAD + pointer;
        le32_put(frames.data + pointer, (uint32_t)(START + (back ? 0 : SIZE + 4) - va));
        frames_function(&frames, common, START + 2 * SIZE, SIZE, BYTES(""));
        build_frames(&m, buf_bytes(&frames));
        CHECK_INT(t, m.result, 0);
        CHECK(t, same(at(&m, SIZE), back ? KIND(GAP) : SP_OFF(8)));
        CHECK(t, same(at(&m, SIZE + 4), back ? KIND(GAP) : SP_OFF(24)));
        CHECK(t, done(&m));
        buf_done(&frames);
    }
}

static void says_when_all_of_it_is_damaged(struct test *t)
{
    static const struct {
        const char *what, *augmentation;
        struct bytes program;
        uint8_t ra;
    } commons[] = {
        {"an unknown augmentation", "zRX", BYTES("\x0c\x07\x08\x90\x01"), 16},
        {"an augmentation without its length", "R", BYTES("\x0c\x07\x08\x90\x01"), 16},
        {"another return address", "zR", BYTES("\x0c\x07\x08\x90\x01"), 17},
        {"a damaged common program", "zR", BYTES("\x00\x0c\x07"), 16},
        {"a common program that moves", "zR", BYTES("\x0c\x07\x08\x90\x01\x44"), 16},
        {"a common program that restores", "zR", BYTES("\x0c\x07\x08\x90\x01\xc6"), 16},
    };

    for (size_t i = 0; i < sizeof(commons) / sizeof(commons[0]); i++) {
        struct buf frames = {0};
        struct made m;
        size_t common =
            frames_common(&frames, commons[i].augmentation, commons[i].ra, commons[i].program);
        frames_function(&frames, common, START, SIZE, BYTES(""));
        build_frames(&m, buf_bytes(&frames));
        if (m.result != -EBADMSG)
            printf("# %s\n", commons[i].what);
        CHECK_INT(t, m.result, -EBADMSG);
        CHECK_STR(t, m.err.text, "made: all 1 entries of .eh_frame are damaged");
        CHECK(t, done(&m));
        buf_done(&frames);
    }
}

/* Bytes of one function's entry that point where they should not. */
static void common_entries_are_not_believed(struct test *t)
{
    static const uint32_t ids[] = {4, 8, 1, 0xffffffff, 0x7fffffff, 20};

    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        struct buf frames = {0};
        struct made m;
        size_t common = frames_common_x86_64(&frames), function = frames.len;
        frames_function(&frames, common, START, SIZE, BYTES(""));
        le32_put(frames.data + function + 4, ids[i]);
        build_frames(&m, buf_bytes(&frames));
        CHECK_INT(t, m.result, -EBADMSG);
        CHECK(t, done(&m));
        buf_done(&frames);
    }
}

static void pointers_of_every_encoding(struct test *t)
{
    static const struct {
        uint8_t encoding;
        uint8_t size; /* 0: refused */
    } cases[] = {{0x00, 8}, {0x04, 8}, {0x0c, 8}, {0x03, 4}, {0x0b, 4}, {0x1b, 4}, {0x1c, 8},
                 {0x9b, 0}, {0x3b, 0}, {0x2b, 0}, {0x50, 0}, {0xff, 0}, {0x05, 0}, {0x0d, 0}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct buf frames = {0};
        struct made m;
        size_t common = frames_common_x86_64(&frames), function = frames.len;
        frames.data[common + 16] =
            cases[i].encoding; /* behind length, id, version, text, numbers */
        uint64_t va = ELF_MAKER_FRAMES + ELF_MAKER_HEAD + function + 8;
        uint64_t start = cases[i].encoding & 0x10 ? START - va : START;
        uint8_t entry[8 + 16 + 4] = {0};
        size_t size = cases[i].size ? cases[i].size : 8;
        le32_put(entry, (uint32_t)(4 + 2 * size + 4));
        le32_put(entry + 4, (uint32_t)(function + 4 - common));
        uint8_t number[16] = {0};
        le64_put(number, start);
        le64_put(number + 8, SIZE);
        memcpy(entry + 8, number, size);
        memcpy(entry + 8 + size, number + 8, size);
        buf_add(&frames, entry, 8 + 2 * size + 4);
        build_frames(&m, buf_bytes(&frames));
        CHECK_INT(t, m.result, cases[i].size ? 0 : -EBADMSG);
        if (cases[i].size && !same(at(&m, 0), SP_OFF(8)))
            CHECK_INT(t, cases[i].encoding, 0);
        CHECK(t, done(&m));
        buf_done(&frames);
    }
}

/* Anything may come of damage but a crash, a leak or a table that cannot be read. */
static void check_damage(struct test *t, struct bytes frames)
{
    struct made m;

    build_frames(&m, frames);
    CHECK(t, m.result == 0 || ((m.result == -EBADMSG || m.result == -ENODATA) &&
                               strncmp(m.err.text, "made: ", 6) == 0));
    CHECK(t, done(&m));
}

static void nothing_is_lost_by_damage_but_what_is_damaged(struct test *t)
{
    static const uint8_t values[] = {0x00, 0xff, 0x80, 0x7f, 0x01};
    struct buf frames = {0};
    size_t common = frames_common_x86_64(&frames);

    for (size_t i = 0; i < 8; i++)
        frames_function(&frames, common, START + i * SIZE, SIZE, x86_64_cases[i * 3].program);
    for (size_t n = 0; n < frames.len; n++) {
        uint8_t was = frames.data[n];
        check_damage(t, bytes_head(buf_bytes(&frames), n));
        for (size_t i = 0; i < sizeof(values); i++) {
            frames.data[n] = values[i];
            check_damage(t, buf_bytes(&frames));
        }
        frames.data[n] = was;
    }
    buf_done(&frames);
}

static const struct test_case cases[] = {
    TEST(runs_every_instruction),
    TEST(knows_where_aarch64_saves_its_registers),
    TEST(signal_frames_start_a_byte_early),
    TEST(small_gaps_are_passed_over_and_overlaps_settled),
    TEST(pages_begin_with_the_rule_that_holds),
    TEST(damaged_functions_are_left_out),
    TEST(set_loc_moves_forward_only),
    TEST(says_when_all_of_it_is_damaged),
    TEST(common_entries_are_not_believed),
    TEST(pointers_of_every_encoding),
    TEST(nothing_is_lost_by_damage_but_what_is_damaged),
};
TEST_MAIN(cases)

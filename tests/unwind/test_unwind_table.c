/* What makes a table and what does not, and tables as bytes. */
#include <errno.h>

#include "lib/corpus.h"
#include "lib/elf_maker.h"
#include "lib/test.h"
#include "unwind/code_rows.h"
#include "unwind/unwind_table.h"

#define START ELF_MAKER_CODE

static const uint8_t code[256] = {0xcc};

struct made {
    struct budget budget;
    struct buf elf, debug_elf, image;
    struct elf_file *file, *debug;
    struct unwind_table table;
    struct unwind_view view;
    struct error err;
    int result;
};

static void build_with(struct made *m, const struct elf_parts *p, const struct elf_parts *debug)
{
    *m = (struct made){0};
    budget_init(&m->budget, (size_t)64 << 20);
    make_elf(p, &m->elf);
    m->result = elf_from_bytes(buf_bytes(&m->elf), "made", &m->budget, &m->file, &m->err);
    if (debug) {
        make_elf(debug, &m->debug_elf);
        elf_from_bytes(buf_bytes(&m->debug_elf), "debug", &m->budget, &m->debug, &m->err);
    }
    if (m->result == 0)
        m->result = unwind_table_build(m->file, m->debug, &m->budget, &m->table, &m->err);
    if (m->result < 0)
        return;
    unwind_table_write(&m->table, &m->image);
    m->result = unwind_table_read(buf_bytes(&m->image), &m->view, &m->err);
}

static bool done(struct made *m)
{
    unwind_table_done(&m->table);
    elf_close(m->file);
    elf_close(m->debug);
    buf_done(&m->elf);
    buf_done(&m->debug_elf);
    buf_done(&m->image);
    return m->budget.used == 0;
}

static int kind_at(const struct made *m, uint32_t offset)
{
    return unwind_view_find(&m->view, START + offset).cfa;
}

/* One function of 64 bytes at the start. */
static void add_frames(struct buf *b)
{
    size_t common = frames_common_x86_64(b);
    frames_function(b, common, START, 64, BYTES("\x44\x0e\x10"));
}

/* The same as .debug_frame has it: addresses of 8 bytes, ids of another kind. */
static void add_debug_frames(struct buf *b, uint64_t start)
{
    static const uint8_t common[] = {16, 0, 0, 0,    0xff, 0xff, 0xff, 0xff, 4,    0,
                                     8,  0, 1, 0x78, 16,   0x0c, 7,    8,    0x90, 1};
    uint8_t function[4 + 4 + 16 + 4] = {24};

    buf_add(b, common, sizeof(common));
    le64_put(function + 8, start);
    le64_put(function + 16, 64);
    memcpy(function + 24, "\x44\x0e\x18", 4);
    buf_add(b, function, sizeof(function));
}

static void refuses_machines_that_are_not_ours(struct test *t)
{
    static const struct {
        size_t at; /* in the file */
        uint8_t value;
        const char *text;
    } cases[] = {
        {EI_CLASS, ELFCLASS32, "this is machine 62 of 32 bits"},
        {EI_DATA, ELFDATA2MSB, "this is machine 15872 of 64 bits, big-endian"},
        {18, EM_RISCV, "this is machine 243 of 64 bits"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct budget b;
        struct buf out = {0};
        struct elf_file *f = NULL;
        struct unwind_table table = {0};
        struct error err = {""};
        make_elf(&(struct elf_parts){.code = {code, sizeof(code)}, .has_no_sections = true}, &out);
        out.data[cases[i].at] = cases[i].value;
        /* Headers that say nothing in any layout. */
        memset(out.data + 24, 0, 40);
        budget_init(&b, 1 << 20);
        CHECK_INT(t, elf_from_bytes(buf_bytes(&out), "made", &b, &f, &err), 0);
        if (f)
            CHECK_INT(t, unwind_table_build(f, NULL, &b, &table, &err), -EOPNOTSUPP);
        CHECK(t, strstr(err.text, cases[i].text));
        elf_close(f);
        buf_done(&out);
        CHECK_INT(t, b.used, 0);
    }
}

static void says_when_there_is_nothing(struct test *t)
{
    struct made m;

    build_with(&m, &(struct elf_parts){.code = {code, sizeof(code)}}, NULL);
    CHECK_INT(t, m.result, -ENODATA);
    CHECK_STR(t, m.err.text, "made: the file says nothing about unwinding");
    CHECK(t, done(&m));
    build_with(&m, &(struct elf_parts){0}, NULL);
    CHECK_INT(t, m.result, -ENODATA);
    CHECK_STR(t, m.err.text, "made: the file has no code");
    CHECK(t, done(&m));
}

static void finds_frames_without_section_headers(struct test *t)
{
    struct buf frames = {0};
    struct made m;

    add_frames(&frames);
    frames_u32(&frames, 0);
    build_with(&m,
               &(struct elf_parts){.code = {code, sizeof(code)},
                                   .eh_frame = buf_bytes(&frames),
                                   .has_no_sections = true},
               NULL);
    CHECK_INT(t, m.result, 0);
    CHECK_INT(t, unwind_view_find(&m.view, START + 4).cfa_off, 16);
    CHECK(t, done(&m));
    buf_done(&frames);
}

static void reads_debug_frames_of_the_file_and_of_another(struct test *t)
{
    struct buf eh = {0}, debug = {0};
    struct elf_parts plain = {.code = {code, sizeof(code)}};
    struct made m;

    add_frames(&eh);
    add_debug_frames(&debug, START + 64);
    struct elf_parts own = plain, other = plain;
    own.eh_frame = buf_bytes(&eh);
    other.debug_frame = buf_bytes(&debug);
    build_with(&m, &other, NULL);
    CHECK_INT(t, m.result, 0);
    CHECK_INT(t, unwind_view_find(&m.view, START + 68).cfa_off, 24);
    CHECK_INT(t, kind_at(&m, 0), UNWIND_CFA_GAP);
    CHECK(t, done(&m));

    build_with(&m, &own, &other);
    CHECK_INT(t, m.result, 0);
    CHECK_INT(t, unwind_view_find(&m.view, START + 4).cfa_off, 16);
    CHECK_INT(t, unwind_view_find(&m.view, START + 68).cfa_off, 24);
    CHECK(t, done(&m));

    /* A debug file of another machine is none of this file. */
    other.machine = EM_AARCH64;
    build_with(&m, &own, &other);
    CHECK_INT(t, m.result, 0);
    CHECK_INT(t, kind_at(&m, 68), UNWIND_CFA_GAP);
    CHECK(t, done(&m));
    buf_done(&eh);
    buf_done(&debug);
}

static void unpacks_compressed_debug_frames(struct test *t)
{
    struct buf debug = {0}, packed = {0};
    Elf64_Chdr head = {.ch_type = ELFCOMPRESS_ZLIB, .ch_addralign = 8};
    struct made m;

    add_debug_frames(&debug, START);
    head.ch_size = debug.len;
    /* zlib's way to store bytes as they are. */
    uint8_t stored[7] = {0x78, 0x01, 0x01, (uint8_t)debug.len, 0, (uint8_t)~debug.len, 0xff};
    uint32_t a = 1, b = 0;
    for (size_t i = 0; i < debug.len; i++) {
        a = (a + debug.data[i]) % 65521;
        b = (b + a) % 65521;
    }
    uint32_t sum = b << 16 | a;
    uint8_t adler[4] = {(uint8_t)(sum >> 24), (uint8_t)(sum >> 16), (uint8_t)(sum >> 8),
                        (uint8_t)sum};
    buf_add(&packed, &head, sizeof(head));
    buf_add(&packed, stored, sizeof(stored));
    buf_add_bytes(&packed, buf_bytes(&debug));
    buf_add(&packed, adler, sizeof(adler));
    struct elf_parts p = {.code = {code, sizeof(code)},
                          .debug_frame = buf_bytes(&packed),
                          .debug_frame_flags = SHF_COMPRESSED};
    build_with(&m, &p, NULL);
    CHECK_INT(t, m.result, 0);
    CHECK_INT(t, unwind_view_find(&m.view, START + 4).cfa_off, 24);
    CHECK(t, done(&m));

    packed.data[sizeof(head) + 20] ^= 1;
    p.debug_frame = buf_bytes(&packed);
    build_with(&m, &p, NULL);
    CHECK_INT(t, m.result, -EBADMSG);
    CHECK_STR(t, m.err.text, "made: zlib content is damaged, or not of 48 bytes");
    CHECK(t, done(&m));
    buf_done(&debug);
    buf_done(&packed);
}

static void a_program_starts_without_a_caller(struct test *t)
{
    /* musl's: xor %rbp,%rbp; mov %rsp,%rdi; and $-16,%rsp; call +11; hlt; nops; then a function
     * with a frame of its own: push %rbx; call it; pop %rbx; ret. */
    static const uint8_t start[] = {0x48, 0x31, 0xed, 0x48, 0x89, 0xe7, 0x48, 0x83,
                                    0xe4, 0xf0, 0xe8, 0x01, 0x00, 0x00, 0x00, 0xf4,
                                    0x53, 0xe8, 0xfa, 0xff, 0xff, 0xff, 0x5b, 0xc3};
    struct made m;

    build_with(&m, &(struct elf_parts){.code = {start, sizeof(start)}, .entry = START}, NULL);
    CHECK_INT(t, m.result, 0);
    CHECK_INT(t, kind_at(&m, 0), UNWIND_CFA_END);
    CHECK_INT(t, kind_at(&m, 15), UNWIND_CFA_END);
    CHECK_INT(t, unwind_view_find(&m.view, START + 16).cfa_off, 8);
    CHECK_INT(t, unwind_view_find(&m.view, START + 17).cfa_off, 16);
    CHECK_INT(t, unwind_view_find(&m.view, START + 23).cfa_off, 8);
    CHECK(t, done(&m));
}

static void ways_back_from_signals_are_known_by_their_bytes(struct test *t)
{
    static const uint8_t x86_64[] = {0x90, 0xc3, 0x0f, 0x1f, 0x80, 0,    0,    0,
                                     0,    0x48, 0xc7, 0xc0, 0x0f, 0,    0,    0,
                                     0x0f, 0x05, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc};
    static const uint8_t aarch64[] = {0x1f, 0x20, 0x03, 0xd5, 0x68, 0x11, 0x80, 0xd2,
                                      0x01, 0,    0,    0xd4, 0x1f, 0x20, 0x03, 0xd5};
    struct made m;

    build_with(&m, &(struct elf_parts){.code = {x86_64, sizeof(x86_64)}}, NULL);
    CHECK_INT(t, m.result, 0);
    CHECK_INT(t, kind_at(&m, 8), UNWIND_CFA_SIGNAL);
    CHECK_INT(t, kind_at(&m, 9 + 8), UNWIND_CFA_SIGNAL);
    CHECK(t, kind_at(&m, 7) != UNWIND_CFA_SIGNAL && kind_at(&m, 18) != UNWIND_CFA_SIGNAL);
    CHECK(t, done(&m));
    build_with(&m, &(struct elf_parts){.code = {aarch64, sizeof(aarch64)}, .machine = EM_AARCH64},
               NULL);
    CHECK_INT(t, m.result, 0);
    CHECK_INT(t, kind_at(&m, 3), UNWIND_CFA_SIGNAL);
    CHECK_INT(t, kind_at(&m, 11), UNWIND_CFA_SIGNAL);
    CHECK_INT(t, kind_at(&m, 12), UNWIND_CFA_GAP);
    CHECK(t, done(&m));
}

static void images_that_do_not_add_up_are_refused(struct test *t)
{
    struct buf frames = {0};
    struct made m;
    struct unwind_view v;
    struct error err;

    add_frames(&frames);
    build_with(&m,
               &(struct elf_parts){.code = {code, sizeof(code)}, .eh_frame = buf_bytes(&frames)},
               NULL);
    CHECK_INT(t, m.result, 0);
    struct bytes image = buf_bytes(&m.image);
    for (size_t n = 0; n < image.len; n++)
        CHECK_INT(t, unwind_table_read(bytes_head(image, n), &v, &err), -EBADMSG);
    CHECK_STR(t, err.text, "unwind table: its length is not what its head says");
    size_t pages = 24, rules = pages + 4 * (m.view.n_pages + 1);
    size_t rows = rules + 8 * m.view.n_rules;
    const struct {
        size_t at;
        uint8_t value;
        const char *text;
    } cases[] = {
        {0, 'x', "unwind table: not an image of one"},
        {15, 0xff, "unwind table: past the limits of one"},
        {19, 0xff, "unwind table: past the limits of one"},
        {pages, 1, "unwind table: its pages do not hold its rows"},
        {pages + 4, 1, "unwind table: its pages do not hold its rows"},
        {rules, 99, "unwind table: a rule is of no known kind"},
        {rules + 1, 99, "unwind table: a rule is of no known kind"},
        {rows + 2, 0xff, "unwind table: a row has a rule that is not there"},
        {rows, 0xff, "unwind table: rows are not in order"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint8_t was = m.image.data[cases[i].at];
        m.image.data[cases[i].at] = cases[i].value;
        CHECK_INT(t, unwind_table_read(image, &v, &err), -EBADMSG);
        CHECK_STR(t, err.text, cases[i].text);
        m.image.data[cases[i].at] = was;
    }
    CHECK_INT(t, unwind_table_read(image, &v, &err), 0);
    CHECK(t, done(&m));
    buf_done(&frames);
}

static void a_table_of_nothing_can_be_written(struct test *t)
{
    struct unwind_table table = {.wants_frame_pointers = true};
    struct buf image = {0};
    struct unwind_view v;
    struct error err;

    unwind_table_write(&table, &image);
    CHECK_INT(t, unwind_table_read(buf_bytes(&image), &v, &err), 0);
    CHECK(t, v.wants_frame_pointers && v.n_pages == 0 && v.n_rows == 0);
    CHECK_INT(t, unwind_view_find(&v, 0x1234).cfa, UNWIND_CFA_GAP);
    buf_done(&image);
}

static void stays_within_its_budget(struct test *t)
{
    struct budget b;
    struct error err = {""};
    char said[512] = "";
    int failures = 0;

    for (size_t limit = 16384; limit < (size_t)4 << 20; limit = limit * 5 / 4 + 64) {
        struct elf_file *f = NULL;
        struct unwind_table table = {0};
        budget_init(&b, limit);
        int r = elf_open("/proc/self/exe", &b, &f, &err);
        if (r == 0)
            r = unwind_table_build(f, NULL, &b, &table, &err);
        CHECK(t, r == 0 || r == -ENOBUFS);
        failures += r < 0;
        if (r < 0)
            snprintf(said, sizeof(said), "%s", err.text);
        unwind_table_done(&table);
        elf_close(f);
        CHECK_INT(t, b.used, 0);
    }
    CHECK(t, failures > 5);
    CHECK(t, strncmp(said, "/proc/self/exe: ", 16) == 0 && strstr(said, "memory limit"));
}

static void go_programs_have_rows_of_their_own_table(struct test *t)
{
    struct budget b;
    struct elf_file *f = NULL;
    struct unwind_table table = {0};
    struct buf image = {0};
    struct unwind_view v;
    struct error err;
    size_t kinds[UNWIND_CFA_UNSUPPORTED + 1] = {0};

    budget_init(&b, (size_t)64 << 20);
    int r = elf_open(corpus_path("elf/own/go119-stripped"), &b, &f, &err);
    if (r == -ENOENT)
        TEST_SKIP(t, CORPUS_ABSENT);
    CHECK_INT(t, unwind_table_build(f, NULL, &b, &table, &err), 0);
    CHECK(t, !table.wants_frame_pointers && table.rows.len > 8000);
    unwind_table_write(&table, &image);
    CHECK_INT(t, unwind_table_read(buf_bytes(&image), &v, &err), 0);
    for (uint32_t i = 0; i < v.n_rows; i++)
        kinds[v.rules[v.rows[i].rule].cfa]++;
    CHECK_INT(t, kinds[UNWIND_CFA_SIGNAL], 1);
    CHECK_INT(t, kinds[UNWIND_CFA_END], 4); /* goexit, mstart, rt0_go, mcall */
    CHECK(t, kinds[UNWIND_CFA_FP] > 3 && kinds[UNWIND_CFA_FP] < 20);
    CHECK_INT(t,
              kinds[UNWIND_CFA_SP] + kinds[UNWIND_CFA_SIGNAL] + kinds[UNWIND_CFA_END] +
                  kinds[UNWIND_CFA_FP] + kinds[UNWIND_CFA_GAP] + kinds[UNWIND_CFA_UNSUPPORTED],
              v.n_rows);
    CHECK(t, kinds[UNWIND_CFA_UNSUPPORTED] < 5);
    buf_done(&image);
    unwind_table_done(&table);
    elf_close(f);
    CHECK_INT(t, b.used, 0);
}

static const struct test_case cases[] = {
    TEST(refuses_machines_that_are_not_ours),
    TEST(says_when_there_is_nothing),
    TEST(finds_frames_without_section_headers),
    TEST(reads_debug_frames_of_the_file_and_of_another),
    TEST(unpacks_compressed_debug_frames),
    TEST(a_program_starts_without_a_caller),
    TEST(ways_back_from_signals_are_known_by_their_bytes),
    TEST(images_that_do_not_add_up_are_refused),
    TEST(a_table_of_nothing_can_be_written),
    TEST(stays_within_its_budget),
    TEST(go_programs_have_rows_of_their_own_table),
};
TEST_MAIN(cases)

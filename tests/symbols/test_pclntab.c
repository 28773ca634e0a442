#include <errno.h>

#include "base/buf.h"
#include "lib/corpus.h"
#include "lib/test.h"
#include "symbols/elf_symbols.h"
#include "symbols/go_module.h"
#include "symbols/pclntab.h"

/* A table as Go's linker writes it: two functions, one of which has an inlined call (1.20). */
struct table {
    struct buf data;
    struct buf funcdata;
};

static void add32(struct buf *b, uint32_t v)
{
    buf_add(b, &v, sizeof(v));
}

static void add64(struct buf *b, uint64_t v)
{
    buf_add(b, &v, sizeof(v));
}

static void set64(struct buf *b, size_t at, uint64_t v)
{
    memcpy(b->data + at, &v, sizeof(v));
}

/* One row of a pc-value table: the value goes from the last one to `to` for `pcs` bytes. */
static void add_row(struct buf *b, int32_t from, int32_t to, uint32_t pcs)
{
    int32_t delta = to - from;
    uint32_t zigzag = delta < 0 ? ((uint32_t)~delta << 1) | 1 : (uint32_t)delta << 1;
    for (; zigzag >= 0x80; zigzag >>= 7)
        buf_add_byte(b, (uint8_t)(zigzag | 0x80));
    buf_add_byte(b, (uint8_t)zigzag);
    buf_add_byte(b, (uint8_t)pcs);
}

#define TEXT 0x401000

static void build(struct table *t, uint32_t magic)
{
    bool new = magic == 0xfffffff1;
    size_t first = magic == 0xfffffffa ? 2 : 3;
    struct buf *b = &t->data;

    add32(b, magic);
    buf_add(b, "\0\0\1\10", 4);
    add64(b, 2); /* functions */
    add64(b, 1); /* files */
    for (int i = 0; i < 6; i++)
        add64(b, 0);
    set64(b, 8 + first * 8, b->len);
    size_t names = b->len;
    buf_add(b, "main.main\0main.leaf\0main.inl\0", 29);
    set64(b, 8 + (first + 1) * 8, b->len);
    add32(b, 0);          /* unit 0, file 0: the first text of files */
    add32(b, UINT32_MAX); /* file 1: none */
    set64(b, 8 + (first + 2) * 8, b->len);
    buf_add(b, "/src/main.go\0", 13);
    set64(b, 8 + (first + 3) * 8, b->len);
    size_t values = b->len;
    buf_add_byte(b, 0); /* offset 0 means no table */
    uint32_t files = (uint32_t)(b->len - values);
    add_row(b, -1, 0, 0x20);
    buf_add_byte(b, 0);
    uint32_t lines = (uint32_t)(b->len - values);
    add_row(b, -1, 10, 0x10); /* [0, 0x10) line 10 */
    add_row(b, 10, 200, 0x8); /* [0x10, 0x18) line 200 */
    add_row(b, 200, 12, 0x8); /* [0x18, 0x20) line 12 */
    buf_add_byte(b, 0);
    uint32_t inlines = (uint32_t)(b->len - values);
    add_row(b, -1, -1, 0x10);
    add_row(b, -1, 0, 0x8); /* the inlined call */
    add_row(b, 0, -1, 0x8);
    buf_add_byte(b, 0);
    set64(b, 8 + (first + 4) * 8, b->len);
    size_t records = b->len;
    size_t entry = magic == 0xfffffffa ? 8 : 4;
    size_t record_at = 5 * entry;
    size_t record_size = entry + (new ? 40 : 36) + 4 * 3 + 4 * 4;
    for (int i = 0; i < 3; i++) { /* addresses and offsets, then the end address */
        uint64_t at = (entry == 8 ? TEXT : 0) + 0x20 * (uint64_t)i;
        uint64_t offset = record_at + (uint64_t)i * record_size;
        buf_add(b, &at, entry);
        if (i < 2)
            buf_add(b, &offset, entry);
    }
    for (uint32_t i = 0; i < 2; i++) {
        uint64_t at = (entry == 8 ? TEXT : 0) + 0x20 * (uint64_t)i;
        buf_add(b, &at, entry);
        add32(b, i == 0 ? 0 : 10); /* name */
        add32(b, 0);               /* args */
        add32(b, 0);               /* deferreturn */
        add32(b, 0);               /* pcsp */
        add32(b, files);
        add32(b, lines);
        add32(b, 3); /* pcdata */
        add32(b, 0); /* unit */
        if (new)
            add32(b, 7); /* start line */
        buf_add(b, "\0\0\0\4", 4);
        add32(b, 0);
        add32(b, 0);
        add32(b, i == 0 ? inlines : 0);
        for (int k = 0; k < 3; k++)
            add32(b, UINT32_MAX);
        add32(b, i == 0 ? 0 : UINT32_MAX);
    }
    (void)names;
    (void)records;
    if (new) {
        add32(&t->funcdata, 0);
        add32(&t->funcdata, 20); /* main.inl */
        add32(&t->funcdata, 4);  /* called at line 10 */
        add32(&t->funcdata, 199);
    } else {
        add32(&t->funcdata, 0xffff);
        add32(&t->funcdata, 0);
        add32(&t->funcdata, 10);
        add32(&t->funcdata, 20);
        add32(&t->funcdata, 4);
    }
}

static void table_done(struct table *t)
{
    buf_done(&t->data);
    buf_done(&t->funcdata);
}

static void reads_functions_lines_and_inlined_calls(struct test *t)
{
    static const uint32_t magics[] = {0xfffffffa, 0xfffffff0, 0xfffffff1};

    for (size_t i = 0; i < 3; i++) {
        struct table table = {0};
        struct budget b;
        struct arena a;
        struct pclntab p;
        struct error err = {{0}};
        build(&table, magics[i]);
        budget_init(&b, 1 << 20);
        arena_init(&a, &b);
        CHECK_INT(t,
                  pclntab_parse(buf_bytes(&table.data), TEXT, buf_bytes(&table.funcdata), &p, &err),
                  0);
        struct code_frame *f = pclntab_find(&p, TEXT + 4, &a);
        CHECK_STR(t, f ? f->name : NULL, "main.main");
        CHECK_STR(t, f ? f->file : NULL, "/src/main.go");
        CHECK_INT(t, f ? f->line : 0, 10);
        CHECK_INT(t, f ? f->start_line : 0, magics[i] == 0xfffffff1 ? 7 : 0);
        CHECK(t, f && !f->outer);

        f = pclntab_find(&p, TEXT + 0x12, &a);
        bool knows_inlines = magics[i] != 0xfffffffa;
        CHECK_STR(t, f ? f->name : NULL, knows_inlines ? "main.inl" : "main.main");
        CHECK_INT(t, f ? f->line : 0, 200);
        CHECK(t, f && (f->outer != NULL) == knows_inlines);
        if (f && f->outer) {
            CHECK_STR(t, f->outer->name, "main.main");
            CHECK_INT(t, f->outer->line, 10);
            CHECK(t, !f->outer->outer);
        }
        f = pclntab_find(&p, TEXT + 0x20 + 0x19, &a);
        CHECK_STR(t, f ? f->name : NULL, "main.leaf");
        CHECK_INT(t, f ? f->line : 0, 12);
        CHECK(t, !pclntab_find(&p, TEXT - 1, &a));
        CHECK(t, !pclntab_find(&p, TEXT + 0x40, &a));
        arena_done(&a);
        table_done(&table);
    }
}

static void refuses_other_data(struct test *t)
{
    struct pclntab p;
    struct error err;
    struct table table = {0};
    uint8_t zeros[128] = {0};

    CHECK_INT(t, pclntab_parse(BYTES("short"), 0, (struct bytes){0}, &p, &err), -EBADMSG);
    CHECK_STR(t, err.text, "pclntab: only 5 bytes long");
    CHECK_INT(t, pclntab_parse((struct bytes){zeros, 128}, 0, (struct bytes){0}, &p, &err),
              -EBADMSG);
    CHECK_STR(t, err.text, "pclntab: unknown magic number 0x00000000");
    build(&table, 0xfffffff1);
    table.data.data[7] = 3;
    CHECK_INT(t, pclntab_parse(buf_bytes(&table.data), 0, (struct bytes){0}, &p, &err), -EBADMSG);
    CHECK_STR(t, err.text, "pclntab: damaged header");
    table.data.data[7] = 8;
    set64(&table.data, 8, 1ull << 60);
    CHECK_INT(t, pclntab_parse(buf_bytes(&table.data), 0, (struct bytes){0}, &p, &err), -EBADMSG);
    CHECK(t, strstr(err.text, "1152921504606846976 functions do not fit"));
    table_done(&table);
}

/* Every byte of a small table set to every value that may hurt, and cut everywhere. */
static void survives_any_damage(struct test *t)
{
    static const uint8_t values[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
    struct table table = {0};
    size_t found = 0;

    build(&table, 0xfffffff1);
    for (size_t at = 0; at < table.data.len; at++) {
        for (size_t v = 0; v < sizeof(values); v++) {
            uint8_t was = table.data.data[at];
            struct budget b;
            struct arena a;
            struct pclntab p;
            budget_init(&b, 1 << 20);
            arena_init(&a, &b);
            table.data.data[at] = values[v];
            /* A copy of its exact size, so that a read past the end is seen. */
            uint8_t *copy = malloc(v == 0 ? at : table.data.len);
            struct bytes data = {copy, v == 0 ? at : table.data.len};
            memcpy(copy, table.data.data, data.len);
            if (pclntab_parse(data, TEXT, buf_bytes(&table.funcdata), &p, NULL) == 0) {
                for (uint64_t pc = TEXT - 4; pc < TEXT + 0x48; pc++) {
                    struct code_frame *f = pclntab_find(&p, pc, &a);
                    found += f && f->name && strlen(f->name) > 0;
                }
            }
            free(copy);
            table.data.data[at] = was;
            arena_done(&a);
            CHECK_INT(t, b.used, 0);
        }
    }
    CHECK(t, found > 0);
    table_done(&table);
}

static void finds_the_table_of_a_stripped_program(struct test *t)
{
    struct budget b;
    struct elf_file *f = NULL;
    struct symbol_table symbols = {0};
    struct pclntab p;
    struct arena a;
    struct error err;

    budget_init(&b, 64 << 20);
    arena_init(&a, &b);
    if (elf_open(corpus_path("elf/own/go119-stripped"), &b, &f, &err) < 0)
        TEST_SKIP(t, CORPUS_ABSENT);
    CHECK_INT(t, go_module_pclntab(f, &symbols, &p, &err), 0);
    CHECK_INT(t, p.version, PCLNTAB_1_18);
    CHECK(t, p.n_functions > 1000 && p.text == 0x401000);
    CHECK(t, p.funcdata.len > 0);
    /* Some function of the runtime has inlined calls; each chain ends in the real function. */
    size_t inlined = 0;
    for (uint64_t pc = p.text; pc < p.text + 0x40000; pc += 16) {
        struct code_frame *frame = pclntab_find(&p, pc, &a);
        inlined += frame && frame->outer;
    }
    CHECK(t, inlined > 100);
    arena_done(&a);
    elf_close(f);

    f = NULL;
    CHECK_INT(t, elf_open(corpus_path("elf/own/work"), &b, &f, &err), 0);
    CHECK_INT(t, go_module_pclntab(f, &symbols, &p, &err), -ENOENT);
    elf_close(f);
}

/* Every function, read piece by piece and given back, is what it is in memory. */
static void reads_large_tables_in_pieces(struct test *t)
{
    struct symbol_table none = {0};
    struct budget budget;
    struct elf_file *f = NULL;
    struct lazy_bytes lazy = {0};
    struct pclntab whole, pieces;
    struct error err = {{0}};
    size_t n = 0;

    budget_init(&budget, 1 << 30);
    if (elf_open("/usr/local/go/bin/go", &budget, &f, &err) < 0 &&
        elf_open(corpus_path("elf/own/go119-stripped"), &budget, &f, &err) < 0)
        TEST_SKIP(t, CORPUS_ABSENT);
    CHECK_INT(t, go_module_pclntab(f, &none, &whole, &err), 0);
    CHECK_INT(t, go_module_pclntab_lazy(f, &lazy, &pieces, &err), 0);
    CHECK_INT(t, pieces.n_functions, whole.n_functions);
    CHECK_INT(t, pieces.text, whole.text);
    for (uint64_t i = 0; i < whole.n_functions; i++) {
        struct pclntab_function a = {0}, b = {0};
        lazy_bytes_trim(&lazy);
        bool has = pclntab_function(&whole, i, &a);
        n += has;
        if (pclntab_function(&pieces, i, &b) != has || !has)
            continue;
        CHECK_STR(t, b.name, a.name);
        CHECK(t, (a.file && b.file) ? strcmp(a.file, b.file) == 0 : a.file == b.file);
        CHECK(t, a.start == b.start && a.end == b.end && a.start_line == b.start_line);
    }
    CHECK(t, n > 1000);
    CHECK(t, !lazy.failed);
    lazy_bytes_close(&lazy);
    elf_close(f);
    CHECK_INT(t, budget.used, 0);
}

static const struct test_case cases[] = {
    TEST(reads_functions_lines_and_inlined_calls),
    TEST(refuses_other_data),
    TEST(survives_any_damage),
    TEST(finds_the_table_of_a_stripped_program),
    TEST(reads_large_tables_in_pieces),
};
TEST_MAIN(cases)

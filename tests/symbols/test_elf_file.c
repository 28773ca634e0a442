#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "lib/corpus.h"
#include "lib/test.h"
#include "symbols/debug_file.h"
#include "symbols/elf_file.h"
#include "symbols/elf_symbols.h"
#include "symbols/minidebuginfo.h"

static const char *own(const char *name)
{
    char path[256];
    snprintf(path, sizeof(path), "elf/own/%s", name);
    return corpus_path(path);
}

static int from_memory(const void *data, size_t n, struct error *err)
{
    struct budget b;
    struct elf_file *f = NULL;

    budget_init(&b, 1 << 20);
    int r = elf_from_bytes((struct bytes){data, n}, "x", &b, &f, err);
    elf_close(f);
    return r < 0 ? r : b.used == 0 ? 0 : -EBUSY;
}

static void says_what_is_wrong_with_a_header(struct test *t)
{
    struct error err;
    Elf64_Ehdr h = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                    .e_type = ET_DYN,
                    .e_machine = EM_X86_64,
                    .e_ehsize = sizeof(h)};

    CHECK_INT(t, from_memory("", 0, &err), -EBADMSG);
    CHECK_STR(t, err.text, "x: not an ELF file");
    CHECK_INT(t, from_memory(&h, sizeof(h), &err), 0);

    h.e_ident[EI_CLASS] = 7;
    CHECK_INT(t, from_memory(&h, sizeof(h), &err), -EBADMSG);
    CHECK_STR(t, err.text, "x: ELF at byte 4: the class is neither 32 nor 64 bits");
    h.e_ident[EI_CLASS] = ELFCLASS64;
    h.e_ident[EI_DATA] = 0;
    CHECK_INT(t, from_memory(&h, sizeof(h), &err), -EBADMSG);
    CHECK_STR(t, err.text, "x: ELF at byte 5: the byte order is neither little nor big endian");
    h.e_ident[EI_DATA] = ELFDATA2LSB;

    h.e_phoff = 1u << 30;
    h.e_phnum = 1;
    h.e_phentsize = sizeof(Elf64_Phdr);
    CHECK_INT(t, from_memory(&h, sizeof(h), &err), -EBADMSG);
    CHECK_STR(t, err.text,
              "x: ELF at byte 1073741824: a table or section runs past the end of the file");
    h.e_phentsize = 3;
    CHECK_INT(t, from_memory(&h, sizeof(h), &err), -EBADMSG);
    CHECK(t, strstr(err.text, "a program header is smaller than it must be"));
    h.e_phnum = 0;

    h.e_shoff = sizeof(h) - 8;
    h.e_shnum = 2;
    h.e_shentsize = sizeof(Elf64_Shdr);
    CHECK_INT(t, from_memory(&h, sizeof(h), &err), -EBADMSG);
    CHECK(t, strstr(err.text, "runs past the end"));
}

static void reads_from_a_borrowed_descriptor_that_stays_open(struct test *t)
{
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    struct elf_file *f = NULL;
    struct budget b;
    struct error err;
    int pipes[2];

    budget_init(&b, 1 << 20);
    CHECK_INT(t, elf_from_fd(fd, "self", &b, &f, &err), 0);
    CHECK(t, f->is_64 && f->n_segments > 0);
    elf_close(f);
    CHECK(t, fcntl(fd, F_GETFD) >= 0);
    CHECK_INT(t, lseek(fd, 0, SEEK_CUR), 0);
    close(fd);

    CHECK_INT(t, pipe2(pipes, O_CLOEXEC), 0);
    CHECK_INT(t, elf_from_fd(pipes[0], "pipe", &b, &f, &err), -EINVAL);
    CHECK_STR(t, err.text, "\"pipe\" is not a regular file");
    CHECK(t, fcntl(pipes[0], F_GETFD) >= 0);
    close(pipes[0]);
    close(pipes[1]);
    CHECK_INT(t, b.used, 0);
}

static void refuses_counts_past_its_limits(struct test *t)
{
    struct {
        Elf64_Ehdr h;
        Elf64_Shdr first;
    } f = {.h = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                 .e_shoff = sizeof(Elf64_Ehdr),
                 .e_shentsize = sizeof(Elf64_Shdr)},
           .first = {.sh_size = 1ull << 40}};
    struct error err;

    CHECK_INT(t, from_memory(&f, sizeof(f), &err), -EBADMSG);
    CHECK_STR(t, err.text, "x: ELF has 1099511627776 sections, the limit is 1048576");
    f.first.sh_size = 1;
    CHECK_INT(t, from_memory(&f, sizeof(f), &err), 0);
    f.h.e_phnum = PN_XNUM;
    f.h.e_phoff = 8;
    f.h.e_phentsize = sizeof(Elf64_Phdr);
    f.first.sh_info = 1u << 20;
    CHECK_INT(t, from_memory(&f, sizeof(f), &err), -EBADMSG);
    CHECK_STR(t, err.text, "x: ELF has 1048576 program headers, the limit is 4096");
}

static void reads_build_ids_and_functions_of_every_machine(struct test *t)
{
    static const struct {
        const char *name, *build_id, *function;
        uint64_t at;
        uint16_t machine;
    } cases[] = {
        {"fib-aarch64", "a7768296341fb5d5", "inner", 0x21027c, EM_AARCH64},
        {"fib-i686", "e7c15122661102ea", "inner", 0x4011f0, EM_386},
        {"fib-riscv64", "820a58d1a65de0b1", "inner", 0x111a8, EM_RISCV},
        {"work", "3fb69fbb2ecd34b897c5139704c22644d8bb085c", "main", 0x1110, EM_X86_64},
        {"work-nopie-nobuildid", "", "main", 0x4010f0, EM_X86_64},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct budget b;
        struct elf_file *f = NULL;
        struct symbol_table s = {0};
        struct error err;
        budget_init(&b, 64 << 20);
        int r = elf_open(own(cases[i].name), &b, &f, &err);
        if (r == -ENOENT)
            TEST_SKIP(t, CORPUS_ABSENT);
        CHECK_INT(t, r, 0);
        CHECK_STR(t, elf_build_id_text(f).text, cases[i].build_id);
        CHECK_INT(t, f->machine, cases[i].machine);
        CHECK_INT(t, symbol_table_load(&s, f, &err), 0);
        const struct symbol *found = symbol_table_find(&s, cases[i].at);
        CHECK_STR(t, found ? found->name : NULL, cases[i].function);
        CHECK(t, !symbol_table_find(&s, 0));
        CHECK(t, symbol_table_named(&s, cases[i].function) == found);
        CHECK(t, !symbol_table_named(&s, "no such function"));
        symbol_table_done(&s);
        elf_close(f);
        CHECK_INT(t, b.used, 0);
    }
}

static void knows_gos_build_id(struct test *t)
{
    struct budget b;
    struct elf_file *f = NULL;
    budget_init(&b, 64 << 20);
    if (elf_open(own("go119-stripped"), &b, &f, NULL) < 0)
        TEST_SKIP(t, CORPUS_ABSENT);
    CHECK(t, f->go_build_id && strchr(f->go_build_id, '/'));
    CHECK_INT(t, f->build_id_len, 0);
    elf_close(f);
}

static void opens_plain_files_only(struct test *t)
{
    struct budget b;
    struct elf_file *f = NULL;
    struct error err;
    budget_init(&b, 1 << 20);
    CHECK_INT(t, elf_open("/dev/null", &b, &f, &err), -EINVAL);
    CHECK_STR(t, err.text, "\"/dev/null\" is not a regular file");
    CHECK_INT(t, elf_open("/proc/nonexistent", &b, &f, &err), -ENOENT);
    CHECK_STR(t, err.text, "could not open \"/proc/nonexistent\": No such file or directory");
    CHECK_INT(t, b.used, 0);
}

static void reads_bytes_by_address(struct test *t)
{
    struct budget b;
    struct elf_file *f = NULL;
    struct bytes code;
    struct error err;
    budget_init(&b, 64 << 20);
    if (elf_open(own("work-clang14-lld"), &b, &f, NULL) < 0)
        TEST_SKIP(t, CORPUS_ABSENT);
    /* Text is at another address than its place in the file. */
    CHECK_INT(t, elf_read_va(f, 0x1bb0, 4, &code, &err), 0);
    CHECK_INT(t, code.len, 4);
    CHECK(t, memcmp(code.data, "\x31\xed\x49\x89", 4) == 0); /* _start: xor ebp, ebp; mov r9, rdx */
    CHECK_INT(t, elf_read_va(f, 1ull << 40, 4, &code, &err), -ERANGE);
    CHECK_STR(t, err.text, "no loaded segment of the file holds address 0x10000000000");
    elf_close(f);
}

static void unpacks_mini_debug_info(struct test *t)
{
    struct budget b;
    struct elf_file *f = NULL, *mini = NULL;
    struct symbol_table s = {0};
    struct error err;
    budget_init(&b, 64 << 20);
    if (elf_open(own("work-minidebuginfo"), &b, &f, NULL) < 0)
        TEST_SKIP(t, CORPUS_ABSENT);
    CHECK_INT(t, minidebuginfo_open(f, &mini, &err), 0);
    CHECK_INT(t, symbol_table_load(&s, mini, &err), 0);
    CHECK_STR(t, symbol_table_find(&s, 0x13e0 + 100)->name, "thr");
    symbol_table_done(&s);
    elf_close(mini);
    elf_close(f);

    f = NULL;
    CHECK_INT(t, elf_open(own("work"), &b, &f, NULL), 0);
    CHECK_INT(t, minidebuginfo_open(f, &mini, &err), -ENOENT);
    elf_close(f);
}

/* Damages the packed section byte by byte: never a crash, never more than the limit. */
static void refuses_damaged_mini_debug_info(struct test *t)
{
    struct bytes whole = read_whole(own("work-minidebuginfo"));
    if (!whole.data)
        TEST_SKIP(t, CORPUS_ABSENT);
    uint8_t *copy = (uint8_t *)(uintptr_t)whole.data;
    size_t refused = 0, tried = 0;
    struct budget b;
    struct elf_file *f = NULL;

    budget_init(&b, 64 << 20);
    CHECK_INT(t, elf_from_bytes(whole, "x", &b, &f, NULL), 0);
    const struct elf_section *s = elf_find_section(f, ".gnu_debugdata");
    size_t from = s->offset, to = s->offset + s->size;
    elf_close(f);
    for (size_t at = from; at < to; at += 3) {
        struct elf_file *mini = NULL;
        struct error err = {{0}};
        copy[at] ^= 0x55;
        CHECK_INT(t, elf_from_bytes(whole, "x", &b, &f, NULL), 0);
        if (minidebuginfo_open(f, &mini, &err) < 0) {
            CHECK(t, strncmp(err.text, "mini debug info", 15) == 0);
            refused++;
        }
        elf_close(mini);
        elf_close(f);
        copy[at] ^= 0x55;
        tried++;
    }
    CHECK(t, refused > tried * 9 / 10);
    CHECK_INT(t, b.used, 0);
    free(copy);
}

static void finds_debug_files_by_link_and_checksum(struct test *t)
{
    char dir[] = "/tmp/vesta-test-XXXXXX", path[4200], command[20000];
    struct budget b;
    struct elf_file *f = NULL, *debug = NULL;
    struct error err;

    budget_init(&b, 64 << 20);
    if (elf_open(own("work-stripped"), &b, &f, NULL) < 0)
        TEST_SKIP(t, CORPUS_ABSENT);
    CHECK_INT(t, debug_file_find(f, NULL, 0, &debug, &err), 0);
    CHECK(t, debug && strstr(debug->path, "work-stripped.debug"));
    elf_close(debug);
    elf_close(f);

    /* Elsewhere there is no such file, until a folder is named that has it by build id. */
    CHECK(t, mkdtemp(dir) != NULL);
    snprintf(command, sizeof(command),
             "cp %s %s/stripped && mkdir -p %s/.build-id/e5 && cp %s.debug "
             "%s/.build-id/e5/570efaa1ab995d84bb70e61474c38fbf0023eb.debug",
             own("work-stripped"), dir, dir, own("work-stripped"), dir);
    CHECK_INT(t, system(command), 0);
    snprintf(path, sizeof(path), "%s/stripped", dir);
    CHECK_INT(t, elf_open(path, &b, &f, &err), 0);
    CHECK_INT(t, debug_file_find(f, NULL, 0, &debug, &err), -ENOENT);
    const char *dirs[] = {"/nonexistent", dir};
    CHECK_INT(t, debug_file_find(f, dirs, 2, &debug, &err), 0);
    elf_close(debug);
    /* A file of another build is not taken. */
    snprintf(command, sizeof(command),
             "cp %s %s/.build-id/e5/570efaa1ab995d84bb70e61474c38fbf0023eb.debug", own("work"),
             dir);
    CHECK_INT(t, system(command), 0);
    CHECK_INT(t, debug_file_find(f, dirs, 2, &debug, &err), -ENOENT);
    elf_close(f);
    snprintf(command, sizeof(command), "rm -r %s", dir);
    CHECK_INT(t, system(command), 0);
    CHECK_INT(t, debug_crc32(0, "123456789", 9), 0xcbf43926);
}

/* Of addresses all over a file, some at a time: what was loaded for them says what all say. */
static void loads_only_the_symbols_that_are_wanted(struct test *t)
{
    static const char *const files[] = {"/proc/self/exe", "/lib/x86_64-linux-gnu/libc.so.6", "work",
                                        "fib-aarch64", "work-stripped"};
    enum { MOST = 5000 };
    static uint64_t wanted[MOST];

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        struct budget b;
        struct elf_file *f = NULL;
        struct symbol_table all = {0};
        budget_init(&b, 256 << 20);
        if (elf_open(files[i][0] == '/' ? files[i] : own(files[i]), &b, &f, NULL) < 0)
            continue;
        CHECK_INT(t, symbol_table_load(&all, f, NULL), 0);
        uint64_t last = all.symbols.len > 0 ? all.symbols.data[all.symbols.len - 1].end : 0;
        for (uint64_t step = last / MOST + 1; step < last; step = step * 3 + 1) {
            struct symbol_table some = {0};
            size_t n = 0;
            for (uint64_t va = step / 2; va < last + step && n < MOST; va += step)
                wanted[n++] = va;
            CHECK_INT(t, symbol_table_load_for(&some, f, wanted, n, NULL), 0);
            CHECK(t, some.symbols.len <= all.symbols.len);
            for (size_t k = 0; k < n; k++) {
                const struct symbol *x = symbol_table_find(&all, wanted[k]);
                const struct symbol *y = symbol_table_find(&some, wanted[k]);
                CHECK_STR(t, y ? y->name : "", x ? x->name : "");
                CHECK(t, !x || !y || x->start == y->start);
            }
            symbol_table_done(&some);
        }
        symbol_table_done(&all);
        elf_close(f);
        CHECK_INT(t, b.used, 0);
    }
}

static void stays_within_its_budget(struct test *t)
{
    for (size_t limit = 0; limit < 60000; limit += 997) {
        struct budget b;
        struct elf_file *f = NULL;
        struct symbol_table s = {0};
        struct error err = {{0}};
        budget_init(&b, limit);
        int r = elf_open(own("work"), &b, &f, &err);
        if (r == -ENOENT)
            TEST_SKIP(t, CORPUS_ABSENT);
        if (r == 0)
            r = symbol_table_load(&s, f, &err);
        CHECK(t, r == 0 || r == -ENOBUFS || r == -EBADMSG);
        symbol_table_done(&s);
        elf_close(f);
        CHECK_INT(t, b.used, 0);
    }
}

static const struct test_case cases[] = {
    TEST(says_what_is_wrong_with_a_header),
    TEST(refuses_counts_past_its_limits),
    TEST(reads_from_a_borrowed_descriptor_that_stays_open),
    TEST(reads_build_ids_and_functions_of_every_machine),
    TEST(knows_gos_build_id),
    TEST(opens_plain_files_only),
    TEST(reads_bytes_by_address),
    TEST(unpacks_mini_debug_info),
    TEST(refuses_damaged_mini_debug_info),
    TEST(finds_debug_files_by_link_and_checksum),
    TEST(loads_only_the_symbols_that_are_wanted),
    TEST(stays_within_its_budget),
};
TEST_MAIN(cases)

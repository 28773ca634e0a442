/*
 * Every rule of real programs and libraries, row by row, against what libdw makes of the same
 * frames.
 */
#include <dirent.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "lib/corpus.h"
#include "lib/test.h"
#include "unwind/unwind_table.h"

#define SECONDS_MAX     4.0
#define FILE_SIZE_MAX   ((off_t)8 << 20)
#define DIFFERENCES_MAX 5 /* that are told of each file */

struct machine {
    int sp, fp, ra;
    bool has_link_register;
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool is_base(const Dwarf_Op *op, int reg)
{
    return op->atom == DW_OP_breg0 + reg ||
           (op->atom == DW_OP_bregx && op->number == (unsigned)reg);
}

static int64_t base_offset(const Dwarf_Op *op)
{
    return (int64_t)(op->atom == DW_OP_bregx ? op->number2 : op->number);
}

static struct unwind_rule unsupported(void)
{
    return (struct unwind_rule){.cfa = UNWIND_CFA_UNSUPPORTED};
}

static struct unwind_rule cfa_of(const struct machine *m, const Dwarf_Op *ops, size_t n)
{
    if (n == 0)
        return unsupported();
    bool sp = is_base(ops, m->sp), fp = is_base(ops, m->fp);
    if (n == 9 && sp && !m->has_link_register && ops[0].number == 8 &&
        ops[1].atom == DW_OP_breg16 && ops[5].atom == DW_OP_ge && ops[8].atom == DW_OP_plus)
        return (struct unwind_rule){.cfa = UNWIND_CFA_PLT, .cfa_off = ops[4].atom - DW_OP_lit0};
    if (!sp && !fp)
        return unsupported();
    int64_t off = base_offset(ops);
    if (n == 1)
        return (struct unwind_rule){.cfa = sp ? UNWIND_CFA_SP : UNWIND_CFA_FP,
                                    .cfa_off = (int32_t)off};
    if (ops[1].atom != DW_OP_deref || n > 3 || (n == 3 && ops[2].atom != DW_OP_plus_uconst))
        return unsupported();
    return (struct unwind_rule){.cfa = sp ? UNWIND_CFA_SP_DEREF : UNWIND_CFA_FP_DEREF,
                                .cfa_off =
                                    (int32_t)(off * 256 + (int64_t)(n == 3 ? ops[2].number : 0))};
}

enum place { SAME, UNDEFINED, AT_CFA, AT_FP, ELSEWHERE };

static enum place place_of(Dwarf_Frame *frame, const struct machine *m, int reg, int64_t *off)
{
    Dwarf_Op room[3], *ops;
    size_t n;

    *off = 0;
    if (dwarf_frame_register(frame, reg, room, &ops, &n) < 0)
        return ELSEWHERE;
    if (n == 0)
        return ops ? UNDEFINED : SAME;
    if (ops[n - 1].atom == DW_OP_stack_value)
        return ELSEWHERE;
    if (n <= 2 && is_base(&ops[n - 1], m->fp)) {
        *off = base_offset(&ops[n - 1]);
        return AT_FP;
    }
    if (ops[0].atom != DW_OP_call_frame_cfa || n > 2 ||
        (n == 2 && ops[1].atom != DW_OP_plus_uconst))
        return ELSEWHERE;
    *off = n == 2 ? (int64_t)ops[1].number : 0;
    return AT_CFA;
}

static struct unwind_rule with_pair(struct unwind_rule r, enum place fp, int64_t fp_off,
                                    enum place ra, int64_t ra_off)
{
    if (ra == SAME && fp == SAME)
        r.saved = UNWIND_SAVED_NONE;
    else if (ra == SAME && fp == AT_CFA)
        r.saved = UNWIND_SAVED_FP;
    else if (ra == AT_CFA && fp == AT_CFA && ra_off == fp_off + 8)
        r.saved = UNWIND_SAVED_PAIR;
    else if (ra == AT_CFA && fp == SAME)
        r.saved = UNWIND_SAVED_RA;
    else
        return unsupported();
    r.saved_off = (int16_t)(r.saved == UNWIND_SAVED_RA ? ra_off : fp_off);
    return r;
}

static struct unwind_rule rule_of(Dwarf_Frame *frame, const struct machine *m)
{
    bool is_signal = false;
    int64_t fp_off, ra_off;
    Dwarf_Op *ops;
    size_t n;

    dwarf_frame_info(frame, NULL, NULL, &is_signal);
    if (is_signal)
        return (struct unwind_rule){.cfa = UNWIND_CFA_SIGNAL};
    enum place ra = place_of(frame, m, m->ra, &ra_off), fp = place_of(frame, m, m->fp, &fp_off);
    if (ra == UNDEFINED)
        return (struct unwind_rule){.cfa = UNWIND_CFA_END};
    if (dwarf_frame_cfa(frame, &ops, &n) < 0)
        return unsupported();
    struct unwind_rule r = cfa_of(m, ops, n);
    if (r.cfa == UNWIND_CFA_UNSUPPORTED)
        return r;
    if (m->has_link_register)
        return with_pair(r, fp, fp_off, ra, ra_off);
    if (ra != AT_CFA || ra_off != -8)
        return unsupported();
    if (r.cfa == UNWIND_CFA_SP && r.cfa_off < 8)
        return (struct unwind_rule){.cfa = UNWIND_CFA_END};
    if (fp == AT_FP && r.cfa == UNWIND_CFA_SP) {
        fp = SAME;
        fp_off = 0;
    }
    r.saved = fp == SAME     ? UNWIND_SAVED_NONE
              : fp == AT_CFA ? UNWIND_SAVED_FP
              : fp == AT_FP  ? UNWIND_SAVED_AT_FP
                             : UNWIND_SAVED_LOST;
    r.saved_off = (int16_t)fp_off;
    return r;
}

struct comparison {
    struct test *t;
    const char *path;
    const struct machine *machine;
    struct unwind_view view;
    Dwarf_CFI *cfi;
    double deadline;
    size_t n_rows, n_different;
};

static void compare_at(struct comparison *c, uint64_t pc, const struct unwind_rule *want)
{
    struct unwind_rule got = unwind_view_find(&c->view, pc);

    /* Behind an expression libdw does not follow a change of the register; readelf and we do. */
    bool is_ours_only = want->cfa == UNWIND_CFA_UNSUPPORTED && got.cfa == UNWIND_CFA_SP;

    if (memcmp(&got, want, sizeof(got)) == 0 || is_ours_only)
        return;
    c->t->failures++;
    if (c->n_different++ < DIFFERENCES_MAX)
        printf("# %s at 0x%jx: kind %d off %d saved %d at %d, not kind %d off %d saved %d at %d\n",
               c->path, (uintmax_t)pc, got.cfa, got.cfa_off, got.saved, got.saved_off, want->cfa,
               want->cfa_off, want->saved, want->saved_off);
}

/* Each row of one function, at its first and its last byte. */
static void compare_function(struct comparison *c, uint64_t start, uint64_t end)
{
    for (uint64_t pc = start; pc < end && now() < c->deadline;) {
        Dwarf_Frame *frame = NULL;
        if (dwarf_cfi_addrframe(c->cfi, pc, &frame) < 0)
            return;
        Dwarf_Addr from = 0, to = 0;
        dwarf_frame_info(frame, &from, &to, NULL);
        struct unwind_rule want = rule_of(frame, c->machine);
        to = to > pc && to < end ? to : end;
        compare_at(c, pc, &want);
        /* A signal frame takes the byte before it. */
        if (to < end || unwind_view_find(&c->view, to - 1).cfa != UNWIND_CFA_SIGNAL)
            compare_at(c, to - 1, &want);
        c->n_rows++;
        free(frame);
        pc = to;
    }
}

/* The functions of .eh_frame: their addresses are relative to where they stand, in 4 bytes. */
static void compare_section(struct comparison *c, Elf *elf, const GElf_Shdr *s, Elf_Data *d)
{
    unsigned char *ident = (unsigned char *)elf_getident(elf, NULL);
    Dwarf_Off at = 0, next;
    Dwarf_CFI_Entry e;

    for (; dwarf_next_cfi(ident, d, true, at, &next, &e) == 0; at = next) {
        if (e.CIE_id == DW_CIE_ID_64)
            continue;
        const uint8_t *p = e.fde.start;
        int32_t start;
        uint32_t size;
        memcpy(&start, p, 4);
        memcpy(&size, p + 4, 4);
        uint64_t va = s->sh_addr + (uint64_t)(p - (const uint8_t *)d->d_buf);
        uint64_t from = va + (uint64_t)start;
        compare_function(c, from, from + size);
    }
}

static bool find_eh_frame(Elf *elf, GElf_Shdr *ret, Elf_Data **ret_data)
{
    size_t names;
    Elf_Scn *s = NULL;

    if (elf_getshdrstrndx(elf, &names) < 0)
        return false;
    while ((s = elf_nextscn(elf, s))) {
        const char *name = gelf_getshdr(s, ret) ? elf_strptr(elf, names, ret->sh_name) : NULL;
        if (name && strcmp(name, ".eh_frame") == 0 && ret->sh_type != SHT_NOBITS) {
            *ret_data = elf_getdata(s, NULL);
            return *ret_data != NULL;
        }
    }
    return false;
}

static size_t compare_with_libdw(struct test *t, const char *path, const struct buf *image,
                                 double deadline)
{
    static const struct machine x86_64 = {7, 6, 16, false}, aarch64 = {31, 29, 30, true};
    struct comparison c = {.t = t, .path = path, .deadline = deadline};
    struct error err;
    GElf_Shdr s;
    GElf_Ehdr h;
    Elf_Data *d;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    elf_version(EV_CURRENT);
    Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
    CHECK_INT(t, unwind_table_read(buf_bytes(image), &c.view, &err), 0);
    if (elf && gelf_getehdr(elf, &h) && find_eh_frame(elf, &s, &d)) {
        c.machine = h.e_machine == EM_AARCH64 ? &aarch64 : &x86_64;
        c.cfi = dwarf_getcfi_elf(elf);
        if (c.cfi)
            compare_section(&c, elf, &s, d);
        dwarf_cfi_end(c.cfi);
    }
    elf_end(elf);
    close(fd);
    return c.n_rows;
}

/* How many rows were equal; 0 for what is not a file of ours. */
static size_t compare_file(struct test *t, const char *path, double deadline)
{
    struct budget b;
    struct elf_file *f = NULL;
    struct unwind_table table = {0};
    struct buf image = {0};
    struct error err;
    size_t n = 0;

    budget_init(&b, (size_t)256 << 20);
    if (elf_open(path, &b, &f, &err) < 0)
        return 0;
    int r = unwind_table_build(f, NULL, &b, &table, &err);
    if (r == 0) {
        unwind_table_write(&table, &image);
        n = compare_with_libdw(t, path, &image, deadline);
    } else if (r != -ENODATA && r != -EOPNOTSUPP) {
        printf("# %s\n", err.text);
        t->failures++;
    }
    buf_done(&image);
    unwind_table_done(&table);
    elf_close(f);
    CHECK_INT(t, b.used, 0);
    return n;
}

static void rules_are_those_that_libdw_finds(struct test *t)
{
    static const char *const files[] = {
        "/proc/self/exe",
        "/lib/x86_64-linux-gnu/libc.so.6",
        "/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2",
        "/lib/aarch64-linux-gnu/libc.so.6",
        "/usr/lib/x86_64-linux-gnu/libcrypto.so.3",
    };
    double deadline = now() + SECONDS_MAX / 2;
    size_t n = 0;

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        n += compare_file(t, files[i], deadline);
    printf("# %zu rows\n", n);
    CHECK(t, n > 1000);
}

static size_t compare_folder(struct test *t, const char *folder, double deadline)
{
    struct dirent **names;
    int n = scandir(folder, &names, NULL, alphasort);
    size_t rows = 0;

    for (int i = 0; i < n; i++) {
        char path[4096];
        snprintf(path, sizeof(path), "%s/%s", folder, names[i]->d_name);
        /* Every 7th, so that there is some of everything. */
        if (i % 7 == 0 && now() < deadline) {
            int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
            if (fd >= 0 && lseek(fd, 0, SEEK_END) < FILE_SIZE_MAX)
                rows += compare_file(t, path, deadline);
            if (fd >= 0)
                close(fd);
        }
        free(names[i]);
    }
    if (n >= 0)
        free(names);
    return rows;
}

static void so_are_those_of_a_sample_of_this_system(struct test *t)
{
    size_t n = compare_folder(t, "/usr/bin", now() + SECONDS_MAX / 4);

    n += compare_folder(t, "/usr/lib/x86_64-linux-gnu", now() + SECONDS_MAX / 4);
    n += compare_folder(t, "/usr/lib/aarch64-linux-gnu", now() + SECONDS_MAX / 4);
    printf("# %zu rows\n", n);
}

static void so_are_those_of_other_compilers(struct test *t)
{
    static const char *const names[] = {"fib-aarch64",         "shapes-clang14", "shapes-gxx12",
                                        "work-clang14-dwarf5", "rust-v0",        "libwork.so"};
    size_t n = 0;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char path[256];
        snprintf(path, sizeof(path), "elf/own/%s", names[i]);
        n += compare_file(t, corpus_path(path), now() + 1);
    }
    if (n == 0)
        TEST_SKIP(t, CORPUS_ABSENT);
}

static const struct test_case cases[] = {
    TEST(rules_are_those_that_libdw_finds),
    TEST(so_are_those_of_a_sample_of_this_system),
    TEST(so_are_those_of_other_compilers),
};
TEST_MAIN(cases)

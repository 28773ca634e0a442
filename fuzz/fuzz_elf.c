/*
 * Any bytes as an ELF file: our own readers of headers, notes, symbols, mini debug info, debug
 * links and Go's table. No crash, no leak, no hang, all memory within the budget and given back;
 * what is found is text that ends. libdw is not ours to fuzz: tests/symbols/test_binary.c damages
 * files for it.
 *
 * Links: symbols.
 */
#include <errno.h>

#include "fuzz.h"
#include "symbols/address.h"
#include "symbols/elf_symbols.h"
#include "symbols/go_module.h"
#include "symbols/minidebuginfo.h"

static size_t read_symbols(struct elf_file *f)
{
    struct symbol_table t = {0};
    struct error err = {{0}};
    size_t total = 0;
    int r = symbol_table_load(&t, f, &err);

    REQUIRE(r == 0 || err.text[0] != '\0');
    for (size_t i = 0; i < t.symbols.len; i++) {
        const struct symbol *s = &t.symbols.data[i];
        REQUIRE(s->start <= s->end);
        REQUIRE(i == 0 || s[-1].start < s->start);
        total += s->name[0] != '\0';
        if (s->end > s->start)
            REQUIRE(symbol_table_find(&t, s->start) != NULL);
    }
    symbol_table_done(&t);
    return total;
}

static void read_go(struct elf_file *f)
{
    struct symbol_table none = {0};
    struct pclntab t;
    struct arena a;

    if (go_module_pclntab(f, &none, &t, NULL) < 0)
        return;
    arena_init(&a, f->budget);
    for (uint64_t pc = t.text; pc < t.text + 4096; pc += 61)
        pclntab_find(&t, pc, &a);
    arena_done(&a);
}

static void read_addresses(const struct elf_file *f)
{
    uint64_t va;

    for (uint64_t at = 0; at < 1 << 20; at += 4099) {
        struct mapping m = {.start = at, .limit = at + 8192, .offset = at / 2};
        address_to_va(f, &m, at + 5, &va);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct budget b;
    struct elf_file *f = NULL, *mini = NULL;
    struct error err = {{0}};
    struct bytes code;

    budget_init(&b, (size_t)64 << 20);
    int r = elf_from_bytes((struct bytes){data, len}, "input", &b, &f, &err);
    REQUIRE(r == 0 || ((r == -EBADMSG || r == -ENOBUFS) && err.text[0] != '\0'));
    if (r == 0) {
        read_symbols(f);
        read_go(f);
        read_addresses(f);
        elf_read_va(f, 0x401000, 64, &code, NULL);
        if (minidebuginfo_open(f, &mini, NULL) == 0)
            read_symbols(mini);
        elf_close(mini);
    }
    elf_close(f);
    REQUIRE(b.used == 0);
    return 0;
}

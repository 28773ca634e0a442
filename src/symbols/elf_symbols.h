#pragma once

#include "base/vec.h"
#include "symbols/elf_file.h"

/*
 * The functions of an ELF file by address, from its .symtab and .dynsym: one entry per start
 * address, ascending. Names are borrowed from the file.
 */
struct symbol {
    uint64_t start;
    uint64_t end; /* past its last byte; where the table gives no size, the next symbol's start */
    const char *name;
    uint8_t rank; /* which of several names for one address to keep: the highest */
};

struct symbol_table {
    struct budget *budget;
    VEC(struct symbol) symbols;
};

/*
 * Adds the functions of both tables and sorts them. A file without tables yields none. Damaged
 * entries are left out; a damaged table is -EBADMSG, -ENOBUFS when the budget is spent. Call
 * symbol_table_done() in any case.
 */
int symbol_table_load(struct symbol_table *t, struct elf_file *f, struct error *err);

/* The same, but only those that symbol_table_find() needs to find these n addresses, which ascend:
 * large programs have very many, and sorting them takes long. */
int symbol_table_load_for(struct symbol_table *t, struct elf_file *f, const uint64_t *wanted,
                          size_t n, struct error *err);

/*
 * Sorts symbols that were pushed by hand, keeps the best name of each address, and ends those
 * without a size (rank bit 4 not set) where the next one starts.
 */
void symbol_table_settle(struct symbol_table *t);

void symbol_table_done(struct symbol_table *t);

/* The function that holds this address, or NULL. */
const struct symbol *symbol_table_find(const struct symbol_table *t, uint64_t va);

/* The first function of this name, or NULL; a linear search. */
const struct symbol *symbol_table_named(const struct symbol_table *t, const char *name);

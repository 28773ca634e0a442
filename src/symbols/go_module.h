#pragma once

#include "base/error.h"
#include "symbols/elf_file.h"
#include "symbols/elf_symbols.h"
#include "symbols/pclntab.h"

/*
 * Finds Go's table of functions in a program, and what is needed to read it: the address of
 * runtime.text and the data of inlined calls. Both come from the symbol table or, in a stripped
 * program, from runtime.firstmoduledata, which is known by its pointer to the table.
 *
 * The result borrows from `f`. -ENOENT when this is no Go program.
 */
int go_module_pclntab(struct elf_file *f, const struct symbol_table *symbols, struct pclntab *ret,
                      struct error *err);

/* Whether there is such a table. */
bool go_module_is_in(const struct elf_file *f);

/* The same of a table that is read as it is needed, without inlined calls. `lazy` is opened here
 * and closed by the caller, in any case; of a file that is in memory it stays zeroed. */
int go_module_pclntab_lazy(struct elf_file *f, struct lazy_bytes *lazy, struct pclntab *ret,
                           struct error *err);

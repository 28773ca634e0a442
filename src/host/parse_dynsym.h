#pragma once

#include <elf.h>

#include "symbols/elf_file.h"

/*
 * One exported symbol by its name, through the file's hash table: a few reads, however large the
 * file is. Files of 64 bits that have .gnu.hash; a small .dynsym without it is read through.
 */
struct dynamic_symbol {
    uint32_t index; /* in .dynsym */
    uint8_t type;   /* STT_... */
    uint64_t value, size;
};
bool parse_dynsym_find(struct elf_file *f, const char *name, struct dynamic_symbol *ret);

/* What .dynamic says; texts are "" and numbers 0 where it does not. */
struct dynamic_facts {
    char soname[128];
    bool is_pie; /* a program, not a library */
};
void parse_dynamic(const struct elf_file *f, struct dynamic_facts *ret);

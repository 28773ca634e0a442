#pragma once

#include "base/arena.h"
#include "base/bytes.h"
#include "base/error.h"
#include "symbols/elf_symbols.h"

/*
 * The running kernel's functions, from /proc/kallsyms or text of that form: "ADDRESS TYPE NAME",
 * then "[MODULE]" for those of modules.
 */
struct kallsyms {
    struct arena text;
    struct symbol_table table;
    uint64_t text_start;  /* of _text, 0 when not there */
    uint64_t stext_start; /* of _stext */
};

/*
 * The budget must outlive the table. -EBADMSG when it is no such text, -EACCES when all addresses
 * are zero (the kernel hides them from this user), -ENOBUFS.
 */
int kallsyms_parse(struct kallsyms *k, struct bytes text, struct budget *budget, struct error *err);
int kallsyms_read(struct kallsyms *k, const char *path, struct budget *budget, struct error *err);
void kallsyms_done(struct kallsyms *k); /* a zeroed one is fine */

/* The function at an address, or NULL. */
const char *kallsyms_find(const struct kallsyms *k, uint64_t address);

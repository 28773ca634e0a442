#pragma once

#include "host/name_table.h"
#include "symbols/elf_file.h"

/* Adds names for the stubs through which a file calls other files: "malloc@plt". x86-64 and
 * aarch64, as GNU ld, gold and lld lay them out; where it is another layout, none. */
void parse_plt_of(struct elf_file *f, struct name_table_writer *out);

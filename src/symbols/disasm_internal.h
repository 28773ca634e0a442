#pragma once

#include "base/buf.h"
#include "symbols/disasm.h"
#include "symbols/lookup.h"

/* Where rows go. */
struct disasm_row_out {
    disasm_row_sink *sink;
    void *opaque;
    struct buf name; /* the function of the row being handed out */
};

/* Adds function, file and line to a row and hands it out. `f` may be NULL. */
int disasm_emit(struct disasm_row_out *out, struct disasm_row *row, const struct code_frame *f);

/* disasm_objdump.c: the same by running objdump. */
int disasm_by_objdump(struct binary *b, uint64_t start, uint64_t end, struct disasm_row_out *out,
                      struct error *err);

/* One line of objdump's output: false when it is no instruction. The row borrows from the line,
 * which is changed; `code` gets its bytes. */
bool disasm_parse_objdump(char *line, uint8_t code[32], struct disasm_row *ret);

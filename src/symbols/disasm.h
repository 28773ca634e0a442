#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/regex.h"
#include "symbols/binary.h"

/*
 * The instructions of a binary, with the lines they came from. capstone decodes x86, ARM and
 * AArch64; for other machines objdump is run, if it is installed. Addresses are the file's own.
 *
 *     CLEANUP(binary_closep) struct binary *b = NULL;
 *     r = binary_open(path, NULL, &b, err);
 *     r = disasm_find(b, regex, 0, found, opaque);           the functions that match
 *     r = disasm_code(b, &(struct disasm_request){start, end, false}, row, opaque, err);
 */
struct disasm_row {
    uint64_t address;
    struct bytes code;
    const char *text;     /* "mov %rsp,%rbp"; branches name their target: "call 1139 <sq>" */
    const char *function; /* the innermost, demangled as pprof does; NULL when not known */
    const char *file;     /* NULL when not known */
    uint32_t line;
};

/* Rows are borrowed for the call. Anything but 0 ends the disassembly, which returns it. */
typedef int disasm_row_sink(const struct disasm_row *row, void *opaque);

/* More than this at once is refused. */
#define DISASM_BYTES_MAX ((uint64_t)16 << 20)

struct disasm_request {
    uint64_t start, end; /* end is past the last byte */
    bool intel;          /* x86: Intel's syntax instead of AT&T's */
};

/*
 * Disassembles a range. Bytes that are no instruction become ".byte". -ERANGE when the file holds
 * no code there, -E2BIG past DISASM_BYTES_MAX, -EOPNOTSUPP when neither capstone nor objdump can.
 */
int disasm_code(struct binary *b, const struct disasm_request *q, disasm_row_sink *sink,
                void *opaque, struct error *err);

/* A function that was found; the name is as it matched, and borrowed for the call. */
typedef int disasm_symbol_sink(const char *name, uint64_t start, uint64_t end, void *opaque);

/*
 * The functions whose name matches, raw or in any readable form, and the one that holds the
 * address, unless that is 0. `re` may be NULL. Ascending by address. Returns 0, or what the sink
 * returned.
 */
int disasm_find(struct binary *b, const struct regex *re, uint64_t address,
                disasm_symbol_sink *sink, void *opaque);

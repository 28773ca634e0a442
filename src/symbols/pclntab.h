#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/bytes.h"
#include "base/error.h"
#include "symbols/lazy_bytes.h"
#include "symbols/lookup.h"

/*
 * Go's own table of functions, files and lines (.gopclntab), which stays in stripped programs.
 * Layouts of Go 1.2, 1.16, 1.18 and 1.20 and later; inlined calls from 1.18 on.
 */
enum pclntab_version { PCLNTAB_1_2, PCLNTAB_1_16, PCLNTAB_1_18, PCLNTAB_1_20 };

struct pclntab {
    enum pclntab_version version;
    bool is_big_endian;
    uint32_t quantum; /* the smallest instruction */
    uint32_t word;    /* bytes of a pointer */
    uint64_t text;    /* where the functions start, from 1.18 on */
    uint64_t n_functions;
    struct bytes functions; /* pairs of address and offset into `records` */
    struct bytes records, names, units, files, values;
    struct lazy_bytes *lazy; /* NULL: all of it is in memory */
    struct bytes funcdata;   /* what moduledata.gofunc points to; empty: no inlined calls */
};

/*
 * Parses the header. `data` and `funcdata` are borrowed; `text` is the address of runtime.text
 * (only tables from 1.18 on need it). -EBADMSG when it is no such table.
 */
int pclntab_parse(struct bytes data, uint64_t text, struct bytes funcdata, struct pclntab *ret,
                  struct error *err);

/* The same of a table that is read as it is needed: without inlined calls. Texts that it hands out
 * stay until lazy_bytes_trim(); pclntab_find() is not for it. */
int pclntab_parse_lazy(struct lazy_bytes *lazy, struct pclntab *ret, struct error *err);

/* One function, in order of their addresses; false when its record is damaged. Texts are borrowed
 * from the table. */
struct pclntab_function {
    uint64_t start, end;
    const char *name;
    const char *file;    /* NULL when not known */
    uint32_t start_line; /* 0 when not known: before 1.20 it is the line of its first instruction */
};
bool pclntab_function(const struct pclntab *t, uint64_t i, struct pclntab_function *ret);

/* Whether an address is in a function of the table. */
bool pclntab_holds(const struct pclntab *t, uint64_t pc);

/* The frames of one address, in the arena; NULL when it is in no function. Names and files are
 * borrowed from the table. */
struct code_frame *pclntab_find(const struct pclntab *t, uint64_t pc, struct arena *arena);

/* How function i, in the order of their addresses, moves the stack pointer. */
enum {
    PCLNTAB_TOP_FRAME = 1,    /* has no caller (from Go 1.17 on; 0 before) */
    PCLNTAB_WRITES_STACK = 2, /* changes to another stack (the same) */
};

struct pclntab_frame {
    uint64_t start, end;
    const char *name; /* NULL when it is damaged */
    uint8_t flags;
    uint32_t stack; /* where its table is */
};
/* i < t->n_functions; false when its record is damaged. */
bool pclntab_frame(const struct pclntab *t, uint64_t i, struct pclntab_frame *ret);

/* How far the stack pointer is below where it was at the function's start, in [start, end). */
struct pclntab_stack {
    uint64_t start, end;
    int32_t bytes;
    struct bytes left;
};
void pclntab_stack_begin(const struct pclntab *t, const struct pclntab_frame *f,
                         struct pclntab_stack *s);
/* False at the end of the table, or where it is damaged. */
bool pclntab_stack_next(const struct pclntab *t, struct pclntab_stack *s);

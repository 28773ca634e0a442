#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * How to leave a function: .eh_frame (LSB, DWARF 5 §6.4) of x86-64, found by .eh_frame_hdr. The
 * tables are a module's own bytes in memory. They are bounded all the same: broken ones lead to no
 * rule or a wrong one, and never to a read outside of them.
 */

/* DWARF's numbers of the registers. */
enum { FRAME_RBX = 3, FRAME_RBP = 6, FRAME_RSP = 7, FRAME_R12 = 12, FRAME_RIP = 16 };
#define FRAME_REGISTERS 17

/* The pieces of memory of one module in which its tables are. */
struct frame_tables {
    uintptr_t start, end; /* the segment: all must be in it */
    uintptr_t header;     /* .eh_frame_hdr */
};

/* Where the caller's value of a register is. */
enum frame_place {
    FRAME_SAME,
    FRAME_UNDEFINED,
    FRAME_AT_CFA,           /* at cfa + offset */
    FRAME_CFA_PLUS,         /* cfa + offset itself */
    FRAME_IN_REGISTER,      /* in register `offset` */
    FRAME_AT_EXPRESSION,    /* at what the expression yields; it lies at tables.start + offset */
    FRAME_EXPRESSION_VALUE, /* what the expression yields */
};

/* What holds at one address. */
struct frame_row {
    bool is_signal; /* a signal came here: the caller's address is exact */
    bool cfa_is_expression;
    uint8_t cfa_register;
    uint8_t place[FRAME_REGISTERS]; /* enum frame_place */
    int32_t cfa_offset;             /* of an expression: where it lies */
    int32_t offset[FRAME_REGISTERS];
};

/* The row of an address; false when the tables do not have it, or are broken there. */
bool frame_row_find(const struct frame_tables *t, uint64_t pc, struct frame_row *ret);

struct frame_registers {
    uint64_t value[FRAME_REGISTERS];
    uint32_t known; /* bits */
};

/* Reads a word of the stack; false when it cannot be read. */
typedef bool frame_read_fn(void *ctx, uint64_t address, uint64_t *ret);

struct frame_world {
    const struct frame_tables *tables;
    const struct frame_registers *registers;
    frame_read_fn *read;
    void *ctx;
};

/* The value of the expression (with its length before it) at tables.start + at. With an initial
 * value on the stack where that is not NULL. */
bool frame_expression(const struct frame_world *w, uint32_t at, const uint64_t *initial,
                      uint64_t *ret);

/* The caller's registers, with the cfa as its stack pointer. False when they cannot be known.
 * A caller whose rip is not known is not there: this was the outermost frame. */
bool frame_row_apply(const struct frame_world *w, const struct frame_row *row,
                     struct frame_registers *ret);

#pragma once

#include "base/budget.h"
#include "base/bytes.h"
#include "base/vec.h"
#include "unwind/stack_frame.h"

/*
 * Follows the stack pointer through a piece of x86-64 code of which nothing is known but its bytes:
 * functions start at the front, where calls lead and where addresses are taken, and behind what
 * others reach. A function counts if it adds up: sp is back where it was at every return, every way
 * to an instruction has it at the same place, and it is aligned at calls as the ABI has it.
 */
#define CODE_WALK_BYTES_MAX ((size_t)128 << 10)

/* What is known of one byte. */
struct code_place {
    struct stack_frame_state state; /* before the instruction that starts here */
    uint8_t len : 4;                /* of that instruction; 0: none was reached */
    uint8_t is_start : 1;           /* a function starts here */
    uint8_t is_good : 1;            /* reached by a function that adds up */
    uint8_t is_padding : 1;
};

struct code_walk {
    struct budget *budget;
    struct bytes code;
    uint64_t va, entry;
    struct code_place *places; /* CODE_WALK_BYTES_MAX */
    VEC(uint32_t) reached;     /* by the function at hand */
    VEC(uint32_t) waiting;     /* of these, where its other ways begin */
    uint64_t n_good, n_bad;    /* bytes of code */
    uint32_t last_start;       /* the last function's */

    /* Of the function at hand. */
    bool is_bad, is_called;
    bool has_table; /* it jumps by a table, in this state */
    struct stack_frame_state at_table;
    uint32_t furthest; /* that it reached */
    uint32_t n_returns, n_tails, n_calls;
    uint32_t doubtful; /* behind a call and padding: perhaps another function; 0: nowhere */
};

/* The way back from a signal handler: mov $15,%rax; syscall. */
#define CODE_SIGRETURN_BYTES 9
bool code_is_sigreturn(struct bytes code);

bool code_walk_init(struct code_walk *w, struct budget *budget);
void code_walk_done(struct code_walk *w); /* a zeroed one is fine */

/* Walks all functions of a piece; `entry` is where the program starts. */
void code_walk_run(struct code_walk *w, struct bytes code, uint64_t va, uint64_t entry);

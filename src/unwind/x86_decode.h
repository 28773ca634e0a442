#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

/*
 * As much of x86-64's instructions as following the stack pointer through code needs: how long each
 * is, and what it does to sp, fp and the flow.
 */
enum x86_kind {
    X86_OTHER,
    X86_PUSH,
    X86_PUSH_FP,
    X86_POP,
    X86_POP_FP,
    X86_ADD_SP,     /* value: what is added */
    X86_ALIGN_SP,   /* sp is made less by an unknown amount */
    X86_SP_FROM_FP, /* sp = fp + value */
    X86_FP_FROM_SP, /* fp = sp */
    X86_LEAVE,
    X86_SET_SP, /* to something that is not known */
    X86_SET_FP,
    X86_JUMP,      /* value: from the instruction's end to the target */
    X86_BRANCH,    /* the same, if some condition holds */
    X86_JUMP_AWAY, /* to an address from a register or memory */
    X86_JUMP_SLOT, /* to an address kept at a fixed place: through a PLT */
    X86_CALL,      /* value: as of a jump */
    X86_CALL_AWAY,
    X86_CODE_ADDRESS, /* value: takes the address that is this far from its end */
    X86_RETURN,
    X86_STOP, /* a trap: nothing comes behind it */
    X86_NOP,
};

struct x86_instruction {
    enum x86_kind kind;
    uint8_t len;
    int32_t value;
};

/* False when the bytes are no instruction, or are cut short. */
bool x86_decode(struct bytes code, struct x86_instruction *ret);

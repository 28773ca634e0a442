#pragma once

#include "abi/unwind.h"
#include "unwind/x86_decode.h"

/* Where sp and the caller's fp are, from the frame's address (CFA) down, as followed through
 * code. */
struct stack_frame_state {
    uint16_t depth;   /* of sp, in words */
    uint16_t fp_at;   /* where the caller's fp is saved, in words; 0: nowhere */
    uint16_t fp_base; /* what fp holds, in words; 0: something else */
    uint8_t sp_is_lost : 1;
    uint8_t fp_is_lost : 1; /* overwritten without being saved */
};

/* At the first instruction of a function: only the return address was pushed. */
#define STACK_FRAME_START ((struct stack_frame_state){.depth = 1})

/* What an instruction makes of it. False when it cannot be followed. */
bool stack_frame_apply(struct stack_frame_state *s, const struct x86_instruction *i);

struct unwind_rule stack_frame_rule(const struct stack_frame_state *s);

#include "unwind/stack_frame.h"

#define DEPTH_MAX 4000 /* words, so that offsets fit a rule */

static bool move_sp(struct stack_frame_state *s, int64_t bytes)
{
    int64_t depth = (int64_t)s->depth - bytes / 8;

    if (s->sp_is_lost)
        return true;
    if (bytes % 8 != 0 || depth < 0 || depth > DEPTH_MAX)
        return false;
    s->depth = (uint16_t)depth;
    return true;
}

static bool push_fp(struct stack_frame_state *s)
{
    if (!move_sp(s, -8))
        return false;
    if (s->fp_at == 0 && !s->fp_is_lost && !s->sp_is_lost)
        s->fp_at = s->depth;
    return true;
}

static bool pop_fp(struct stack_frame_state *s)
{
    if (!s->sp_is_lost && s->fp_at == s->depth) {
        s->fp_at = 0;
        s->fp_is_lost = 0;
    } else if (s->fp_at == 0) {
        s->fp_is_lost = 1;
    }
    s->fp_base = 0;
    return move_sp(s, 8) && !s->sp_is_lost;
}

static bool sp_from_fp(struct stack_frame_state *s, int32_t value)
{
    if (s->fp_base == 0)
        return false;
    s->sp_is_lost = 0;
    s->depth = s->fp_base;
    return move_sp(s, value);
}

static bool set_fp(struct stack_frame_state *s)
{
    s->fp_base = 0;
    if (s->fp_at == 0)
        s->fp_is_lost = 1;
    return !s->sp_is_lost;
}

bool stack_frame_apply(struct stack_frame_state *s, const struct x86_instruction *i)
{
    switch (i->kind) {
    case X86_PUSH:
        return move_sp(s, -8);
    case X86_PUSH_FP:
        return push_fp(s);
    case X86_POP:
        return move_sp(s, 8);
    case X86_POP_FP:
        return pop_fp(s);
    case X86_ADD_SP:
        return move_sp(s, i->value);
    case X86_ALIGN_SP:
        s->sp_is_lost = 1;
        return s->fp_base != 0;
    case X86_SP_FROM_FP:
        return sp_from_fp(s, i->value);
    case X86_FP_FROM_SP:
        if (s->fp_at == 0)
            s->fp_is_lost = 1;
        s->fp_base = s->sp_is_lost ? 0 : s->depth;
        return !s->sp_is_lost;
    case X86_LEAVE:
        return sp_from_fp(s, 0) && pop_fp(s);
    case X86_SET_SP:
        return false;
    case X86_SET_FP:
        return set_fp(s);
    default:
        return true;
    }
}

struct unwind_rule stack_frame_rule(const struct stack_frame_state *s)
{
    struct unwind_rule r = {.cfa = UNWIND_CFA_SP, .cfa_off = s->depth * 8};

    if (s->sp_is_lost)
        r = (struct unwind_rule){.cfa = UNWIND_CFA_FP, .cfa_off = s->fp_base * 8};
    else if (s->depth == 0) /* popped its return address: it will not return */
        return (struct unwind_rule){.cfa = UNWIND_CFA_END};
    if (s->fp_at != 0) {
        r.saved = UNWIND_SAVED_FP;
        r.saved_off = (int16_t)(-8 * s->fp_at);
    } else if (s->fp_is_lost) {
        r.saved = UNWIND_SAVED_LOST;
    }
    return r;
}

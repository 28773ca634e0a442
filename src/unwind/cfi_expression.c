#include <limits.h>

#include "unwind/cfi.h"

/* Operations of DWARF expressions. */
enum {
    OP_DEREF = 0x06,
    OP_CONST1U = 0x08,
    OP_AND = 0x1a,
    OP_PLUS = 0x22,
    OP_PLUS_UCONST = 0x23,
    OP_SHL = 0x24,
    OP_GE = 0x2a,
    OP_LIT0 = 0x30,
    OP_LIT31 = 0x4f,
    OP_BREG0 = 0x70,
    OP_BREG31 = 0x8f,
    OP_BREGX = 0x92,
};

static bool take_base(struct cfi_cursor *c, uint64_t *ret_register, int64_t *ret_off)
{
    uint8_t op = cfi_u8(c);

    if (op >= OP_BREG0 && op <= OP_BREG31)
        *ret_register = op - OP_BREG0;
    else if (op == OP_BREGX)
        *ret_register = cfi_uleb(c);
    else
        return false;
    *ret_off = cfi_sleb(c);
    return !c->failed;
}

bool cfi_expression_base(struct bytes expression, uint64_t *ret_register, int64_t *ret_off)
{
    struct cfi_cursor c = {.left = expression};
    return take_base(&c, ret_register, ret_off) && c.left.len == 0;
}

/* All entries of a PLT share one: sp + 8 + ((pc & 15) >= N ? 8 : 0). */
static bool is_plt(const struct cfi_machine *m, struct bytes e, int32_t *ret)
{
    static const uint8_t plt[] = {OP_BREG0 + 7, 8,     OP_BREG0 + 16, 0,      OP_LIT0 + 15, OP_AND,
                                  OP_LIT0,      OP_GE, OP_LIT0 + 3,   OP_SHL, OP_PLUS};
    const size_t at = 6;

    if (m->ra_in_register || e.len != sizeof(plt) || memcmp(e.data, plt, at) != 0 ||
        memcmp(e.data + at + 1, plt + at + 1, sizeof(plt) - at - 1) != 0 || e.data[at] < OP_LIT0 ||
        e.data[at] > OP_LIT0 + 15)
        return false;
    *ret = e.data[at] - OP_LIT0;
    return true;
}

/* The constant added behind "*(register + offset)"; false when something else stands there. */
static bool take_constant(struct cfi_cursor *c, uint64_t *ret)
{
    uint8_t op = cfi_u8(c);

    if (op == OP_PLUS_UCONST) {
        *ret = cfi_uleb(c);
        return true;
    }
    if (op == OP_CONST1U)
        *ret = cfi_u8(c);
    else if (op >= OP_LIT0 && op <= OP_LIT31)
        *ret = op - OP_LIT0;
    else
        return false;
    return cfi_u8(c) == OP_PLUS;
}

struct unwind_rule cfi_expression_rule(const struct cfi_machine *m, struct bytes expression)
{
    const struct unwind_rule unsupported = {.cfa = UNWIND_CFA_UNSUPPORTED};
    struct cfi_cursor c = {.left = expression};
    int32_t threshold;
    uint64_t reg, constant = 0;
    int64_t off;

    if (is_plt(m, expression, &threshold))
        return (struct unwind_rule){.cfa = UNWIND_CFA_PLT, .cfa_off = threshold};
    if (!take_base(&c, &reg, &off) || (reg != m->sp && reg != m->fp))
        return unsupported;
    bool is_sp = reg == m->sp;
    if (c.left.len == 0 && off >= INT32_MIN && off <= INT32_MAX)
        return (struct unwind_rule){.cfa = is_sp ? UNWIND_CFA_SP : UNWIND_CFA_FP,
                                    .cfa_off = (int32_t)off};
    if (cfi_u8(&c) != OP_DEREF || (c.left.len > 0 && !take_constant(&c, &constant)) || c.failed ||
        c.left.len > 0)
        return unsupported;
    if (constant > UINT8_MAX || off < -(1 << 23) || off >= 1 << 23)
        return unsupported;
    return (struct unwind_rule){.cfa = is_sp ? UNWIND_CFA_SP_DEREF : UNWIND_CFA_FP_DEREF,
                                .cfa_off = (int32_t)(off * 256 + (int64_t)constant)};
}

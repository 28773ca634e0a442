#include "unwind/cfi.h"

/* States that DW_CFA_remember_state puts aside; compilers need two or three. */
#define REMEMBERED_MAX 32

const struct cfi_machine cfi_x86_64 = {.sp = 7, .fp = 6, .ra = 16};
const struct cfi_machine cfi_aarch64 = {.sp = 31, .fp = 29, .ra = 30, .ra_in_register = true};

enum {
    CFA_ADVANCE_LOC = 0x40, /* the operand is in the lower six bits */
    CFA_OFFSET = 0x80,
    CFA_RESTORE = 0xc0,
    CFA_NOP = 0,
    CFA_SET_LOC = 1,
    CFA_ADVANCE_LOC1 = 2,
    CFA_ADVANCE_LOC2 = 3,
    CFA_ADVANCE_LOC4 = 4,
    CFA_OFFSET_EXTENDED = 5,
    CFA_RESTORE_EXTENDED = 6,
    CFA_UNDEFINED = 7,
    CFA_SAME_VALUE = 8,
    CFA_REGISTER = 9,
    CFA_REMEMBER_STATE = 0x0a,
    CFA_RESTORE_STATE = 0x0b,
    CFA_DEF_CFA = 0x0c,
    CFA_DEF_CFA_REGISTER = 0x0d,
    CFA_DEF_CFA_OFFSET = 0x0e,
    CFA_DEF_CFA_EXPRESSION = 0x0f,
    CFA_EXPRESSION = 0x10,
    CFA_OFFSET_EXTENDED_SF = 0x11,
    CFA_DEF_CFA_SF = 0x12,
    CFA_DEF_CFA_OFFSET_SF = 0x13,
    CFA_VAL_OFFSET = 0x14,
    CFA_VAL_OFFSET_SF = 0x15,
    CFA_VAL_EXPRESSION = 0x16,
    CFA_MIPS_ADVANCE_LOC8 = 0x1d,
    CFA_AARCH64_NEGATE_RA_STATE_WITH_PC = 0x2c,
    CFA_AARCH64_NEGATE_RA_STATE = 0x2d,
    CFA_GNU_ARGS_SIZE = 0x2e,
    CFA_GNU_NEGATIVE_OFFSET_EXTENDED = 0x2f,
};

/* One program being run. */
struct run {
    const struct cfi_machine *machine;
    const struct cfi_common *common;
    const struct cfi_function *function; /* NULL: the common part */
    struct cfi_cursor c;
    uint64_t pc;
    struct cfi_state now;
    struct row_builder *rows;
    bool failed;
    size_t n_remembered;
    struct cfi_state remembered[REMEMBERED_MAX];
};

static int64_t scaled(const struct run *r, int64_t n)
{
    int64_t v;

    /* A product that does not fit is no offset of anything: the rule will not be followed. */
    return __builtin_mul_overflow(n, r->common->data_align, &v) ? INT64_MAX : v;
}

static struct cfi_register *slot(struct run *r, struct cfi_state *s, uint64_t reg)
{
    return reg == r->machine->fp ? &s->fp : reg == r->machine->ra ? &s->ra : NULL;
}

static void set_register(struct run *r, uint64_t reg, enum cfi_place place, int64_t off)
{
    struct cfi_register *to = slot(r, &r->now, reg);

    if (to)
        *to = (struct cfi_register){place, off};
}

static void restore_register(struct run *r, uint64_t reg)
{
    struct cfi_register *to = slot(r, &r->now, reg);

    if (!r->function)
        r->failed = true;
    else if (to)
        *to = reg == r->machine->fp ? r->common->start.fp : r->common->start.ra;
}

/* "Saved where this expression says": most say fp + offset. */
static void set_expression(struct run *r)
{
    uint64_t reg = cfi_uleb(&r->c), base;
    struct bytes e = cfi_block(&r->c);
    int64_t off;

    if (cfi_expression_base(e, &base, &off) && base == r->machine->fp)
        set_register(r, reg, CFI_AT_FP, off);
    else
        set_register(r, reg, CFI_EXPRESSION, 0);
}

static void set_cfa(struct run *r, uint64_t reg, int64_t off)
{
    r->now.cfa_is_expression = false;
    r->now.cfa_register = reg;
    r->now.cfa_off = off;
}

static void set_cfa_offset(struct run *r, int64_t off)
{
    r->failed |= r->now.cfa_is_expression;
    r->now.cfa_off = off;
}

static void set_cfa_register(struct run *r, uint64_t reg)
{
    /* Behind an expression the offset is the one before it: so assemblers mean it. */
    r->now.cfa_is_expression = false;
    r->now.cfa_register = reg;
}

/* What held so far holds up to the new address. */
static void move_to(struct run *r, uint64_t pc)
{
    if (!r->function || pc < r->pc) {
        r->failed = true;
        return;
    }
    if (pc > r->pc && r->pc < r->function->end)
        row_builder_add(r->rows, r->pc, cfi_rule(r->machine, &r->now, r->common->is_signal));
    r->pc = pc;
}

static void advance(struct run *r, uint64_t delta)
{
    uint64_t bytes, pc;

    if (__builtin_mul_overflow(delta, r->common->code_align, &bytes) ||
        __builtin_add_overflow(r->pc, bytes, &pc))
        r->failed = true;
    else
        move_to(r, pc);
}

static void set_location(struct run *r)
{
    uint64_t pc, va;

    if (!r->function) {
        r->failed = true;
        return;
    }
    va = r->function->program_va + (uint64_t)(r->c.left.data - r->function->program.data);
    if (cfi_pointer(&r->c, r->common->pointer_encoding, va, &pc))
        move_to(r, pc);
    else
        r->failed = true;
}

static void remember(struct run *r)
{
    if (r->n_remembered == REMEMBERED_MAX)
        r->failed = true;
    else
        r->remembered[r->n_remembered++] = r->now;
}

static void recall(struct run *r)
{
    if (r->n_remembered == 0)
        r->failed = true;
    else
        r->now = r->remembered[--r->n_remembered];
}

/* Instructions that move the address. */
static bool run_location(struct run *r, uint8_t op)
{
    switch (op) {
    case CFA_SET_LOC:
        set_location(r);
        return true;
    case CFA_ADVANCE_LOC1:
        advance(r, cfi_u8(&r->c));
        return true;
    case CFA_ADVANCE_LOC2:
        advance(r, cfi_u16(&r->c));
        return true;
    case CFA_ADVANCE_LOC4:
        advance(r, cfi_u32(&r->c));
        return true;
    case CFA_MIPS_ADVANCE_LOC8:
        advance(r, cfi_u64(&r->c));
        return true;
    default:
        return false;
    }
}

/* Instructions about the canonical frame address. */
static bool run_cfa(struct run *r, uint8_t op)
{
    uint64_t reg;

    switch (op) {
    case CFA_DEF_CFA:
        reg = cfi_uleb(&r->c);
        set_cfa(r, reg, (int64_t)cfi_uleb(&r->c));
        return true;
    case CFA_DEF_CFA_SF:
        reg = cfi_uleb(&r->c);
        set_cfa(r, reg, scaled(r, cfi_sleb(&r->c)));
        return true;
    case CFA_DEF_CFA_REGISTER:
        set_cfa_register(r, cfi_uleb(&r->c));
        return true;
    case CFA_DEF_CFA_OFFSET:
        set_cfa_offset(r, (int64_t)cfi_uleb(&r->c));
        return true;
    case CFA_DEF_CFA_OFFSET_SF:
        set_cfa_offset(r, scaled(r, cfi_sleb(&r->c)));
        return true;
    case CFA_DEF_CFA_EXPRESSION:
        r->now.cfa_is_expression = true;
        r->now.cfa_rule = cfi_expression_rule(r->machine, cfi_block(&r->c));
        return true;
    default:
        return false;
    }
}

/* Instructions about where a register is saved. */
static bool run_register(struct run *r, uint8_t op)
{
    uint64_t reg;

    switch (op) {
    case CFA_OFFSET_EXTENDED:
        reg = cfi_uleb(&r->c);
        set_register(r, reg, CFI_AT_CFA, scaled(r, (int64_t)cfi_uleb(&r->c)));
        return true;
    case CFA_OFFSET_EXTENDED_SF:
        reg = cfi_uleb(&r->c);
        set_register(r, reg, CFI_AT_CFA, scaled(r, cfi_sleb(&r->c)));
        return true;
    case CFA_GNU_NEGATIVE_OFFSET_EXTENDED:
        reg = cfi_uleb(&r->c);
        set_register(r, reg, CFI_AT_CFA, scaled(r, (int64_t)(0 - cfi_uleb(&r->c))));
        return true;
    case CFA_RESTORE_EXTENDED:
        restore_register(r, cfi_uleb(&r->c));
        return true;
    case CFA_UNDEFINED:
        set_register(r, cfi_uleb(&r->c), CFI_UNDEFINED, 0);
        return true;
    case CFA_SAME_VALUE:
        set_register(r, cfi_uleb(&r->c), CFI_SAME, 0);
        return true;
    case CFA_REGISTER:
    case CFA_VAL_OFFSET:
        reg = cfi_uleb(&r->c);
        cfi_uleb(&r->c);
        set_register(r, reg, CFI_ELSEWHERE, 0);
        return true;
    case CFA_VAL_OFFSET_SF:
        reg = cfi_uleb(&r->c);
        cfi_sleb(&r->c);
        set_register(r, reg, CFI_ELSEWHERE, 0);
        return true;
    case CFA_EXPRESSION:
        set_expression(r);
        return true;
    case CFA_VAL_EXPRESSION:
        reg = cfi_uleb(&r->c);
        cfi_block(&r->c);
        set_register(r, reg, CFI_ELSEWHERE, 0);
        return true;
    default:
        return false;
    }
}

static void run_other(struct run *r, uint8_t op)
{
    switch (op) {
    case CFA_NOP:
        return;
    case CFA_REMEMBER_STATE:
        remember(r);
        return;
    case CFA_RESTORE_STATE:
        recall(r);
        return;
    case CFA_GNU_ARGS_SIZE:
        cfi_uleb(&r->c);
        return;
    case CFA_AARCH64_NEGATE_RA_STATE:
    case CFA_AARCH64_NEGATE_RA_STATE_WITH_PC:
        /* Whether the return address is signed: the walk strips signatures always. */
        r->failed |= !r->machine->ra_in_register;
        return;
    default:
        r->failed = true;
    }
}

static bool run_program(struct run *r)
{
    while (r->c.left.len > 0 && !r->failed) {
        uint8_t op = cfi_u8(&r->c), low = op & 0x3f;
        switch (op & 0xc0) {
        case CFA_ADVANCE_LOC:
            advance(r, low);
            break;
        case CFA_OFFSET:
            set_register(r, low, CFI_AT_CFA, scaled(r, (int64_t)cfi_uleb(&r->c)));
            break;
        case CFA_RESTORE:
            restore_register(r, low);
            break;
        default:
            if (!run_location(r, op) && !run_cfa(r, op) && !run_register(r, op))
                run_other(r, op);
        }
    }
    return !r->failed && !r->c.failed;
}

bool cfi_run_common(const struct cfi_machine *m, struct cfi_common *common, struct bytes program)
{
    struct run r;

    r.machine = m;
    r.common = common;
    r.function = NULL;
    r.c = (struct cfi_cursor){.left = program};
    r.pc = 0;
    /* No rule yet for the frame: a register that no machine has. */
    r.now = (struct cfi_state){.cfa_register = UINT64_MAX};
    r.rows = NULL;
    r.failed = false;
    r.n_remembered = 0;
    if (!run_program(&r))
        return false;
    common->start = r.now;
    return true;
}

bool cfi_run(const struct cfi_function *f, struct row_builder *rows)
{
    struct row_mark mark = row_builder_mark(rows);
    struct run r;

    if (!row_builder_begin(rows, f->start, f->end))
        return true;
    r.machine = f->machine;
    r.common = f->common;
    r.function = f;
    r.c = (struct cfi_cursor){.left = f->program};
    r.pc = f->start;
    r.now = f->common->start;
    r.rows = rows;
    r.failed = false;
    r.n_remembered = 0;
    if (!run_program(&r)) {
        row_builder_undo(rows, mark);
        return false;
    }
    if (r.pc < f->end)
        row_builder_add(rows, r.pc, cfi_rule(f->machine, &r.now, f->common->is_signal));
    return true;
}

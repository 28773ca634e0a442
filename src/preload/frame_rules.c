#include "preload/frame_rules.h"

#include "preload/table_cursor.h"

/* A common information entry: what functions share. */
struct common {
    struct table_cursor program;
    uint64_t code_align;
    int64_t data_align;
    uint8_t pointer_encoding;
    bool has_sizes; /* augmentation 'z' */
    bool is_signal;
};

#define KEPT_MAX 8

/* A program of call frame instructions on its way to an address. */
struct run {
    const struct frame_tables *tables;
    const struct common *common;
    uint64_t at, target;
    struct frame_row row;
    struct frame_row first; /* after the common part */
    uint32_t n_kept;
    struct frame_row kept[KEPT_MAX];
};

static struct table_cursor cursor_at(const struct frame_tables *t, uint64_t at)
{
    struct table_cursor c = {.failed = true};

    if (at >= t->start && at < t->end)
        c = (struct table_cursor){(const uint8_t *)at, (const uint8_t *)t->end, false};
    else
        c.at = c.end = (const uint8_t *)t->end;
    return c;
}

/* One entry: the cursor is cut to what follows its length. */
static struct table_cursor entry_at(const struct frame_tables *t, uint64_t at)
{
    struct table_cursor c = cursor_at(t, at);
    uint64_t size = cursor_word(&c, 4);

    if (size == 0 || size > (uint64_t)(c.end - c.at))
        c.failed = true;
    else
        c.end = c.at + size;
    return c;
}

static bool read_augmentation(struct table_cursor *c, const char *letters, struct common *ret)
{
    struct table_cursor data;
    uint64_t size;

    if (letters[0] == 0)
        return true;
    if (letters[0] != 'z')
        return false;
    size = cursor_uleb(c);
    data = *c;
    cursor_skip(c, size);
    data.end = c->at;
    ret->has_sizes = true;
    for (letters++; *letters; letters++) {
        if (*letters == 'R')
            ret->pointer_encoding = cursor_u8(&data);
        else if (*letters == 'S')
            ret->is_signal = true;
        else if (*letters == 'L')
            cursor_u8(&data);
        else if (*letters == 'P') {
            uint8_t encoding = cursor_u8(&data);
            cursor_pointer(&data, encoding & POINTER_FORMAT);
        } else {
            break; /* what follows is not known, and has its size */
        }
    }
    return !data.failed;
}

static bool read_common(const struct frame_tables *t, uint64_t at, struct common *ret)
{
    struct table_cursor c = entry_at(t, at);
    char letters[8] = {0};
    uint8_t version;

    *ret = (struct common){0};
    if (cursor_word(&c, 4) != 0)
        return false;
    version = cursor_u8(&c);
    if (version != 1 && version != 3 && version != 4)
        return false;
    for (size_t i = 0; (letters[i] = (char)cursor_u8(&c)) != 0; i++)
        if (i + 1 == sizeof(letters))
            return false;
    if (version == 4)
        cursor_skip(&c, 2); /* sizes of addresses and segments */
    ret->code_align = cursor_uleb(&c);
    ret->data_align = cursor_sleb(&c);
    if ((version == 1 ? cursor_u8(&c) : cursor_uleb(&c)) != FRAME_RIP)
        return false;
    if (!read_augmentation(&c, letters, ret))
        return false;
    ret->program = c;
    return !c.failed;
}

/* ---- Instructions ---- */

enum {
    CFA_NOP,
    CFA_SET_LOC,
    CFA_ADVANCE_LOC1,
    CFA_ADVANCE_LOC2,
    CFA_ADVANCE_LOC4,
    CFA_OFFSET_EXTENDED,
    CFA_RESTORE_EXTENDED,
    CFA_UNDEFINED,
    CFA_SAME_VALUE,
    CFA_REGISTER,
    CFA_REMEMBER_STATE,
    CFA_RESTORE_STATE,
    CFA_DEF_CFA,
    CFA_DEF_CFA_REGISTER,
    CFA_DEF_CFA_OFFSET,
    CFA_DEF_CFA_EXPRESSION,
    CFA_EXPRESSION,
    CFA_OFFSET_EXTENDED_SF,
    CFA_DEF_CFA_SF,
    CFA_DEF_CFA_OFFSET_SF,
    CFA_VAL_OFFSET,
    CFA_VAL_OFFSET_SF,
    CFA_VAL_EXPRESSION,
    CFA_GNU_ARGS_SIZE = 0x2e,
    CFA_GNU_NEGATIVE_OFFSET = 0x2f,
    /* In the two high bits, with an operand in the others. */
    CFA_ADVANCE_LOC = 0x40,
    CFA_OFFSET = 0x80,
    CFA_RESTORE = 0xc0,
};

/* Registers that are not followed are passed over; offsets that are too large fail. */
static void put(struct table_cursor *c, struct frame_row *row, uint64_t reg, enum frame_place place,
                int64_t offset)
{
    if (reg >= FRAME_REGISTERS)
        return;
    if (offset != (int32_t)offset)
        c->failed = true;
    row->place[reg] = (uint8_t)place;
    row->offset[reg] = (int32_t)offset;
}

static void put_back(struct run *r, uint64_t reg)
{
    if (reg < FRAME_REGISTERS) {
        r->row.place[reg] = r->first.place[reg];
        r->row.offset[reg] = r->first.offset[reg];
    }
}

static void put_cfa(struct table_cursor *c, struct frame_row *row, uint64_t reg, int64_t offset)
{
    if (reg >= FRAME_RIP || offset != (int32_t)offset)
        c->failed = true;
    row->cfa_is_expression = false;
    row->cfa_register = (uint8_t)reg;
    row->cfa_offset = (int32_t)offset;
}

/* Passes over an expression; where it lies. */
static int64_t skip_expression(struct run *r, struct table_cursor *c)
{
    int64_t at = (int64_t)((uintptr_t)c->at - r->tables->start);

    cursor_skip(c, cursor_uleb(c));
    return at;
}

/* Wraps, as the tables of a hostile file may ask for. */
static int64_t scaled(const struct run *r, uint64_t n)
{
    return (int64_t)(n * (uint64_t)r->common->data_align);
}

static void run_cfa(struct run *r, struct table_cursor *c, uint8_t op)
{
    struct frame_row *row = &r->row;
    uint64_t reg;
    int64_t at;

    switch (op) {
    case CFA_DEF_CFA:
        reg = cursor_uleb(c);
        put_cfa(c, row, reg, (int64_t)cursor_uleb(c));
        return;
    case CFA_DEF_CFA_SF:
        reg = cursor_uleb(c);
        put_cfa(c, row, reg, scaled(r, (uint64_t)cursor_sleb(c)));
        return;
    case CFA_DEF_CFA_REGISTER:
        put_cfa(c, row, cursor_uleb(c), row->cfa_offset);
        return;
    case CFA_DEF_CFA_OFFSET:
        put_cfa(c, row, row->cfa_register, (int64_t)cursor_uleb(c));
        return;
    case CFA_DEF_CFA_OFFSET_SF:
        put_cfa(c, row, row->cfa_register, scaled(r, (uint64_t)cursor_sleb(c)));
        return;
    default: /* CFA_DEF_CFA_EXPRESSION */
        at = skip_expression(r, c);
        if (at != (int32_t)at)
            c->failed = true;
        row->cfa_is_expression = true;
        row->cfa_offset = (int32_t)at;
    }
}

static void run_state(struct run *r, struct table_cursor *c, uint8_t op)
{
    if (op == CFA_REMEMBER_STATE && r->n_kept < KEPT_MAX)
        r->kept[r->n_kept++] = r->row;
    else if (op == CFA_RESTORE_STATE && r->n_kept > 0)
        r->row = r->kept[--r->n_kept];
    else
        c->failed = true;
}

static void run_register(struct run *r, struct table_cursor *c, uint8_t op)
{
    struct frame_row *row = &r->row;
    uint64_t reg = cursor_uleb(c);

    switch (op) {
    case CFA_OFFSET_EXTENDED:
        put(c, row, reg, FRAME_AT_CFA, scaled(r, cursor_uleb(c)));
        return;
    case CFA_OFFSET_EXTENDED_SF:
        put(c, row, reg, FRAME_AT_CFA, scaled(r, (uint64_t)cursor_sleb(c)));
        return;
    case CFA_GNU_NEGATIVE_OFFSET:
        put(c, row, reg, FRAME_AT_CFA, scaled(r, 0 - cursor_uleb(c)));
        return;
    case CFA_VAL_OFFSET:
        put(c, row, reg, FRAME_CFA_PLUS, scaled(r, cursor_uleb(c)));
        return;
    case CFA_VAL_OFFSET_SF:
        put(c, row, reg, FRAME_CFA_PLUS, scaled(r, (uint64_t)cursor_sleb(c)));
        return;
    case CFA_RESTORE_EXTENDED:
        put_back(r, reg);
        return;
    case CFA_UNDEFINED:
        put(c, row, reg, FRAME_UNDEFINED, 0);
        return;
    case CFA_SAME_VALUE:
        put(c, row, reg, FRAME_SAME, 0);
        return;
    case CFA_REGISTER:
        put(c, row, reg, FRAME_IN_REGISTER, (int64_t)(cursor_uleb(c) & INT32_MAX));
        return;
    case CFA_EXPRESSION:
        put(c, row, reg, FRAME_AT_EXPRESSION, skip_expression(r, c));
        return;
    default: /* CFA_VAL_EXPRESSION */
        put(c, row, reg, FRAME_EXPRESSION_VALUE, skip_expression(r, c));
    }
}

/* True when the place moved on. */
static bool run_advance(struct run *r, struct table_cursor *c, uint8_t op)
{
    if ((op & 0xc0) == CFA_ADVANCE_LOC)
        r->at += (op & 0x3f) * r->common->code_align;
    else if (op >= CFA_ADVANCE_LOC1 && op <= CFA_ADVANCE_LOC4)
        r->at += cursor_word(c, 1u << (op - CFA_ADVANCE_LOC1)) * r->common->code_align;
    else if (op == CFA_SET_LOC)
        r->at = cursor_pointer(c, r->common->pointer_encoding);
    else
        return false;
    return true;
}

static void run_other(struct run *r, struct table_cursor *c, uint8_t op)
{
    switch (op) {
    case CFA_NOP:
        return;
    case CFA_GNU_ARGS_SIZE:
        cursor_uleb(c);
        return;
    case CFA_REMEMBER_STATE:
    case CFA_RESTORE_STATE:
        run_state(r, c, op);
        return;
    case CFA_DEF_CFA:
    case CFA_DEF_CFA_SF:
    case CFA_DEF_CFA_REGISTER:
    case CFA_DEF_CFA_OFFSET:
    case CFA_DEF_CFA_OFFSET_SF:
    case CFA_DEF_CFA_EXPRESSION:
        run_cfa(r, c, op);
        return;
    case CFA_OFFSET_EXTENDED ... CFA_REGISTER:
    case CFA_EXPRESSION ... CFA_OFFSET_EXTENDED_SF:
    case CFA_VAL_OFFSET ... CFA_VAL_EXPRESSION:
    case CFA_GNU_NEGATIVE_OFFSET:
        run_register(r, c, op);
        return;
    default:
        c->failed = true;
    }
}

/* Up to the target, or the end. */
static bool run_program(struct run *r, struct table_cursor c)
{
    while (c.at < c.end && !c.failed) {
        uint8_t op = cursor_u8(&c);

        if (run_advance(r, &c, op)) {
            if (r->at > r->target)
                break;
        } else if ((op & 0xc0) == CFA_OFFSET) {
            put(&c, &r->row, op & 0x3f, FRAME_AT_CFA, scaled(r, cursor_uleb(&c)));
        } else if ((op & 0xc0) == CFA_RESTORE) {
            put_back(r, op & 0x3f);
        } else {
            run_other(r, &c, op);
        }
    }
    return !c.failed;
}

/* ---- Finding ---- */

/* The entry of the function that starts last at or before pc; 0 when there is none. */
static uint64_t find_function(const struct frame_tables *t, uint64_t pc)
{
    enum { PCREL_SDATA4 = 0x1b, UDATA4 = 0x03, DATAREL_SDATA4 = 0x3b };
    struct table_cursor c = cursor_at(t, t->header);
    uint64_t head = cursor_word(&c, 4), n;
    size_t low = 0, high;
    int32_t pair[2];

    /* What all linkers make, and what libgcc searches, too. */
    if (head != (1 | PCREL_SDATA4 << 8 | UDATA4 << 16 | (uint64_t)DATAREL_SDATA4 << 24))
        return 0;
    cursor_skip(&c, 4);
    n = cursor_word(&c, 4);
    if (n > (uint64_t)(c.end - c.at) / sizeof(pair))
        return 0;
    high = (size_t)n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        memcpy(pair, c.at + mid * sizeof(pair), sizeof(pair));
        if (t->header + (uint64_t)(int64_t)pair[0] <= pc)
            low = mid + 1;
        else
            high = mid;
    }
    if (low == 0)
        return 0;
    memcpy(pair, c.at + (low - 1) * sizeof(pair), sizeof(pair));
    return t->header + (uint64_t)(int64_t)pair[1];
}

bool frame_row_find(const struct frame_tables *t, uint64_t pc, struct frame_row *ret)
{
    uint64_t at = find_function(t, pc), place, start, size;
    struct table_cursor c = entry_at(t, at);
    struct common common;
    struct run r;

    if (at == 0 || c.failed)
        return false;
    place = (uintptr_t)c.at;
    if (!read_common(t, place - cursor_word(&c, 4), &common))
        return false;
    start = cursor_pointer(&c, common.pointer_encoding);
    size = cursor_pointer(&c, common.pointer_encoding & POINTER_FORMAT);
    if (common.has_sizes)
        cursor_skip(&c, cursor_uleb(&c));
    if (c.failed || pc < start || pc - start >= size)
        return false;

    r.tables = t;
    r.common = &common;
    r.at = start;
    r.target = pc;
    r.n_kept = 0;
    memset(&r.row, 0, sizeof(r.row));
    r.row.is_signal = common.is_signal;
    r.first = r.row;
    if (!run_program(&r, common.program))
        return false;
    r.first = r.row;
    r.at = start;
    if (!run_program(&r, c))
        return false;
    *ret = r.row;
    return true;
}

/* ---- Applying ---- */

static bool find_cfa(const struct frame_world *w, const struct frame_row *row, uint64_t *ret)
{
    if (row->cfa_is_expression)
        return frame_expression(w, (uint32_t)row->cfa_offset, NULL, ret);
    if (!(w->registers->known >> row->cfa_register & 1))
        return false;
    *ret = w->registers->value[row->cfa_register] + (uint64_t)(int64_t)row->cfa_offset;
    return true;
}

/* The caller's value; false when it cannot be known. */
static bool find_value(const struct frame_world *w, const struct frame_row *row, unsigned i,
                       uint64_t cfa, uint64_t *ret)
{
    int64_t offset = row->offset[i];

    switch ((enum frame_place)row->place[i]) {
    case FRAME_SAME:
        *ret = i == FRAME_RSP ? cfa : w->registers->value[i];
        return i == FRAME_RSP || (w->registers->known >> i & 1);
    case FRAME_UNDEFINED:
        return false;
    case FRAME_AT_CFA:
        return w->read(w->ctx, cfa + (uint64_t)offset, ret);
    case FRAME_CFA_PLUS:
        *ret = cfa + (uint64_t)offset;
        return true;
    case FRAME_IN_REGISTER:
        if (offset >= FRAME_REGISTERS || !(w->registers->known >> offset & 1))
            return false;
        *ret = w->registers->value[offset];
        return true;
    case FRAME_AT_EXPRESSION:
        return frame_expression(w, (uint32_t)offset, &cfa, ret) && w->read(w->ctx, *ret, ret);
    case FRAME_EXPRESSION_VALUE:
        return frame_expression(w, (uint32_t)offset, &cfa, ret);
    }
    return false;
}

bool frame_row_apply(const struct frame_world *w, const struct frame_row *row,
                     struct frame_registers *ret)
{
    uint64_t cfa;

    if (row->place[FRAME_RIP] == FRAME_SAME || !find_cfa(w, row, &cfa))
        return false;
    ret->known = 0;
    for (unsigned i = 0; i < FRAME_REGISTERS; i++) {
        ret->value[i] = 0;
        if (find_value(w, row, i, cfa, &ret->value[i]))
            ret->known |= 1u << i;
        else if (i == FRAME_RIP && row->place[i] != FRAME_UNDEFINED)
            return false;
    }
    return ret->known >> FRAME_RSP & 1;
}

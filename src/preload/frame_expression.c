#include "preload/frame_rules.h"
#include "preload/table_cursor.h"

/* DWARF 5 §2.5, as far as it can say where registers were saved. */
#define STACK_MAX 16
#define STEPS_MAX 512

struct machine {
    const struct frame_world *world;
    struct table_cursor c;
    const uint8_t *start;
    uint64_t stack[STACK_MAX];
    uint32_t n;
};

enum {
    OP_ADDR = 0x03,
    OP_DEREF = 0x06,
    OP_CONST1U = 0x08,
    OP_CONSTU = 0x10,
    OP_CONSTS = 0x11,
    OP_DUP = 0x12,
    OP_DROP,
    OP_OVER,
    OP_PICK,
    OP_SWAP,
    OP_ROT,
    OP_ABS = 0x19,
    OP_AND,
    OP_DIV,
    OP_MINUS,
    OP_MOD,
    OP_MUL,
    OP_NEG,
    OP_NOT,
    OP_OR,
    OP_PLUS,
    OP_PLUS_UCONST,
    OP_SHL,
    OP_SHR,
    OP_SHRA,
    OP_XOR,
    OP_BRA,
    OP_EQ,
    OP_GE,
    OP_GT,
    OP_LE,
    OP_LT,
    OP_NE,
    OP_SKIP,
    OP_LIT0 = 0x30,
    OP_BREG0 = 0x70,
    OP_BREG31 = 0x8f,
    OP_BREGX = 0x92,
    OP_DEREF_SIZE = 0x94,
    OP_NOP = 0x96,
};

static void push(struct machine *m, uint64_t v)
{
    if (m->n == STACK_MAX)
        m->c.failed = true;
    else
        m->stack[m->n++] = v;
}

static uint64_t pop(struct machine *m)
{
    if (m->n == 0) {
        m->c.failed = true;
        return 0;
    }
    return m->stack[--m->n];
}

static void push_register(struct machine *m, uint64_t reg)
{
    uint64_t offset = (uint64_t)cursor_sleb(&m->c);

    if (reg >= FRAME_REGISTERS || !(m->world->registers->known >> reg & 1))
        m->c.failed = true;
    else
        push(m, m->world->registers->value[reg] + offset);
}

static void push_memory(struct machine *m, size_t size)
{
    uint64_t v = 0;

    if (size == 0 || size > 8 || !m->world->read(m->world->ctx, pop(m), &v))
        m->c.failed = true;
    else
        push(m, size < 8 ? v & ((1ull << 8 * size) - 1) : v);
}

/* The one that lies that deep. */
static void push_copy(struct machine *m, uint32_t depth)
{
    if (depth >= m->n)
        m->c.failed = true;
    else
        push(m, m->stack[m->n - 1 - depth]);
}

/* Brings the one at that depth to the end that the operation puts it. */
static void turn(struct machine *m, uint32_t n)
{
    uint64_t top;

    if (m->n < n) {
        m->c.failed = true;
        return;
    }
    top = m->stack[m->n - 1];
    for (uint32_t i = 1; i < n; i++)
        m->stack[m->n - i] = m->stack[m->n - i - 1];
    m->stack[m->n - n] = top;
}

static void jump(struct machine *m, int64_t by)
{
    if (by < m->start - m->c.at || by > m->c.end - m->c.at)
        m->c.failed = true;
    else
        m->c.at += by;
}

static uint64_t divide(struct machine *m, int64_t a, int64_t b)
{
    if (b == 0 || (a == INT64_MIN && b == -1)) {
        m->c.failed = true;
        return 0;
    }
    return (uint64_t)(a / b);
}

static uint64_t shifted(uint8_t op, uint64_t a, uint64_t by)
{
    if (op == OP_SHRA)
        return (uint64_t)((int64_t)a >> (by < 64 ? by : 63));
    if (by >= 64)
        return 0;
    return op == OP_SHL ? a << by : a >> by;
}

static uint64_t two(struct machine *m, uint8_t op, uint64_t a, uint64_t b)
{
    int64_t sa = (int64_t)a, sb = (int64_t)b;

    switch (op) {
    case OP_AND:
        return a & b;
    case OP_DIV:
        return divide(m, sa, sb);
    case OP_MINUS:
        return a - b;
    case OP_MOD:
        m->c.failed |= b == 0;
        return b ? a % b : 0;
    case OP_MUL:
        return a * b;
    case OP_OR:
        return a | b;
    case OP_PLUS:
        return a + b;
    case OP_SHL:
    case OP_SHR:
    case OP_SHRA:
        return shifted(op, a, b);
    case OP_XOR:
        return a ^ b;
    case OP_EQ:
        return sa == sb;
    case OP_GE:
        return sa >= sb;
    case OP_GT:
        return sa > sb;
    case OP_LE:
        return sa <= sb;
    case OP_LT:
        return sa < sb;
    case OP_NE:
        return sa != sb;
    default:
        m->c.failed = true;
        return 0;
    }
}

static void constant(struct machine *m, uint8_t op)
{
    size_t size;

    if (op == OP_CONSTU || op == OP_CONSTS) {
        push(m, cursor_leb(&m->c, op == OP_CONSTS));
        return;
    }
    size = (size_t)1 << (op - OP_CONST1U) / 2; /* 1u 1s 2u 2s 4u 4s 8u 8s */
    push(m, op & 1 ? (uint64_t)cursor_signed(&m->c, size) : cursor_word(&m->c, size));
}

static void one(struct machine *m, uint8_t op)
{
    uint64_t v = pop(m);

    if (op == OP_NEG || (op == OP_ABS && (int64_t)v < 0))
        v = 0 - v;
    else if (op == OP_NOT)
        v = ~v;
    else if (op == OP_PLUS_UCONST)
        v += cursor_uleb(&m->c);
    push(m, v);
}

static void branch(struct machine *m, uint8_t op)
{
    int64_t by = cursor_signed(&m->c, 2);

    if (op == OP_SKIP || pop(m) != 0)
        jump(m, by);
}

static void on_stack(struct machine *m, uint8_t op)
{
    switch (op) {
    case OP_DUP:
        push_copy(m, 0);
        return;
    case OP_DROP:
        pop(m);
        return;
    case OP_OVER:
        push_copy(m, 1);
        return;
    case OP_PICK:
        push_copy(m, cursor_u8(&m->c));
        return;
    default: /* OP_SWAP, OP_ROT */
        turn(m, op == OP_SWAP ? 2 : 3);
    }
}

static void step(struct machine *m, uint8_t op)
{
    switch (op) {
    case OP_ADDR:
        push(m, cursor_word(&m->c, 8));
        return;
    case OP_DEREF:
        push_memory(m, 8);
        return;
    case OP_DEREF_SIZE:
        push_memory(m, cursor_u8(&m->c));
        return;
    case OP_CONST1U ... OP_CONSTS:
        constant(m, op);
        return;
    case OP_DUP ... OP_ROT:
        on_stack(m, op);
        return;
    case OP_ABS:
    case OP_NEG:
    case OP_NOT:
    case OP_PLUS_UCONST:
        one(m, op);
        return;
    case OP_BRA:
    case OP_SKIP:
        branch(m, op);
        return;
    case OP_LIT0 ... OP_LIT0 + 31:
        push(m, op - OP_LIT0);
        return;
    case OP_BREG0 ... OP_BREG31:
        push_register(m, op - OP_BREG0);
        return;
    case OP_BREGX:
        push_register(m, cursor_uleb(&m->c));
        return;
    case OP_NOP:
        return;
    default: {
        uint64_t b = pop(m), a = pop(m);
        push(m, two(m, op, a, b));
    }
    }
}

bool frame_expression(const struct frame_world *w, uint32_t at, const uint64_t *initial,
                      uint64_t *ret)
{
    const struct frame_tables *t = w->tables;
    struct machine m = {.world = w};
    uint64_t size;

    if (at >= t->end - t->start)
        return false;
    m.c = (struct table_cursor){(const uint8_t *)t->start + at, (const uint8_t *)t->end, false};
    size = cursor_uleb(&m.c);
    if (m.c.failed || size > (uint64_t)(m.c.end - m.c.at))
        return false;
    m.start = m.c.at;
    m.c.end = m.c.at + size;
    if (initial)
        push(&m, *initial);
    for (int i = 0; m.c.at < m.c.end && !m.c.failed; i++) {
        if (i == STEPS_MAX)
            return false;
        step(&m, cursor_u8(&m.c));
    }
    *ret = pop(&m);
    return !m.c.failed;
}

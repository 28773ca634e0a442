#include "unwind/x86_decode.h"

#include "base/le.h"

#define LENGTH_MAX 15
#define SP         4
#define FP         5

/* An instruction taken apart. */
struct parts {
    bool is_narrow; /* 66: numbers of 16 bits */
    bool is_repeat; /* f3 */
    uint8_t rex;
    uint8_t map;    /* 0: one byte, 1: behind 0f, 2: 0f 38, 3: 0f 3a */
    bool is_vector; /* VEX or EVEX */
    uint8_t opcode;
    bool has_modrm;
    uint8_t modrm, sib;
    int32_t displacement;
    int32_t immediate;
    size_t len;
};

static uint8_t mod(const struct parts *p)
{
    return p->modrm >> 6;
}

/* The registers that modrm names, with the bits of the prefix. */
static uint8_t reg(const struct parts *p)
{
    return (uint8_t)((p->modrm >> 3 & 7) | (p->rex & 4 ? 8 : 0));
}

static uint8_t rm(const struct parts *p)
{
    return (uint8_t)((p->modrm & 7) | (p->rex & 1 ? 8 : 0));
}

static bool take(struct bytes *b, size_t n, const uint8_t **ret)
{
    if (b->len < n)
        return false;
    *ret = b->data;
    *b = bytes_from(*b, n);
    return true;
}

static bool take_prefixes(struct bytes *b, struct parts *p)
{
    const uint8_t *c;

    while (b->len > 0) {
        switch (b->data[0]) {
        case 0x66:
            p->is_narrow = true;
            break;
        case 0xf3:
            p->is_repeat = true;
            break;
        case 0x26:
        case 0x2e:
        case 0x36:
        case 0x3e:
        case 0x64:
        case 0x65:
        case 0x67:
        case 0xf0:
        case 0xf2:
            break;
        default:
            if ((b->data[0] & 0xf0) == 0x40)
                p->rex = b->data[0];
            return !(p->rex && !take(b, 1, &c));
        }
        take(b, 1, &c);
    }
    return false;
}

/* VEX and EVEX carry the map; what they name are never sp or fp. */
static bool take_vector(struct bytes *b, struct parts *p)
{
    const uint8_t *c;
    size_t n = p->opcode == 0xc5 ? 1 : p->opcode == 0xc4 ? 2 : 3;

    if (!take(b, n, &c))
        return false;
    p->is_vector = true;
    p->map = n == 1 ? 1 : n == 2 ? c[0] & 0x1f : c[0] & 7;
    if (p->map < 1 || p->map > 6 || !take(b, 1, &c))
        return false;
    p->opcode = *c;
    return true;
}

static bool take_opcode(struct bytes *b, struct parts *p)
{
    const uint8_t *c;

    if (!take(b, 1, &c))
        return false;
    p->opcode = *c;
    if (*c == 0xc4 || *c == 0xc5 || *c == 0x62)
        return take_vector(b, p);
    if (*c != 0x0f)
        return true;
    p->map = 1;
    if (!take(b, 1, &c))
        return false;
    p->opcode = *c;
    if (*c != 0x38 && *c != 0x3a)
        return true;
    p->map = *c == 0x38 ? 2 : 3;
    if (!take(b, 1, &c))
        return false;
    p->opcode = *c;
    return true;
}

static bool in(uint8_t c, uint8_t first, uint8_t last)
{
    return c >= first && c <= last;
}

/* Opcodes that 64-bit code does not have. */
static bool is_invalid(const struct parts *p)
{
    uint8_t op = p->opcode;

    if (p->map == 1)
        return op == 0x04 || op == 0x0a || op == 0x0c || in(op, 0x24, 0x27) || op == 0x36 ||
               op == 0x39 || in(op, 0x3b, 0x3f);
    if (p->map != 0)
        return false;
    return (op < 0x40 && (op & 7) >= 6) || in(op, 0x60, 0x61) || op == 0x82 || op == 0x9a ||
           op == 0xce || in(op, 0xd4, 0xd6) || op == 0xea;
}

static bool has_modrm(const struct parts *p)
{
    uint8_t op = p->opcode;

    if (p->is_vector)
        return !(p->map == 1 && op == 0x77);
    if (p->map >= 2)
        return true;
    if (p->map == 1)
        return !(in(op, 0x05, 0x0b) || op == 0x0e || in(op, 0x30, 0x37) || op == 0x77 ||
                 in(op, 0x80, 0x8f) || in(op, 0xa0, 0xa2) || in(op, 0xa8, 0xaa) ||
                 in(op, 0xc8, 0xcf));
    return (op < 0x40 && (op & 7) < 4) || op == 0x63 || op == 0x69 || op == 0x6b ||
           (in(op, 0x80, 0x8f)) || in(op, 0xc0, 0xc1) || in(op, 0xc6, 0xc7) || in(op, 0xd0, 0xd3) ||
           in(op, 0xd8, 0xdf) || in(op, 0xf6, 0xf7) || op >= 0xfe;
}

/* Bytes of the immediate operand; 4 stands for "4, or 2 when narrow". */
static size_t immediate_size_0(const struct parts *p)
{
    uint8_t op = p->opcode;

    if (op < 0x40)
        return (op & 7) == 4 ? 1 : (op & 7) == 5 ? 4 : 0;
    if (in(op, 0xb8, 0xbf))
        return p->rex & 8 ? 8 : 4;
    if (in(op, 0xa0, 0xa3))
        return 8;
    if (op == 0xc8)
        return 3;
    if (op == 0xc2 || op == 0xca)
        return 2;
    if (op == 0xf6 || op == 0xf7)
        return p->modrm & 0x30 ? 0 : op == 0xf6 ? 1 : 4;
    if (op == 0x68 || op == 0x69 || op == 0x81 || op == 0xa9 || op == 0xc7 || in(op, 0xe8, 0xe9))
        return 4;
    if (op == 0x6a || op == 0x6b || in(op, 0x70, 0x7f) || op == 0x80 || op == 0x83 || op == 0xa8 ||
        in(op, 0xb0, 0xb7) || in(op, 0xc0, 0xc1) || op == 0xc6 || op == 0xcd ||
        in(op, 0xe0, 0xe7) || op == 0xeb)
        return 1;
    return 0;
}

static size_t immediate_size(const struct parts *p)
{
    uint8_t op = p->opcode;

    if (p->map == 0) {
        size_t n = immediate_size_0(p);
        return n == 4 && p->is_narrow && !in(op, 0xe8, 0xe9) ? 2 : n;
    }
    if (p->map == 3)
        return 1;
    if (p->map != 1)
        return 0;
    if (!p->is_vector && in(op, 0x80, 0x8f))
        return 4;
    return in(op, 0x70, 0x73) || op == 0xc2 || in(op, 0xc4, 0xc6) ||
           (!p->is_vector && (op == 0x0f || op == 0xa4 || op == 0xac || op == 0xba));
}

static bool take_address(struct bytes *b, struct parts *p)
{
    const uint8_t *c;
    size_t n = mod(p) == 1 ? 1 : mod(p) == 2 ? 4 : 0;

    if (mod(p) == 3)
        return true;
    if ((p->modrm & 7) == 4) {
        if (!take(b, 1, &c))
            return false;
        p->sib = *c;
        if (mod(p) == 0 && (*c & 7) == 5)
            n = 4;
    } else if (mod(p) == 0 && (p->modrm & 7) == 5) {
        n = 4;
    }
    if (!take(b, n, &c))
        return false;
    p->displacement = n == 1 ? (int8_t)*c : n == 4 ? (int32_t)le32_get(c) : 0;
    return true;
}

static bool take_apart(struct bytes code, struct parts *p)
{
    struct bytes b = bytes_head(code, LENGTH_MAX);
    size_t all = b.len;
    const uint8_t *c;

    if (!take_prefixes(&b, p) || !take_opcode(&b, p) || is_invalid(p))
        return false;
    p->has_modrm = has_modrm(p);
    if (p->has_modrm) {
        if (!take(&b, 1, &c))
            return false;
        p->modrm = *c;
        if (!take_address(&b, p))
            return false;
    }
    size_t n = immediate_size(p);
    if (!take(&b, n, &c))
        return false;
    p->immediate = n == 1 ? (int8_t)*c : n == 4 ? (int32_t)le32_get(c) : 0;
    p->len = all - b.len;
    return true;
}

/* Arithmetic with an immediate: 81 and 83. */
static enum x86_kind kind_of_arithmetic(const struct parts *p, int32_t *value)
{
    uint8_t what = p->modrm >> 3 & 7;

    if (mod(p) != 3 || what == 7 || (rm(p) != SP && rm(p) != FP))
        return X86_OTHER;
    if (rm(p) == FP)
        return X86_SET_FP;
    if (!(p->rex & 8))
        return X86_SET_SP;
    if ((what == 0 || what == 5) && p->immediate != INT32_MIN) {
        *value = what == 0 ? p->immediate : -p->immediate;
        return X86_ADD_SP;
    }
    return what == 4 && p->immediate < 0 ? X86_ALIGN_SP : X86_SET_SP;
}

static enum x86_kind kind_of_lea(const struct parts *p, int32_t *value)
{
    bool base_is_sp = (p->modrm & 7) == 4 && p->sib == 0x24 && !(p->rex & 3);
    bool base_is_fp = (p->modrm & 7) == 5 && !(p->rex & 1);

    *value = p->displacement;
    if (mod(p) == 0 && (p->modrm & 7) == 5 && reg(p) != SP && reg(p) != FP)
        return X86_CODE_ADDRESS;
    if (reg(p) == FP)
        return X86_SET_FP;
    if (reg(p) != SP)
        return X86_OTHER;
    if (mod(p) == 0 || !(p->rex & 8))
        return X86_SET_SP;
    return base_is_sp ? X86_ADD_SP : base_is_fp ? X86_SP_FROM_FP : X86_SET_SP;
}

/* A move between registers, from and to as numbers. */
static enum x86_kind kind_of_move(const struct parts *p, uint8_t to, uint8_t from)
{
    bool is_wide = p->rex & 8;

    if (to == FP)
        return is_wide && from == SP ? X86_FP_FROM_SP : X86_SET_FP;
    if (to == SP)
        return is_wide && from == FP ? X86_SP_FROM_FP : X86_SET_SP;
    return X86_OTHER;
}

/* Opcodes whose result goes to modrm's register, and to its other operand. */
static bool writes_reg(uint8_t op)
{
    return (op < 0x38 && ((op & 7) == 2 || (op & 7) == 3)) || op == 0x63 || op == 0x69 ||
           op == 0x6b || op == 0x8a || op == 0x8b || op == 0x86 || op == 0x87;
}

static bool writes_rm(const struct parts *p)
{
    uint8_t op = p->opcode;

    return (op < 0x38 && (op & 7) <= 1) || op == 0x80 || in(op, 0x86, 0x89) || op == 0x8f ||
           in(op, 0xc0, 0xc1) || in(op, 0xc6, 0xc7) || in(op, 0xd0, 0xd3) ||
           (in(op, 0xf6, 0xf7) && in(p->modrm >> 3 & 7, 2, 3)) ||
           (op >= 0xfe && (p->modrm >> 3 & 7) <= 1);
}

static enum x86_kind kind_of_write(const struct parts *p)
{
    bool to_rm = writes_rm(p) && mod(p) == 3, to_reg = writes_reg(p->opcode);

    /* Instructions on bytes mean ah and ch by these numbers. */
    if (!(p->opcode & 1) && !p->rex)
        return X86_OTHER;
    if ((to_rm && rm(p) == SP) || (to_reg && reg(p) == SP))
        return X86_SET_SP;
    if ((to_rm && rm(p) == FP) || (to_reg && reg(p) == FP))
        return X86_SET_FP;
    return X86_OTHER;
}

/* ff: calls, jumps and pushes by address. */
static enum x86_kind kind_of_ff(const struct parts *p)
{
    switch (p->modrm >> 3 & 7) {
    case 2:
        return X86_CALL_AWAY;
    case 4:
        return mod(p) == 0 && (p->modrm & 7) == 5 ? X86_JUMP_SLOT : X86_JUMP_AWAY;
    case 6:
        return X86_PUSH;
    case 3:
    case 5:
        return X86_STOP;
    default:
        return kind_of_write(p);
    }
}

/* Instructions without modrm. */
static enum x86_kind kind_of_plain(const struct parts *p, int32_t *value)
{
    uint8_t op = p->opcode;
    bool is_high = p->rex & 1;

    *value = p->immediate;
    if (in(op, 0x50, 0x57))
        return op == 0x50 + FP && !is_high ? X86_PUSH_FP : X86_PUSH;
    if (in(op, 0x58, 0x5f))
        return op == 0x58 + SP && !is_high   ? X86_SET_SP
               : op == 0x58 + FP && !is_high ? X86_POP_FP
                                             : X86_POP;
    if (in(op, 0x70, 0x7f) || in(op, 0xe0, 0xe3))
        return X86_BRANCH;
    if (in(op, 0xb8, 0xbf) && !is_high && (op & 7) == FP)
        return X86_SET_FP;
    switch (op) {
    case 0x68:
    case 0x6a:
    case 0x9c:
        return X86_PUSH;
    case 0x9d:
        return X86_POP;
    case 0x90:
        return p->rex & 1 ? X86_OTHER : X86_NOP;
    case 0xc2:
    case 0xc3:
        return X86_RETURN;
    case 0xc8:
        return X86_SET_SP;
    case 0xc9:
        return X86_LEAVE;
    case 0xe8:
        return X86_CALL;
    case 0xe9:
    case 0xeb:
        return X86_JUMP;
    case 0xca:
    case 0xcb:
    case 0xcc:
    case 0xcf:
    case 0xf4:
        return X86_STOP;
    default:
        return X86_OTHER;
    }
}

static enum x86_kind kind_of(const struct parts *p, int32_t *value)
{
    uint8_t op = p->opcode;

    if (p->is_vector || p->map >= 2)
        return X86_OTHER;
    if (p->map == 1) {
        *value = p->immediate;
        if (in(op, 0x80, 0x8f))
            return X86_BRANCH;
        /* endbr64 looks like a nop, but starts functions. */
        if (op == 0x1f || (op == 0x1e && !(p->is_repeat && p->modrm == 0xfa)))
            return X86_NOP;
        return op == 0x0b ? X86_STOP : X86_OTHER;
    }
    if (!p->has_modrm)
        return kind_of_plain(p, value);
    if (op == 0x81 || op == 0x83)
        return kind_of_arithmetic(p, value);
    if (op == 0x8d)
        return kind_of_lea(p, value);
    /* sub %reg,%rsp: room whose size is not known. */
    if (p->rex & 8 && ((op == 0x29 && mod(p) == 3 && rm(p) == SP) || (op == 0x2b && reg(p) == SP)))
        return X86_ALIGN_SP;
    if (op == 0x89 && mod(p) == 3)
        return kind_of_move(p, rm(p), reg(p));
    if (op == 0x8b && mod(p) == 3)
        return kind_of_move(p, reg(p), rm(p));
    if (op == 0x8f)
        return mod(p) == 3 ? kind_of_write(p) : X86_POP;
    return op == 0xff ? kind_of_ff(p) : kind_of_write(p);
}

bool x86_decode(struct bytes code, struct x86_instruction *ret)
{
    struct parts p = {0};
    int32_t value = 0;

    if (!take_apart(code, &p))
        return false;
    enum x86_kind kind = kind_of(&p, &value);
    *ret = (struct x86_instruction){kind, (uint8_t)p.len, value};
    return true;
}

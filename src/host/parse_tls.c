#include <elf.h>

#include "host/parse_dynsym.h"
#include "host/parse_internal.h"

#define CONTEXT_NAME    "otel_thread_ctx_v1"
#define RELOCATIONS_MAX ((uint64_t)1 << 22)
#define G_NAME          "runtime.tlsg"
#define NAME_BYTES      32
#define CHUNK           ((size_t)24 * 2048)
#define CODE_MAX        ((uint64_t)8 << 20)

/* Relocations that say how a thread's variable is reached, by machine. */
struct tls_kinds {
    uint32_t descriptor, module, offset;
};

static bool kinds_of(uint16_t machine, struct tls_kinds *ret)
{
    if (machine == EM_X86_64)
        *ret = (struct tls_kinds){R_X86_64_TLSDESC, R_X86_64_DTPMOD64, R_X86_64_TPOFF64};
    else if (machine == EM_AARCH64)
        *ret = (struct tls_kinds){R_AARCH64_TLSDESC, R_AARCH64_TLS_DTPMOD, R_AARCH64_TLS_TPREL};
    else
        return false;
    return true;
}

static uint64_t round_up(uint64_t n, uint64_t align)
{
    return align > 1 && align <= 4096 ? (n + align - 1) / align * align : n;
}

/* The offset from the thread pointer of a variable of the program itself. */
static bool local_offset(const struct elf_file *f, uint64_t value, int64_t *ret)
{
    for (size_t i = 0; i < f->n_segments; i++) {
        const struct elf_segment *p = &f->segments[i];
        if (p->type != PT_TLS || p->memory_size > (uint64_t)1 << 30 || value >= p->memory_size)
            continue;
        if (f->machine == EM_AARCH64)
            *ret = (int64_t)(round_up(16, p->align) + value);
        else
            *ret = (int64_t)value - (int64_t)round_up(p->memory_size, p->align);
        return true;
    }
    return false;
}

/* What was found of the variable's relocations: the best kind, and where its words are. */
struct found {
    bool any;
    uint8_t model;
    uint64_t got;
};

/* A relocation names the symbol, or (bound within the file) has none and its value as addend. */
static void take_relocation(const struct elf_file *f, const struct tls_kinds *kinds,
                            const struct dynamic_symbol *s, const uint8_t *p, struct found *ret)
{
    uint64_t offset = elf_u64(f, p), info = elf_u64(f, p + 8), addend = elf_u64(f, p + 16);
    uint32_t kind = (uint32_t)info, symbol = (uint32_t)(info >> 32);
    uint8_t model;

    if (symbol != s->index && !(symbol == 0 && addend == s->value && kind != kinds->module))
        return;
    if (kind == kinds->descriptor)
        model = PARSE_TLS_DESCRIPTOR;
    else if (kind == kinds->module)
        model = PARSE_TLS_GENERAL;
    else if (kind == kinds->offset)
        model = PARSE_TLS_INITIAL;
    else
        return;
    /* A word with the offset itself is read more easily than the others. */
    if (!ret->any || model == PARSE_TLS_INITIAL)
        *ret = (struct found){true, model, offset};
}

static void read_relocations(const struct elf_file *f, const struct elf_section *s,
                             const struct tls_kinds *kinds, const struct dynamic_symbol *symbol,
                             struct found *ret)
{
    CLEANUP(freep) uint8_t *chunk = malloc(CHUNK);
    uint64_t size = s->size < RELOCATIONS_MAX * 24 ? s->size : RELOCATIONS_MAX * 24;

    for (uint64_t at = 0; chunk && at + 24 <= size;) {
        size_t n = size - at < CHUNK ? (size_t)(size - at) : CHUNK;
        if (elf_read_into(f, s->offset + at, chunk, n, NULL) < 0)
            return;
        for (size_t i = 0; i + 24 <= n; i += 24)
            take_relocation(f, kinds, symbol, chunk + i, ret);
        at += n;
    }
}

/* The value of a thread's variable, from .symtab. `size` is that of its name with the NUL. */
static bool named_variable(const struct elf_file *f, const char *name, size_t size, uint64_t *ret)
{
    const struct elf_section *s = elf_find_section(f, ".symtab");
    CLEANUP(freep) uint8_t *chunk = malloc(CHUNK);
    char text[NAME_BYTES];

    if (!s || s->link == 0 || s->link >= f->n_sections)
        return false;
    for (uint64_t at = 0; chunk && at + 24 <= s->size;) {
        size_t n = s->size - at < CHUNK ? (size_t)(s->size - at) : CHUNK;
        if (elf_read_into(f, s->offset + at, chunk, n, NULL) < 0)
            return false;
        for (size_t i = 0; i + 24 <= n; i += 24) {
            const uint8_t *p = chunk + i;
            if (ELF64_ST_TYPE(p[4]) != STT_TLS ||
                elf_read_into(f, f->sections[s->link].offset + elf_u32(f, p), text, size, NULL) <
                    0 ||
                memcmp(text, name, size) != 0)
                continue;
            *ret = elf_u64(f, p + 8);
            return true;
        }
        at += n;
    }
    return false;
}

static void find_context(struct elf_file *f, struct parse_facts *ret)
{
    struct tls_kinds kinds;
    struct dynamic_symbol s;
    struct found found = {0};

    if (!f->is_64 || !kinds_of(f->machine, &kinds))
        return;
    if (!elf_find_section(f, ".dynsym")) { /* a static program exports nothing */
        ret->has_thread_context = named_variable(f, CONTEXT_NAME, sizeof(CONTEXT_NAME), &s.value) &&
                                  local_offset(f, s.value, &ret->tls_offset);
        ret->tls_model = PARSE_TLS_LOCAL;
        return;
    }
    if (!parse_dynsym_find(f, CONTEXT_NAME, &s) || s.type != STT_TLS)
        return;
    for (size_t i = 1; i < f->n_sections; i++) {
        if (f->sections[i].type == SHT_RELA)
            read_relocations(f, &f->sections[i], &kinds, &s, &found);
    }
    if (found.any) {
        ret->tls_model = found.model;
        ret->tls_offset = (int64_t)s.value;
        ret->tls_got = found.got;
    } else if (local_offset(f, s.value, &ret->tls_offset)) {
        ret->tls_model = PARSE_TLS_LOCAL;
    } else {
        return;
    }
    ret->has_thread_context = true;
}

/* The offset in an instruction that reads g: mov %fs:OFFSET, %r14 (before Go 1.17: %rcx), or in a
 * position-independent program mov $OFFSET, %r14 and then mov %fs:(%r14), %r14. */
static bool reads_g(const struct elf_file *f, const uint8_t *p, int64_t *ret)
{
    static const uint8_t to_r14[] = {0x64, 0x4c, 0x8b, 0x34, 0x25};
    static const uint8_t to_rcx[] = {0x64, 0x48, 0x8b, 0x0c, 0x25};
    static const uint8_t constant[] = {0x49, 0xc7, 0xc6}, through[] = {0x64, 0x4d, 0x8b, 0x36};

    if (p[0] == 0x64 && (memcmp(p, to_r14, 5) == 0 || memcmp(p, to_rcx, 5) == 0))
        *ret = (int32_t)elf_u32(f, p + 5);
    else if (memcmp(p, constant, 3) == 0 && memcmp(p + 7, through, 4) == 0)
        *ret = (int32_t)elf_u32(f, p + 3);
    else
        return false;
    return *ret < 0;
}

static bool coded_g(const struct elf_file *f, int64_t *ret)
{
    const struct elf_section *s = elf_find_section(f, ".text");
    CLEANUP(freep) uint8_t *chunk = malloc(CHUNK);

    for (uint64_t at = 0; chunk && s && at < s->size && at < CODE_MAX; at += CHUNK - 16) {
        size_t n = s->size - at < CHUNK ? (size_t)(s->size - at) : CHUNK;
        if (elf_read_into(f, s->offset + at, chunk, n, NULL) < 0)
            return false;
        for (size_t i = 0; i + 11 <= n; i++) {
            int64_t offset;
            if (reads_g(f, chunk + i, &offset)) {
                *ret = offset;
                return true;
            }
        }
    }
    return false;
}

/* Go's linker gives g the last word before the thread pointer; a C linker puts it among others. */
static void find_g(const struct elf_file *f, struct parse_facts *ret)
{
    uint64_t value = 0;
    int64_t first = -8;

    if (!ret->is_go || f->machine != EM_X86_64 || !f->is_64)
        return;
    local_offset(f, 0, &first);
    if (first == -8)
        ret->go_tls_offset = first;
    else if (named_variable(f, G_NAME, sizeof(G_NAME), &value))
        local_offset(f, value, &ret->go_tls_offset);
    else
        coded_g(f, &ret->go_tls_offset);
}

void parse_tls_facts(struct elf_file *f, struct parse_facts *ret)
{
    find_context(f, ret);
    find_g(f, ret);
}

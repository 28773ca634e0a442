#include <elf.h>

#include "host/parse_dynsym.h"
#include "host/parse_internal.h"

#define CONTEXT_NAME    "otel_thread_ctx_v1"
#define RELOCATIONS_MAX ((uint64_t)1 << 22)
#define CHUNK           ((size_t)24 * 2048)

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

static void find_context(struct elf_file *f, struct parse_facts *ret)
{
    struct tls_kinds kinds;
    struct dynamic_symbol s;
    struct found found = {0};

    if (!kinds_of(f->machine, &kinds) || !parse_dynsym_find(f, CONTEXT_NAME, &s) ||
        s.type != STT_TLS)
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

/* Go's linker gives g the last word before the thread pointer; a C linker puts it with others. */
static void find_g(const struct elf_file *f, struct parse_facts *ret)
{
    if (!ret->is_go || f->machine != EM_X86_64)
        return;
    ret->go_tls_offset = -8;
    local_offset(f, 0, &ret->go_tls_offset);
}

void parse_tls_facts(struct elf_file *f, struct parse_facts *ret)
{
    find_context(f, ret);
    find_g(f, ret);
}

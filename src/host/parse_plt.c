#include "host/parse_plt.h"

#include <elf.h>
#include <stdio.h>

#define STUBS_MAX      ((uint64_t)1 << 16)
#define STUB_BYTES     16
#define NAME_BYTES_MAX 512

struct stubs {
    struct elf_file *f;
    struct name_table_writer *out;
    const struct elf_section *calls;   /* .rela.plt: one for each stub */
    const struct elf_section *symbols; /* .dynsym */
    const struct elf_section *names;
    uint64_t first; /* address of the first stub */
    uint64_t n;
};

/* The section with the stubs: a second one where calls are checked (.plt.sec), which has no head.
 */
static bool find_stubs(struct stubs *s)
{
    const struct elf_file *f = s->f;
    const struct elf_section *plt = elf_find_section(f, ".plt.sec");
    uint64_t head = 0;

    if (!f->is_64 || (f->machine != EM_X86_64 && f->machine != EM_AARCH64))
        return false;
    if (!plt) {
        plt = elf_find_section(f, ".plt");
        head = f->machine == EM_AARCH64 ? 32 : 16;
    }
    s->calls = elf_find_section(f, ".rela.plt");
    if (!plt || !s->calls || s->calls->type != SHT_RELA || plt->size < head ||
        s->calls->link == 0 || s->calls->link >= f->n_sections)
        return false;
    s->symbols = &f->sections[s->calls->link];
    if (s->symbols->type != SHT_DYNSYM || s->symbols->link >= f->n_sections)
        return false;
    s->names = &f->sections[s->symbols->link];
    s->first = plt->addr + head;
    s->n = s->calls->size / sizeof(Elf64_Rela);
    return s->n <= STUBS_MAX && s->n <= (plt->size - head) / STUB_BYTES;
}

/* The name that a relocation is about, with room for what is put behind it. */
static bool called_name(const struct stubs *s, const uint8_t *call, char ret[NAME_BYTES_MAX])
{
    uint64_t symbol = elf_u64(s->f, call + 8) >> 32;
    uint8_t entry[4];

    if (symbol == 0 || symbol >= s->symbols->size / sizeof(Elf64_Sym) ||
        elf_read_into(s->f, s->symbols->offset + symbol * sizeof(Elf64_Sym), entry, 4, NULL) < 0)
        return false;
    uint64_t at = elf_u32(s->f, entry);
    if (at == 0 || at >= s->names->size)
        return false;
    uint64_t left = s->names->size - at;
    size_t n = left < NAME_BYTES_MAX - 5 ? (size_t)left : NAME_BYTES_MAX - 5;
    memset(ret, 0, NAME_BYTES_MAX);
    return elf_read_into(s->f, s->names->offset + at, ret, n, NULL) >= 0 && ret[0] != '\0';
}

void parse_plt_of(struct elf_file *f, struct name_table_writer *out)
{
    struct stubs s = {.f = f, .out = out};
    uint8_t call[sizeof(Elf64_Rela)];
    char name[NAME_BYTES_MAX];

    if (!find_stubs(&s))
        return;
    for (uint64_t i = 0; i < s.n && !name_table_writer_failed(out); i++) {
        if (elf_read_into(f, s.calls->offset + i * sizeof(call), call, sizeof(call), NULL) < 0)
            return;
        if (!called_name(&s, call, name))
            continue;
        memcpy(name + strlen(name), "@plt", 5);
        uint64_t start = s.first + i * STUB_BYTES;
        struct name_table_row row = {.start = start,
                                     .end = start + STUB_BYTES,
                                     .name = name_table_writer_text(out, bytes_of(name)),
                                     .rank = NAME_RANK_HAS_SIZE};
        name_table_writer_add(out, &row);
    }
}

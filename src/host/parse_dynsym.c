#include "host/parse_dynsym.h"

#include <string.h>

#define DYNAMIC_MAX    4096 /* entries that are looked at */
#define CHAIN_MAX      4096 /* symbols of one hash bucket that are looked at */
#define SCAN_MAX       ((uint64_t)16384)
#define NAME_BYTES_MAX 128

struct dynsym {
    struct elf_file *f;
    const struct elf_section *symbols, *names;
    uint64_t n;
};

static bool find_dynsym(struct elf_file *f, struct dynsym *ret)
{
    for (size_t i = 1; f->is_64 && i < f->n_sections; i++) {
        const struct elf_section *s = &f->sections[i];
        if (s->type != SHT_DYNSYM || s->link == 0 || s->link >= f->n_sections)
            continue;
        *ret = (struct dynsym){f, s, &f->sections[s->link], s->size / sizeof(Elf64_Sym)};
        return true;
    }
    return false;
}

/* Whether the symbol of this number is defined here and has this name. */
static bool is_named(const struct dynsym *d, uint64_t index, const char *name,
                     struct dynamic_symbol *ret)
{
    uint8_t p[sizeof(Elf64_Sym)];
    char text[NAME_BYTES_MAX];
    size_t len = strlen(name) + 1;

    if (index == 0 || index >= d->n || len > sizeof(text) ||
        elf_read_into(d->f, d->symbols->offset + index * sizeof(p), p, sizeof(p), NULL) < 0)
        return false;
    uint64_t at = elf_u32(d->f, p);
    if (elf_u16(d->f, p + 6) == SHN_UNDEF || at > d->names->size || len > d->names->size - at ||
        elf_read_into(d->f, d->names->offset + at, text, len, NULL) < 0 ||
        memcmp(text, name, len) != 0)
        return false;
    *ret = (struct dynamic_symbol){(uint32_t)index, ELF64_ST_TYPE(p[4]), elf_u64(d->f, p + 8),
                                   elf_u64(d->f, p + 16)};
    return true;
}

static uint32_t gnu_hash(const char *name)
{
    uint32_t h = 5381;

    for (; *name; name++)
        h = h * 33 + (uint8_t)*name;
    return h;
}

static bool read32(const struct elf_file *f, const struct elf_section *s, uint64_t at,
                   uint32_t *ret)
{
    uint8_t p[4];

    if (at > s->size || s->size - at < 4 || elf_read_into(f, s->offset + at, p, 4, NULL) < 0)
        return false;
    *ret = elf_u32(f, p);
    return true;
}

static bool find_hashed(const struct dynsym *d, const struct elf_section *table, const char *name,
                        struct dynamic_symbol *ret)
{
    uint32_t n_buckets, first, n_bloom, index, h, hash = gnu_hash(name);

    if (!read32(d->f, table, 0, &n_buckets) || !read32(d->f, table, 4, &first) ||
        !read32(d->f, table, 8, &n_bloom) || n_buckets == 0)
        return false;
    uint64_t buckets = 16 + (uint64_t)n_bloom * 8, chains = buckets + (uint64_t)n_buckets * 4;
    if (!read32(d->f, table, buckets + hash % n_buckets * (uint64_t)4, &index) || index < first)
        return false;
    for (size_t i = 0; i < CHAIN_MAX; i++, index++) {
        if (!read32(d->f, table, chains + (index - first) * (uint64_t)4, &h))
            return false;
        if ((h | 1) == (hash | 1) && is_named(d, index, name, ret))
            return true;
        if (h & 1)
            return false;
    }
    return false;
}

bool parse_dynsym_find(struct elf_file *f, const char *name, struct dynamic_symbol *ret)
{
    const struct elf_section *table = elf_find_section(f, ".gnu.hash");
    struct dynsym d;

    if (!find_dynsym(f, &d))
        return false;
    if (table)
        return find_hashed(&d, table, name, ret);
    for (uint64_t i = 1; i < d.n && i < SCAN_MAX; i++) {
        if (is_named(&d, i, name, ret))
            return true;
    }
    return false;
}

void parse_dynamic(const struct elf_file *f, struct dynamic_facts *ret)
{
    const struct elf_section *s = elf_find_section(f, ".dynamic");
    uint8_t p[sizeof(Elf64_Dyn)];

    *ret = (struct dynamic_facts){.is_pie = false};
    if (!s || !f->is_64 || s->link == 0 || s->link >= f->n_sections)
        return;
    const struct elf_section *names = &f->sections[s->link];
    for (uint64_t i = 0; i < s->size / sizeof(p) && i < DYNAMIC_MAX; i++) {
        if (elf_read_into(f, s->offset + i * sizeof(p), p, sizeof(p), NULL) < 0)
            return;
        uint64_t tag = elf_u64(f, p), value = elf_u64(f, p + 8);
        if (tag == DT_NULL)
            return;
        if (tag == DT_FLAGS_1)
            ret->is_pie = (value & DF_1_PIE) != 0;
        if (tag == DT_SONAME && value < names->size) {
            uint64_t left = names->size - value;
            size_t n = left < sizeof(ret->soname) - 1 ? (size_t)left : sizeof(ret->soname) - 1;
            if (elf_read_into(f, names->offset + value, ret->soname, n, NULL) < 0)
                ret->soname[0] = '\0';
        }
    }
}

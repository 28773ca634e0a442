#include "symbols/address.h"

#include <elf.h>

#define PAGE        ((uint64_t)4096)
#define KERNEL_HALF ((uint64_t)1 << 63)

static const struct elf_segment *text_segment(const struct elf_file *f)
{
    const struct elf_section *text = NULL;

    for (size_t i = 1; i < f->n_sections && !text; i++) {
        if (strcmp(f->sections[i].name, ".text") == 0)
            text = &f->sections[i];
    }
    for (size_t i = 0; i < f->n_segments; i++) {
        const struct elf_segment *s = &f->segments[i];
        if (s->type == PT_LOAD && (s->flags & PF_X) &&
            (!text || (text->addr >= s->vaddr && text->addr - s->vaddr < s->memory_size)))
            return s;
    }
    return NULL;
}

/*
 * Whether the part of the file that a mapping shows can be of this segment. Segments share pages of
 * the file: the mapping must not start before the segment's first page, and one that only touches
 * the segment's last page but goes on behind it is of the next segment.
 */
static bool may_be_of(const struct elf_segment *s, uint64_t offset, uint64_t size)
{
    uint64_t end = s->offset + s->memory_size, limit = offset + size;

    if (s->type != PT_LOAD || s->file_size == 0 || offset >= end || s->offset >= limit)
        return false;
    uint64_t in_page = s->vaddr & (PAGE - 1);
    uint64_t first_page = s->offset > in_page ? s->offset - in_page : 0;
    if (offset < first_page)
        return false;
    return !(offset > s->offset && end < offset + PAGE && limit >= end + PAGE);
}

/* The segment that a mapped address comes from; NULL when none fits, or several do. */
static const struct elf_segment *segment_of(const struct elf_file *f, const struct mapping *m,
                                            uint64_t address)
{
    const struct elf_segment *only = NULL, *exact = NULL;
    size_t n = 0, n_exact = 0;
    uint64_t at = address - m->start + m->offset;

    for (size_t i = 0; i < f->n_segments; i++) {
        const struct elf_segment *s = &f->segments[i];
        if (!may_be_of(s, m->offset, m->limit - m->start))
            continue;
        only = s;
        n++;
        if (at >= s->offset && at - s->offset < s->memory_size) {
            exact = s;
            n_exact++;
        }
    }
    if (n == 1)
        return only;
    return n_exact == 1 ? exact : NULL;
}

static bool has_segments(const struct elf_file *f)
{
    for (size_t i = 0; i < f->n_segments; i++) {
        if (f->segments[i].type == PT_LOAD)
            return true;
    }
    return false;
}

/* A kernel: its mapping starts at its text, wherever that was moved to. */
static bool kernel_to_va(const struct elf_file *f, const struct mapping *m, uint64_t address,
                         uint64_t *ret)
{
    const struct elf_segment *text = text_segment(f);

    if (!text)
        return false;
    if (text->vaddr == m->start - m->offset)
        *ret = address - m->offset;
    else
        *ret = address - m->start + text->vaddr;
    return true;
}

bool address_to_va(const struct elf_file *f, const struct mapping *m, uint64_t address,
                   uint64_t *ret)
{
    /* No process maps a file at 0: these are addresses of the file. */
    if (m->start == 0 && m->offset == 0) {
        *ret = address;
        return true;
    }
    if (m->limit > m->start && (address < m->start || address > m->limit))
        return false;
    if (f->type == ET_REL || !has_segments(f)) {
        *ret = address - m->start + (f->type == ET_REL ? 0 : m->offset);
        return true;
    }
    if (m->start >= KERNEL_HALF)
        return kernel_to_va(f, m, address, ret);
    const struct elf_segment *s = m->limit > m->start ? segment_of(f, m, address) : text_segment(f);
    if (!s)
        return false;
    *ret = address - m->start + m->offset - s->offset + s->vaddr;
    return true;
}

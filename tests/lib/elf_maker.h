#pragma once

#include <elf.h>
#include <string.h>

#include "base/buf.h"
#include "base/le.h"

/*
 * Small ELF files for tests and fuzz seeds: some code, and what is said about unwinding it.
 * Code is loaded at ELF_MAKER_CODE, .eh_frame at ELF_MAKER_FRAMES.
 */
#define ELF_MAKER_CODE   0x10000u
#define ELF_MAKER_FRAMES 0x400000u
#define ELF_MAKER_HEAD   12u /* bytes of .eh_frame_hdr, in front of .eh_frame */

struct elf_parts {
    uint16_t machine;
    uint64_t entry;
    struct bytes code, eh_frame, debug_frame;
    bool has_no_sections;
    uint64_t debug_frame_flags;
};

static inline void elf_maker_section(uint8_t *table, size_t i, Elf64_Shdr s)
{
    memcpy(table + i * sizeof(s), &s, sizeof(s));
}

static inline void make_elf(const struct elf_parts *p, struct buf *out)
{
    static const char names[] = "\0.text\0.eh_frame\0.debug_frame\0.shstrtab";
    size_t code = sizeof(Elf64_Ehdr) + 3 * sizeof(Elf64_Phdr);
    size_t head = code + p->code.len, eh = head + ELF_MAKER_HEAD;
    size_t debug = eh + p->eh_frame.len, text = debug + p->debug_frame.len;
    size_t table = (text + sizeof(names) + 7) & ~(size_t)7;
    size_t len = p->has_no_sections ? table : table + 5 * sizeof(Elf64_Shdr);
    uint8_t *to = buf_reserve(out, len);

    memset(to, 0, len);
    Elf64_Ehdr h = {
        .e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
        .e_type = ET_DYN,
        .e_machine = p->machine ? p->machine : EM_X86_64,
        .e_version = EV_CURRENT,
        .e_entry = p->entry,
        .e_phoff = sizeof(h),
        .e_ehsize = sizeof(h),
        .e_phentsize = sizeof(Elf64_Phdr),
        .e_phnum = 3,
        .e_shentsize = sizeof(Elf64_Shdr),
    };
    if (!p->has_no_sections) {
        h.e_shoff = table;
        h.e_shnum = 5;
        h.e_shstrndx = 4;
    }
    memcpy(to, &h, sizeof(h));
    size_t frames = ELF_MAKER_HEAD + p->eh_frame.len;
    Elf64_Phdr segments[3] = {
        {.p_type = PT_LOAD,
         .p_flags = PF_R | PF_X,
         .p_offset = code,
         .p_vaddr = ELF_MAKER_CODE,
         .p_filesz = p->code.len,
         .p_memsz = p->code.len},
        {.p_type = PT_LOAD,
         .p_flags = PF_R,
         .p_offset = head,
         .p_vaddr = ELF_MAKER_FRAMES,
         .p_filesz = frames,
         .p_memsz = frames},
        {.p_type = PT_GNU_EH_FRAME,
         .p_flags = PF_R,
         .p_offset = head,
         .p_vaddr = ELF_MAKER_FRAMES,
         .p_filesz = ELF_MAKER_HEAD,
         .p_memsz = ELF_MAKER_HEAD},
    };
    memcpy(to + sizeof(h), segments, sizeof(segments));
    if (p->code.len > 0)
        memcpy(to + code, p->code.data, p->code.len);
    /* Version 1, the pointer relative to itself in 4 bytes, no table. */
    static const uint8_t eh_head[8] = {1, 0x1b, 0xff, 0xff, ELF_MAKER_HEAD - 4};
    memcpy(to + head, eh_head, sizeof(eh_head));
    if (p->eh_frame.len > 0)
        memcpy(to + eh, p->eh_frame.data, p->eh_frame.len);
    if (p->debug_frame.len > 0)
        memcpy(to + debug, p->debug_frame.data, p->debug_frame.len);
    memcpy(to + text, names, sizeof(names));
    if (!p->has_no_sections) {
        uint32_t no_frames = p->eh_frame.len > 0 ? SHT_PROGBITS : SHT_NULL;
        elf_maker_section(to + table, 1,
                          (Elf64_Shdr){.sh_name = 1,
                                       .sh_type = SHT_PROGBITS,
                                       .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
                                       .sh_addr = ELF_MAKER_CODE,
                                       .sh_offset = code,
                                       .sh_size = p->code.len});
        elf_maker_section(to + table, 2,
                          (Elf64_Shdr){.sh_name = 7,
                                       .sh_type = no_frames,
                                       .sh_flags = SHF_ALLOC,
                                       .sh_addr = ELF_MAKER_FRAMES + ELF_MAKER_HEAD,
                                       .sh_offset = eh,
                                       .sh_size = p->eh_frame.len});
        elf_maker_section(to + table, 3,
                          (Elf64_Shdr){.sh_name = 17,
                                       .sh_type = p->debug_frame.len > 0 ? SHT_PROGBITS : SHT_NULL,
                                       .sh_flags = p->debug_frame_flags,
                                       .sh_offset = debug,
                                       .sh_size = p->debug_frame.len});
        elf_maker_section(
            to + table, 4,
            (Elf64_Shdr){
                .sh_name = 30, .sh_type = SHT_STRTAB, .sh_offset = text, .sh_size = sizeof(names)});
    }
    out->len += len;
}

/* What stands in front of an entry of frames is filled in once its end is known. */
static inline void frames_end(struct buf *b, size_t start)
{
    while ((b->len - start) % 4 != 0)
        buf_add_byte(b, 0);
    le32_put(b->data + start, (uint32_t)(b->len - start - 4));
}

static inline void frames_u32(struct buf *b, uint32_t v)
{
    uint8_t bytes[4];
    le32_put(bytes, v);
    buf_add(b, bytes, sizeof(bytes));
}

/* A common entry of .eh_frame, with pointers relative to themselves in 4 bytes when `augmentation`
 * has an R; returns where it is. `ra` is the register of the return address. */
static inline size_t frames_common(struct buf *b, const char *augmentation, uint8_t ra,
                                   struct bytes program)
{
    size_t start = b->len;

    frames_u32(b, 0);
    frames_u32(b, 0);
    buf_add_byte(b, 1);
    buf_add(b, augmentation, strlen(augmentation) + 1);
    buf_add_byte(b, ra == 30 ? 4 : 1);
    buf_add_byte(b, 0x78); /* -8 */
    buf_add_byte(b, ra);
    if (augmentation[0] == 'z') {
        buf_add_byte(b, strchr(augmentation, 'R') ? 1 : 0);
        if (strchr(augmentation, 'R'))
            buf_add_byte(b, 0x1b);
    }
    buf_add_bytes(b, program);
    frames_end(b, start);
    return start;
}

/* x86-64's: at the start of functions sp is 8 below the frame. */
static inline size_t frames_common_x86_64(struct buf *b)
{
    return frames_common(b, "zR", 16, BYTES("\x0c\x07\x08\x90\x01"));
}

/* A function of [start, start + size) under the common entry at `common`. */
static inline void frames_function(struct buf *b, size_t common, uint64_t start, uint32_t size,
                                   struct bytes program)
{
    size_t at = b->len;
    uint64_t va = ELF_MAKER_FRAMES + ELF_MAKER_HEAD + at + 8;

    frames_u32(b, 0);
    frames_u32(b, (uint32_t)(at + 4 - common));
    frames_u32(b, (uint32_t)(start - va));
    frames_u32(b, size);
    buf_add_byte(b, 0);
    buf_add_bytes(b, program);
    frames_end(b, at);
}

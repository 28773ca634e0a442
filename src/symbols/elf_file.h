#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/budget.h"
#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/error.h"

/*
 * An ELF file, read with every offset checked: headers at once, section contents when asked for.
 * 32 and 64 bits, both byte orders. Files are read, never mapped, and what is read is charged to
 * the budget, so neither a hostile file nor one cut short meanwhile does harm.
 */
#define BUILD_ID_MAX 64

struct elf_section {
    const char *name; /* NUL-terminated; "" when the name is out of bounds */
    uint32_t type;
    uint32_t link;
    uint64_t flags, addr, offset, size, entry_size;
};

struct elf_segment {
    uint32_t type;
    uint32_t flags;
    uint64_t offset, vaddr, file_size, memory_size, align;
};

struct elf_file {
    struct budget *budget;
    struct arena arena;
    int fd; /* or -1 when in memory */
    bool fd_is_borrowed;
    struct bytes memory; /* borrowed, when fd is -1 */
    uint64_t size;
    char *path;

    bool is_64, is_big_endian;
    uint16_t type;    /* ET_EXEC... */
    uint16_t machine; /* EM_X86_64... */

    struct elf_section *sections;
    size_t n_sections;
    struct elf_segment *segments;
    size_t n_segments;
    struct bytes *contents; /* by section, once read */

    uint8_t build_id[BUILD_ID_MAX]; /* the GNU one */
    size_t build_id_len;
    char *go_build_id; /* NULL when there is none */
};

/*
 * The budget must outlive the file. -EBADMSG when it is no ELF file or a damaged one, -ENOBUFS when
 * the budget is spent, or an errno of the file system.
 */
int elf_open(const char *path, struct budget *budget, struct elf_file **ret, struct error *err);

/* The same of a file that is open already; the descriptor is borrowed and must outlive the file,
 * its position is not used. `name` is what messages call it. */
int elf_from_fd(int fd, const char *name, struct budget *budget, struct elf_file **ret,
                struct error *err);

/* `content` is borrowed and must outlive the file. */
int elf_from_bytes(struct bytes content, const char *name, struct budget *budget,
                   struct elf_file **ret, struct error *err);

void elf_close(struct elf_file *f); /* NULL is fine */
DEFINE_CLEANUP(struct elf_file *, elf_close)

/* The first section of this name that has bytes in the file, or NULL. */
const struct elf_section *elf_find_section(const struct elf_file *f, const char *name);

/* The bytes of a section as the file has them, borrowed until elf_close(). */
int elf_section_bytes(struct elf_file *f, const struct elf_section *s, struct bytes *ret,
                      struct error *err);

/* The same, unpacked where the file has it compressed (zlib or zstd). */
int elf_section_unpacked(struct elf_file *f, const struct elf_section *s, struct bytes *ret,
                         struct error *err);

/* Bytes [offset, offset + n) of the file, borrowed until elf_close(). */
int elf_read(struct elf_file *f, uint64_t offset, uint64_t n, struct bytes *ret, struct error *err);

/* The same into memory of the caller's: for what is looked at once. */
int elf_read_into(const struct elf_file *f, uint64_t offset, void *to, size_t n, struct error *err);

/* The bytes loaded at a virtual address, at most n of them and fewer at the segment's end. */
int elf_read_va(struct elf_file *f, uint64_t va, uint64_t n, struct bytes *ret, struct error *err);

/* The GNU build id in hex, or "" when there is none. */
struct build_id_text {
    char text[BUILD_ID_MAX * 2 + 1];
};
struct build_id_text elf_build_id_text(const struct elf_file *f);

/* Numbers of the file's byte order; `p` has that many readable bytes. */
uint16_t elf_u16(const struct elf_file *f, const uint8_t *p);
uint32_t elf_u32(const struct elf_file *f, const uint8_t *p);
uint64_t elf_u64(const struct elf_file *f, const uint8_t *p);

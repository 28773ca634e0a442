#include "symbols/elf_file.h"

#include <elf.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "wire/pack.h"

/* Newer than some systems' headers. */
#ifndef ELFCOMPRESS_ZSTD
#define ELFCOMPRESS_ZSTD 2
#endif

#define SECTIONS_MAX    ((uint64_t)1 << 20)
#define SEGMENTS_MAX    ((uint64_t)1 << 12)
#define NOTES_MAX       64 /* sections or segments of notes that are looked into */
#define NOTES_BYTES_MAX ((uint64_t)1 << 16)

uint16_t elf_u16(const struct elf_file *f, const uint8_t *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof(v));
    return f->is_big_endian ? be16toh(v) : le16toh(v);
}

uint32_t elf_u32(const struct elf_file *f, const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof(v));
    return f->is_big_endian ? be32toh(v) : le32toh(v);
}

uint64_t elf_u64(const struct elf_file *f, const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof(v));
    return f->is_big_endian ? be64toh(v) : le64toh(v);
}

/* A field that is a word of the file's class: 4 bytes in 32-bit files, 8 in 64-bit ones. */
static uint64_t elf_word(const struct elf_file *f, const uint8_t *p)
{
    return f->is_64 ? elf_u64(f, p) : elf_u32(f, p);
}

static int damaged(struct error *err, const char *why, uint64_t offset)
{
    return error_set(err, -EBADMSG, "ELF at byte %ju: %s", (uintmax_t)offset, why);
}

static int pread_all(int fd, uint8_t *to, size_t n, uint64_t offset)
{
    while (n > 0) {
        ssize_t got = pread(fd, to, n, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0 ? -errno : -EBADMSG;
        to += got;
        n -= (size_t)got;
        offset += (uint64_t)got;
    }
    return 0;
}

static int check_range(const struct elf_file *f, uint64_t offset, uint64_t n, struct error *err)
{
    if (offset > f->size || n > f->size - offset)
        return damaged(err, "a table or section runs past the end of the file", offset);
    return 0;
}

int elf_read_into(const struct elf_file *f, uint64_t offset, void *to, size_t n, struct error *err)
{
    int r = check_range(f, offset, n, err);

    if (r < 0)
        return r;
    if (f->fd < 0) {
        if (n > 0)
            memcpy(to, f->memory.data + offset, n);
        return 0;
    }
    r = pread_all(f->fd, to, n, offset);
    if (r == -EBADMSG)
        return error_set(err, r, "could not read at byte %ju: the file was cut short",
                         (uintmax_t)offset);
    errno = -r;
    return r < 0 ? error_set(err, r, "could not read at byte %ju: %m", (uintmax_t)offset) : 0;
}

int elf_read(struct elf_file *f, uint64_t offset, uint64_t n, struct bytes *ret, struct error *err)
{
    int r = check_range(f, offset, n, err);

    if (r < 0)
        return r;
    if (f->fd < 0) {
        *ret = (struct bytes){f->memory.data + offset, (size_t)n};
        return 0;
    }
    uint8_t *to = arena_new(&f->arena, uint8_t, (size_t)n);
    if (!to)
        return budget_error(f->budget, err);
    r = elf_read_into(f, offset, to, (size_t)n, err);
    if (r < 0)
        return r;
    *ret = (struct bytes){to, (size_t)n};
    return 0;
}

int elf_section_bytes(struct elf_file *f, const struct elf_section *s, struct bytes *ret,
                      struct error *err)
{
    struct bytes *known = &f->contents[s - f->sections];

    if (s->type == SHT_NOBITS)
        return damaged(err, "the section has no bytes in this file", s->offset);
    if (!known->data) {
        int r = elf_read(f, s->offset, s->size, known, err);
        if (r < 0)
            return r;
    }
    *ret = *known;
    return 0;
}

int elf_section_unpacked(struct elf_file *f, const struct elf_section *s, struct bytes *ret,
                         struct error *err)
{
    size_t head = f->is_64 ? sizeof(Elf64_Chdr) : sizeof(Elf32_Chdr);
    struct bytes packed = {0};
    int r = elf_section_bytes(f, s, &packed, err);

    if (r < 0)
        return r;
    if (!(s->flags & SHF_COMPRESSED)) {
        *ret = packed;
        return 0;
    }
    if (packed.len < head)
        return damaged(err, "a compressed section is too short", s->offset);
    uint32_t kind = elf_u32(f, packed.data);
    uint64_t size = elf_word(f, packed.data + (f->is_64 ? 8 : 4));
    uint8_t *to = size < SIZE_MAX / 2 ? arena_new(&f->arena, uint8_t, (size_t)size) : NULL;
    if (!to)
        return size < SIZE_MAX / 2 ? budget_error(f->budget, err)
                                   : damaged(err, "a compressed section is too large", s->offset);
    struct bytes in = bytes_from(packed, head);
    r = kind == ELFCOMPRESS_ZLIB   ? zlib_unpack(in, (size_t)size, to, err)
        : kind == ELFCOMPRESS_ZSTD ? zstd_unpack(in, (size_t)size, to, err)
                                   : damaged(err, "compressed in an unknown way", s->offset);
    if (r < 0)
        return r;
    *ret = (struct bytes){to, (size_t)size};
    return 0;
}

int elf_read_va(struct elf_file *f, uint64_t va, uint64_t n, struct bytes *ret, struct error *err)
{
    for (size_t i = 0; i < f->n_segments; i++) {
        const struct elf_segment *p = &f->segments[i];
        if (p->type != PT_LOAD || va < p->vaddr || va - p->vaddr >= p->file_size)
            continue;
        uint64_t at = va - p->vaddr;
        uint64_t left = p->file_size - at;
        return elf_read(f, p->offset + at, n < left ? n : left, ret, err);
    }
    return error_set(err, -ERANGE, "no loaded segment of the file holds address 0x%jx",
                     (uintmax_t)va);
}

const struct elf_section *elf_find_section(const struct elf_file *f, const char *name)
{
    for (size_t i = 1; i < f->n_sections; i++) {
        if (f->sections[i].type != SHT_NOBITS && f->sections[i].type != SHT_NULL &&
            strcmp(f->sections[i].name, name) == 0)
            return &f->sections[i];
    }
    return NULL;
}

/* Where the tables of the file are, as its header says. */
struct tables {
    uint64_t section_offset, segment_offset;
    uint64_t n_sections, n_segments;
    uint64_t section_size, segment_size;
    uint64_t names; /* section index of the section names */
};

static struct elf_section parse_section(const struct elf_file *f, const uint8_t *p)
{
    bool wide = f->is_64;
    return (struct elf_section){
        .name = "",
        .type = elf_u32(f, p + 4),
        .flags = elf_word(f, p + 8),
        .addr = elf_word(f, p + (wide ? 16 : 12)),
        .offset = elf_word(f, p + (wide ? 24 : 16)),
        .size = elf_word(f, p + (wide ? 32 : 20)),
        .link = elf_u32(f, p + (wide ? 40 : 24)),
        .entry_size = elf_word(f, p + (wide ? 56 : 36)),
    };
}

static int read_header(struct elf_file *f, struct tables *ret, struct error *err)
{
    struct bytes id = {0}, h = {0};

    if (f->size < EI_NIDENT + 36 || elf_read(f, 0, EI_NIDENT, &id, NULL) < 0 ||
        memcmp(id.data, ELFMAG, SELFMAG) != 0)
        return error_set(err, -EBADMSG, "not an ELF file");
    f->is_64 = id.data[EI_CLASS] == ELFCLASS64;
    f->is_big_endian = id.data[EI_DATA] == ELFDATA2MSB;
    if (id.data[EI_CLASS] != ELFCLASS32 && !f->is_64)
        return damaged(err, "the class is neither 32 nor 64 bits", EI_CLASS);
    if (id.data[EI_DATA] != ELFDATA2LSB && !f->is_big_endian)
        return damaged(err, "the byte order is neither little nor big endian", EI_DATA);

    int r = elf_read(f, 0, f->is_64 ? sizeof(Elf64_Ehdr) : sizeof(Elf32_Ehdr), &h, err);
    if (r < 0)
        return r;
    f->type = elf_u16(f, h.data + 16);
    f->machine = elf_u16(f, h.data + 18);
    ret->segment_offset = elf_word(f, h.data + (f->is_64 ? 32 : 28));
    ret->section_offset = elf_word(f, h.data + (f->is_64 ? 40 : 32));
    const uint8_t *tail = h.data + (f->is_64 ? 54 : 42);
    ret->segment_size = elf_u16(f, tail);
    ret->n_segments = elf_u16(f, tail + 2);
    ret->section_size = elf_u16(f, tail + 4);
    ret->n_sections = elf_u16(f, tail + 6);
    ret->names = elf_u16(f, tail + 8);
    return 0;
}

/* Counts that do not fit the header stand in section 0. */
static int read_large_counts(struct elf_file *f, struct tables *t, struct error *err)
{
    struct bytes first = {0};

    if (t->section_offset == 0)
        return 0;
    if (t->n_sections != 0 && t->names != SHN_XINDEX && t->n_segments != PN_XNUM)
        return 0;
    int r = elf_read(f, t->section_offset, f->is_64 ? 64 : 40, &first, err);
    if (r < 0)
        return r;
    struct elf_section s = parse_section(f, first.data);
    if (t->n_sections == 0)
        t->n_sections = s.size;
    if (t->names == SHN_XINDEX)
        t->names = s.link;
    if (t->n_segments == PN_XNUM)
        t->n_segments = elf_u32(f, first.data + (f->is_64 ? 44 : 28));
    return 0;
}

static int read_segments(struct elf_file *f, const struct tables *t, struct error *err)
{
    uint64_t size = f->is_64 ? sizeof(Elf64_Phdr) : sizeof(Elf32_Phdr);
    struct bytes table = {0};

    if (t->n_segments == 0 || t->segment_offset == 0)
        return 0;
    if (t->segment_size < size)
        return damaged(err, "a program header is smaller than it must be", t->segment_offset);
    if (t->n_segments > SEGMENTS_MAX)
        return error_set(err, -EBADMSG, "ELF has %ju program headers, the limit is %ju",
                         (uintmax_t)t->n_segments, (uintmax_t)SEGMENTS_MAX);
    int r = elf_read(f, t->segment_offset, t->n_segments * t->segment_size, &table, err);
    if (r < 0)
        return r;
    f->segments = arena_new(&f->arena, struct elf_segment, (size_t)t->n_segments);
    if (!f->segments)
        return budget_error(f->budget, err);
    f->n_segments = (size_t)t->n_segments;
    for (size_t i = 0; i < f->n_segments; i++) {
        const uint8_t *p = table.data + i * t->segment_size;
        bool wide = f->is_64;
        f->segments[i] = (struct elf_segment){
            .type = elf_u32(f, p),
            .flags = elf_u32(f, p + (wide ? 4 : 24)),
            .offset = elf_word(f, p + (wide ? 8 : 4)),
            .vaddr = elf_word(f, p + (wide ? 16 : 8)),
            .file_size = elf_word(f, p + (wide ? 32 : 16)),
            .memory_size = elf_word(f, p + (wide ? 40 : 20)),
            .align = elf_word(f, p + (wide ? 48 : 28)),
        };
    }
    return 0;
}

static void name_sections(struct elf_file *f, const struct tables *t, struct bytes table)
{
    struct bytes names = {0};

    if (t->names >= f->n_sections || elf_section_bytes(f, &f->sections[t->names], &names, NULL) < 0)
        return;
    /* Every name that starts before the last NUL ends at one. */
    const uint8_t *last = names.len > 0 ? memrchr(names.data, 0, names.len) : NULL;
    for (size_t i = 0; last && i < f->n_sections; i++) {
        uint32_t at = elf_u32(f, table.data + i * t->section_size);
        if (at <= (size_t)(last - names.data))
            f->sections[i].name = (const char *)names.data + at;
    }
}

static int read_sections(struct elf_file *f, const struct tables *t, struct error *err)
{
    uint64_t size = f->is_64 ? sizeof(Elf64_Shdr) : sizeof(Elf32_Shdr);
    struct bytes table = {0};

    if (t->n_sections == 0 || t->section_offset == 0)
        return 0;
    if (t->section_size < size)
        return damaged(err, "a section header is smaller than it must be", t->section_offset);
    if (t->n_sections > SECTIONS_MAX)
        return error_set(err, -EBADMSG, "ELF has %ju sections, the limit is %ju",
                         (uintmax_t)t->n_sections, (uintmax_t)SECTIONS_MAX);
    int r = elf_read(f, t->section_offset, t->n_sections * t->section_size, &table, err);
    if (r < 0)
        return r;
    f->sections = arena_new(&f->arena, struct elf_section, (size_t)t->n_sections);
    f->contents = arena_new(&f->arena, struct bytes, (size_t)t->n_sections);
    if (!f->sections || !f->contents)
        return budget_error(f->budget, err);
    f->n_sections = (size_t)t->n_sections;
    for (size_t i = 0; i < f->n_sections; i++)
        f->sections[i] = parse_section(f, table.data + i * t->section_size);
    name_sections(f, t, table);
    return 0;
}

static uint64_t round_up_4(uint64_t n)
{
    return (n + 3) & ~(uint64_t)3;
}

static void take_note(struct elf_file *f, uint32_t type, struct bytes owner, struct bytes desc)
{
    if (type == NT_GNU_BUILD_ID && bytes_equal(owner, BYTES("GNU\0")) && f->build_id_len == 0 &&
        desc.len > 0 && desc.len <= BUILD_ID_MAX) {
        memcpy(f->build_id, desc.data, desc.len);
        f->build_id_len = desc.len;
    }
    if (type == 4 && bytes_equal(owner, BYTES("Go\0\0")) && !f->go_build_id && desc.len > 0 &&
        desc.len < 256)
        f->go_build_id = arena_strdup(&f->arena, desc);
}

static void read_notes(struct elf_file *f, uint64_t offset, uint64_t size)
{
    struct bytes b = {0};

    if (size > NOTES_BYTES_MAX || elf_read(f, offset, size, &b, NULL) < 0)
        return;
    while (b.len >= 12) {
        uint64_t owner_len = elf_u32(f, b.data), desc_len = elf_u32(f, b.data + 4);
        uint32_t type = elf_u32(f, b.data + 8);
        uint64_t desc_at = 12 + round_up_4(owner_len);
        if (desc_at > b.len || desc_len > b.len - desc_at)
            return;
        take_note(f, type, (struct bytes){b.data + 12, (size_t)owner_len},
                  (struct bytes){b.data + desc_at, (size_t)desc_len});
        b = bytes_from(b, (size_t)(desc_at + round_up_4(desc_len)));
    }
}

/* Notes are found by section, or by segment where there are no sections. */
static void read_all_notes(struct elf_file *f)
{
    size_t left = NOTES_MAX;

    for (size_t i = 0; i < f->n_sections && left > 0; i++) {
        if (f->sections[i].type == SHT_NOTE) {
            read_notes(f, f->sections[i].offset, f->sections[i].size);
            left--;
        }
    }
    for (size_t i = 0; i < f->n_segments && f->build_id_len == 0 && left > 0; i++) {
        if (f->segments[i].type == PT_NOTE) {
            read_notes(f, f->segments[i].offset, f->segments[i].file_size);
            left--;
        }
    }
}

static int load(struct elf_file *f, struct error *err)
{
    struct tables t = {0};
    int r = read_header(f, &t, err);

    if (r >= 0)
        r = read_large_counts(f, &t, err);
    if (r >= 0)
        r = read_segments(f, &t, err);
    if (r >= 0)
        r = read_sections(f, &t, err);
    if (r < 0)
        return r;
    read_all_notes(f);
    return budget_failed(f->budget) ? budget_error(f->budget, err) : 0;
}

static struct elf_file *file_new(struct budget *budget, const char *path, struct error *err)
{
    struct elf_file *f = calloc(1, sizeof(*f));
    if (!f) {
        error_set(err, -ENOMEM, "out of memory");
        return NULL;
    }
    f->budget = budget;
    f->fd = -1;
    arena_init(&f->arena, budget);
    f->path = strdup(path);
    return f;
}

static int load_fd(struct elf_file *f, struct error *err)
{
    struct stat st;

    if (fstat(f->fd, &st) < 0)
        return error_set(err, -errno, "could not stat \"%s\": %m", f->path);
    if (!S_ISREG(st.st_mode))
        return error_set(err, -EINVAL, "\"%s\" is not a regular file", f->path);
    f->size = (uint64_t)st.st_size;
    int r = load(f, err);
    return r < 0 ? error_prefix(err, r, "%s", f->path) : 0;
}

int elf_open(const char *path, struct budget *budget, struct elf_file **ret, struct error *err)
{
    CLEANUP(elf_closep) struct elf_file *f = file_new(budget, path, err);

    if (!f)
        return -ENOMEM;
    /* A mapping may name a device or a pipe: opening must not wait for either. */
    f->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (f->fd < 0)
        return error_set(err, -errno, "could not open \"%s\": %m", path);
    int r = load_fd(f, err);
    if (r < 0)
        return r;
    *ret = TAKE_PTR(f);
    return 0;
}

int elf_from_fd(int fd, const char *name, struct budget *budget, struct elf_file **ret,
                struct error *err)
{
    CLEANUP(elf_closep) struct elf_file *f = file_new(budget, name, err);

    if (!f)
        return -ENOMEM;
    f->fd = fd;
    f->fd_is_borrowed = true;
    int r = load_fd(f, err);
    if (r < 0)
        return r;
    *ret = TAKE_PTR(f);
    return 0;
}

int elf_from_bytes(struct bytes content, const char *name, struct budget *budget,
                   struct elf_file **ret, struct error *err)
{
    CLEANUP(elf_closep) struct elf_file *f = file_new(budget, name, err);

    if (!f)
        return -ENOMEM;
    f->memory = content;
    f->size = content.len;
    int r = load(f, err);
    if (r < 0)
        return error_prefix(err, r, "%s", name);
    *ret = TAKE_PTR(f);
    return 0;
}

void elf_close(struct elf_file *f)
{
    if (!f)
        return;
    if (f->fd >= 0 && !f->fd_is_borrowed)
        close(f->fd);
    arena_done(&f->arena);
    free(f->path);
    free(f);
}

struct build_id_text elf_build_id_text(const struct elf_file *f)
{
    struct build_id_text t = {{0}};

    for (size_t i = 0; i < f->build_id_len; i++)
        snprintf(t.text + 2 * i, 3, "%02x", f->build_id[i]);
    return t;
}

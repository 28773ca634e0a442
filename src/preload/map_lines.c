#include "preload/map_lines.h"

#include <elf.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "preload/stack_memory.h"

/* ---- Lines ---- */

static uint64_t number(const char **at, const char *end, unsigned base)
{
    uint64_t v = 0;

    for (; *at < end; ++*at) {
        char c = **at;
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                                                : 16;
        if (digit >= base)
            break;
        v = v * base + digit;
    }
    return v;
}

static bool pass(const char **at, const char *end, char c)
{
    if (*at == end || **at != c)
        return false;
    ++*at;
    return true;
}

/* start-end rwxp offset major:minor inode   path */
bool map_line_parse(const char *text, size_t n, struct map_line *ret)
{
    static const char deleted[] = " (deleted)";
    const size_t n_deleted = sizeof(deleted) - 1;
    const char *at = text, *end = text + n;

    ret->start = number(&at, end, 16);
    if (!pass(&at, end, '-'))
        return false;
    ret->end = number(&at, end, 16);
    if (!pass(&at, end, ' ') || end - at < 5)
        return false;
    ret->can_read = at[0] == 'r';
    ret->can_run = at[2] == 'x';
    at += 4;
    if (!pass(&at, end, ' '))
        return false;
    ret->offset = number(&at, end, 16);
    if (!pass(&at, end, ' '))
        return false;
    number(&at, end, 16);
    if (!pass(&at, end, ':'))
        return false;
    number(&at, end, 16);
    if (!pass(&at, end, ' '))
        return false;
    ret->inode = number(&at, end, 10);
    while (pass(&at, end, ' ')) {
    }
    ret->path = at;
    ret->path_len = (size_t)(end - at);
    if (ret->path_len > n_deleted && memcmp(end - n_deleted, deleted, n_deleted) == 0)
        ret->path_len -= n_deleted;
    return ret->start < ret->end;
}

/* ---- Images ---- */

bool image_bytes(int memory, uint64_t at, void *to, size_t n)
{
    struct iovec ours = {to, n}, theirs = {(void *)at, n};

    if (memory >= 0)
        return syscall(SYS_pread64, memory, to, n, at) == (long)n;
    return syscall(SYS_process_vm_readv, getpid(), &ours, 1ul, &theirs, 1ul, 0ul) == (long)n;
}

static void read_notes(uint64_t at, uint64_t size, int memory, struct code_image *ret)
{
    uint64_t end = at + size;

    if (size > STACK_PAGE)
        return;
    while (end - at >= sizeof(Elf64_Nhdr)) {
        Elf64_Nhdr n;
        uint64_t name = at + sizeof(n), data, next;
        char owner[4];

        if (!image_bytes(memory, at, &n, sizeof(n)))
            return;
        data = name + ((uint64_t)n.n_namesz + 3) / 4 * 4;
        next = data + ((uint64_t)n.n_descsz + 3) / 4 * 4;
        if (next > end || next <= at)
            return;
        if (n.n_type == NT_GNU_BUILD_ID && n.n_namesz == 4 && n.n_descsz <= sizeof(ret->build_id) &&
            image_bytes(memory, name, owner, 4) && memcmp(owner, "GNU", 4) == 0) {
            if (image_bytes(memory, data, ret->build_id, n.n_descsz)) {
                ret->build_id_len = (uint8_t)n.n_descsz;
                ret->build_id_at = data;
            }
            return;
        }
        at = next;
    }
}

static void read_load(const Elf64_Phdr *p, struct code_image *ret)
{
    uint64_t start = ret->bias + p->p_vaddr, end = start + p->p_memsz;

    if (end > ret->end)
        ret->end = end;
    if ((p->p_flags & PF_X) && ret->n_parts < IMAGE_PARTS_MAX)
        ret->parts[ret->n_parts++] = (struct image_part){start, end, p->p_offset, false};
}

static const uint64_t page_mask = ~(uint64_t)(STACK_PAGE - 1);

static bool find_bias(const Elf64_Phdr *p, size_t n, struct code_image *ret)
{
    for (size_t i = 0; i < n; i++)
        if (p[i].p_type == PT_LOAD && (p[i].p_offset & page_mask) == 0) {
            ret->bias = ret->base - (p[i].p_vaddr & page_mask);
            return true;
        }
    return false;
}

/* The segment in which the tables are. */
static void find_tables(const Elf64_Phdr *p, size_t n, uint64_t tables, struct code_image *ret)
{
    for (size_t i = 0; i < n; i++)
        if (p[i].p_type == PT_LOAD && tables >= p[i].p_vaddr &&
            tables - p[i].p_vaddr < p[i].p_filesz) {
            ret->tables = ret->bias + tables;
            ret->tables_start = ret->bias + p[i].p_vaddr;
            ret->tables_end = ret->tables_start + p[i].p_filesz;
        }
}

/* One refresh is at work at a time, so this need not be on a stack. */
#define HEADERS_MAX 64
static Elf64_Phdr headers[HEADERS_MAX];

bool image_read(const struct map_line *m, int memory, struct code_image *ret)
{
    const Elf64_Phdr *p = headers;
    Elf64_Ehdr e;
    uint64_t size = m->end - m->start, n;

    *ret = (struct code_image){.base = m->start, .end = m->end};
    if (!image_bytes(memory, m->start, &e, sizeof(e)))
        return false;
    n = e.e_phnum;
    if (memcmp(e.e_ident, ELFMAG, SELFMAG) != 0 || e.e_ident[EI_CLASS] != ELFCLASS64 ||
        e.e_phentsize != sizeof(*p) || e.e_phoff % 8 != 0 || n == 0 || n > HEADERS_MAX ||
        e.e_phoff > size || n * sizeof(*p) > size - e.e_phoff)
        return false;
    if (!image_bytes(memory, m->start + e.e_phoff, headers, n * sizeof(*p)) ||
        !find_bias(p, n, ret))
        return false;
    for (size_t i = 0; i < n; i++) {
        if (p[i].p_type == PT_LOAD)
            read_load(&p[i], ret);
        else if (p[i].p_type == PT_GNU_EH_FRAME)
            find_tables(p, n, p[i].p_vaddr, ret);
        else if (p[i].p_type == PT_NOTE && ret->build_id_len == 0)
            read_notes(ret->bias + p[i].p_vaddr, p[i].p_memsz, memory, ret);
    }
    return true;
}

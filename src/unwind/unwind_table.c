#include "unwind/unwind_table.h"

#include <elf.h>
#include <errno.h>

#include "unwind/cfi.h"
#include "unwind/code_rows.h"
#include "unwind/go_rows.h"

void unwind_table_done(struct unwind_table *t)
{
    if (!t->budget)
        return;
    vec_done(t->budget, &t->pages);
    vec_done(t->budget, &t->rows);
    vec_done(t->budget, &t->rules);
    *t = (struct unwind_table){0};
}

static const struct cfi_machine *machine_of(const struct elf_file *f, struct error *err)
{
    const struct cfi_machine *m = f->machine == EM_X86_64    ? &cfi_x86_64
                                  : f->machine == EM_AARCH64 ? &cfi_aarch64
                                                             : NULL;

    if (m && f->is_64 && !f->is_big_endian)
        return m;
    error_set(err, -EOPNOTSUPP,
              "unwind tables are made for x86-64 and aarch64, this is machine %u of %d bits%s",
              f->machine, f->is_64 ? 64 : 32, f->is_big_endian ? ", big-endian" : "");
    return NULL;
}

/* What is being built of a file. */
struct building {
    struct elf_file *file;
    const struct cfi_machine *machine;
    struct row_builder rows;
    int damage; /* of the last section that could not be read, and its words */
    struct error damage_error;
    bool is_go, is_old_go;
};

/* A section that is damaged does not spoil what others say. */
static int take_result(struct building *b, int r, const struct error *err)
{
    if (r != -EBADMSG)
        return r;
    b->damage = r;
    if (err)
        b->damage_error = *err;
    return 0;
}

static int read_part(struct building *b, struct elf_file *f, struct cfi_section s, uint64_t offset,
                     uint64_t size, struct error *err)
{
    struct section_window w = {0};
    int r = section_window_open(&w, f, offset, size, err);

    if (r < 0)
        return take_result(b, r, err);
    s.bytes = &w;
    r = cfi_read_section(&s, b->machine, &b->rows, err);
    section_window_close(&w);
    return take_result(b, r, err);
}

/* Without section headers, PT_GNU_EH_FRAME leads to a table whose head points to .eh_frame. */
static int read_by_segment(struct building *b, struct error *err)
{
    struct elf_file *f = b->file;
    struct bytes head;

    for (size_t i = 0; i < f->n_segments; i++) {
        const struct elf_segment *p = &f->segments[i];
        if (p->type != PT_GNU_EH_FRAME || elf_read(f, p->offset, 12, &head, NULL) < 0 ||
            head.data[0] != 1)
            continue;
        struct cfi_cursor c = {.left = bytes_from(head, 4)};
        uint64_t va;
        if (!cfi_pointer(&c, head.data[1], p->vaddr + 4, &va))
            continue;
        for (size_t j = 0; j < f->n_segments; j++) {
            const struct elf_segment *q = &f->segments[j];
            if (q->type != PT_LOAD || va < q->vaddr || va - q->vaddr >= q->file_size)
                continue;
            struct cfi_section s = {.va = va, .is_eh_frame = true, .ends_at_zero = true};
            return read_part(b, f, s, q->offset + (va - q->vaddr), q->file_size - (va - q->vaddr),
                             err);
        }
    }
    return 0;
}

static int read_eh_frame(struct building *b, struct error *err)
{
    const struct elf_section *e = elf_find_section(b->file, ".eh_frame");

    if (!e)
        return read_by_segment(b, err);
    struct cfi_section s = {.va = e->addr, .is_eh_frame = true};
    return read_part(b, b->file, s, e->offset, e->size, err);
}

static int read_debug_frame(struct building *b, struct elf_file *f, struct error *err)
{
    const struct elf_section *e = elf_find_section(f, ".debug_frame");

    if (!e)
        return 0;
    if (!(e->flags & SHF_COMPRESSED))
        return read_part(b, f, (struct cfi_section){0}, e->offset, e->size, err);
    struct section_window w;
    struct cfi_section s = {.bytes = &w};
    struct bytes all;
    int r = elf_section_unpacked(f, e, &all, err);
    if (r == 0) {
        section_window_of(&w, f, all);
        r = cfi_read_section(&s, b->machine, &b->rows, err);
    }
    return take_result(b, r, err);
}

static int read_go(struct building *b, struct error *err)
{
    int r = go_rows_read(b->file, &b->rows, err);

    b->is_go = r == 0;
    b->is_old_go = r == -EOPNOTSUPP;
    return r == -ENOENT || r == -EOPNOTSUPP ? 0 : take_result(b, r, err);
}

/* A separate debug file of the same machine. */
static bool is_sibling(const struct elf_file *f, const struct elf_file *debug)
{
    return debug && debug->machine == f->machine && debug->is_64 && !debug->is_big_endian;
}

static int read_all(struct building *b, struct elf_file *debug, struct error *err)
{
    int r = read_eh_frame(b, err);

    if (r == 0)
        r = read_go(b, err);
    /* What the debug frames of Go programs say, its own table said already and better. */
    if (r < 0 || b->is_go || b->is_old_go)
        return r;
    r = read_debug_frame(b, b->file, err);
    if (r == 0 && is_sibling(b->file, debug))
        r = read_debug_frame(b, debug, err);
    return r == 0 ? code_rows_read(b->file, &b->rows, err) : r;
}

static int build(struct building *b, struct elf_file *debug, struct unwind_table *ret,
                 struct error *err)
{
    struct unwind_table t = {0};
    int r = read_all(b, debug, err);

    if (r < 0)
        return r;
    if (b->rows.rows.len == 0 && b->is_old_go) {
        *ret = (struct unwind_table){.budget = b->rows.budget, .wants_frame_pointers = true};
        return 0;
    }
    if (b->rows.rows.len == 0 && !budget_failed(b->rows.budget))
        return b->damage < 0 ? error_set(err, b->damage, "%s", b->damage_error.text)
                             : error_set(err, -ENODATA, "the file says nothing about unwinding");
    r = row_builder_finish(&b->rows, &t, err);
    if (r < 0)
        return r;
    *ret = t;
    return 0;
}

int unwind_table_build(struct elf_file *f, struct elf_file *debug, struct budget *budget,
                       struct unwind_table *ret, struct error *err)
{
    struct building b = {.file = f, .machine = machine_of(f, err)};

    if (!b.machine)
        return -EOPNOTSUPP;
    int r = row_builder_init(&b.rows, f, budget, err);
    if (r == 0)
        r = build(&b, debug, ret, err);
    row_builder_done(&b.rows);
    return r < 0 ? error_prefix(err, r, "%s", f->path) : 0;
}

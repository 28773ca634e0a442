#include <elf.h>
#include <errno.h>
#include <stdio.h>

#include "host/parse_internal.h"
#include "host/parse_plt.h"
#include "symbols/go_module.h"
#include "symbols/minidebuginfo.h"

#define CHUNK       ((size_t)64 << 10)
#define MARKERS_MAX 8
#define FILES_KNOWN 256

/* A symbol table that is read piece by piece; its names are copied as they stand. */
struct table {
    struct elf_file *f;
    const struct elf_section *symbols, *names;
    struct name_table_writer *out;
    uint64_t skip_from, skip_to; /* addresses that have names already */
    bool is_copied;
    uint32_t base; /* where the copy of `names` is */
    /* Names of labels that tools put into code ($x, .L5) are few: those met last. */
    uint32_t markers[MARKERS_MAX];
    size_t n_markers;
};

static bool copy_names(struct table *t, struct error *err)
{
    CLEANUP(freep) uint8_t *chunk = malloc(CHUNK);

    t->is_copied = true;
    for (uint64_t at = 0; chunk && at < t->names->size;) {
        size_t n = t->names->size - at < CHUNK ? (size_t)(t->names->size - at) : CHUNK;
        if (elf_read_into(t->f, t->names->offset + at, chunk, n, err) < 0)
            return false;
        uint32_t to = name_table_writer_raw(t->out, (struct bytes){chunk, n});
        if (at == 0)
            t->base = to;
        at += n;
    }
    name_table_writer_raw(t->out, BYTES("\0"));
    return chunk && !name_table_writer_failed(t->out);
}

/* Labels that tools put into code: $x, $d (ARM, RISC-V), .L5 and the like. */
static bool is_marker(struct table *t, uint32_t name)
{
    char text[2] = {0};

    for (size_t i = 0; i < MARKERS_MAX && i < t->n_markers; i++) {
        if (t->markers[i] == name)
            return true;
    }
    if (elf_read_into(t->f, t->names->offset + name, text, 2, NULL) < 0 || text[0] == '\0')
        return true;
    if (text[0] != '$' && !(text[0] == '.' && text[1] == 'L'))
        return false;
    t->markers[t->n_markers++ % MARKERS_MAX] = name;
    return true;
}

static uint8_t rank_of(const Elf64_Sym *s)
{
    uint8_t bind = ELF64_ST_BIND(s->st_info), rank = 0;

    if (ELF64_ST_TYPE(s->st_info) != STT_NOTYPE)
        rank |= NAME_RANK_FUNCTION;
    if (s->st_size > 0)
        rank |= NAME_RANK_HAS_SIZE;
    if (bind == STB_GLOBAL || bind == STB_GNU_UNIQUE)
        rank |= NAME_RANK_GLOBAL;
    else if (bind == STB_WEAK)
        rank |= NAME_RANK_WEAK;
    return rank;
}

static bool is_code(struct table *t, const Elf64_Sym *s)
{
    uint8_t type = ELF64_ST_TYPE(s->st_info);

    if (s->st_shndx == SHN_UNDEF || s->st_name == 0 || s->st_name >= t->names->size)
        return false;
    if (type == STT_FUNC || type == STT_GNU_IFUNC)
        return true;
    return type == STT_NOTYPE && s->st_shndx < t->f->n_sections &&
           (t->f->sections[s->st_shndx].flags & SHF_EXECINSTR) && !is_marker(t, s->st_name);
}

static bool add_symbol(struct table *t, const Elf64_Sym *s, struct error *err)
{
    if ((s->st_value >= t->skip_from && s->st_value < t->skip_to) || !is_code(t, s))
        return true;
    uint64_t end = s->st_value + s->st_size;
    /* A label without a size reaches to the end of its section at most. */
    if (s->st_size == 0 && s->st_shndx < t->f->n_sections)
        end = t->f->sections[s->st_shndx].addr + t->f->sections[s->st_shndx].size;
    if (end <= s->st_value)
        return true;
    if (!t->is_copied && !copy_names(t, err))
        return false;
    struct name_table_row row = {
        .start = s->st_value, .end = end, .name = t->base + s->st_name, .rank = rank_of(s)};
    name_table_writer_add(t->out, &row);
    return !name_table_writer_failed(t->out);
}

static Elf64_Sym parse_symbol(const struct elf_file *f, const uint8_t *p)
{
    if (f->is_64)
        return (Elf64_Sym){.st_name = elf_u32(f, p),
                           .st_info = p[4],
                           .st_shndx = elf_u16(f, p + 6),
                           .st_value = elf_u64(f, p + 8),
                           .st_size = elf_u64(f, p + 16)};
    return (Elf64_Sym){.st_name = elf_u32(f, p),
                       .st_info = p[12],
                       .st_shndx = elf_u16(f, p + 14),
                       .st_value = elf_u32(f, p + 4),
                       .st_size = elf_u32(f, p + 8)};
}

static int add_table(struct table *t, struct error *err)
{
    CLEANUP(freep) uint8_t *chunk = malloc(CHUNK);
    size_t size = t->f->is_64 ? sizeof(Elf64_Sym) : sizeof(Elf32_Sym);
    size_t per_chunk = CHUNK / size * size;

    if (!chunk)
        return error_set(err, -ENOMEM, "out of memory");
    for (uint64_t at = 0; at < t->symbols->size;) {
        size_t n = t->symbols->size - at < per_chunk ? (size_t)(t->symbols->size - at) : per_chunk;
        int r = elf_read_into(t->f, t->symbols->offset + at, chunk, n, err);
        if (r < 0)
            return r;
        for (size_t i = 0; i + size <= n; i += size) {
            Elf64_Sym s = parse_symbol(t->f, chunk + i);
            /* Why it failed is told when saving, unless it was reading. */
            if (!add_symbol(t, &s, err))
                return name_table_writer_failed(t->out) ? 0 : -EBADMSG;
        }
        at += n;
    }
    return 0;
}

static const struct elf_section *table_of(const struct elf_file *f, uint32_t type)
{
    for (size_t i = 1; f && i < f->n_sections; i++) {
        const struct elf_section *s = &f->sections[i];
        if (s->type == type && s->link > 0 && s->link < f->n_sections &&
            f->sections[s->link].type == SHT_STRTAB)
            return s;
    }
    return NULL;
}

struct names {
    struct elf_file *f, *debug;
    struct name_table_writer *out;
    uint64_t go_from, go_to; /* the code that Go's own table names */
};

/* Adds one table where there is one. A damaged table takes nothing from the others. */
static void add_symbols(struct names *n, struct elf_file *f, uint32_t type)
{
    const struct elf_section *s = table_of(f, type);

    if (!s)
        return;
    struct table t = {.f = f,
                      .symbols = s,
                      .names = &f->sections[s->link],
                      .out = n->out,
                      .skip_from = n->go_from,
                      .skip_to = n->go_to};
    add_table(&t, NULL);
}

static void add_mini(struct names *n)
{
    struct elf_file *mini = NULL;

    if (minidebuginfo_open(n->f, &mini, NULL) >= 0)
        add_symbols(n, mini, SHT_SYMTAB);
    elf_close(mini);
    n->f->budget->failed = false;
}

/* The fullest of the tables that there are. */
static void add_elf(struct names *n)
{
    const struct elf_section *own = table_of(n->f, SHT_SYMTAB);
    const struct elf_section *debug = table_of(n->debug, SHT_SYMTAB);
    size_t before = name_table_writer_count(n->out);

    if (own && (!debug || own->size >= debug->size))
        add_symbols(n, n->f, SHT_SYMTAB);
    else if (debug)
        add_symbols(n, n->debug, SHT_SYMTAB);
    if (name_table_writer_count(n->out) > before)
        return;
    add_mini(n);
    add_symbols(n, n->f, SHT_DYNSYM);
}

/* Files of functions that follow each other are few: where their names were put. */
struct files {
    const char *known[FILES_KNOWN];
    uint32_t at[FILES_KNOWN];
};

static uint32_t file_text(struct names *n, struct files *files, const char *file)
{
    if (!file)
        return 0;
    size_t slot = ((uintptr_t)file ^ (uintptr_t)file >> 8) % FILES_KNOWN;
    if (files->known[slot] != file) {
        files->known[slot] = file;
        files->at[slot] = name_table_writer_text(n->out, bytes_of(file));
    }
    return files->at[slot];
}

static void add_go(struct names *n)
{
    CLEANUP(lazy_bytes_close) struct lazy_bytes lazy = {0};
    struct files files = {0};
    struct pclntab_function fn;
    struct pclntab t;

    int r = go_module_pclntab_lazy(n->f, &lazy, &t, NULL);
    n->f->budget->failed = false;
    if (r < 0)
        return;
    for (uint64_t i = 0; i < t.n_functions && !name_table_writer_failed(n->out); i++) {
        lazy_bytes_trim(&lazy);
        if (!pclntab_function(&t, i, &fn))
            continue;
        struct name_table_row row = {.start = fn.start,
                                     .end = fn.end,
                                     .name = name_table_writer_text(n->out, bytes_of(fn.name)),
                                     .file = file_text(n, &files, fn.file),
                                     .line = fn.start_line,
                                     .rank = UINT8_MAX};
        name_table_writer_add(n->out, &row);
        n->go_from = n->go_to == 0 ? fn.start : n->go_from;
        n->go_to = fn.end;
    }
}

static bool is_go(const struct elf_file *f)
{
    return elf_find_section(f, ".gopclntab") || elf_find_section(f, ".data.rel.ro.gopclntab");
}

int parse_names_of(struct elf_file *f, struct elf_file *debug, int out, struct error *err)
{
    bool has_places = is_go(f);
    CLEANUP(name_table_writer_freep)
    struct name_table_writer *w =
        name_table_writer_new(out, has_places ? NAME_TABLE_PLACES : NAME_TABLE_NAMES, f->budget);
    struct names n = {.f = f, .debug = debug, .out = w};

    if (has_places)
        add_go(&n);
    add_elf(&n);
    parse_plt_of(f, w);
    if (name_table_writer_count(w) == 0 && !name_table_writer_failed(w))
        return error_set(err, -ENODATA, "it has no names of functions");
    return name_table_writer_save(w, err);
}

#include "symbols/binary.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "symbols/debug_file.h"
#include "symbols/dwarf_info.h"
#include "symbols/go_module.h"
#include "symbols/minidebuginfo.h"
#include "symbols/pclntab.h"

#define QUICK_BYTES ((uint64_t)2 << 20) /* of symbol tables: some 90000 symbols */

struct binary {
    struct budget budget;
    struct arena arena; /* of frames */
    struct elf_file *elf;
    struct elf_file *debug; /* the separate debug file, or NULL */
    struct elf_file *mini;  /* mini debug info, or NULL */
    struct symbol_table symbols;
    struct dwarf_info *dwarf; /* or NULL */
    bool has_pclntab;
    struct pclntab pclntab;
    struct buf notes;
    enum { NAMES_NONE, NAMES_SOME, NAMES_ALL } names; /* that are in `symbols` */
    bool has_tried_go;
    bool only_lines;
    bool has_tried_dwarf;
};

static void note(struct binary *b, const struct error *err)
{
    if (b->notes.len < 4096)
        buf_addf(&b->notes, "%s\n", err->text);
    /* A part that did not fit must not keep the others from being tried. */
    b->budget.failed = false;
}

/* Addresses whose names are asked for; NULL: all are. */
struct wanted {
    const uint64_t *addresses;
    size_t n;
};

static void load_symbols(struct binary *b, struct elf_file *f, const struct wanted *w)
{
    struct error err = {{0}};

    if (!f)
        return;
    int r = w ? symbol_table_load_for(&b->symbols, f, w->addresses, w->n, &err)
              : symbol_table_load(&b->symbols, f, &err);
    if (r < 0)
        note(b, &err);
}

static bool has_dwarf(const struct elf_file *f)
{
    return elf_find_section(f, ".debug_info") || elf_find_section(f, ".zdebug_info");
}

static void load_dwarf(struct binary *b)
{
    struct error err = {{0}};
    struct elf_file *from = b->debug && !has_dwarf(b->elf) ? b->debug : b->elf;
    int r = dwarf_info_open(from, &b->dwarf, &err);

    if (r < 0 && r != -ENOENT)
        note(b, &err);
}

static void load_go(struct binary *b)
{
    struct error err = {{0}};

    if (b->has_tried_go)
        return;
    b->has_tried_go = true;
    int r = go_module_pclntab(b->elf, &b->symbols, &b->pclntab, &err);
    b->has_pclntab = r == 0;
    if (r < 0 && r != -ENOENT)
        note(b, &err);
}

static void load_names(struct binary *b, const struct wanted *w)
{
    struct error err = {{0}};

    if (b->names == NAMES_NONE && !elf_find_section(b->elf, ".symtab")) {
        int r = minidebuginfo_open(b->elf, &b->mini, &err);
        if (r < 0 && r != -ENOENT)
            note(b, &err);
    }
    symbol_table_done(&b->symbols);
    load_symbols(b, b->elf, w);
    load_symbols(b, b->debug, w);
    load_symbols(b, b->mini, w);
    b->names = w ? NAMES_SOME : NAMES_ALL;
}

static void load_all(struct binary *b)
{
    if (b->names != NAMES_ALL && !b->only_lines)
        load_names(b, NULL);
    load_go(b);
}

static bool is_ascending(const struct lookup *lookups, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        if (lookups[i - 1].va > lookups[i].va)
            return false;
    }
    return true;
}

/* What these lookups need; it is read when they come. Most binaries are asked once, and for a few
 * addresses of very many: so the names of others are left out the first time. */
static void load_for(struct binary *b, const struct lookup *lookups, size_t n)
{
    CLEANUP(freep) uint64_t *addresses = NULL;

    if (b->names == NAMES_NONE && !go_module_is_in(b->elf) && is_ascending(lookups, n))
        addresses = calloc(n + 1, sizeof(*addresses));
    if (!addresses || b->only_lines) {
        load_all(b);
        return;
    }
    for (size_t i = 0; i < n; i++)
        addresses[i] = lookups[i].va;
    load_names(b, &(struct wanted){addresses, n});
    load_go(b);
}

static void find_debug_file(struct binary *b, const struct binary_options *o)
{
    if (b->elf->fd >= 0 && (!elf_find_section(b->elf, ".symtab") || !has_dwarf(b->elf)))
        debug_file_find(b->elf, o->debug_dirs, o->n_debug_dirs, &b->debug, NULL);
    b->budget.failed = false;
}

static struct binary *binary_new(const struct binary_options *o)
{
    struct binary *b = calloc(1, sizeof(*b));

    if (!b)
        return NULL;
    budget_init(&b->budget, o->max_memory ? o->max_memory : BINARY_MEMORY_DEFAULT);
    arena_init(&b->arena, &b->budget);
    b->only_lines = o->only_lines;
    return b;
}

int binary_open(const char *path, const struct binary_options *options, struct binary **ret,
                struct error *err)
{
    static const struct binary_options defaults;
    const struct binary_options *o = options ? options : &defaults;
    CLEANUP(binary_closep) struct binary *b = binary_new(o);

    if (!b)
        return error_set(err, -ENOMEM, "out of memory");
    int r = elf_open(path, &b->budget, &b->elf, err);
    if (r < 0)
        return r;
    find_debug_file(b, o);
    *ret = TAKE_PTR(b);
    return 0;
}

int binary_from_bytes(struct bytes content, const struct binary_options *options,
                      struct binary **ret, struct error *err)
{
    static const struct binary_options defaults;
    const struct binary_options *o = options ? options : &defaults;
    CLEANUP(binary_closep) struct binary *b = binary_new(o);

    if (!b)
        return error_set(err, -ENOMEM, "out of memory");
    int r = elf_from_bytes(content, "memory", &b->budget, &b->elf, err);
    if (r < 0)
        return r;
    *ret = TAKE_PTR(b);
    return 0;
}

int binary_from_fds(int fd, int debug_fd, const struct binary_options *options, struct binary **ret,
                    struct error *err)
{
    static const struct binary_options defaults;
    CLEANUP(binary_closep) struct binary *b = binary_new(options ? options : &defaults);

    if (!b)
        return error_set(err, -ENOMEM, "out of memory");
    int r = elf_from_fd(fd, "file", &b->budget, &b->elf, err);
    if (r < 0)
        return r;
    if (debug_fd >= 0 && elf_from_fd(debug_fd, "debug file", &b->budget, &b->debug, NULL) >= 0 &&
        !debug_file_fits(b->elf, b->debug)) {
        elf_close(b->debug);
        b->debug = NULL;
    }
    b->budget.failed = false;
    *ret = TAKE_PTR(b);
    return 0;
}

void binary_close(struct binary *b)
{
    if (!b)
        return;
    dwarf_info_close(b->dwarf);
    symbol_table_done(&b->symbols);
    elf_close(b->mini);
    elf_close(b->debug);
    elf_close(b->elf);
    arena_done(&b->arena);
    buf_done(&b->notes);
    free(b);
}

/*
 * The symbol table has the last word on what the outermost function is called: it tells a function
 * from the part of it that was moved away (main.cold), which DWARF does not.
 */
static void apply_symbol(struct binary *b, struct lookup *l)
{
    const struct symbol *s = symbol_table_find(&b->symbols, l->va);
    struct code_frame *outermost = l->innermost;

    if (!s)
        return;
    if (!outermost)
        outermost = l->innermost = arena_new(&b->arena, struct code_frame, 1);
    while (outermost && outermost->outer)
        outermost = outermost->outer;
    if (outermost)
        outermost->name = s->name;
}

/* DWARF is not read where Go's own table knows all that is asked for. */
static bool wants_dwarf(const struct binary *b, const struct lookup *lookups, size_t n)
{
    if (!b->has_pclntab)
        return true;
    for (size_t i = 0; i < n; i++) {
        if (!pclntab_holds(&b->pclntab, lookups[i].va))
            return true;
    }
    return false;
}

void binary_lookup(struct binary *b, struct lookup *lookups, size_t n)
{
    struct error err = {{0}};

    load_for(b, lookups, n);
    if (!b->has_tried_dwarf && wants_dwarf(b, lookups, n)) {
        b->has_tried_dwarf = true;
        load_dwarf(b);
    }
    for (size_t i = 0; i < n; i++)
        lookups[i] = (struct lookup){.va = lookups[i].va};
    if (b->dwarf && dwarf_info_lookup(b->dwarf, lookups, n, &b->arena, &err) < 0)
        note(b, &err);
    for (size_t i = 0; i < n; i++) {
        struct code_frame *go = NULL;
        if (b->has_pclntab)
            go = pclntab_find(&b->pclntab, lookups[i].va, &b->arena);
        if (go)
            lookups[i].innermost = go;
        else
            apply_symbol(b, &lookups[i]);
    }
    if (budget_failed(&b->budget)) {
        budget_error(&b->budget, &err);
        note(b, &err);
    }
}

struct elf_file *binary_elf(struct binary *b)
{
    return b->elf;
}

const struct symbol_table *binary_symbols(struct binary *b)
{
    load_all(b);
    return &b->symbols;
}

const char *binary_notes(struct binary *b)
{
    return buf_cstr(&b->notes);
}

static uint64_t tables_size(const struct elf_file *f)
{
    uint64_t size = 0;

    for (size_t i = 0; f && i < f->n_sections; i++) {
        if (f->sections[i].type == SHT_SYMTAB || f->sections[i].type == SHT_DYNSYM)
            size += f->sections[i].size < QUICK_BYTES ? f->sections[i].size : QUICK_BYTES;
    }
    return size;
}

bool binary_is_quick(const struct binary *b)
{
    return !has_dwarf(b->elf) && !(b->debug && has_dwarf(b->debug)) && !go_module_is_in(b->elf) &&
           !elf_find_section(b->elf, ".gnu_debugdata") &&
           tables_size(b->elf) + tables_size(b->debug) < QUICK_BYTES;
}

static void stamp_file(const struct elf_file *f, struct buf *out)
{
    struct stat st;

    if (f && f->fd >= 0 && fstat(f->fd, &st) == 0)
        buf_addf(out, "%s %ju %ju %ju.%09ld\n", f->path, (uintmax_t)st.st_ino,
                 (uintmax_t)st.st_size, (uintmax_t)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
    else
        buf_add_str(out, "-\n");
}

void binary_stamp(const struct binary *b, struct buf *out)
{
    stamp_file(b->elf, out);
    stamp_file(b->debug, out);
}

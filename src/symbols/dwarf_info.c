#include "symbols/dwarf_info.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <libelf.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/bisect.h"

/* Scopes inside each other (namespaces, classes, functions, blocks, inlined calls). */
#define DEPTH_MAX     256
/* Steps per byte of debug info before a tree counts as hostile; real ones need 1 to 20. */
#define WORK_PER_BYTE 100
#define WORK_MIN      100000

struct dwarf_info {
    struct elf_file *file;
    Elf *elf;
    Dwarf *dwarf;
    size_t charged;    /* to the file's budget for what libdw holds */
    uint64_t work_max; /* steps for one lookup */
    bool zero_is_code; /* the file has code at address 0, so a range there is no dead one */
};

static bool is_debug_section(const char *name)
{
    return strncmp(name, ".debug_", 7) == 0 || strncmp(name, ".zdebug_", 8) == 0;
}

/* How many bytes a section takes once unpacked, 0 when it is damaged. */
static uint64_t unpacked_size(struct elf_file *f, const struct elf_section *s)
{
    struct bytes head;

    if (s->offset > f->size || s->size > f->size - s->offset)
        return 0;
    if (s->flags & SHF_COMPRESSED) {
        if (s->size < 24 || elf_read(f, s->offset, 24, &head, NULL) < 0)
            return 0;
        return f->is_64 ? elf_u64(f, head.data + 8) : elf_u32(f, head.data + 4);
    }
    if (s->name[1] == 'z') {
        if (s->size < 12 || elf_read(f, s->offset, 12, &head, NULL) < 0 ||
            memcmp(head.data, "ZLIB", 4) != 0)
            return 0;
        uint64_t size;
        memcpy(&size, head.data + 4, sizeof(size));
        return __builtin_bswap64(size);
    }
    return s->size;
}

/* What libdw will hold of this file; 0 when there is nothing in it to read, or damage. */
static uint64_t debug_bytes(struct elf_file *f, uint64_t *ret_info)
{
    uint64_t total = 0;

    *ret_info = 0;
    for (size_t i = 1; i < f->n_sections; i++) {
        const struct elf_section *s = &f->sections[i];
        if (s->type == SHT_NOBITS || !is_debug_section(s->name))
            continue;
        uint64_t n = unpacked_size(f, s);
        if (n == 0 && s->size > 0)
            return 0;
        if (__builtin_add_overflow(total, n, &total))
            return UINT64_MAX;
        if (strcmp(strchr(s->name, '_'), "_info") == 0)
            *ret_info += n;
    }
    return *ret_info > 0 ? total : 0;
}

/* 1 when there is a plain file of this name, 0 when there is none, -1 when it is something else. */
static int plain_file(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static int plain_file(const char *fmt, ...)
{
    char path[PATH_MAX];
    struct stat st;
    va_list args;

    va_start(args, fmt);
    int n = vsnprintf(path, sizeof(path), fmt, args);
    va_end(args);
    if (n < 0 || n >= PATH_MAX || stat(path, &st) < 0)
        return 0;
    return S_ISREG(st.st_mode) ? 1 : -1;
}

/* libdw opens the file that a dwz link names; it must not be a pipe or device. */
static bool alternate_is_plain(struct elf_file *f)
{
    const struct elf_section *s = elf_find_section(f, ".gnu_debugaltlink");
    struct bytes link;

    if (!s)
        return true;
    if (elf_section_bytes(f, s, &link, NULL) < 0 || !bytes_find_byte(link, 0))
        return false;
    const char *name = (const char *)link.data;
    const char *slash = strrchr(f->path, '/');
    int dir = slash && name[0] != '/' ? (int)(slash - f->path + 1) : 0;
    return plain_file("%.*s%s", dir, f->path, name) >= 0;
}

static bool has_code_at_zero(const struct elf_file *f)
{
    for (size_t i = 0; i < f->n_segments; i++) {
        const struct elf_segment *s = &f->segments[i];
        if (s->type == PT_LOAD && (s->flags & PF_X) && s->vaddr == 0)
            return true;
    }
    return false;
}

static int open_libdw(struct dwarf_info *d, struct error *err)
{
    struct elf_file *f = d->file;

    elf_version(EV_CURRENT);
    if (f->fd >= 0)
        d->elf = elf_begin(f->fd, ELF_C_READ, NULL);
    else
        d->elf = elf_memory((char *)(uintptr_t)f->memory.data, f->memory.len);
    if (!d->elf)
        return error_set(err, -EBADMSG, "libelf could not read it: %s", elf_errmsg(-1));
    d->dwarf = dwarf_begin_elf(d->elf, DWARF_C_READ, NULL);
    if (!d->dwarf)
        return error_set(err, -EBADMSG, "libdw could not read its DWARF: %s", dwarf_errmsg(-1));
    return 0;
}

int dwarf_info_open(struct elf_file *f, struct dwarf_info **ret, struct error *err)
{
    uint64_t info, bytes = debug_bytes(f, &info);

    if (bytes == 0 || f->type == ET_REL)
        return error_set(err, -ENOENT, "it has no DWARF");
    if (!alternate_is_plain(f))
        return error_set(err, -EBADMSG, "its dwz link does not name a plain file");
    CLEANUP(dwarf_info_closep) struct dwarf_info *d = calloc(1, sizeof(*d));
    if (!d)
        return error_set(err, -ENOMEM, "out of memory");
    d->file = f;
    if (bytes > SIZE_MAX / 2 || !budget_take(f->budget, (size_t)bytes)) {
        /* The budget stays usable: only the names from DWARF are missing. */
        f->budget->failed = false;
        return error_set(err, -ENOBUFS,
                         "its debug sections take %ju bytes, the memory limit leaves %zu",
                         (uintmax_t)bytes, f->budget->limit - f->budget->used);
    }
    d->charged = (size_t)bytes;
    d->work_max = WORK_MIN + info * WORK_PER_BYTE;
    d->zero_is_code = has_code_at_zero(f);
    int r = open_libdw(d, err);
    if (r < 0)
        return r;
    *ret = TAKE_PTR(d);
    return 0;
}

void dwarf_info_close(struct dwarf_info *d)
{
    if (!d)
        return;
    if (d->dwarf)
        dwarf_end(d->dwarf);
    if (d->elf)
        elf_end(d->elf);
    budget_give(d->file->budget, d->charged);
    free(d);
}

/* A DIE on the path from the unit to where the walk is. */
struct scope {
    Dwarf_Die die;
    uint64_t owner; /* the innermost function around it: its offset, or 0 */
};

/* One lookup over one unit. */
struct walk {
    struct dwarf_info *info;
    struct lookup *lookups;
    size_t n;
    struct arena *arena;
    Dwarf_Files *files;
    size_t n_files;
    Dwarf_Lines *lines;
    size_t n_lines;
    uint64_t work; /* steps left */
    size_t depth;
    struct scope path[DEPTH_MAX];
};

static size_t first_at_or_after(const struct walk *w, uint64_t va)
{
    return BISECT(w->n, i, w->lookups[i].va < va);
}

static void spend(struct walk *w, uint64_t steps)
{
    w->work = w->work > steps ? w->work - steps : 0;
}

/* Calls `found` for each lookup in the DIE's ranges. Returns how many there were. */
static size_t for_each_lookup(struct walk *w, Dwarf_Die *die,
                              void (*found)(struct walk *, Dwarf_Die *, struct lookup *))
{
    Dwarf_Addr base, start, end;
    ptrdiff_t at = 0;
    size_t count = 0;

    while (w->work > 0 && (at = dwarf_ranges(die, at, &base, &start, &end)) > 0) {
        spend(w, 1);
        if (start == 0 && !w->info->zero_is_code)
            continue; /* code the linker dropped */
        for (size_t i = first_at_or_after(w, start); i < w->n && w->lookups[i].va < end; i++) {
            spend(w, 1);
            count++;
            if (found)
                found(w, die, &w->lookups[i]);
        }
    }
    return count;
}

static const char *text_of(Dwarf_Die *die, unsigned int attribute)
{
    Dwarf_Attribute a;
    return dwarf_formstring(dwarf_attr_integrate(die, attribute, &a));
}

static const char *function_name(Dwarf_Die *die)
{
    const char *name = text_of(die, DW_AT_linkage_name);

    if (!name)
        name = text_of(die, DW_AT_MIPS_linkage_name);
    return name ? name : text_of(die, DW_AT_name);
}

static uint32_t number_of(Dwarf_Die *die, unsigned int attribute)
{
    Dwarf_Attribute a;
    Dwarf_Word v;

    if (!dwarf_attr_integrate(die, attribute, &a) || dwarf_formudata(&a, &v) != 0 || v > UINT32_MAX)
        return 0;
    return (uint32_t)v;
}

static struct code_frame *push_frame(struct walk *w, Dwarf_Die *die, struct lookup *l)
{
    struct code_frame *f = arena_new(w->arena, struct code_frame, 1);

    if (!f)
        return NULL;
    f->name = function_name(die);
    f->start_line = number_of(die, DW_AT_decl_line);
    f->outer = l->innermost;
    f->file = dwarf_decl_file(die);
    l->innermost = f;
    l->tip = dwarf_dieoffset(die);
    return f;
}

static void found_function(struct walk *w, Dwarf_Die *die, struct lookup *l)
{
    if (!l->innermost)
        push_frame(w, die, l);
}

/* An inlined call says where it was made: that is the line of the frame around it. */
static void found_inlined(struct walk *w, Dwarf_Die *die, struct lookup *l)
{
    struct code_frame *outer = l->innermost;
    const char *declared_in = outer ? outer->file : NULL;

    if (!outer || l->tip != w->path[w->depth - 1].owner || !push_frame(w, die, l))
        return;
    uint32_t file = number_of(die, DW_AT_call_file);
    outer->line = number_of(die, DW_AT_call_line);
    outer->column = number_of(die, DW_AT_call_column);
    outer->file = file < w->n_files ? dwarf_filesrc(w->files, file, NULL, NULL) : NULL;
    /* Strict DWARF 2 cannot say where a call was made ("???"), only whose call it was. */
    if (!outer->file || strcmp(outer->file, "???") == 0)
        outer->file = declared_in;
}

static bool is_container(int tag)
{
    switch (tag) {
    case DW_TAG_namespace:
    case DW_TAG_module:
    case DW_TAG_class_type:
    case DW_TAG_structure_type:
    case DW_TAG_union_type:
    case DW_TAG_interface_type:
    case DW_TAG_try_block:
    case DW_TAG_catch_block:
    case DW_TAG_with_stmt:
        return true;
    default:
        return false;
    }
}

/* Takes note of one DIE. True when what it holds may matter too. */
static bool visit(struct walk *w)
{
    struct scope *s = &w->path[w->depth - 1];
    int tag = dwarf_tag(&s->die);

    if (tag == DW_TAG_subprogram) {
        if (for_each_lookup(w, &s->die, found_function) > 0)
            s->owner = dwarf_dieoffset(&s->die);
        return true;
    }
    if (tag == DW_TAG_inlined_subroutine) {
        size_t hits = for_each_lookup(w, &s->die, found_inlined);
        s->owner = dwarf_dieoffset(&s->die);
        return hits > 0;
    }
    if (tag == DW_TAG_lexical_block)
        return true;
    return is_container(tag);
}

/* Puts the child of the innermost scope on the path. */
static bool descend(struct walk *w)
{
    struct scope *top = &w->path[w->depth - 1];

    if (w->depth == DEPTH_MAX || dwarf_child(&top->die, &w->path[w->depth].die) != 0)
        return false;
    w->path[w->depth].owner = top->owner;
    w->depth++;
    return true;
}

/* Moves to the next DIE that is not inside the innermost scope; false at the end of the unit. */
static bool advance(struct walk *w)
{
    while (w->depth > 1) {
        struct scope *top = &w->path[w->depth - 1];
        Dwarf_Die next;
        if (dwarf_siblingof(&top->die, &next) == 0) {
            Dwarf_Off from = dwarf_dieoffset(&top->die), to = dwarf_dieoffset(&next);
            if (to <= from)
                return false; /* a sibling link that points back */
            /* libdw may have walked all that lies between. */
            spend(w, 1 + (to - from) / 8);
            top->die = next;
            top->owner = w->path[w->depth - 2].owner;
            return true;
        }
        w->depth--;
    }
    return false;
}

static void walk_unit(struct walk *w, const Dwarf_Die *unit)
{
    w->depth = 1;
    w->path[0] = (struct scope){.die = *unit};
    bool more = descend(w);
    while (more && w->work > 0 && !budget_failed(w->arena->budget)) {
        spend(w, 1);
        more = (visit(w) && descend(w)) || advance(w);
    }
}

/* The last row at or before the address, unless that row ends a run of code. */
static Dwarf_Line *find_line(Dwarf_Lines *lines, size_t n, uint64_t va)
{
    size_t lo = 0, hi = n;
    Dwarf_Addr at;
    bool ends;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (dwarf_lineaddr(dwarf_onesrcline(lines, mid), &at) != 0)
            return NULL;
        if (at <= va)
            lo = mid + 1;
        else
            hi = mid;
    }
    Dwarf_Line *line = lo > 0 ? dwarf_onesrcline(lines, lo - 1) : NULL;
    if (!line || dwarf_lineendsequence(line, &ends) != 0 || ends)
        return NULL;
    return line;
}

/* The innermost frame's file and line; a place in no function gets a frame without a name. */
static void found_place(struct walk *w, Dwarf_Die *unit, struct lookup *l)
{
    Dwarf_Line *line = find_line(w->lines, w->n_lines, l->va);
    int number = 0, column = 0;

    (void)unit;
    if (!line)
        return;
    l->is_placed = true;
    if (!l->innermost)
        l->innermost = arena_new(w->arena, struct code_frame, 1);
    if (!l->innermost)
        return;
    l->innermost->file = dwarf_linesrc(line, NULL, NULL);
    if (dwarf_lineno(line, &number) == 0 && number > 0)
        l->innermost->line = (uint32_t)number;
    if (dwarf_linecol(line, &column) == 0 && column > 0)
        l->innermost->column = (uint32_t)column;
}

/*
 * libdw opens the .dwo file that a skeleton names, or (from 0.191 on) the .dwp file beside the
 * binary. It may, when one is there and none is a pipe or device.
 */
static bool split_is_plain(struct dwarf_info *d, Dwarf_Die *unit)
{
    const char *name = text_of(unit, DW_AT_dwo_name), *dir = text_of(unit, DW_AT_comp_dir);
    const char *path = d->file->path, *slash = strrchr(path, '/');

    if (!name)
        name = text_of(unit, DW_AT_GNU_dwo_name);
    if (!name || d->file->fd < 0)
        return false;
    int beside = plain_file("%.*s%s", slash ? (int)(slash - path + 1) : 0, path, name);
    int built =
        name[0] == '/' ? plain_file("%s", name) : plain_file("%s/%s", dir ? dir : ".", name);
    int package = plain_file("%s.dwp", path);
    return beside >= 0 && built >= 0 && package >= 0 && beside + built + package > 0;
}

/* The DIE whose tree holds the functions: the unit's own, or that of its .dwo file. */
static Dwarf_Die full_unit(struct dwarf_info *d, Dwarf_Die *unit)
{
    Dwarf_Die sub;
    uint8_t type = 0;

    if (dwarf_cu_info(unit->cu, NULL, &type, NULL, NULL, NULL, NULL, NULL) == 0 &&
        type == DW_UT_skeleton && split_is_plain(d, unit)) {
        memset(&sub, 0, sizeof(sub));
        if (dwarf_cu_info(unit->cu, NULL, &type, NULL, &sub, NULL, NULL, NULL) == 0 && sub.addr)
            return sub;
    }
    return *unit;
}

/* Fills in the frames of all lookups that functions of this unit hold, but not their lines. */
static void open_unit(struct walk *w, Dwarf_Die *unit)
{
    Dwarf_Die full = full_unit(w->info, unit);

    if (dwarf_getsrcfiles(&full, &w->files, &w->n_files) != 0)
        w->n_files = 0;
    walk_unit(w, &full);
    if (dwarf_getsrclines(unit, &w->lines, &w->n_lines) != 0)
        w->n_lines = 0;
}

/* Looks at one unit: nothing more to do unless one of the addresses is in it. */
static void search_unit(struct walk *w, Dwarf_Die *unit)
{
    if (for_each_lookup(w, unit, NULL) == 0)
        return;
    open_unit(w, unit);
    for_each_lookup(w, unit, found_place);
}

/*
 * DWARF 2 has no way to say that a unit lies in several places (main is often set apart): such
 * addresses are found through .debug_aranges.
 */
static void search_aranges(struct walk *w)
{
    Dwarf_Aranges *ranges;
    Dwarf_Off last = 0, unit_at;
    size_t n;

    if (dwarf_getaranges(w->info->dwarf, &ranges, &n) != 0)
        return;
    for (size_t i = 0; i < w->n && w->work > 0; i++) {
        struct lookup *l = &w->lookups[i];
        Dwarf_Die unit;
        if (l->is_placed)
            continue;
        Dwarf_Arange *in = dwarf_getarange_addr(ranges, l->va);
        if (!in || dwarf_getarangeinfo(in, NULL, NULL, &unit_at) != 0 ||
            !dwarf_offdie(w->info->dwarf, unit_at, &unit))
            continue;
        if (unit_at != last)
            open_unit(w, &unit);
        last = unit_at;
        found_place(w, &unit, l);
    }
}

int dwarf_info_lookup(struct dwarf_info *d, struct lookup *lookups, size_t n, struct arena *arena,
                      struct error *err)
{
    CLEANUP(freep) struct walk *w = calloc(1, sizeof(*w));
    Dwarf_Off at = 0, next;
    size_t header;

    if (!w)
        return error_set(err, -ENOMEM, "out of memory");
    *w = (struct walk){.info = d, .lookups = lookups, .n = n, .arena = arena, .work = d->work_max};
    while (w->work > 0 && !budget_failed(arena->budget) &&
           dwarf_next_unit(d->dwarf, at, &next, &header, NULL, NULL, NULL, NULL, NULL, NULL) == 0 &&
           next > at) {
        Dwarf_Die unit;
        spend(w, 1);
        if (dwarf_offdie(d->dwarf, at + header, &unit))
            search_unit(w, &unit);
        at = next;
    }
    search_aranges(w);
    if (budget_failed(arena->budget))
        return budget_error(arena->budget, err);
    if (w->work == 0)
        return error_set(err, -EBADMSG,
                         "its DWARF takes more than %ju steps to search, some names are missing",
                         (uintmax_t)d->work_max);
    return 0;
}

#include "symbols/elf_symbols.h"

#include <elf.h>
#include <errno.h>

#include "base/bisect.h"

/* Functions may hold others (a local label inside an assembler function): how far back to look. */
#define NESTING_MAX    64
#define TABLES_MAX     8
/* How much of two names is compared to order aliases: bounds the sort on hostile tables. */
#define NAME_TIE_BYTES 64

struct raw_symbol {
    uint32_t name;
    uint8_t info;
    uint16_t section;
    uint64_t value, size;
};

static struct raw_symbol parse_symbol(const struct elf_file *f, const uint8_t *p)
{
    struct raw_symbol s = {.name = elf_u32(f, p)};

    if (f->is_64) {
        s.info = p[4];
        s.section = elf_u16(f, p + 6);
        s.value = elf_u64(f, p + 8);
        s.size = elf_u64(f, p + 16);
    } else {
        s.value = elf_u32(f, p + 4);
        s.size = elf_u32(f, p + 8);
        s.info = p[12];
        s.section = elf_u16(f, p + 14);
    }
    return s;
}

/* Labels that tools put into code: $x, $d (ARM, RISC-V), .L5 and the like. */
static bool is_marker(const char *name)
{
    return name[0] == '\0' || name[0] == '$' || strncmp(name, ".L", 2) == 0;
}

static uint8_t rank_of(const struct raw_symbol *s)
{
    uint8_t bind = ELF64_ST_BIND(s->info), rank = 0;

    if (ELF64_ST_TYPE(s->info) != STT_NOTYPE)
        rank |= 8;
    if (s->size > 0)
        rank |= 4;
    if (bind == STB_GLOBAL || bind == STB_GNU_UNIQUE)
        rank |= 2;
    else if (bind == STB_WEAK)
        rank |= 1;
    return rank;
}

static bool is_code(const struct elf_file *f, const struct raw_symbol *s)
{
    uint8_t type = ELF64_ST_TYPE(s->info);

    if (s->section == SHN_UNDEF)
        return false;
    if (type == STT_FUNC || type == STT_GNU_IFUNC)
        return true;
    return type == STT_NOTYPE && s->section < f->n_sections &&
           (f->sections[s->section].flags & SHF_EXECINSTR) != 0;
}

/*
 * By address; of several names for one address the best comes first: a function before a label,
 * one with a size before one without, the longest, then the name that people know (fclose rather
 * than _IO_fclose), then by binding.
 */
static int compare_symbols(const void *a, const void *b)
{
    const struct symbol *x = a, *y = b;

    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    if (x->rank >> 2 != y->rank >> 2)
        return x->rank > y->rank ? -1 : 1;
    if (x->end != y->end)
        return x->end > y->end ? -1 : 1;
    bool x_is_internal = x->name[0] == '_', y_is_internal = y->name[0] == '_';
    if (x_is_internal != y_is_internal)
        return x_is_internal ? 1 : -1;
    if (x->rank != y->rank)
        return x->rank > y->rank ? -1 : 1;
    return strncmp(x->name, y->name, NAME_TIE_BYTES);
}

/* Which ones are kept. */
struct loading {
    struct symbol_table *table;
    struct elf_file *file;
    const uint64_t *wanted; /* addresses, ascending; NULL: all are kept */
    size_t n_wanted;
    struct symbol *nearest; /* to each of them from below: ends those that have no size */
};

/*
 * An address belongs to the nearest symbol below it, or to one further below that reaches over it.
 * The nearest of all is known at the end; the others have a size.
 */
static void keep_if_wanted(const struct loading *l, const struct symbol *s)
{
    size_t at = BISECT(l->n_wanted, i, l->wanted[i] < s->start);

    if (at == l->n_wanted)
        return;
    if ((s->rank & 4) && s->end > l->wanted[at])
        vec_push(l->table->budget, &l->table->symbols, *s);
    struct symbol *nearest = &l->nearest[at];
    if (!nearest->name || nearest->start < s->start ||
        (nearest->start == s->start && compare_symbols(s, nearest) < 0))
        *nearest = *s;
}

static void add_symbol(const struct loading *l, struct raw_symbol s, const char *name)
{
    const struct elf_file *f = l->file;

    if (!is_code(f, &s) || is_marker(name))
        return;
    if (f->machine == EM_ARM)
        s.value &= ~(uint64_t)1; /* the mark of Thumb code */
    if (f->type == ET_REL && s.section < f->n_sections)
        s.value += f->sections[s.section].addr;

    uint64_t end = s.value + s.size;
    if (end < s.value)
        return;
    /* A label without a size reaches to the end of its section at most. */
    if (s.size == 0 && s.section < f->n_sections) {
        const struct elf_section *in = &f->sections[s.section];
        end = in->addr + in->size > s.value ? in->addr + in->size : s.value;
    }
    struct symbol symbol = {.start = s.value, .end = end, .name = name, .rank = rank_of(&s)};
    if (l->wanted)
        keep_if_wanted(l, &symbol);
    else
        vec_push(l->table->budget, &l->table->symbols, symbol);
}

static int load_table(const struct loading *l, const struct elf_section *table, struct error *err)
{
    struct elf_file *f = l->file;
    const struct budget *budget = l->table->budget;
    size_t size = f->is_64 ? sizeof(Elf64_Sym) : sizeof(Elf32_Sym);
    struct bytes entries, names;

    if (table->link == 0 || table->link >= f->n_sections)
        return error_set(err, -EBADMSG, "ELF at byte %ju: a symbol table has no string table",
                         (uintmax_t)table->offset);
    int r = elf_section_bytes(f, table, &entries, err);
    if (r >= 0)
        r = elf_section_bytes(f, &f->sections[table->link], &names, err);
    if (r < 0)
        return r;
    const uint8_t *last = names.len > 0 ? memrchr(names.data, 0, names.len) : NULL;
    if (!last)
        return 0;
    for (size_t at = size; at + size <= entries.len && !budget_failed(budget); at += size) {
        struct raw_symbol s = parse_symbol(f, entries.data + at);
        if (s.name <= (size_t)(last - names.data))
            add_symbol(l, s, (const char *)names.data + s.name);
    }
    return budget_failed(budget) ? budget_error(budget, err) : 0;
}

void symbol_table_settle(struct symbol_table *t)
{
    size_t n = 0;

    if (t->symbols.len == 0)
        return;
    qsort(t->symbols.data, t->symbols.len, sizeof(struct symbol), compare_symbols);
    for (size_t i = 0; i < t->symbols.len; i++) {
        if (n == 0 || t->symbols.data[n - 1].start != t->symbols.data[i].start)
            t->symbols.data[n++] = t->symbols.data[i];
    }
    t->symbols.len = n;
    for (size_t i = 0; i + 1 < n; i++) {
        struct symbol *s = &t->symbols.data[i];
        if (!(s->rank & 4) && s->end > s[1].start)
            s->end = s[1].start;
    }
}

static int load_tables(const struct loading *l, struct error *err)
{
    const struct elf_file *f = l->file;
    int r = 0;
    size_t tables = 0;

    for (size_t i = 0; i < f->n_sections && r >= 0 && tables < TABLES_MAX; i++) {
        uint32_t type = f->sections[i].type;
        if (type == SHT_SYMTAB || type == SHT_DYNSYM) {
            r = load_table(l, &f->sections[i], err);
            tables++;
        }
    }
    for (size_t i = 0; i < l->n_wanted; i++)
        if (l->nearest[i].name)
            vec_push(l->table->budget, &l->table->symbols, l->nearest[i]);
    symbol_table_settle(l->table);
    return r;
}

int symbol_table_load(struct symbol_table *t, struct elf_file *f, struct error *err)
{
    t->budget = f->budget;
    return load_tables(&(struct loading){.table = t, .file = f}, err);
}

int symbol_table_load_for(struct symbol_table *t, struct elf_file *f, const uint64_t *wanted,
                          size_t n, struct error *err)
{
    void *nearest = NULL;

    t->budget = f->budget;
    if (n == 0)
        return 0;
    if (!budget_resize(f->budget, &nearest, 0, n * sizeof(struct symbol)))
        return budget_error(f->budget, err);
    memset(nearest, 0, n * sizeof(struct symbol));
    int r = load_tables(
        &(struct loading){
            .table = t, .file = f, .wanted = wanted, .n_wanted = n, .nearest = nearest},
        err);
    budget_free(f->budget, nearest, n * sizeof(struct symbol));
    return r;
}

void symbol_table_done(struct symbol_table *t)
{
    if (t->budget)
        vec_done(t->budget, &t->symbols);
}

const struct symbol *symbol_table_find(const struct symbol_table *t, uint64_t va)
{
    size_t after = BISECT(t->symbols.len, i, t->symbols.data[i].start <= va);

    for (size_t i = after, steps = 0; i > 0 && steps < NESTING_MAX; i--, steps++) {
        if (va < t->symbols.data[i - 1].end)
            return &t->symbols.data[i - 1];
    }
    return NULL;
}

const struct symbol *symbol_table_named(const struct symbol_table *t, const char *name)
{
    for (size_t i = 0; i < t->symbols.len; i++) {
        if (strcmp(t->symbols.data[i].name, name) == 0)
            return &t->symbols.data[i];
    }
    return NULL;
}

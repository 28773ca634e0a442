#include "symbols/go_module.h"

#include <elf.h>
#include <errno.h>

/* Words of moduledata, the same in every version up to `text`. */
#define MODULE_FUNCNAMETAB 1
#define MODULE_TEXT        22
#define MODULE_GOFUNC_1_18 38
#define MODULE_GOFUNC_1_20 40
#define MODULE_WORDS       41
/* Relocations that are read at a time. */
#define RELA_CHUNK         512

struct module {
    uint64_t text;
    uint64_t gofunc;
};

static uint64_t word_at(const struct elf_file *f, const uint8_t *p, size_t n)
{
    return f->is_64 ? elf_u64(f, p + 8 * n) : elf_u32(f, p + 4 * n);
}

/* Looks through one section for the words that moduledata starts with. */
static bool scan_section(struct elf_file *f, const struct elf_section *s, uint64_t pclntab,
                         uint64_t names, struct module *ret)
{
    size_t word = f->is_64 ? 8 : 4;
    struct bytes b;

    if (elf_section_bytes(f, s, &b, NULL) < 0)
        return false;
    for (size_t at = 0; at + MODULE_WORDS * word <= b.len; at += word) {
        const uint8_t *p = b.data + at;
        if (word_at(f, p, 0) != pclntab || word_at(f, p, MODULE_FUNCNAMETAB) != names)
            continue;
        ret->text = word_at(f, p, MODULE_TEXT);
        /* Which of the two it is follows from the table's version, see below. */
        ret->gofunc = at;
        return true;
    }
    return false;
}

static bool find_module(struct elf_file *f, const struct elf_section *table,
                        const struct pclntab *t, struct bytes data, struct module *ret)
{
    static const char *const sections[] = {".go.module", ".noptrdata", ".data", ".data.rel.ro"};
    uint64_t names = table->addr + (uint64_t)(t->names.data - data.data);

    for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++) {
        const struct elf_section *s = elf_find_section(f, sections[i]);
        struct bytes b;
        if (!s || !scan_section(f, s, table->addr, names, ret) ||
            elf_section_bytes(f, s, &b, NULL) < 0)
            continue;
        ret->gofunc = word_at(f, b.data + ret->gofunc,
                              t->version >= PCLNTAB_1_20 ? MODULE_GOFUNC_1_20 : MODULE_GOFUNC_1_18);
        return true;
    }
    return false;
}

static bool is_relative(const struct elf_file *f, uint64_t info)
{
    return info == (f->machine == EM_AARCH64 ? R_AARCH64_RELATIVE : R_X86_64_RELATIVE);
}

/* Calls for each such relocation of the file. `fn` returns true to end it. */
typedef bool relative_fn(void *arg, uint64_t at, uint64_t value);

static void each_relative(const struct elf_file *f, relative_fn *fn, void *arg)
{
    uint8_t chunk[RELA_CHUNK * sizeof(Elf64_Rela)];

    for (size_t i = 1; f->is_64 && i < f->n_sections; i++) {
        const struct elf_section *s = &f->sections[i];
        if (s->type != SHT_RELA || !(s->flags & SHF_ALLOC))
            continue;
        for (uint64_t from = 0; from + sizeof(Elf64_Rela) <= s->size; from += sizeof(chunk)) {
            size_t n = s->size - from < sizeof(chunk) ? (size_t)(s->size - from) : sizeof(chunk);
            if (elf_read_into(f, s->offset + from, chunk, n, NULL) < 0)
                return;
            for (size_t at = 0; at + sizeof(Elf64_Rela) <= n; at += sizeof(Elf64_Rela)) {
                const uint8_t *p = chunk + at;
                if (is_relative(f, elf_u64(f, p + 8)) && fn(arg, elf_u64(f, p), elf_u64(f, p + 16)))
                    return;
            }
        }
    }
}

/* Looks for two words that follow each other: where moduledata starts. */
struct module_start {
    uint64_t first, second; /* their values */
    uint64_t before;        /* where `first` was met last */
    uint64_t found;         /* 0: not yet */
};

static bool is_module_start(void *arg, uint64_t at, uint64_t value)
{
    struct module_start *m = arg;

    if (value == m->second && m->before != 0 && at == m->before + 8)
        m->found = m->before;
    if (value == m->first)
        m->before = at;
    return m->found != 0;
}

struct module_words {
    uint64_t start;
    size_t gofunc_word;
    struct module module;
};

static bool take_module_word(void *arg, uint64_t at, uint64_t value)
{
    struct module_words *w = arg;

    if (at == w->start + (uint64_t)8 * MODULE_TEXT)
        w->module.text = value;
    if (at == w->start + 8 * w->gofunc_word)
        w->module.gofunc = value;
    return w->module.text != 0 && w->module.gofunc != 0;
}

/* A position-independent program may have the words of moduledata as relocations, and zeros in
 * their places. */
static bool find_relocated(struct elf_file *f, const struct elf_section *table,
                           const struct pclntab *t, struct bytes data, struct module *ret)
{
    struct module_start m = {.first = table->addr,
                             .second = table->addr + (uint64_t)(t->names.data - data.data)};
    struct module_words w = {.gofunc_word = t->version >= PCLNTAB_1_20 ? MODULE_GOFUNC_1_20
                                                                       : MODULE_GOFUNC_1_18};

    each_relative(f, is_module_start, &m);
    if (m.found == 0)
        return false;
    w.start = m.found;
    each_relative(f, take_module_word, &w);
    *ret = w.module;
    return true;
}

/* The bytes from an address to the end of its section. */
static struct bytes section_from(struct elf_file *f, uint64_t va)
{
    struct bytes b;

    for (size_t i = 1; i < f->n_sections; i++) {
        const struct elf_section *s = &f->sections[i];
        if ((s->flags & SHF_ALLOC) && s->type != SHT_NOBITS && va >= s->addr &&
            va - s->addr < s->size && elf_section_bytes(f, s, &b, NULL) >= 0)
            return bytes_from(b, (size_t)(va - s->addr));
    }
    return (struct bytes){0};
}

/* Where Go's code starts when its module does not tell; 0: not known. Before the code of a
 * position-independent program there may be other code. */
static uint64_t text_address(const struct elf_file *f, const struct symbol_table *symbols)
{
    const struct symbol *s = symbol_table_named(symbols, "runtime.text");
    const struct elf_section *text = elf_find_section(f, ".text");

    if (s)
        return s->start;
    return text && f->type != ET_DYN ? text->addr : 0;
}

static const struct elf_section *find_table(const struct elf_file *f)
{
    const struct elf_section *table = elf_find_section(f, ".gopclntab");

    return table ? table : elf_find_section(f, ".data.rel.ro.gopclntab");
}

bool go_module_is_in(const struct elf_file *f)
{
    return find_table(f) != NULL;
}

/* Completes a table by what only its module knows. */
static int place(struct elf_file *f, const struct symbol_table *symbols,
                 const struct elf_section *table, struct bytes data, struct pclntab *t,
                 struct error *err)
{
    struct module m = {0};

    if (t->version < PCLNTAB_1_18)
        return 0;
    bool found = find_module(f, table, t, data, &m) || find_relocated(f, table, t, data, &m);
    t->text = found && m.text != 0 ? m.text : text_address(f, symbols);
    if (t->text == 0)
        return error_set(err, -EBADMSG, "could not find where its Go code starts");
    if (found && m.gofunc != 0 && !t->lazy)
        t->funcdata = section_from(f, m.gofunc);
    return 0;
}

int go_module_pclntab(struct elf_file *f, const struct symbol_table *symbols, struct pclntab *ret,
                      struct error *err)
{
    const struct elf_section *table = find_table(f);
    struct bytes data;
    struct pclntab t;

    if (!table)
        return error_set(err, -ENOENT, "it has no Go function table");
    int r = elf_section_bytes(f, table, &data, err);
    if (r >= 0)
        r = pclntab_parse(data, 0, (struct bytes){0}, &t, err);
    if (r >= 0)
        r = place(f, symbols, table, data, &t, err);
    if (r < 0)
        return r;
    *ret = t;
    return 0;
}

int go_module_pclntab_lazy(struct elf_file *f, struct lazy_bytes *lazy, struct pclntab *ret,
                           struct error *err)
{
    const struct elf_section *table = find_table(f);
    struct symbol_table none = {0};
    struct pclntab t;

    *lazy = (struct lazy_bytes){0};
    if (f->fd < 0)
        return go_module_pclntab(f, &none, ret, err);
    if (!table)
        return error_set(err, -ENOENT, "it has no Go function table");
    int r = lazy_bytes_open(lazy, f, table->offset, table->size, err);
    if (r >= 0)
        r = pclntab_parse_lazy(lazy, &t, err);
    if (r >= 0)
        r = place(f, &none, table, (struct bytes){lazy->data, lazy->size}, &t, err);
    if (r < 0)
        return r;
    *ret = t;
    return 0;
}

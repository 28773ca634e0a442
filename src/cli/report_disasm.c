/* disasm: instructions with what each spends, for the functions whose binary is at hand. */
#include <errno.h>
#include <stdlib.h>

#include "base/bisect.h"
#include "cli/report_internal.h"
#include "profile/path.h"
#include "symbols/address.h"
#include "symbols/binary_search.h"
#include "symbols/disasm.h"

/* What an address of the binary being looked at spends. */
struct spot {
    uint64_t va;
    const struct graph_node *node;
};

struct routine {
    const char *name;
    uint64_t start, end;
    size_t first, n; /* of spots */
};

struct disassembly {
    struct report *r;
    struct graph *g;
    struct budget *budget;
    struct arena text;
    struct binary *binary;
    uint64_t address; /* the argument as an address, or 0 */
    size_t printed;

    VEC(struct spot) spots; /* of the mapping at hand, ascending */
    VEC(struct routine) symbols;

    /* Of the function being printed. */
    const struct routine *symbol;
    size_t next_spot;
    struct disasm_row row; /* the last, not printed yet */
    bool has_row;
    const char *function, *file; /* what the row before said */
    uint32_t line;
    struct buf missing; /* binaries that were not found, told when nothing matched elsewhere */
};

static int compare_spots(const void *a, const void *b)
{
    const struct spot *x = a, *y = b;
    return (x->va > y->va) - (x->va < y->va);
}

static int compare_symbols(const void *a, const void *b)
{
    const struct routine *x = a, *y = b;
    int c = strcmp(x->name, y->name);
    return c ? c : (x->start > y->start) - (x->start < y->start);
}

/* The addresses of one mapping that have samples. */
static bool gather_spots(struct disassembly *d, uint32_t mapping)
{
    const struct dict *dict = d->r->dict;
    const struct mapping *m = &dict->mappings.data[mapping];

    vec_clear(&d->spots);
    for (size_t i = 0; i < d->g->order.len; i++) {
        const struct graph_node *n = &d->g->nodes.data[d->g->order.data[i]];
        const struct frame *f = &d->g->frames->all.data[n->frame];
        struct spot s = {.node = n};
        bool is_here = f->address >= m->start && (m->limit == 0 || f->address < m->limit);
        if (!is_here || f->object != m->file ||
            !address_to_va(binary_elf(d->binary), m, f->address, &s.va))
            continue;
        if (!vec_push(d->budget, &d->spots, s))
            return false;
    }
    if (d->spots.len > 1)
        qsort(d->spots.data, d->spots.len, sizeof(*d->spots.data), compare_spots);
    return true;
}

/* The first spot at or after an address. */
static size_t spot_from(const struct disassembly *d, uint64_t va)
{
    return BISECT(d->spots.len, i, d->spots.data[i].va < va);
}

/* Keeps a function that has samples. */
static int add_symbol(const char *name, uint64_t start, uint64_t end, void *opaque)
{
    struct disassembly *d = opaque;
    struct routine s = {.start = start, .end = end, .first = spot_from(d, start)};

    s.n = spot_from(d, end) - s.first;
    if (s.n == 0 || end < start)
        return 0;
    s.name = arena_strdup(&d->text, bytes_of(name));
    return s.name && vec_push(d->budget, &d->symbols, s) ? 0 : -ENOBUFS;
}

static void value_or_dot(const struct report *r, int64_t v, char ret[MEASURE_TEXT_MAX])
{
    if (v == 0)
        snprintf(ret, MEASURE_TEXT_MAX, ".");
    else
        report_value(r, v, ret);
}

static void sum(int64_t *to, int64_t v)
{
    *to = (int64_t)((uint64_t)*to + (uint64_t)v);
}

/* Where an instruction comes from, when that differs from the one before; "" when it does not. */
static void row_place(struct disassembly *d, const struct frame *known, struct buf *out)
{
    const struct dict *dict = d->r->dict;
    const char *function = d->row.function, *file = d->row.file;
    uint32_t line = d->row.line;

    if (!file && known && known->file)
        file = dict_cstr(dict, known->file);
    if (line == 0 && known)
        line = (uint32_t)known->line;
    if (!function && known && known->name)
        function = dict_cstr(dict, known->name);
    function = function ? function : "";
    file = file ? file : "";
    if (strcmp(function, d->function) == 0 && strcmp(file, d->file) == 0 && line == d->line)
        return;
    d->function = arena_strdup(&d->text, bytes_of(function));
    d->file = arena_strdup(&d->text, bytes_of(file));
    d->line = line;
    if (!d->function || !d->file)
        d->function = d->file = "";
    if (*d->function)
        buf_addf(out, "%s ", d->function);
    if (*d->file) {
        buf_add_bytes(out, path_base(bytes_of(d->file)));
        if (line)
            buf_addf(out, ":%u", line);
    }
}

/* Prints the row that is waiting, with all samples before the next instruction. */
static void flush_row(struct disassembly *d, uint64_t next)
{
    const struct routine *s = d->symbol;
    struct graph_node total = {0};
    const struct frame *known = NULL;
    char flat[MEASURE_TEXT_MAX], cum[MEASURE_TEXT_MAX];
    struct buf place = {0};

    if (!d->has_row)
        return;
    for (; d->next_spot < s->first + s->n && d->spots.data[d->next_spot].va < next;
         d->next_spot++) {
        const struct graph_node *n = d->spots.data[d->next_spot].node;
        sum(&total.flat, n->flat);
        sum(&total.flat_div, n->flat_div);
        sum(&total.cum, n->cum);
        sum(&total.cum_div, n->cum_div);
        if (!known)
            known = &d->g->frames->all.data[n->frame];
    }
    value_or_dot(d->r, graph_flat(&total), flat);
    value_or_dot(d->r, graph_cum(&total), cum);
    row_place(d, known, &place);
    struct buf *out = d->r->out;
    unsigned long long address = d->row.address;
    if (place.len == 0)
        buf_addf(out, "%10s %10s %10llx: %s\n", flat, cum, address, d->row.text);
    else if (strlen(d->row.text) < 40)
        buf_addf(out, "%10s %10s %10llx: %-40s;%s\n", flat, cum, address, d->row.text,
                 buf_cstr(&place));
    else
        buf_addf(out, "%74s;%s\n%10s %10s %10llx: %s\n", "", buf_cstr(&place), flat, cum, address,
                 d->row.text);
    buf_done(&place);
    d->has_row = false;
}

static int take_row(const struct disasm_row *row, void *opaque)
{
    struct disassembly *d = opaque;

    flush_row(d, row->address);
    d->row = *row;
    d->row.text = arena_strdup(&d->text, bytes_of(row->text));
    d->row.function = row->function ? arena_strdup(&d->text, bytes_of(row->function)) : NULL;
    d->row.file = row->file ? arena_strdup(&d->text, bytes_of(row->file)) : NULL;
    if (budget_failed(d->budget))
        return -ENOBUFS;
    d->has_row = true;
    return 0;
}

static int print_symbol(struct disassembly *d, const struct routine *s)
{
    struct report *r = d->r;
    int64_t flat = 0, cum = 0;
    char flat_text[MEASURE_TEXT_MAX], cum_text[MEASURE_TEXT_MAX], percent[MEASURE_TEXT_MAX];

    for (size_t i = s->first; i < s->first + s->n; i++) {
        sum(&flat, d->spots.data[i].node->flat);
        sum(&cum, d->spots.data[i].node->cum);
    }
    report_value(r, flat, flat_text);
    report_value(r, cum, cum_text);
    report_percent(r, cum, percent);
    buf_addf(r->out, "ROUTINE ======================== %s\n", s->name);
    buf_addf(r->out, "%10s %10s (flat, cum) %s of Total\n", flat_text, cum_text, percent);
    d->symbol = s;
    d->next_spot = s->first;
    d->function = d->file = "";
    d->line = 0;
    d->has_row = false;
    struct disasm_request q = {s->start, s->end, r->o.intel_syntax};
    int rc = disasm_code(d->binary, &q, take_row, d, r->err);
    if (rc == 0)
        flush_row(d, UINT64_MAX);
    d->printed++;
    return rc == -ENOBUFS ? budget_error(d->budget, r->err) : rc;
}

/* Functions of one name and place are found by each of their names; one is enough. */
static int print_symbols(struct disassembly *d)
{
    int rc = 0;

    if (d->symbols.len > 1)
        qsort(d->symbols.data, d->symbols.len, sizeof(*d->symbols.data), compare_symbols);
    for (size_t i = 0; rc == 0 && i < d->symbols.len; i++) {
        bool is_repeated = false;
        for (size_t k = 0; k < i && !is_repeated; k++)
            is_repeated = d->symbols.data[k].start == d->symbols.data[i].start;
        if (!is_repeated)
            rc = print_symbol(d, &d->symbols.data[i]);
    }
    return rc;
}

static bool is_first_mapping(const struct report *r, uint32_t mapping)
{
    return r->p->mappings.len > 0 && r->p->mappings.data[0] == mapping;
}

static int print_mapping(struct disassembly *d, uint32_t mapping)
{
    struct report *r = d->r;
    const struct mapping *m = &r->dict->mappings.data[mapping];
    CLEANUP(binary_closep) struct binary *b = NULL;
    struct binary_query q = {.file = dict_cstr(r->dict, m->file),
                             .build_id = dict_cstr(r->dict, m->build_id),
                             .override = is_first_mapping(r, mapping) ? r->o.program : NULL,
                             .search_path =
                                 r->o.binary_path ? r->o.binary_path : getenv("PPROF_BINARY_PATH")};
    struct error why;

    if (binary_find(&q, &b, &why) < 0) {
        if (m->file)
            buf_addf(&d->missing, "%s\n", why.text);
        return 0;
    }
    d->binary = b;
    vec_clear(&d->symbols);
    if (!gather_spots(d, mapping))
        return budget_error(d->budget, r->err);
    uint64_t va = 0;
    if (d->address)
        (void)address_to_va(binary_elf(b), m, d->address, &va);
    int rc = d->spots.len ? disasm_find(b, r->pattern, va, add_symbol, d) : 0;
    if (rc < 0)
        return budget_error(d->budget, r->err);
    return print_symbols(d);
}

/* Marks the mappings that samples are in. */
static bool used_mappings(const struct report *r, bool *used)
{
    const struct dict *d = r->dict;

    for (size_t i = 0; i < r->p->n_samples; i++) {
        for (uint32_t n = r->p->node[i]; n != 0; n = d->node_parent.data[n])
            used[d->locations.data[d->node_location.data[n]].mapping] = true;
    }
    return true;
}

static int print_all(struct disassembly *d)
{
    struct report *r = d->r;
    VEC(bool) used = {0};
    char total[MEASURE_TEXT_MAX];
    int rc = 0;

    if (!vec_resize(d->budget, &used, r->dict->mappings.len))
        return budget_error(d->budget, r->err);
    (void)used_mappings(r, used.data);
    report_value(r, r->total, total);
    buf_addf(r->out, "Total: %s\n", total);
    for (uint32_t m = 1; rc == 0 && m < used.len; m++) {
        if (used.data[m])
            rc = print_mapping(d, m);
    }
    vec_done(d->budget, &used);
    if (rc < 0 || d->printed > 0)
        return rc;
    buf_clear(r->out);
    if (r->o.warnings)
        buf_add_bytes(r->o.warnings, buf_bytes(&d->missing));
    return error_set(r->err, -ENODATA, "no matches found for regexp %s in a binary that is at hand",
                     r->argument);
}

int report_disasm(struct report *r)
{
    struct frames frames;
    struct graph g;
    struct graph_options o = {.type = r->type, .mean = r->o.mean, .edges = GRAPH_EDGES_NONE};
    struct disassembly d = {.r = r, .g = &g, .budget = r->dict->budget};

    if (!r->pattern)
        return error_set(r->err, -EINVAL, "disasm needs a regular expression or an address");
    if (strncmp(r->argument, "0x", 2) == 0)
        (void)bytes_to_hex(bytes_of(r->argument), &d.address);
    arena_init(&d.text, d.budget);
    frames_init(&frames, r->dict, report_frame_options(r));
    int rc = graph_build(r->p, &frames, &o, &g, r->err);
    if (rc == 0)
        rc = print_all(&d);
    vec_done(d.budget, &d.spots);
    vec_done(d.budget, &d.symbols);
    buf_done(&d.missing);
    arena_done(&d.text);
    graph_done(&g);
    frames_done(&frames);
    return rc;
}

#include "agent/naming.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/must.h"
#include "symbols/demangle.h"

#define INLINES_MAX 64

struct known {
    place at;
    uint32_t location;
};

struct naming {
    struct naming_options o;
    struct budget budget;
    struct dict *dict;
    struct idset index;
    VEC(struct known) known;
    uint32_t generation;
    uint32_t kernel_mapping, native_type, go_type, kernel_type, jit_type;
    struct name_found found; /* its buffers are used again and again */
    struct buf text;
};

static void begin(struct naming *n)
{
    budget_init(&n->budget, n->o.memory_max);
    n->dict = dict_new(&n->budget);
    n->generation++;
    n->kernel_type = dict_cstring(n->dict, "kernel");
    n->native_type = dict_cstring(n->dict, "native");
    n->go_type = dict_cstring(n->dict, "go");
    n->jit_type = dict_cstring(n->dict, "jit");
    n->kernel_mapping =
        dict_mapping(n->dict, (struct mapping){.file = dict_cstring(n->dict, "[kernel]"),
                                               .has_functions = true});
}

static void end(struct naming *n)
{
    idset_done(&n->budget, &n->index);
    vec_done(&n->budget, &n->known);
    dict_free(n->dict);
}

struct naming *naming_new(const struct naming_options *o)
{
    struct naming *n = must_calloc(1, sizeof(*n));

    n->o = *o;
    begin(n);
    return n;
}

void naming_free(struct naming *n)
{
    if (!n)
        return;
    end(n);
    name_table_close(n->o.kernel);
    buf_done(&n->found.name);
    buf_done(&n->found.system_name);
    buf_done(&n->text);
    free(n);
}

struct dict *naming_dict(struct naming *n)
{
    return n->dict;
}

uint32_t naming_generation(const struct naming *n)
{
    return n->generation;
}

void naming_renew(struct naming *n, bool at_once)
{
    if (!at_once && !budget_failed(&n->budget) && n->budget.used < n->o.memory_max / 4 * 3)
        return;
    end(n);
    begin(n);
}

static uint32_t find_known(const struct naming *n, place at)
{
    return IDSET_FIND(&n->index, hash_mix(at, 7), i, n->known.data[i].at == at);
}

bool naming_knows(const struct naming *n, place at)
{
    return find_known(n, at) != IDSET_NONE;
}

static void keep(struct naming *n, place at, uint32_t location)
{
    if (idset_add(&n->budget, &n->index, hash_mix(at, 7), (uint32_t)n->known.len))
        (void)vec_push(&n->budget, &n->known, (struct known){at, location});
}

static void add_id(struct naming *n, const char *key, const char *text, uint32_t ids[], size_t *at)
{
    if (text[0])
        ids[(*at)++] =
            dict_string_attribute(n->dict, dict_cstring(n->dict, key), dict_cstring(n->dict, text));
}

uint32_t naming_string(struct naming *n, enum mask_role role, struct bytes text)
{
    struct bytes masked;

    return dict_string(n->dict, mask_matcher_apply(n->o.mask, role, text, &masked) ? masked : text);
}

static uint32_t path_string(struct naming *n, const char *path)
{
    return naming_string(n, MASK_PATHS, bytes_of(path));
}

/* One for each file, at the addresses that the file itself has: all processes share it. */
static uint32_t file_mapping(struct naming *n, struct code_file *f)
{
    const struct parse_facts *facts = &f->parsed.facts;
    uint32_t ids[2];
    size_t n_ids = 0;

    if (f->generation == n->generation)
        return f->mapping;
    add_id(n, "process.executable.build_id.go", facts->go_build_id, ids, &n_ids);
    add_id(n, "process.executable.build_id.htlhash", facts->htlhash, ids, &n_ids);
    struct mapping m = {.file = path_string(n, f->path),
                        .build_id = dict_cstring(n->dict, facts->build_id),
                        .attrs = dict_attrs(n->dict, ids, n_ids),
                        .has_functions = f->names == CODE_PART_READY};
    if (f->parsed.n_loads > 0) {
        const struct parse_load *l = &f->parsed.loads[0];
        uint64_t in_page = l->vaddr & 4095;
        m.start = l->vaddr - in_page;
        m.limit = l->vaddr + l->file_size;
        m.offset = l->offset >= in_page ? l->offset - in_page : 0;
    }
    f->mapping = dict_mapping(n->dict, m);
    f->generation = n->generation;
    return f->mapping;
}

/* The location with the name that is in n->found. */
static uint32_t found_location(struct naming *n, struct location l)
{
    struct function fn = {.name = naming_string(n, MASK_FUNCTIONS, buf_bytes(&n->found.name)),
                          .start_line = n->found.line};

    if (n->found.system_name.len > 0)
        fn.system_name = naming_string(n, MASK_FUNCTIONS, buf_bytes(&n->found.system_name));
    if (n->found.file[0] && l.type != n->kernel_type)
        fn.file = path_string(n, n->found.file);
    struct line line = {.function = dict_function(n->dict, fn)};
    return dict_location(n->dict, l, &line, 1);
}

/* Addresses of the kernel are nobody's business: its functions go by name. */
static uint32_t kernel_location(struct naming *n, place at)
{
    struct location l = {.mapping = n->kernel_mapping, .type = n->kernel_type};

    if (n->o.kernel && name_table_find(n->o.kernel, place_address(at), &n->found))
        return found_location(n, l);
    struct line line = {.function = dict_function(
                            n->dict, (struct function){.name = dict_cstring(n->dict, "[kernel]")})};
    return dict_location(n->dict, l, &line, 1);
}

static uint32_t file_location(struct naming *n, struct code_file *f, place at)
{
    struct location l = {.address = place_address(at),
                         .mapping = file_mapping(n, f),
                         .type = f->parsed.facts.is_go ? n->go_type : n->native_type};

    if (n->o.wants_names && f->table && name_table_find(f->table, l.address, &n->found))
        return found_location(n, l);
    return dict_location(n->dict, l, NULL, 0);
}

static uint32_t jit_location(struct naming *n, const struct process *p, place at)
{
    struct location l = {.address = place_address(at), .type = n->jit_type};

    if (n->o.wants_names && p->jit_names && name_table_find(p->jit_names, l.address, &n->found)) {
        l.address = 0; /* code moves: what has a name goes by it */
        return found_location(n, l);
    }
    return dict_location(n->dict, l, NULL, 0);
}

uint32_t naming_location(struct naming *n, const struct process *p, place at)
{
    uint32_t id, location, file = place_file(at);

    if (file == PLACE_JIT)
        return jit_location(n, p, at);
    if (file == PLACE_RAW)
        return dict_location(n->dict, (struct location){.address = place_address(at)}, NULL, 0);
    if ((id = find_known(n, at)) != IDSET_NONE)
        return n->known.data[id].location;
    struct code_file *f = file == PLACE_KERNEL ? NULL : code_files_get(n->o.files, file);
    if (file == PLACE_KERNEL)
        location = kernel_location(n, at);
    else if (f)
        location = file_location(n, f, at);
    else
        location = dict_location(n->dict, (struct location){.address = place_address(at)}, NULL, 0);
    /* What has no name yet may have one in the next window. */
    if (!f || f->names >= CODE_PART_READY || !n->o.wants_names)
        keep(n, at, location);
    return location;
}

void naming_put_lines(struct naming *n, struct code_file *f, uint64_t va,
                      const struct code_frame *innermost)
{
    struct line lines[INLINES_MAX];
    size_t count = 0;

    for (const struct code_frame *c = innermost; c && count < INLINES_MAX; c = c->outer) {
        struct function fn = {.file = c->file ? path_string(n, c->file) : 0,
                              .start_line = c->start_line};
        demangle(c->name ? c->name : "", DEMANGLE_DEFAULT, &n->text);
        fn.name = naming_string(n, MASK_FUNCTIONS, buf_bytes(&n->text));
        fn.system_name = c->name ? naming_string(n, MASK_FUNCTIONS, bytes_of(c->name)) : 0;
        lines[count++] = (struct line){
            .function = dict_function(n->dict, fn), .line = c->line, .column = c->column};
    }
    if (count == 0)
        return;
    struct location l = {.address = va,
                         .mapping = file_mapping(n, f),
                         .type = f->parsed.facts.is_go ? n->go_type : n->native_type};
    place at = place_of(f->number, va);
    if (!naming_knows(n, at))
        keep(n, at, dict_location(n->dict, l, lines, count));
}

void naming_forget_file(struct naming *n, uint32_t number)
{
    for (size_t i = 0; i < n->known.len; i++)
        if (place_file(n->known.data[i].at) == number)
            n->known.data[i].at = 0; /* which nobody looks up */
}

uint32_t naming_note(struct naming *n, const char *text)
{
    struct line line = {
        .function = dict_function(n->dict, (struct function){.name = dict_cstring(n->dict, text)})};

    return dict_location(n->dict, (struct location){0}, &line, 1);
}

const char *naming_text(struct naming *n, uint32_t location)
{
    const struct location *l = &n->dict->locations.data[location];

    if (l->n_lines == 0)
        return "";
    const struct function *f =
        &n->dict->functions.data[n->dict->lines.data[l->first_line].function];
    return n->dict->strings.data[f->name].text;
}

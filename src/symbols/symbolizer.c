#include "symbols/symbolizer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile/remap.h"
#include "symbols/symbolizer_internal.h"

static int parse_word(struct symbolizer_options *o, struct bytes word, struct error *err)
{
    char text[64];

    if (bytes_start_with(word, BYTES("demangle="))) {
        struct bytes mode = bytes_from(word, strlen("demangle="));
        snprintf(text, sizeof(text), "%.*s", (int)bytes_head(mode, 32).len, mode.data);
        if (demangle_mode_parse(text, &o->demangle))
            return 0;
    } else if (bytes_are(word, "none") || bytes_are(word, "no")) {
        o->off = true;
        return 0;
    } else if (bytes_are(word, "force")) {
        o->force = true;
        return 0;
    } else if (bytes_are(word, "local") || bytes_are(word, "fastlocal") ||
               bytes_are(word, "remote") || word.len == 0) {
        return 0; /* names are always from local files */
    }
    return error_set(err, -EINVAL,
                     "-symbolize takes none, local, force or demangle=full|templates|default|none, "
                     "not \"%.*s\"",
                     (int)bytes_head(word, 64).len, word.data);
}

int symbolizer_options_parse(struct symbolizer_options *o, const char *mode, struct error *err)
{
    int r = 0;

    while (mode && *mode && r >= 0) {
        size_t n = strcspn(mode, ":,");
        r = parse_word(o, (struct bytes){(const uint8_t *)mode, n}, err);
        mode += n + (mode[n] != '\0');
    }
    return r;
}

/* Names are demangled once for many frames: what became of recent ones, by string id. */
#define MEMO_SLOTS 4096

struct memo {
    uint32_t raw, name;
};

/* One run over one set. */
struct job {
    struct profile_set *set;
    struct dict *dict;
    const struct symbolizer_options *options;
    struct symbol_sources sources;
    struct symbolize_stats stats;
    int64_t pid; /* of the process, or 0 */

    uint32_t n_locations;  /* that were there at the start */
    uint32_t *to;          /* location -> what it becomes */
    uint32_t *function_to; /* function -> what it becomes, or NULL when all stay */
    uint32_t *mapping_to;  /* mapping -> what it becomes */
    uint32_t n_mappings;
    VEC(uint32_t) wanted;       /* locations to look up, by mapping and address */
    VEC(struct lookup) lookups; /* of one mapping at a time */
    VEC(uint64_t) addresses;
    struct memo memo[MEMO_SLOTS];
    struct buf text;
};

static uint32_t readable_name(struct job *j, uint32_t raw)
{
    struct memo *m = &j->memo[raw % MEMO_SLOTS];

    if (raw == 0 || m->raw == raw)
        return raw == 0 ? 0 : m->name;
    demangle(dict_cstr(j->dict, raw), j->options->demangle, &j->text);
    *m = (struct memo){raw, dict_string(j->dict, buf_bytes(&j->text))};
    return m->name;
}

/* Frames of interpreters have addresses that mean something else. */
static bool is_machine_code(const struct dict *d, uint32_t type)
{
    static const char *const others[] = {"jvm",  "v8js",   "cpython", "ruby",  "php",
                                         "perl", "dotnet", "beam",    "luajit"};

    for (size_t i = 0; type != 0 && i < ARRAY_SIZE(others); i++) {
        if (strcmp(dict_cstr(d, type), others[i]) == 0)
            return false;
    }
    return true;
}

static bool is_wanted(const struct job *j, const struct location *l)
{
    return l->address != 0 && (l->mapping != 0 || j->options->binary) &&
           (l->n_lines == 0 || j->options->force) && is_machine_code(j->dict, l->type);
}

/* Mappings of one file stand together, so that it is opened once. */
static int compare_wanted(const void *a, const void *b, void *dict)
{
    const struct dict *d = dict;
    const struct location *x = &d->locations.data[*(const uint32_t *)a];
    const struct location *y = &d->locations.data[*(const uint32_t *)b];

    if (x->mapping != y->mapping) {
        const struct mapping *m = &d->mappings.data[x->mapping], *n = &d->mappings.data[y->mapping];
        if (m->file != n->file)
            return m->file < n->file ? -1 : 1;
        if (m->build_id != n->build_id)
            return m->build_id < n->build_id ? -1 : 1;
        return x->mapping < y->mapping ? -1 : 1;
    }
    return x->address < y->address ? -1 : x->address > y->address;
}

/* Marks the locations that stacks of samples hold; others are left from earlier work. */
static void mark_used(const struct job *j, uint8_t *nodes, uint8_t *locations)
{
    const struct dict *d = j->dict;

    for (size_t i = 0; i < j->set->profiles.len; i++) {
        const struct profile *p = j->set->profiles.data[i];
        for (size_t k = 0; k < p->n_samples; k++) {
            for (uint32_t n = p->node[k]; n != 0 && !nodes[n]; n = d->node_parent.data[n]) {
                nodes[n] = 1;
                locations[d->node_location.data[n]] = 1;
            }
        }
    }
}

static void collect(struct job *j)
{
    struct budget *b = j->set->budget;
    VEC(uint8_t) nodes = {0}, used = {0};
    const struct location *all = j->dict->locations.data;
    uint32_t i = 1;

    while (i < j->n_locations && !is_wanted(j, &all[i]))
        i++;
    if (i == j->n_locations)
        return;
    if (vec_resize(b, &nodes, dict_n_nodes(j->dict)) && vec_resize(b, &used, j->n_locations)) {
        mark_used(j, nodes.data, used.data);
        for (; i < j->n_locations; i++) {
            if (used.data[i] && is_wanted(j, &all[i]))
                vec_push(b, &j->wanted, i);
        }
    }
    vec_done(b, &nodes);
    vec_done(b, &used);
    if (j->wanted.len > 0)
        qsort_r(j->wanted.data, j->wanted.len, sizeof(uint32_t), compare_wanted, j->dict);
}

/* Frames of one location; deeper inlining is cut at its outer end. */
#define LINES_MAX 1024

/* The lines of a location, from its frames. Returns how many. */
static size_t make_lines(struct job *j, const struct code_frame *f, struct line *to)
{
    struct dict *d = j->dict;
    size_t n = 0;

    for (; f && n < LINES_MAX; f = f->outer) {
        uint32_t raw = f->name ? dict_cstring(d, f->name) : 0;
        struct function fn = {.name = readable_name(j, raw),
                              .system_name = raw,
                              .file = f->file ? dict_cstring(d, f->file) : 0,
                              .start_line = f->start_line};
        to[n++] = (struct line){dict_function(d, fn), f->line, f->column};
    }
    return n;
}

static bool has_name(const struct code_frame *f)
{
    for (; f; f = f->outer) {
        if (f->name || f->file)
            return true;
    }
    return false;
}

static void note_flags(struct mapping *m, const struct code_frame *f)
{
    m->has_inline_frames |= f->outer != NULL;
    for (; f; f = f->outer) {
        m->has_functions |= f->name != NULL;
        m->has_filenames |= f->file != NULL;
        m->has_line_numbers |= f->line != 0;
    }
}

/* Replaces the locations of a group by ones with lines; their mapping says what it now has. */
static void apply_group(struct job *j, const struct symbol_group *g, const uint32_t *locations)
{
    struct line lines[LINES_MAX];
    struct mapping m = g->mapping;
    uint32_t old = j->dict->locations.data[locations[0]].mapping;

    for (size_t i = 0; i < g->n; i++) {
        if (has_name(g->lookups[i].innermost))
            note_flags(&m, g->lookups[i].innermost);
    }
    uint32_t mapping = old == 0 ? 0 : dict_mapping(j->dict, m);
    if (old != 0)
        j->mapping_to[old] = mapping;
    for (size_t i = 0; i < g->n && !budget_failed(j->set->budget); i++) {
        if (!has_name(g->lookups[i].innermost))
            continue;
        struct location l = j->dict->locations.data[locations[i]];
        size_t n = make_lines(j, g->lookups[i].innermost, lines);
        l.mapping = mapping;
        l.is_folded = false;
        j->to[locations[i]] = dict_location(j->dict, l, lines, n);
        j->stats.named++;
    }
}

/* The mapping of the program itself: the one the profile says, else its first. */
static bool is_main_mapping(const struct job *j, uint32_t mapping)
{
    if (!j->options->binary || mapping == 0)
        return j->options->binary != NULL; /* it only matters for a program given by hand */
    for (size_t i = 0; i < j->set->profiles.len; i++) {
        const struct profile *p = j->set->profiles.data[i];
        uint32_t first = p->mappings.len > 0 ? p->mappings.data[0] : 1;
        if (mapping == (p->default_mapping ? p->default_mapping : first))
            return true;
    }
    return false;
}

/* The process that all profiles are of, or 0. */
static int64_t common_pid(const struct job *j)
{
    uint32_t key = dict_find_string(j->dict, BYTES("process.pid"));
    int64_t pid = 0;

    for (size_t i = 0; key != 0 && i < j->set->profiles.len; i++) {
        const struct profile *p = j->set->profiles.data[i];
        uint32_t a = dict_attrs_get(j->dict, p->resource_attrs, key);
        if (a == 0 || (pid != 0 && j->dict->attributes.data[a].number != pid))
            return 0;
        pid = j->dict->attributes.data[a].number;
    }
    return pid;
}

/* Looks up wanted[from..to), which are of one mapping. */
static void lookup_group(struct job *j, size_t from, size_t to)
{
    const uint32_t *locations = j->wanted.data + from;
    uint32_t mapping = j->dict->locations.data[locations[0]].mapping;
    struct symbol_group g = {.mapping = j->dict->mappings.data[mapping],
                             .is_main = is_main_mapping(j, mapping),
                             .pid = j->pid,
                             .n = to - from};

    vec_clear(&j->lookups);
    vec_clear(&j->addresses);
    if (!vec_resize(j->set->budget, &j->lookups, g.n) ||
        !vec_resize(j->set->budget, &j->addresses, g.n))
        return;
    for (size_t i = 0; i < g.n; i++)
        j->addresses.data[i] = j->dict->locations.data[locations[i]].address;
    g.lookups = j->lookups.data;
    g.addresses = j->addresses.data;
    g.file = dict_cstr(j->dict, g.mapping.file);
    g.build_id = dict_cstr(j->dict, g.mapping.build_id);
    j->stats.mappings++;
    j->stats.locations += g.n;
    if (!symbol_sources_lookup(&j->sources, &g))
        return;
    j->stats.found++;
    j->stats.cached += g.n_cached;
    apply_group(j, &g, locations);
}

static void lookup_all(struct job *j)
{
    const struct location *all;

    collect(j);
    j->pid = common_pid(j);
    for (size_t from = 0, to; from < j->wanted.len && !budget_failed(j->set->budget); from = to) {
        all = j->dict->locations.data;
        to = from + 1;
        while (to < j->wanted.len &&
               all[j->wanted.data[to]].mapping == all[j->wanted.data[from]].mapping)
            to++;
        lookup_group(j, from, to);
    }
}

/* Functions that came with the linker's name only get a readable one. */
static void demangle_functions(struct job *j, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++) {
        struct function f = j->dict->functions.data[i];
        uint32_t raw = f.system_name;
        bool is_raw = f.name == 0 || f.name == raw;
        if (raw == 0 || !(is_raw || j->options->force))
            continue;
        f.name = readable_name(j, raw);
        if (f.name == j->dict->functions.data[i].name || budget_failed(j->set->budget))
            continue;
        j->function_to[i] = dict_function(j->dict, f);
        j->stats.demangled++;
    }
}

/* Locations that were not looked up follow their functions and mappings. */
static void follow(struct job *j)
{
    struct line lines[LINES_MAX];
    struct dict *d = j->dict;

    for (uint32_t i = 1; i < j->n_locations && !budget_failed(j->set->budget); i++) {
        struct location l = d->locations.data[i];
        bool changed = j->mapping_to[l.mapping] != l.mapping;
        if (j->to[i] != i || l.n_lines > LINES_MAX)
            continue;
        for (uint32_t k = 0; k < l.n_lines; k++) {
            lines[k] = d->lines.data[l.first_line + k];
            uint32_t fn = j->function_to[lines[k].function];
            changed |= fn != lines[k].function;
            lines[k].function = fn;
        }
        l.mapping = j->mapping_to[l.mapping];
        if (changed)
            j->to[i] = dict_location(d, l, lines, l.n_lines);
    }
}

static bool apply_to_profiles(struct job *j)
{
    for (size_t i = 0; i < j->set->profiles.len; i++) {
        struct profile *p = j->set->profiles.data[i];
        if (!profile_remap_locations(p, j->to))
            return false;
        for (size_t k = 0; k < p->mappings.len; k++) {
            if (p->mappings.data[k] < j->n_mappings)
                p->mappings.data[k] = j->mapping_to[p->mappings.data[k]];
        }
        if (p->default_mapping < j->n_mappings)
            p->default_mapping = j->mapping_to[p->default_mapping];
    }
    return true;
}

static uint32_t *identity(struct budget *b, size_t n)
{
    void *p = NULL;

    if (!budget_resize(b, &p, 0, n * sizeof(uint32_t)))
        return NULL;
    for (uint32_t i = 0; i < n; i++)
        ((uint32_t *)p)[i] = i;
    return p;
}

static int run_job(struct job *j, struct error *err)
{
    struct budget *b = j->set->budget;
    size_t n_functions = j->dict->functions.len;

    j->n_locations = (uint32_t)j->dict->locations.len;
    j->n_mappings = (uint32_t)j->dict->mappings.len;
    j->to = identity(b, j->n_locations);
    j->mapping_to = identity(b, j->n_mappings);
    j->function_to = identity(b, n_functions);
    if (j->to && j->mapping_to && j->function_to) {
        lookup_all(j);
        demangle_functions(j, (uint32_t)n_functions);
        if (j->stats.named > 0 || j->stats.demangled > 0) {
            follow(j);
            if (!budget_failed(b))
                apply_to_profiles(j);
        }
    }
    budget_free(b, j->to, j->n_locations * sizeof(uint32_t));
    budget_free(b, j->mapping_to, j->n_mappings * sizeof(uint32_t));
    budget_free(b, j->function_to, n_functions * sizeof(uint32_t));
    vec_done(b, &j->wanted);
    vec_done(b, &j->lookups);
    vec_done(b, &j->addresses);
    return budget_failed(b) ? budget_error(b, err) : 0;
}

/* pprof's places to look in when none were given. */
static const char *default_search_path(char *to, size_t size)
{
    const char *path = secure_getenv("PPROF_BINARY_PATH"), *home = secure_getenv("HOME");

    if (path && path[0])
        return path;
    if (!home || (size_t)snprintf(to, size, "%s/pprof/binaries", home) >= size)
        return NULL;
    return to;
}

const char *symbolizer_default_cache(char *to, size_t size)
{
    const char *cache = secure_getenv("XDG_CACHE_HOME"), *home = secure_getenv("HOME");
    int n = -1;

    if (cache && cache[0] == '/')
        n = snprintf(to, size, "%s/vesta/symbols", cache);
    else if (home && home[0] == '/')
        n = snprintf(to, size, "%s/.cache/vesta/symbols", home);
    return n > 0 && (size_t)n < size ? to : NULL;
}

/* The search path cut into folders, for debug files. */
struct folders {
    char *text;
    const char *items[32];
    size_t n;
};

static void split_path(const char *path, struct folders *ret)
{
    char *rest = ret->text = path ? strdup(path) : NULL;

    for (char *dir; rest && ret->n < ARRAY_SIZE(ret->items) && (dir = strsep(&rest, ":"));) {
        if (dir[0])
            ret->items[ret->n++] = dir;
    }
}

int symbolize(struct profile_set *set, const struct symbolizer_options *o,
              struct symbolize_stats *ret_stats, struct error *err)
{
    char home_path[4096];
    struct folders folders = {0};
    const char *path =
        o->search_path ? o->search_path : default_search_path(home_path, sizeof(home_path));

    if (ret_stats)
        *ret_stats = (struct symbolize_stats){0};
    if (o->off)
        return 0;
    CLEANUP(freep) struct job *j = calloc(1, sizeof(*j));
    if (!j)
        return error_set(err, -ENOMEM, "out of memory");
    split_path(path, &folders);
    j->set = set;
    j->dict = set->dict;
    j->options = o;
    j->sources =
        (struct symbol_sources){.options = o,
                                .search_path = path,
                                .set = set,
                                .binary_options = {folders.items, folders.n, o->max_memory}};
    int r = run_job(j, err);
    symbol_sources_done(&j->sources);
    buf_done(&j->text);
    free(folders.text);
    if (ret_stats)
        *ret_stats = j->stats;
    return r;
}

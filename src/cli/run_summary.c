#include "cli/run_summary.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "inproc/inproc_profiles.h"
#include "profile/measure.h"

#define MEMORY_MAX     ((size_t)64 << 20)
#define SHOWN          5
#define SUSPECTS_SHOWN 10

void run_summary_init(struct run_summary *s)
{
    *s = (struct run_summary){0};
    budget_init(&s->budget, MEMORY_MAX);
    s->names = dict_new(&s->budget);
}

void run_summary_done(struct run_summary *s)
{
    for (size_t i = 0; i < SUMMARY_KINDS; i++) {
        idset_done(&s->budget, &s->lists[i].index);
        vec_done(&s->budget, &s->lists[i].sites);
    }
    dict_free(s->names);
}

/* ---- Sites ---- */

static bool starts_with_any(const char *text, const char *const *list)
{
    for (; *list; list++)
        if (strncmp(text, *list, strlen(*list)) == 0)
            return true;
    return false;
}

/* Code that allocates or locks for others. */
static bool is_plumbing(const char *name, const char *file)
{
    /* clang-format off */
    static const char *const names[] = {
        "std::", "<std::", "void std::", "bool std::", "__gnu_cxx::", "operator new",
        "alloc::", "<alloc::", "core::", "<core::", "__rust_", "__rdl_", "hashbrown::",
        "parking_lot", "__libc_", "__pthread_", "pthread_", "_PyObject_Malloc", "PyObject_Malloc",
        "_PyObject_Calloc", "PyObject_Calloc", "_PyObject_Realloc", "PyObject_Realloc", "_PyMem_",
        "PyMem_", "PyCOND_", "v8::", "node::", "Builtins_", NULL};
    /* clang-format on */

    return starts_with_any(name, names) || strstr(file, "/include/c++/") ||
           strncmp(file, "/rustc/", 7) == 0;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* Of libc, the loader, C++; or made at run time and not named. Whoever called it is meant. */
static bool is_of_system(const struct dict *d, const struct location *l)
{
    static const char *const names[] = {"libc.",      "libc-", "ld-linux",   "ld-musl", "ld-2",
                                        "libpthread", "libm.", "libstdc++.", "libgcc_", NULL};

    const char *file = dict_cstr(d, d->mappings.data[l->mapping].file);
    bool is_made =
        l->n_lines == 0 && starts_with_any(file, (const char *[]){"/tmp/perf-", "//", NULL});

    return is_made || starts_with_any(base_name(file), names);
}

struct site {
    const struct location *location;
    const struct line *line; /* NULL: it has no name */
};

static struct site site_of(const struct dict *d, uint32_t node)
{
    struct site first = {0};

    for (; node != 0; node = d->node_parent.data[node]) {
        const struct location *l = &d->locations.data[d->node_location.data[node]];
        bool is_system = is_of_system(d, l);
        for (uint32_t i = 0; i < l->n_lines; i++) {
            const struct line *line = &d->lines.data[l->first_line + i];
            const struct function *f = &d->functions.data[line->function];
            if (!first.location)
                first = (struct site){l, line};
            if (!is_system && !is_plumbing(dict_cstr(d, f->name), dict_cstr(d, f->file)))
                return (struct site){l, line};
        }
        if (!first.location)
            first.location = l;
        if (l->n_lines == 0 && !is_system)
            return (struct site){l, NULL};
    }
    return first;
}

void run_summary_site(const struct dict *d, uint32_t node, struct buf *to)
{
    struct site site = site_of(d, node);

    if (!site.location) {
        buf_add_str(to, "[no stack]");
        return;
    }
    if (!site.line) {
        const struct mapping *m = &d->mappings.data[site.location->mapping];
        buf_addf(to, "%s+0x%llx", base_name(dict_cstr(d, m->file)),
                 (unsigned long long)(site.location->address - m->start + m->offset));
        return;
    }
    const struct function *f = &d->functions.data[site.line->function];
    const char *file = dict_cstr(d, f->file);
    buf_addf(to, "%s", dict_cstr(d, f->name));
    if (*file && site.line->line > 0)
        buf_addf(to, "  %s:%lld", file, (long long)site.line->line);
}

/* ---- Adding up ---- */

static struct summary_site *site_in(struct run_summary *s, struct summary_list *list, uint32_t name)
{
    uint64_t hash = hash_mix(name, 3);
    uint32_t id = IDSET_FIND(&list->index, hash, i, list->sites.data[i].name == name);

    if (id != IDSET_NONE)
        return &list->sites.data[id];
    if (!vec_push(&s->budget, &list->sites, (struct summary_site){.name = name}))
        return NULL;
    if (!idset_add(&s->budget, &list->index, hash, (uint32_t)list->sites.len - 1)) {
        list->sites.len--;
        return NULL;
    }
    return &vec_last(&list->sites);
}

/* Threads that wait for work are no trouble: their waits are a list of their own. */
static struct summary_list *list_of(struct run_summary *s, enum summary_kind kind,
                                    const struct profile *p, size_t row)
{
    const struct dict *d = p->dict;
    uint32_t key = kind == SUMMARY_LOCK ? dict_find_string(d, BYTES("lock.kind")) : 0;
    uint32_t a = key ? dict_attrs_get(d, profile_attrs(p, row), key) : 0;
    const char *what = a ? dict_cstr(d, d->attributes.data[a].text) : "";
    bool is_idle = strcmp(what, "condition") == 0 || strcmp(what, "semaphore") == 0;

    return &s->lists[is_idle ? SUMMARY_CONDITIONS : kind];
}

static void add_profile(struct run_summary *s, enum summary_kind kind, const struct profile *p)
{
    CLEANUP(buf_done) struct buf text = {0};

    for (size_t i = 0; i < p->n_samples; i++) {
        struct summary_list *list = list_of(s, kind, p, i);
        buf_clear(&text);
        run_summary_site(p->dict, p->node[i], &text);
        struct summary_site *site = site_in(s, list, dict_string(s->names, buf_bytes(&text)));
        if (site && kind == SUMMARY_SUSPECTS && site->seen_unix_ns != s->end_unix_ns)
            *site = (struct summary_site){.name = site->name, .seen_unix_ns = s->end_unix_ns};
        for (uint32_t k = 0; k < p->n_types && k < 3; k++) {
            list->totals[k] += (double)p->values[k][i];
            if (site)
                site->values[k] += (double)p->values[k][i];
        }
    }
}

static void empty(struct run_summary *s, struct summary_list *list)
{
    idset_done(&s->budget, &list->index);
    vec_done(&s->budget, &list->sites);
    memset(list->totals, 0, sizeof(list->totals));
}

/* What the library counts, and which of its limits it was. */
static const struct {
    const char *key, *text;
} losses[SUMMARY_LOSSES] = {
    {"lost_records", "samples: they came faster than they were read (VESTA_PRELOAD_RING_MAX)"},
    {"lost_texts", "stacks or names: no room for more (VESTA_PRELOAD_TEXTS_MAX)"},
    {"lost_live", "live objects: no room for more (VESTA_PRELOAD_LIVE_MAX)"},
    {"lost_modules", "binaries: no room for more (VESTA_PRELOAD_MODULES_MAX)"},
    {"lost_in_signals", "samples of signal handlers that interrupted a sample"},
    {"lost_no_room", "samples or parts of them: no room in the folder for their file"},
    {"left_out", "samples or parts of them that were not finished, sound, or too many"},
};

static void add_losses(struct run_summary *s, const struct profile *p)
{
    static const char prefix[] = "vesta.preload.";
    const struct dict *d = p->dict;
    struct attrs set = d->attr_sets.data[p->profile_attrs];

    for (uint32_t i = 0; i < set.n; i++) {
        const struct attribute *a = &d->attributes.data[d->attr_ids.data[set.first + i]];
        const char *key = dict_cstr(d, a->key);
        if (strncmp(key, prefix, strlen(prefix)) != 0)
            continue;
        for (size_t k = 0; k < ARRAY_SIZE(losses); k++)
            if (strcmp(key + strlen(prefix), losses[k].key) == 0)
                s->lost[k] += (uint64_t)a->number;
    }
}

void run_summary_add(struct run_summary *s, const struct profile_set *set, int64_t end_unix_ns)
{
    static const char *const kinds[] = {"alloc", "heap", "suspects", "lock", "threads"};
    uint32_t told = 0, told_of = 0;

    empty(s, &s->lists[SUMMARY_HEAP]);
    s->end_unix_ns = end_unix_ns;
    for (size_t i = 0; i < set->profiles.len; i++) {
        const struct profile *p = set->profiles.data[i];
        for (size_t k = 0; k < ARRAY_SIZE(kinds); k++)
            if (strcmp(inproc_profile_kind(p), kinds[k]) == 0)
                add_profile(s, (enum summary_kind)k, p);
        /* All profiles of a process say the same, and stand together; so may another process. */
        if (p->profile_attrs != told || p->resource_attrs != told_of)
            add_losses(s, p);
        told = p->profile_attrs;
        told_of = p->resource_attrs;
    }
}

/* ---- Telling ---- */

static int compare_by(const void *a, const void *b, void *column)
{
    const struct summary_site *x = a, *y = b;
    unsigned k = *(unsigned *)column;

    return x->values[k] > y->values[k] ? -1 : x->values[k] < y->values[k];
}

static void add_value(struct buf *out, double value, const char *unit)
{
    char text[MEASURE_TEXT_MAX];

    measure_label((int64_t)value, unit, "auto", text);
    buf_addf(out, "%10s", text);
}

static void print_sites(struct run_summary *s, struct summary_list *list, unsigned by,
                        const char *unit, struct buf *out)
{
    size_t n = list->sites.len < SHOWN ? list->sites.len : SHOWN;

    if (list->sites.len > 0)
        qsort_r(list->sites.data, list->sites.len, sizeof(list->sites.data[0]), compare_by, &by);
    for (size_t i = 0; i < n; i++) {
        const struct summary_site *site = &list->sites.data[i];
        if (site->values[by] <= 0)
            break;
        add_value(out, site->values[by], unit);
        buf_addf(out, " %5.1f%%  %s\n", 100 * site->values[by] / list->totals[by],
                 dict_cstr(s->names, site->name));
    }
}

static void print_list(struct run_summary *s, enum summary_kind kind, const char *title,
                       const char *things, const char *unit, struct buf *out)
{
    struct summary_list *list = &s->lists[kind];
    char text[MEASURE_TEXT_MAX];

    if (list->sites.len == 0)
        return;
    measure_label((int64_t)list->totals[1], unit, "auto", text);
    buf_addf(out, "%s: %s in about %.0f %s\n", title, text, list->totals[0], things);
    print_sites(s, list, 1, unit, out);
}

static void print_suspect(const struct run_summary *s, const struct summary_site *site,
                          struct buf *out)
{
    char bytes[MEASURE_TEXT_MAX], ago[MEASURE_TEXT_MAX];

    measure_label((int64_t)site->values[0], "bytes", "auto", bytes);
    measure_label(s->end_unix_ns - site->seen_unix_ns, "nanoseconds", "auto", ago);
    add_value(out, site->values[2], "bytes");
    buf_addf(out, "/s, %s alive in about %.0f objects", bytes, site->values[1]);
    if (site->seen_unix_ns != s->end_unix_ns)
        buf_addf(out, ", %s before the end", ago);
    buf_addf(out, "  %s\n", dict_cstr(s->names, site->name));
}

/* Those of the last window, or the others. */
static void print_suspects(struct run_summary *s, bool are_of_end, const char *title,
                           struct buf *out)
{
    struct summary_list *list = &s->lists[SUMMARY_SUSPECTS];
    unsigned by = 2;
    size_t n = 0;

    if (list->sites.len > 0)
        qsort_r(list->sites.data, list->sites.len, sizeof(list->sites.data[0]), compare_by, &by);
    for (size_t i = 0; i < list->sites.len && n < SUSPECTS_SHOWN; i++) {
        const struct summary_site *site = &list->sites.data[i];
        if ((site->seen_unix_ns == s->end_unix_ns) != are_of_end)
            continue;
        if (n++ == 0)
            buf_addf(out, "%s\n", title);
        print_suspect(s, site, out);
    }
}

void run_summary_print(struct run_summary *s, struct buf *out)
{
    print_list(s, SUMMARY_ALLOC, "allocated", "objects", "bytes", out);
    print_list(s, SUMMARY_HEAP, "alive at the end", "objects", "bytes", out);
    print_suspects(s, true, "leak suspects: memory that stays and becomes more", out);
    print_suspects(s, false, "leak suspects before: memory that stayed and became more, for a time",
                   out);
    print_list(s, SUMMARY_LOCK, "waited for locks", "waits", "nanoseconds", out);
    print_list(s, SUMMARY_CONDITIONS, "waited for conditions and semaphores", "waits",
               "nanoseconds", out);
    if (s->lists[SUMMARY_THREADS].totals[0] > 0)
        buf_addf(out, "threads made: %.0f\n", s->lists[SUMMARY_THREADS].totals[0]);
    for (size_t k = 0; k < ARRAY_SIZE(losses); k++)
        if (s->lost[k] > 0)
            buf_addf(out, "lost: %llu %s\n", (unsigned long long)s->lost[k], losses[k].text);
}

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "symbols/address.h"
#include "symbols/binary_search.h"
#include "symbols/kallsyms.h"
#include "symbols/perf_map.h"
#include "symbols/symbol_cache.h"
#include "symbols/symbolizer_internal.h"

#define KERNEL_NOTES     "/sys/kernel/notes"
#define NAMES_MEMORY_MAX ((size_t)256 << 20)
/* Binaries looked for in one run, and how many of those not found are named. */
#define SEARCHES_MAX     10000
#define FAILURES_TOLD    20

/* The running kernel's names; read once. */
struct kernel_names {
    struct budget budget;
    struct arena arena;
    struct kallsyms table;
    int result; /* of reading it */
    struct error err;
};

/* The names of one process' generated code. */
struct jit_names {
    int64_t pid;
    struct budget budget;
    struct arena arena;
    struct perf_map map;
};

static bool starts_with(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

static bool is_kernel(const struct symbol_group *g)
{
    return starts_with(g->file, "[kernel") || starts_with(g->file, "[guest.kernel") ||
           (g->file[0] == '[' && g->mapping.start >= (uint64_t)1 << 63);
}

/* The build id of the running kernel. */
static bool kernel_build_id(char *to, size_t size)
{
    uint8_t notes[4096];
    CLEANUP(fclosep) FILE *f = fopen(KERNEL_NOTES, "re");
    size_t n = f ? fread(notes, 1, sizeof(notes), f) : 0;

    for (size_t at = 0; n >= 12 && at <= n - 12;) {
        uint32_t owner, desc, type;
        memcpy(&owner, notes + at, 4);
        memcpy(&desc, notes + at + 4, 4);
        memcpy(&type, notes + at + 8, 4);
        size_t desc_at = at + 12 + ((owner + 3) & ~3u);
        if (owner > n || desc > n || desc_at + desc > n)
            return false;
        if (type == 3 && owner == 4 && memcmp(notes + at + 12, "GNU", 4) == 0 &&
            2 * (size_t)desc < size) {
            for (size_t i = 0; i < desc; i++)
                snprintf(to + 2 * i, 3, "%02x", notes[desc_at + i]);
            return true;
        }
        at = desc_at + ((desc + 3) & ~3u);
    }
    return false;
}

/*
 * Names of the running kernel fit a profile only if that was taken on it: by build id, or because
 * the caller chose the table. Where neither is known the mapping must start where this kernel's
 * text does, which random placement makes a good sign.
 */
static bool is_this_kernel(const struct symbol_sources *s, const struct symbol_group *g)
{
    const struct kallsyms *k = &s->kernel->table;
    char id[129];

    if (s->options->kallsyms)
        return true;
    if (g->build_id[0] != '\0')
        return kernel_build_id(id, sizeof(id)) && starts_with(g->build_id, id);
    return g->mapping.start != 0 &&
           (g->mapping.start == k->text_start || g->mapping.start == k->stext_start);
}

/* How far the profiled kernel's text was from where it is now. */
static uint64_t kernel_shift(const struct kallsyms *k, const struct symbol_group *g)
{
    uint64_t start = g->mapping.start;
    uint64_t now = strstr(g->file, "_stext") ? k->stext_start : k->text_start;

    if (start < (uint64_t)1 << 63 || now == 0 || start == k->text_start || start == k->stext_start)
        return 0;
    return start - now;
}

static void load_kernel(struct symbol_sources *s)
{
    struct kernel_names *k = calloc(1, sizeof(*k));

    s->kernel = k;
    if (!k)
        return;
    budget_init(&k->budget, NAMES_MEMORY_MAX);
    arena_init(&k->arena, &k->budget);
    k->result =
        kallsyms_read(&k->table, s->options->kallsyms ? s->options->kallsyms : "/proc/kallsyms",
                      &k->budget, &k->err);
    if (k->result < 0)
        profile_set_note(s->set, "kernel functions stay without names: %s", k->err.text);
}

static void set_name(struct arena *a, struct lookup *l, const char *name)
{
    l->innermost = name ? arena_new(a, struct code_frame, 1) : NULL;
    if (l->innermost)
        l->innermost->name = name;
}

static bool lookup_kernel(struct symbol_sources *s, struct symbol_group *g)
{
    if (!s->kernel)
        load_kernel(s);
    if (!s->kernel || s->kernel->result < 0)
        return false;
    if (!is_this_kernel(s, g)) {
        profile_set_note(s->set, "%s: taken on another kernel than the one running here", g->file);
        return false;
    }
    uint64_t shift = kernel_shift(&s->kernel->table, g);
    for (size_t i = 0; i < g->n; i++)
        set_name(&s->kernel->arena, &g->lookups[i],
                 kallsyms_find(&s->kernel->table, g->addresses[i] - shift));
    return true;
}

/* The number in "PREFIX number SUFFIX"; 0 when the name is another. */
static int64_t number_between(const char *name, const char *prefix, const char *suffix)
{
    struct bytes s = bytes_of(name);
    uint64_t n;

    if (!bytes_start_with(s, bytes_of(prefix)))
        return 0;
    s = bytes_from(s, strlen(prefix));
    size_t digits = strspn((const char *)s.data, "0123456789");
    if (strcmp((const char *)s.data + digits, suffix) != 0 ||
        !bytes_to_u64(bytes_head(s, digits), &n) || n > INT32_MAX)
        return 0;
    return (int64_t)n;
}

/* The process whose JIT code a mapping is: "/tmp/perf-123.map", "[JIT] tid 123", or anonymous. */
static int64_t jit_process(const struct symbol_group *g)
{
    int64_t pid = number_between(g->file, "/tmp/perf-", ".map");

    if (pid == 0)
        pid = number_between(g->file, "[JIT] tid ", "");
    if (pid > 0)
        return pid;
    if (strcmp(g->file, "//anon") == 0 || starts_with(g->file, "[anon") ||
        strcmp(g->file, "anon") == 0)
        return g->pid;
    return 0;
}

static void jit_free(struct jit_names *j)
{
    if (!j)
        return;
    perf_map_done(&j->map);
    arena_done(&j->arena);
    free(j);
}

/* The names of a process' generated code; empty when it left none. */
static struct jit_names *load_jit(struct symbol_sources *s, int64_t pid)
{
    char path[64];
    struct error err;

    if (s->jit && s->jit->pid == pid)
        return s->jit;
    jit_free(s->jit);
    struct jit_names *j = s->jit = calloc(1, sizeof(*j));
    if (!j)
        return NULL;
    j->pid = pid;
    budget_init(&j->budget, NAMES_MEMORY_MAX);
    arena_init(&j->arena, &j->budget);
    snprintf(path, sizeof(path), "/tmp/perf-%lld.map", (long long)pid);
    if (perf_map_read(&j->map, path, &j->budget, &err) < 0 && ++s->failures <= FAILURES_TOLD)
        profile_set_note(s->set, "code made at run time stays without names: %s", err.text);
    return j;
}

static bool lookup_jit(struct symbol_sources *s, struct symbol_group *g, int64_t pid)
{
    struct jit_names *j = load_jit(s, pid);

    if (!j || j->map.entries.len == 0)
        return false;
    for (size_t i = 0; i < g->n; i++)
        set_name(&j->arena, &g->lookups[i], perf_map_find(&j->map, g->addresses[i]));
    return true;
}

static int compare_lookups(const void *a, const void *b)
{
    const struct lookup *x = a, *y = b;
    return x->va < y->va ? -1 : x->va > y->va;
}

/* Looks up what the cache does not know, and tells it. */
static void lookup_missing(struct symbol_sources *s, struct symbol_group *g)
{
    size_t n = 0;
    CLEANUP(freep) struct lookup *missing = calloc(g->n, sizeof(*missing));
    CLEANUP(freep) size_t *which = calloc(g->n, sizeof(*which));

    if (!missing || !which)
        return;
    for (size_t i = 0; i < g->n; i++) {
        if (s->cache && symbol_cache_get(s->cache, g->lookups[i].va, &g->lookups[i].innermost)) {
            g->n_cached++;
            continue;
        }
        which[n] = i;
        missing[n++].va = g->lookups[i].va;
    }
    if (n == 0)
        return;
    binary_lookup(s->binary, missing, n);
    for (size_t i = 0; i < n; i++) {
        g->lookups[which[i]].innermost = missing[i].innermost;
        if (s->cache)
            symbol_cache_put(s->cache, missing[i].va, missing[i].innermost);
    }
}

static void close_binary(struct symbol_sources *s)
{
    if (s->cache) {
        symbol_cache_save(s->cache);
        symbol_cache_close(s->cache);
        s->cache = NULL;
    }
    binary_close(s->binary);
    s->binary = NULL;
}

/* Turns profile addresses into the file's own; those of no segment become 0. */
static void normalize(struct symbol_sources *s, struct symbol_group *g)
{
    for (size_t i = 0; i < g->n; i++) {
        g->lookups[i] = (struct lookup){0};
        if (!address_to_va(binary_elf(s->binary), &g->mapping, g->addresses[i], &g->lookups[i].va))
            g->lookups[i].va = 0;
    }
}

static bool is_sorted(const struct symbol_group *g)
{
    for (size_t i = 1; i < g->n; i++) {
        if (compare_lookups(&g->lookups[i - 1], &g->lookups[i]) > 0)
            return false;
    }
    return true;
}

/* Makes the group's binary the current one. */
static bool find_binary(struct symbol_sources *s, const struct symbol_group *g)
{
    struct error err;
    struct binary_query q = {.file = g->file,
                             .build_id = g->build_id,
                             .override = g->is_main ? s->options->binary : NULL,
                             .search_path = s->search_path,
                             .only_by_build_id = s->options->only_by_build_id,
                             .options = &s->binary_options};

    if (s->file && strcmp(s->file, g->file) == 0 && strcmp(s->build_id, g->build_id) == 0 &&
        s->was_main == g->is_main)
        return s->binary != NULL;
    close_binary(s);
    s->file = g->file;
    s->build_id = g->build_id;
    s->was_main = g->is_main;
    if (++s->searches > SEARCHES_MAX)
        return false;
    if (binary_find(&q, &s->binary, &err) < 0) {
        if (!s->options->only_by_build_id && ++s->failures <= FAILURES_TOLD)
            profile_set_note(s->set, "%s", err.text);
        return false;
    }
    if (s->options->cache_dir && !binary_is_quick(s->binary))
        symbol_cache_open(s->options->cache_dir, s->binary, &s->cache);
    return true;
}

static bool lookup_file(struct symbol_sources *s, struct symbol_group *g)
{
    if (!find_binary(s, g))
        return false;
    normalize(s, g);
    if (!is_sorted(g)) {
        /* One mapping over segments in another order: rare, and its addresses are few. */
        for (size_t i = 0; i < g->n; i++)
            binary_lookup(s->binary, &g->lookups[i], 1);
    } else {
        lookup_missing(s, g);
    }
    if (binary_notes(s->binary)[0])
        profile_set_note(s->set, "%s: %.*s", g->file, (int)strcspn(binary_notes(s->binary), "\n"),
                         binary_notes(s->binary));
    return true;
}

/* Regions that no file stands behind: "[vdso]", "[heap]", "//anon". */
static bool is_special(const struct symbol_group *g)
{
    return g->file[0] == '[' || starts_with(g->file, "//") || strcmp(g->file, "anon") == 0;
}

bool symbol_sources_lookup(struct symbol_sources *s, struct symbol_group *g)
{
    if (is_kernel(g))
        return !s->options->only_by_build_id && lookup_kernel(s, g);
    int64_t pid = jit_process(g);
    if (pid > 0 && s->options->only_by_build_id)
        return false;
    if (pid > 0)
        return lookup_jit(s, g, pid);
    if (is_special(g))
        return false;
    if (g->file[0] == '\0' && g->build_id[0] == '\0' && !(g->is_main && s->options->binary))
        return false;
    return lookup_file(s, g);
}

void symbol_sources_done(struct symbol_sources *s)
{
    if (s->failures > FAILURES_TOLD)
        profile_set_note(s->set, "%zu more binaries were not found", s->failures - FAILURES_TOLD);
    if (s->searches > SEARCHES_MAX)
        profile_set_note(s->set, "%zu binaries were not looked for: the limit is %d",
                         s->searches - SEARCHES_MAX, SEARCHES_MAX);
    close_binary(s);
    jit_free(s->jit);
    if (s->kernel) {
        kallsyms_done(&s->kernel->table);
        arena_done(&s->kernel->arena);
        free(s->kernel);
    }
}

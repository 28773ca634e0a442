#include <elf.h>
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/corpus.h"
#include "lib/test.h"
#include "symbols/address.h"
#include "symbols/binary_search.h"
#include "symbols/symbolizer.h"

/* A set with one profile, and shorthands to fill it. */
struct fixture {
    struct budget budget;
    struct profile_set *set;
    struct profile *p;
};

static void fixture_init(struct fixture *f)
{
    budget_init(&f->budget, 64 << 20);
    f->set = profile_set_new(&f->budget);
    f->p = profile_set_add(f->set);
    profile_add_ctype(f->p, "cpu", "nanoseconds");
}

static void fixture_done(struct fixture *f)
{
    profile_set_free(f->set);
}

static uint32_t add_mapping(struct fixture *f, struct mapping m, const char *file, const char *id)
{
    m.file = dict_cstring(f->set->dict, file);
    m.build_id = dict_cstring(f->set->dict, id);
    uint32_t mapping = dict_mapping(f->set->dict, m);
    vec_push(&f->budget, &f->p->mappings, mapping);
    return mapping;
}

static void add_sample(struct fixture *f, uint32_t mapping, uint64_t address)
{
    uint32_t l = dict_location(f->set->dict,
                               (struct location){.address = address, .mapping = mapping}, NULL, 0);
    profile_add_value(f->p, dict_stack(f->set->dict, &l, 1), 1);
}

/* "name file:line;name..." of the innermost location of sample i, innermost first. */
static const char *frames_of(struct fixture *f, size_t i)
{
    static char text[4096];
    struct dict *d = f->set->dict;
    const struct location *l = &d->locations.data[d->node_location.data[f->p->node[i]]];

    text[0] = '\0';
    for (uint32_t k = 0; k < l->n_lines; k++) {
        const struct line *line = &d->lines.data[l->first_line + k];
        const struct function *fn = &d->functions.data[line->function];
        const char *file = dict_cstr(d, fn->file), *slash = strrchr(file, '/');
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s %s:%lld", k ? ";" : "",
                 dict_cstr(d, fn->name), slash ? slash + 1 : file, (long long)line->line);
    }
    return text;
}

static bool has_note(const struct fixture *f, const char *part)
{
    for (size_t i = 0; i < f->set->notes.len; i++) {
        if (strstr(f->set->notes.data[i], part))
            return true;
    }
    return false;
}

#define WORK_ID "3fb69fbb2ecd34b897c5139704c22644d8bb085c"
#define BASE    0x555555554000

static bool corpus_is_here(void)
{
    return access(corpus_path("elf/own/work"), R_OK) == 0;
}

static void names_addresses_of_a_moved_program(struct test *t)
{
    struct fixture f;
    struct symbolize_stats stats;
    struct error err;

    if (!corpus_is_here())
        TEST_SKIP(t, CORPUS_ABSENT);
    fixture_init(&f);
    uint32_t m = add_mapping(
        &f, (struct mapping){.start = BASE + 0x1000, .limit = BASE + 0x2000, .offset = 0x1000},
        corpus_path("elf/own/work"), WORK_ID);
    add_sample(&f, m, BASE + 0x1118);
    add_sample(&f, m, BASE + 0x1100);
    add_sample(&f, m, BASE + 0x1700);
    CHECK_INT(t, symbolize(f.set, &(struct symbolizer_options){0}, &stats, &err), 0);
    CHECK_STR(t, frames_of(&f, 1), "main work.c:27");
    CHECK(t, strstr(frames_of(&f, 0), "main work.c:"));
    CHECK_STR(t, frames_of(&f, 2), "");
    CHECK_INT(t, stats.mappings, 1);
    CHECK_INT(t, stats.found, 1);
    CHECK_INT(t, stats.locations, 3);
    CHECK_INT(t, stats.named, 2);
    CHECK_INT(t, f.p->n_samples, 3);
    CHECK_INT(t, profile_total(f.p, 0), 3);
    /* All locations share one mapping, which now says what it has. */
    struct dict *d = f.set->dict;
    for (size_t i = 0; i < 3; i++) {
        uint32_t at = d->locations.data[d->node_location.data[f.p->node[i]]].mapping;
        CHECK_INT(t, at, f.p->mappings.data[0]);
        CHECK(t, d->mappings.data[at].has_functions && d->mappings.data[at].has_line_numbers);
    }
    /* A second time there is nothing left but the one without a name. */
    CHECK_INT(t, symbolize(f.set, &(struct symbolizer_options){0}, &stats, &err), 0);
    CHECK_INT(t, stats.locations, 1);
    CHECK_INT(t, stats.named, 0);
    fixture_done(&f);
}

static void takes_only_the_build_that_was_profiled(struct test *t)
{
    struct fixture f;
    struct error err;
    char dir[4096];

    if (!corpus_is_here())
        TEST_SKIP(t, CORPUS_ABSENT);
    snprintf(dir, sizeof(dir), "%s", corpus_path("elf/own"));
    fixture_init(&f);
    struct mapping m = {.start = BASE, .limit = BASE + 0x5000};
    uint32_t other = add_mapping(&f, m, corpus_path("elf/own/work"), "deadbeefdeadbeef");
    add_sample(&f, other, BASE + 0x1100);
    m.start += 0x100000, m.limit += 0x100000;
    /* By name in the search path, with perf's padding behind the build id. */
    uint32_t padded =
        add_mapping(&f, m, "/gone/work-clang14-lld", "23716bb564690657000000000000000000000000");
    add_sample(&f, padded, BASE + 0x100000 + 0xbb0);
    m.start += 0x100000, m.limit += 0x100000;
    uint32_t deleted = add_mapping(&f, m, "/gone/work (deleted)", WORK_ID);
    add_sample(&f, deleted, m.start + 0x1100);
    m.start += 0x100000, m.limit += 0x100000;
    uint32_t gone = add_mapping(&f, m, "/gone/nothing", "");
    add_sample(&f, gone, m.start);
    struct symbolizer_options o = {.search_path = dir};
    CHECK_INT(t, symbolize(f.set, &o, NULL, &err), 0);
    CHECK_STR(t, frames_of(&f, 0), "");
    CHECK_STR(t, frames_of(&f, 1), "_start :0");
    CHECK_STR(t, frames_of(&f, 2), "main work.c:27");
    CHECK_STR(t, frames_of(&f, 3), "");
    CHECK(t, has_note(&f, "has another build id than the profile (deadbeefdeadbeef)"));
    CHECK(t, has_note(&f, "no binary found for /gone/nothing"));

    /* Turned off, nothing happens. */
    fixture_done(&f);
    fixture_init(&f);
    add_sample(&f, add_mapping(&f, m, corpus_path("elf/own/work"), WORK_ID), m.start + 0x1100);
    o.off = true;
    CHECK_INT(t, symbolize(f.set, &o, NULL, &err), 0);
    CHECK_STR(t, frames_of(&f, 0), "");
    fixture_done(&f);
}

static void takes_a_program_given_by_hand(struct test *t)
{
    struct fixture f;
    struct error err;
    char path[4096];

    if (!corpus_is_here())
        TEST_SKIP(t, CORPUS_ABSENT);
    snprintf(path, sizeof(path), "%s", corpus_path("elf/own/work-nopie-nobuildid"));
    fixture_init(&f);
    add_sample(&f, 0, 0x4010f0); /* no mapping at all, as in some Go profiles */
    struct symbolizer_options o = {.binary = path};
    CHECK_INT(t, symbolize(f.set, &o, NULL, &err), 0);
    CHECK_STR(t, frames_of(&f, 0), "main work.c:27");
    fixture_done(&f);
}

static void makes_linker_names_readable(struct test *t)
{
    struct fixture f;
    struct error err;
    struct symbolize_stats stats;

    fixture_init(&f);
    struct dict *d = f.set->dict;
    uint32_t raw = dict_cstring(d, "_ZN3geo2SqD0Ev");
    uint32_t nice = dict_cstring(d, "geo::Circle<int>::area()");
    uint32_t node = dict_frame(d, 0, (struct function){.name = raw, .system_name = raw}, 3, 0, 0);
    profile_add_value(f.p, node, 5);
    node = dict_frame(d, node, (struct function){.name = nice, .system_name = raw}, 4, 0, 0);
    profile_add_value(f.p, node, 6);
    node = dict_frame(d, node, (struct function){.name = nice}, 5, 0, 0);
    profile_add_value(f.p, node, 7);
    CHECK_INT(t, symbolize(f.set, &(struct symbolizer_options){0}, &stats, &err), 0);
    CHECK_INT(t, stats.demangled, 1);
    CHECK_STR(t, frames_of(&f, 0), "geo::Sq::~Sq :3");
    CHECK_STR(t, frames_of(&f, 1), "geo::Circle<int>::area() :4");
    CHECK_STR(t, frames_of(&f, 2), "geo::Circle<int>::area() :5");
    struct symbolizer_options o = {.force = true, .demangle = DEMANGLE_FULL};
    CHECK_INT(t, symbolize(f.set, &o, &stats, &err), 0);
    CHECK_STR(t, frames_of(&f, 0), "geo::Sq::~Sq() :3");
    CHECK_STR(t, frames_of(&f, 1), "geo::Sq::~Sq() :4");
    CHECK_STR(t, frames_of(&f, 2), "geo::Circle<int>::area() :5");
    fixture_done(&f);
}

static void names_kernel_and_generated_code(struct test *t)
{
    struct fixture f;
    struct error err;
    char kallsyms[] = "/tmp/vesta-kallsyms-XXXXXX", map[64];
    int fd = mkstemp(kallsyms);
    FILE *out = fdopen(fd, "w");

    fputs("ffffffff81000000 T _text\nffffffff81000100 T do_syscall_64\n", out);
    fclose(out);
    long pid = 900000000 + getpid();
    snprintf(map, sizeof(map), "/tmp/perf-%ld.map", pid);
    out = fopen(map, "w");
    fputs("3f00 100 LazyCompile:*hot app.js:1\n", out);
    fclose(out);

    fixture_init(&f);
    struct mapping kernel = {.start = 0xffffffff91000000, .limit = 0xffffffffa0000000};
    add_sample(&f, add_mapping(&f, kernel, "[kernel.kallsyms]_text", ""), 0xffffffff91000123);
    add_sample(&f, add_mapping(&f, (struct mapping){.start = 0x3000, .limit = 0x4000}, map, ""),
               0x3f10);
    add_sample(&f,
               add_mapping(&f, (struct mapping){.start = 0x8000, .limit = 0x9000}, "[vdso]", ""),
               0x8f10);
    struct symbolizer_options o = {.kallsyms = kallsyms};
    CHECK_INT(t, symbolize(f.set, &o, NULL, &err), 0);
    CHECK_STR(t, frames_of(&f, 0), "do_syscall_64 :0");
    CHECK_STR(t, frames_of(&f, 1), "LazyCompile:*hot app.js:1 :0");
    CHECK_STR(t, frames_of(&f, 2), "");
    CHECK_INT(t, f.set->notes.len, 0);
    fixture_done(&f);
    unlink(kallsyms);
    unlink(map);

    /* Without the files, notes say what is missing. */
    fixture_init(&f);
    add_sample(&f, add_mapping(&f, kernel, "[kernel.kallsyms]_text", ""), 0xffffffff91000123);
    add_sample(&f, add_mapping(&f, (struct mapping){.start = 0x3000, .limit = 0x4000}, map, ""),
               0x3f10);
    CHECK_INT(t, symbolize(f.set, &o, NULL, &err), 0);
    CHECK(t, has_note(&f, "kernel functions stay without names: could not open"));
    CHECK(t, has_note(&f, "code made at run time stays without names: could not open"));
    fixture_done(&f);
}

static size_t symbolize_cached(struct test *t, const char *dir, size_t *ret_named)
{
    struct fixture f;
    struct symbolize_stats stats;
    struct error err;
    struct symbolizer_options o = {.cache_dir = dir};

    fixture_init(&f);
    uint32_t m = add_mapping(
        &f, (struct mapping){.start = BASE + 0x1000, .limit = BASE + 0x2000, .offset = 0x1000},
        corpus_path("elf/own/work"), WORK_ID);
    for (uint64_t va = 0x1100; va < 0x1700; va += 8)
        add_sample(&f, m, BASE + va);
    CHECK_INT(t, symbolize(f.set, &o, &stats, &err), 0);
    CHECK_STR(t, frames_of(&f, 0), "main work.c:27");
    *ret_named = stats.named;
    fixture_done(&f);
    return stats.cached;
}

static void keeps_answers_and_ignores_damaged_ones(struct test *t)
{
    char dir[] = "/tmp/vesta-cache-XXXXXX", deep[64], path[200], command[128];
    size_t named, again;

    if (!corpus_is_here())
        TEST_SKIP(t, CORPUS_ABSENT);
    CHECK(t, mkdtemp(dir) != NULL);
    snprintf(deep, sizeof(deep), "%s/a/b", dir);
    CHECK_INT(t, symbolize_cached(t, deep, &named), 0);
    CHECK_INT(t, symbolize_cached(t, deep, &again), (0x1700 - 0x1100) / 8);
    CHECK_INT(t, named, again);

    snprintf(path, sizeof(path), "%s/" WORK_ID, deep);
    struct bytes good = read_whole(path);
    CHECK(t, good.len > 1000);
    for (size_t at = 0; good.data && at < good.len; at += 97) {
        FILE *out = fopen(path, "wb");
        fwrite(good.data, 1, at, out);
        fputc(good.data[at] ^ 0x40, out);
        if (at % 2)
            fwrite(good.data + at + 1, 1, good.len - at - 1, out);
        fclose(out);
        CHECK_INT(t, symbolize_cached(t, deep, &again), 0);
        CHECK_INT(t, named, again);
        /* It was replaced by a sound one. */
        struct bytes now = read_whole(path);
        CHECK(t, bytes_equal(now, good));
        free((void *)(uintptr_t)now.data);
    }
    free((void *)(uintptr_t)good.data);
    snprintf(command, sizeof(command), "rm -r %s", dir);
    CHECK_INT(t, system(command), 0);
}

/* Many mappings, most of unknown files, some of one file: bounded notes, one opening each. */
static void stays_quick_with_many_mappings(struct test *t)
{
    struct fixture f;
    struct symbolize_stats stats;
    struct error err;
    char name[64], dir[4096];

    if (!corpus_is_here())
        TEST_SKIP(t, CORPUS_ABSENT);
    snprintf(dir, sizeof(dir), "%s", corpus_path("elf/own"));
    fixture_init(&f);
    for (uint64_t i = 0; i < 20000; i++) {
        struct mapping m = {.start = BASE + i * 0x10000, .limit = BASE + i * 0x10000 + 0x5000};
        bool is_known = i % 4 == 0;
        snprintf(name, sizeof(name), "/gone/%llu", (unsigned long long)i);
        uint32_t id = add_mapping(&f, m, is_known ? "/gone/work" : name, is_known ? WORK_ID : "");
        add_sample(&f, id, m.start + 0x1100);
    }
    struct symbolizer_options o = {.search_path = dir};
    CHECK_INT(t, symbolize(f.set, &o, &stats, &err), 0);
    CHECK_INT(t, stats.mappings, 20000);
    CHECK_INT(t, stats.found, 5000);
    CHECK_INT(t, stats.named, 5000);
    CHECK(t, f.set->notes.len < 30);
    CHECK(t, has_note(&f, "more binaries were not found"));
    CHECK(t, has_note(&f, "5001 binaries were not looked for: the limit is 10000"));
    fixture_done(&f);
}

static void reads_pprofs_modes(struct test *t)
{
    struct symbolizer_options o = {0};
    struct error err;

    CHECK_INT(t, symbolizer_options_parse(&o, NULL, &err), 0);
    CHECK_INT(t, symbolizer_options_parse(&o, "local:force,demangle=templates", &err), 0);
    CHECK(t, o.force && !o.off && o.demangle == DEMANGLE_TEMPLATES);
    CHECK_INT(t, symbolizer_options_parse(&o, "none", &err), 0);
    CHECK(t, o.off);
    CHECK_INT(t, symbolizer_options_parse(&o, "demangle=sometimes", &err), -EINVAL);
    CHECK(t, strstr(err.text, "not \"demangle=sometimes\""));
    CHECK_INT(t, symbolizer_options_parse(&o, "locally", &err), -EINVAL);
}

static void finds_its_cache_folder(struct test *t)
{
    char to[64];

    setenv("XDG_CACHE_HOME", "/x/cache", 1);
    CHECK_STR(t, symbolizer_default_cache(to, sizeof(to)), "/x/cache/vesta/symbols");
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", "/h", 1);
    CHECK_STR(t, symbolizer_default_cache(to, sizeof(to)), "/h/.cache/vesta/symbols");
    unsetenv("HOME");
    CHECK(t, !symbolizer_default_cache(to, sizeof(to)));
}

/* Two segments that share a page of the file, as lld makes them. */
static void turns_addresses_into_those_of_the_file(struct test *t)
{
    static struct elf_segment segments[] = {
        {.type = PT_LOAD,
         .flags = PF_R,
         .offset = 0,
         .vaddr = 0,
         .file_size = 0xbb0,
         .memory_size = 0xbb0},
        {.type = PT_LOAD,
         .flags = PF_R | PF_X,
         .offset = 0xbb0,
         .vaddr = 0x1bb0,
         .file_size = 0x800,
         .memory_size = 0x800},
    };
    static const struct {
        uint16_t type;
        struct mapping m;
        uint64_t address, va;
    } cases[] = {
        /* a process: the second segment's page, moved */
        {ET_DYN,
         {.start = BASE + 0x1000, .limit = BASE + 0x3000, .offset = 0},
         BASE + 0x1c00,
         0x1c00},
        /* the same as a store keeps it */
        {ET_DYN,
         {.start = (uint64_t)1 << 32, .limit = ((uint64_t)1 << 32) + 0x2000, .offset = 0},
         ((uint64_t)1 << 32) + 0xc00,
         0x1c00},
        /* addresses of the file itself: no mapping range, or OpenTelemetry's */
        {ET_DYN, {0}, 0x1c00, 0x1c00},
        {ET_DYN, {.limit = UINT64_MAX}, 0x1c00, 0x1c00},
        {ET_DYN, {.start = 0x1bb0, .limit = 0x23b0, .offset = 0xbb0}, 0x1c00, 0x1c00},
        {ET_EXEC, {.start = 0x1bb0, .limit = 0x23b0, .offset = 0xbb0}, 0x1c00, 0x1c00},
        /* a kernel module */
        {ET_REL,
         {.start = 0xffffffffc0000000, .limit = 0xffffffffc0001000},
         0xffffffffc0000010,
         0x10},
        /* a kernel that was moved: its mapping starts at its text */
        {ET_EXEC,
         {.start = 0xffffffff91000000, .limit = 0xffffffff92000000},
         0xffffffff91000100,
         0x1cb0},
    };
    uint64_t va;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct elf_file f = {.type = cases[i].type, .segments = segments, .n_segments = 2};
        CHECK(t, address_to_va(&f, &cases[i].m, cases[i].address, &va));
        CHECK_INT(t, va, cases[i].va);
    }
    struct elf_file f = {.type = ET_DYN, .segments = segments, .n_segments = 2};
    struct mapping m = {.start = BASE, .limit = BASE + 0x1000, .offset = 0x100000};
    CHECK(t, !address_to_va(&f, &m, BASE + 0x10, &va)); /* no segment is there */
    CHECK(t, !address_to_va(&f, &m, BASE - 1, &va));    /* not of this mapping */
}

static const struct test_case cases[] = {
    TEST(names_addresses_of_a_moved_program),     TEST(takes_only_the_build_that_was_profiled),
    TEST(takes_a_program_given_by_hand),          TEST(makes_linker_names_readable),
    TEST(names_kernel_and_generated_code),        TEST(keeps_answers_and_ignores_damaged_ones),
    TEST(stays_quick_with_many_mappings),         TEST(reads_pprofs_modes),
    TEST(turns_addresses_into_those_of_the_file), TEST(finds_its_cache_folder),
};
TEST_MAIN(cases)

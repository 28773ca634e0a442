#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "host/name_table.h"
#include "host/parse.h"
#include "lib/corpus.h"
#include "lib/scratch.h"
#include "lib/test.h"
#include "unwind/unwind_table.h"

/* Asks without a worker; the descriptors stay open. */
static int ask(const struct buf *question, int fd, int debug, int out, struct buf *ret,
               struct error *err)
{
    struct worker_question q = {.data = buf_bytes(question), .fds = {fd, debug, out}};
    struct worker_answer a = {.fd = -1};
    int r = parse_serve(NULL, &q, &a, err);

    *ret = a.data;
    return r;
}

static int facts_of(const char *path, struct parse_file *ret, struct error *err)
{
    CLEANUP(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
    CLEANUP(buf_done) struct buf q = {0}, answer = {0};

    parse_question_facts(&q);
    int r = ask(&q, fd, fd, -1, &answer, err);
    return r < 0 ? r : parse_read_facts(buf_bytes(&answer), ret, err);
}

typedef void question(struct buf *out);

/* A table of names of a file; NULL, and why not. */
static struct name_table *names_of(question *what, const char *path, const char *debug,
                                   struct error *err)
{
    CLEANUP(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
    CLEANUP(closep) int debug_fd = debug ? open(debug, O_RDONLY | O_CLOEXEC) : -1;
    CLEANUP(closep) int out = memfd_create("names", MFD_CLOEXEC);
    CLEANUP(buf_done) struct buf q = {0}, answer = {0};
    struct name_table *t = NULL;

    what(&q);
    if (ask(&q, fd, debug_fd, out, &answer, err) < 0)
        return NULL;
    return name_table_open(TAKE_FD(out), &t, err) < 0 ? NULL : t;
}

static const char *name_at(struct name_table *t, uint64_t va)
{
    static char text[256];
    struct name_found f = {0};

    text[0] = '\0';
    if (t && name_table_find(t, va, &f))
        snprintf(text, sizeof(text), "%s", buf_cstr(&f.name));
    name_found_done(&f);
    return text;
}

/* Runs a shell command in a folder; true when it did well. */
static bool run(const struct scratch *s, const char *command)
{
    char text[2048];

    snprintf(text, sizeof(text), "cd %s && (%s) >/dev/null 2>&1", s->path, command);
    return system(text) == 0;
}

static void write_text(struct scratch *s, const char *name, const char *text)
{
    FILE *f = fopen(scratch_name(s, name), "w");

    if (f) {
        fputs(text, f);
        fclose(f);
    }
}

/* The value of a symbol that `nm` tells; 0 when there is none. */
static uint64_t address_of(struct scratch *s, const char *file, const char *symbol)
{
    char command[1024], line[1024];
    uint64_t va = 0;

    snprintf(command, sizeof(command), "nm %s/%s 2>/dev/null", s->path, file);
    FILE *f = popen(command, "r");
    while (f && fgets(line, sizeof(line), f)) {
        char name[512];
        unsigned long long value;
        if (sscanf(line, "%llx %*c %511s", &value, name) == 2 && strcmp(name, symbol) == 0)
            va = value;
    }
    if (f)
        pclose(f);
    return va;
}

static void tells_what_a_library_is(struct test *t)
{
    struct parse_file f;
    struct error err = {{0}};
    const char *libc = "/lib/x86_64-linux-gnu/libc.so.6";

    if (access(libc, R_OK) < 0)
        TEST_SKIP(t, "no libc at the usual place");
    CHECK_INT(t, facts_of(libc, &f, &err), 0);
    CHECK_INT(t, strlen(f.facts.build_id), 40);
    CHECK_INT(t, strlen(f.facts.htlhash), 32);
    CHECK_INT(t, f.facts.machine, EM_X86_64);
    CHECK(t, !f.facts.is_static && !f.facts.is_go && !f.facts.has_dwarf);
    CHECK_INT(t, f.n_loads, 1);
    CHECK_INT(t, f.loads[0].vaddr, f.facts.first_text);
    CHECK(t, strstr(f.facts.debug_link, ".debug") != NULL);
    CHECK_STR(t, f.facts.runtime, "");
}

static void hashes_head_tail_and_length(struct test *t)
{
    CLEANUP(scratch_done) struct scratch s;
    struct parse_file f;
    struct error err = {{0}};
    char want[64] = "";

    scratch_init(&s);
    if (!run(&s, "(head -c 4096 /bin/true; tail -c 4096 /bin/true; "
                 "perl -e 'print pack \"Q>\", -s \"/bin/true\"') | sha256sum | head -c 32 > want"))
        TEST_SKIP(t, "no sha256sum here");
    FILE *w = fopen(scratch_name(&s, "want"), "r");
    if (w && !fgets(want, sizeof(want), w))
        want[0] = '\0';
    if (w)
        fclose(w);
    CHECK_INT(t, facts_of("/bin/true", &f, &err), 0);
    CHECK_STR(t, f.facts.htlhash, want);
}

/* Debian's node has all of it in a library, whose name has a number. */
static const char *node_path(void)
{
    static glob_t found;

    if (found.gl_pathc == 0 && glob("/usr/lib/*/libnode.so.*", 0, NULL, &found) != 0)
        return "/usr/bin/node";
    return found.gl_pathv[0];
}

static void knows_runtimes(struct test *t)
{
    struct parse_file f;
    struct error err = {{0}};

    if (facts_of(node_path(), &f, &err) >= 0) {
        CHECK_STR(t, f.facts.runtime, "nodejs");
        CHECK(t, f.facts.runtime_version[0] >= '1' && f.facts.runtime_version[0] <= '9');
    }
    if (facts_of("/usr/bin/python3", &f, &err) >= 0) {
        CHECK_STR(t, f.facts.runtime, "cpython");
        CHECK(t, strncmp(f.facts.runtime_version, "3.", 2) == 0);
    }
    CHECK_INT(t, facts_of("/bin/sh", &f, &err), 0);
    CHECK_STR(t, f.facts.runtime, "");
}

static void reads_package_notes(struct test *t)
{
    CLEANUP(scratch_done) struct scratch s;
    struct parse_file f;
    struct error err = {{0}};

    scratch_init(&s);
    write_text(&s, "a.c", "int main(void) { return 0; }\n");
    if (!run(&s, "gcc -static-pie a.c -o a -Xlinker "
                 "'--package-metadata={\"type\":\"deb\",\"name\":\"demo\",\"version\":\"1.2-3\"}'"))
        TEST_SKIP(t, "the linker here writes no package notes");
    CHECK_INT(t, facts_of(scratch_name(&s, "a"), &f, &err), 0);
    CHECK_STR(t, f.facts.package_name, "demo");
    CHECK_STR(t, f.facts.package_version, "1.2-3");
    CHECK(t, f.facts.is_static && f.facts.has_symbols);
}

static void finds_the_thread_context_in_every_model(struct test *t)
{
    static const struct {
        const char *flags;
        uint8_t model;
    } models[] = {
        {"-shared -fPIC -mtls-dialect=gnu", PARSE_TLS_GENERAL},
        {"-shared -fPIC -mtls-dialect=gnu2", PARSE_TLS_DESCRIPTOR},
        {"-shared -fPIC -ftls-model=initial-exec", PARSE_TLS_INITIAL},
        {"-rdynamic -DMAIN", PARSE_TLS_LOCAL},
        {"-static -DMAIN", PARSE_TLS_LOCAL},
    };
    CLEANUP(scratch_done) struct scratch s;
    struct parse_file f;
    struct error err = {{0}};
    char command[256];

    scratch_init(&s);
    write_text(&s, "c.c",
               "__thread long first = 1;\n"
               "__thread void *otel_thread_ctx_v1;\n"
               "void *get(void) { return otel_thread_ctx_v1; }\n"
               "#ifdef MAIN\n"
               "int main(void) { return get() != 0; }\n"
               "#endif\n");
    for (size_t i = 0; i < ARRAY_SIZE(models); i++) {
        snprintf(command, sizeof(command), "gcc %s c.c -o c", models[i].flags);
        if (!run(&s, command))
            TEST_SKIP(t, "no gcc for this machine's TLS models");
        CHECK_INT(t, facts_of(scratch_name(&s, "c"), &f, &err), 0);
        CHECK(t, f.facts.has_thread_context);
        CHECK_INT(t, f.facts.tls_model, models[i].model);
        CHECK(t, (f.facts.tls_got != 0) == (models[i].model != PARSE_TLS_LOCAL));
        if (strstr(models[i].flags, "static")) /* libc has variables, too */
            CHECK(t, f.facts.tls_offset < 0);
        else
            CHECK_INT(t, f.facts.tls_offset, models[i].model == PARSE_TLS_LOCAL ? -8 : 8);
    }
    CHECK_INT(t, facts_of("/bin/sh", &f, &err), 0);
    CHECK(t, !f.facts.has_thread_context);
}

static void reads_the_build_information_of_go(struct test *t)
{
    CLEANUP(scratch_done) struct scratch s;
    struct parse_file f;
    struct error err = {{0}};

    scratch_init(&s);
    write_text(&s, "go.mod", "module example.org/demo\n\ngo 1.18\n");
    write_text(&s, "main.go",
               "package main\n\n//go:noinline\nfunc hot(n int) int {\n\treturn n * 2\n}\n\n"
               "func main() { println(hot(3)) }\n");
    if (!run(&s, "go version"))
        TEST_SKIP(t, "go is not installed");
    if (!run(&s,
             "git init -q . && git add . && git -c user.name=x -c user.email=x@x commit -qm x && "
             "GOFLAGS=-mod=mod GO111MODULE=on GOTOOLCHAIN=local CGO_ENABLED=0 go build -o demo . "
             "&& strip -o stripped demo"))
        TEST_SKIP(t, "go could not build a program");
    CHECK_INT(t, facts_of(scratch_name(&s, "demo"), &f, &err), 0);
    CHECK(t, f.facts.is_go && f.facts.is_static);
    CHECK(t, strncmp(f.facts.go_version, "go1.", 4) == 0);
    CHECK_STR(t, f.facts.runtime_version, f.facts.go_version + 2);
    CHECK_STR(t, f.facts.go_module, "example.org/demo");
    CHECK_INT(t, strlen(f.facts.vcs_revision), 40);
    CHECK(t, strchr(f.facts.vcs_time, 'T') != NULL);
    CHECK(t, strchr(f.facts.go_build_id, '/') != NULL);
    CHECK_INT(t, f.facts.go_tls_offset, f.facts.machine == EM_X86_64 ? -8 : 0);

    uint64_t va = address_of(&s, "demo", "main.hot");
    CHECK(t, va != 0);
    CLEANUP(name_table_closep)
    struct name_table *n = names_of(parse_question_names, scratch_name(&s, "stripped"), NULL, &err);
    CHECK_STR(t, err.text, "");
    struct name_found found = {0};
    CHECK(t, n && name_table_find(n, va + 1, &found));
    CHECK_STR(t, buf_cstr(&found.name), "main.hot");
    CHECK(t, strstr(found.file, "main.go") != NULL);
    CHECK_INT(t, found.line, 4);
    name_found_done(&found);
}

/* Go's function and C's of a program that has both have their names. */
static void check_go_names(struct test *t, struct scratch *s, const char *file)
{
    struct error err = {{0}};
    CLEANUP(name_table_closep)
    struct name_table *n = names_of(parse_question_names, scratch_name(s, file), NULL, &err);

    CHECK_STR(t, name_at(n, address_of(s, file, "main.main") + 1), "main.main");
    CHECK_STR(t, name_at(n, address_of(s, file, "crosscall2") + 1), "crosscall2");
    CHECK_STR(t, name_at(n, address_of(s, file, "_cgo_sys_thread_start") + 1),
              "_cgo_sys_thread_start");
}

static void finds_where_go_keeps_g_beside_variables_of_c(struct test *t)
{
    static const char *const files[] = {"exe", "exe-stripped", "pie", "pie-stripped"};
    CLEANUP(scratch_done) struct scratch s;
    struct parse_file f;
    struct error err = {{0}};

    scratch_init(&s);
    write_text(&s, "go.mod", "module example.org/demo\n\ngo 1.18\n");
    write_text(&s, "main.go",
               "package main\n\n// __thread long a[5];\n"
               "// static long f(void) { return a[0]++; }\nimport \"C\"\n\n"
               "func main() { println(C.f()) }\n");
    if (!run(&s, "export GO111MODULE=on GOTOOLCHAIN=local CGO_ENABLED=1 && go build -o exe . && "
                 "go build -buildmode=pie -o pie . && strip -o exe-stripped exe && "
                 "strip -o pie-stripped pie"))
        TEST_SKIP(t, "go could not build a program with C in it");
    CHECK_INT(t, facts_of(scratch_name(&s, "exe"), &f, &err), 0);
    if (f.facts.machine != EM_X86_64)
        TEST_SKIP(t, "g is in a register here");
    check_go_names(t, &s, "exe");
    check_go_names(t, &s, "pie");
    /* This linker leaves zeros where others leave what relocations put there. */
    if (run(&s, "GO111MODULE=on GOTOOLCHAIN=local CGO_ENABLED=1 go build -buildmode=pie "
                "-ldflags='-linkmode=external -extldflags=-fuse-ld=lld' -o lld ."))
        check_go_names(t, &s, "lld");
    CHECK_INT(t, facts_of(scratch_name(&s, "exe"), &f, &err), 0);
    int64_t offset = f.facts.go_tls_offset;
    CHECK(t, offset < -8 && offset >= -64 && offset % 8 == 0);
    for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
        CHECK_INT(t, facts_of(scratch_name(&s, files[i]), &f, &err), 0);
        CHECK_INT(t, f.facts.go_tls_offset, offset);
        CHECK(t, !f.facts.is_static && f.facts.is_go);
    }
}

static const char work_cpp[] =
    "#include <cstdio>\n"
    "namespace shop {\n"
    "struct Cart { __attribute__((noinline)) int total(int n); };\n"
    "static inline int twice(int n) { return n * 2 + 1; }\n"
    "int Cart::total(int n) { return twice(n) * 3; }\n"
    "static __attribute__((noinline)) int hidden(int n) { puts(\"x\"); return n + 7; }\n"
    "int use(int n) { Cart c; return c.total(n) + hidden(n); }\n"
    "}\n"
    "int main(int n, char **) { return shop::use(n); }\n";

static void names_a_stripped_program_from_its_debug_file(struct test *t)
{
    CLEANUP(scratch_done) struct scratch s;
    struct error err = {{0}};
    char debug[512];

    scratch_init(&s);
    write_text(&s, "work.cc", work_cpp);
    if (!run(&s, "g++ -O2 -g work.cc -o whole && objcopy --only-keep-debug whole work.debug && "
                 "strip whole -o work && objcopy --add-gnu-debuglink=work.debug work"))
        TEST_SKIP(t, "no g++ and objcopy here");
    uint64_t total = address_of(&s, "whole", "_ZN4shop4Cart5totalEi");
    uint64_t hidden = address_of(&s, "whole", "_ZN4shopL6hiddenEi");
    CHECK(t, total != 0 && hidden != 0);
    CLEANUP(name_table_closep)
    struct name_table *alone = names_of(parse_question_names, scratch_name(&s, "work"), NULL, &err);
    CHECK_STR(t, name_at(alone, total), "");
    snprintf(debug, sizeof(debug), "%s/work.debug", s.path);
    CLEANUP(name_table_closep)
    struct name_table *n = names_of(parse_question_names, scratch_name(&s, "work"), debug, &err);
    CHECK_STR(t, name_at(n, total), "shop::Cart::total");
    CHECK_STR(t, name_at(n, hidden + 1), "shop::hidden");
    /* One of another program is not believed. */
    CLEANUP(name_table_closep)
    struct name_table *other =
        names_of(parse_question_names, scratch_name(&s, "work"), "/bin/sh", &err);
    CHECK_STR(t, name_at(other, total), "");
}

static void tells_lines_and_inlined_calls(struct test *t)
{
    CLEANUP(scratch_done) struct scratch s;
    CLEANUP(buf_done) struct buf q = {0}, answer = {0};
    struct error err = {{0}};
    struct lookup lookups[2] = {0};
    struct budget budget;
    struct arena arena;

    scratch_init(&s);
    write_text(&s, "work.cc", work_cpp);
    if (!run(&s, "g++ -O2 -g work.cc -o whole && objcopy --only-keep-debug whole work.debug && "
                 "strip whole -o work"))
        TEST_SKIP(t, "no g++ and objcopy here");
    uint64_t vas[2] = {address_of(&s, "whole", "_ZN4shop4Cart5totalEi"), UINT64_MAX};
    CLEANUP(closep) int fd = open(scratch_name(&s, "work"), O_RDONLY | O_CLOEXEC);
    CLEANUP(closep) int debug = open(scratch_name(&s, "work.debug"), O_RDONLY | O_CLOEXEC);
    parse_question_lines(vas, 2, &q);
    CHECK_INT(t, ask(&q, fd, debug, -1, &answer, &err), 0);
    budget_init(&budget, 1 << 20);
    arena_init(&arena, &budget);
    CHECK_INT(t, parse_read_lines(buf_bytes(&answer), &arena, lookups, 2, &err), 2);
    const struct code_frame *f = lookups[0].innermost;
    CHECK(t, f && f->file && strstr(f->file, "work.cc") != NULL);
    CHECK(t, f && (f->line == 4 || f->line == 5));
    while (f && f->outer)
        f = f->outer;
    CHECK_STR(t, f ? f->name : NULL, "_ZN4shop4Cart5totalEi");
    CHECK(t, lookups[1].innermost == NULL);
    CHECK_INT(
        t,
        parse_read_lines(bytes_head(buf_bytes(&answer), answer.len - 3), &arena, lookups, 2, &err),
        -EBADMSG);
    CHECK(t, strstr(err.text, "is damaged") != NULL);
    CHECK_INT(t, parse_read_lines(buf_bytes(&answer), &arena, lookups, 1, &err), -EBADMSG);
    CHECK_STR(t, err.text, "lines: answers for more than was asked");
    arena_done(&arena);
}

static void refuses_questions_about_too_many_or_unsorted_addresses(struct test *t)
{
    CLEANUP(buf_done) struct buf q = {0}, answer = {0};
    CLEANUP(closep) int fd = open("/bin/sh", O_RDONLY | O_CLOEXEC);
    struct error err = {{0}};
    uint64_t vas[2] = {2, 1};

    parse_question_lines(vas, 2, &q);
    CHECK_INT(t, ask(&q, fd, -1, -1, &answer, &err), -EINVAL);
    CHECK_STR(t, err.text, "addresses asked for do not ascend");
    buf_clear(&q);
    buf_add_byte(&q, 99);
    CHECK_INT(t, ask(&q, fd, -1, -1, &answer, &err), -EINVAL);
    CHECK_STR(t, err.text, "unknown question 99");
    CHECK_INT(t, ask(&q, -1, -1, -1, &answer, &err), -EINVAL);
    CHECK_STR(t, err.text, "a question without a file");
}

static void names_from_mini_debug_info(struct test *t)
{
    struct error err = {{0}};
    char line[512], name[256];
    unsigned long long va;
    size_t right = 0, all = 0;

    CLEANUP(name_table_closep)
    struct name_table *n =
        names_of(parse_question_names, corpus_path("elf/own/work-minidebuginfo"), NULL, &err);
    if (!n)
        TEST_SKIP(t, CORPUS_ABSENT);
    CLEANUP(fclosep)
    FILE *f = fopen(corpus_path("elf/own/expected/work-minidebuginfo.symbols.txt"), "r");
    while (f && fgets(line, sizeof(line), f)) {
        if (sscanf(line, " %*d: %llx %*d FUNC %*s %*s %*s %255s", &va, name) != 2 || name[0] == '_')
            continue;
        all++;
        right += strcmp(name_at(n, va), name) == 0;
    }
    CHECK(t, all > 3);
    CHECK_INT(t, right, all);
}

static void names_node_within_its_limits(struct test *t)
{
    struct error err = {{0}};
    struct timespec before, after;
    struct stat st;

    if (stat(node_path(), &st) < 0)
        TEST_SKIP(t, "node is not installed");
    CLEANUP(closep) int out = memfd_create("names", MFD_CLOEXEC);
    CLEANUP(closep) int fd = open(node_path(), O_RDONLY | O_CLOEXEC);
    CLEANUP(buf_done) struct buf q = {0}, answer = {0};
    parse_question_names(&q);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    CHECK_INT(t, ask(&q, fd, -1, out, &answer, &err), 0);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    CHECK_INT(t, fstat(out, &st), 0);
    int64_t ms = (after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000;
    printf("# node: %lld ms, %lld bytes\n", (long long)ms, (long long)st.st_size);
    CHECK(t, st.st_size <= 12 << 20);
    CHECK(t, ms <= 1000); /* 70 in fact; CI may be slow, and sanitizers are */
}

static void names_stubs_for_calls_of_other_files(struct test *t)
{
    CLEANUP(scratch_done) struct scratch s;
    struct error err = {{0}};
    uint64_t va = 0;
    char line[256];

    scratch_init(&s);
    write_text(&s, "a.c", "#include <stdlib.h>\nint main(void) { return abs(rand()) < 0; }\n");
    if (!run(&s, "gcc -O1 a.c -o a && objdump -d a > text"))
        TEST_SKIP(t, "no gcc and objdump here");
    CLEANUP(fclosep) FILE *f = fopen(scratch_name(&s, "text"), "r");
    while (f && fgets(line, sizeof(line), f)) {
        if (strstr(line, "<rand@plt>:"))
            va = strtoull(line, NULL, 16);
    }
    CLEANUP(name_table_closep)
    struct name_table *n = names_of(parse_question_names, scratch_name(&s, "a"), NULL, &err);
    if (va == 0)
        TEST_SKIP(t, "calls without stubs here");
    CHECK_STR(t, name_at(n, va), "rand@plt");
    CHECK_STR(t, name_at(n, address_of(&s, "a", "main") + 1), "main");
}

static void makes_unwind_tables(struct test *t)
{
    CLEANUP(closep) int out = memfd_create("unwind", MFD_CLOEXEC);
    CLEANUP(closep) int fd = open("/bin/sh", O_RDONLY | O_CLOEXEC);
    CLEANUP(buf_done) struct buf q = {0}, answer = {0};
    struct error err = {{0}};
    struct unwind_view view;
    struct stat st;

    parse_question_unwind(&q);
    CHECK_INT(t, ask(&q, fd, -1, out, &answer, &err), 0);
    CHECK_INT(t, fstat(out, &st), 0);
    void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, out, 0);
    CHECK(t, p != MAP_FAILED);
    CHECK_INT(t, unwind_table_read((struct bytes){p, (size_t)st.st_size}, &view, &err), 0);
    CHECK(t, view.n_rows > 1000);
    munmap(p, (size_t)st.st_size);
    CHECK_INT(t, ask(&q, fd, -1, -1, &answer, &err), -EINVAL);
    CHECK_STR(t, err.text, "a question without a place for its result");
}

static void names_code_made_at_run_time(struct test *t)
{
    CLEANUP(scratch_done) struct scratch s;
    struct error err = {{0}};

    scratch_init(&s);
    write_text(&s, "perf.map",
               "3ef414c0 398 RegExp:[{(]\n"
               "not a line\n"
               "3ef418a0 398 LazyCompile:~slow /app/a.js:1:2\n"
               "3ef41900 10 Builtin:New\n"
               "ffffffffffffffff 10 overflows\n"
               "3ef41c40 20 last without a newline");
    CLEANUP(name_table_closep)
    struct name_table *n =
        names_of(parse_question_perf_map, scratch_name(&s, "perf.map"), NULL, &err);
    CHECK_STR(t, err.text, "");
    CHECK_STR(t, name_at(n, 0x3ef414c0), "RegExp:[{(]");
    CHECK_STR(t, name_at(n, 0x3ef418a0), "LazyCompile:~slow /app/a.js:1:2");
    CHECK_STR(t, name_at(n, 0x3ef41900), "Builtin:New");
    CHECK_STR(t, name_at(n, 0x3ef41910), "LazyCompile:~slow /app/a.js:1:2");
    CHECK_STR(t, name_at(n, 0x3ef41c5f), "last without a newline");
    write_text(&s, "none", "no map at all\n");
    CHECK(t, !names_of(parse_question_perf_map, scratch_name(&s, "none"), NULL, &err));
    CHECK_STR(t, err.text, "perf map: no line reads \"START SIZE NAME\"");
    CHECK(t, !names_of(parse_question_perf_map, "/dev/null", NULL, &err));
    CHECK_STR(t, err.text, "a perf map must be a regular file");
}

static void reads_the_end_of_a_perf_map_that_is_too_long(struct test *t)
{
    CLEANUP(scratch_done) struct scratch s;
    struct error err = {{0}};

    scratch_init(&s);
    FILE *f = fopen(scratch_name(&s, "perf.map"), "w");
    if (!f)
        TEST_SKIP(t, "no place for a file");
    fputs("1000 10 first\n", f);
    /* One line without an end, and far too long for any buffer. */
    CHECK_INT(t, fseek(f, 70 << 20, SEEK_SET), 0);
    fputs("\n2000 10 newest\n", f);
    fclose(f);
    CLEANUP(name_table_closep)
    struct name_table *n =
        names_of(parse_question_perf_map, scratch_name(&s, "perf.map"), NULL, &err);
    CHECK_STR(t, name_at(n, 0x2000), "newest");
    CHECK_STR(t, name_at(n, 0x1000), "");
}

static void names_the_kernel_and_its_modules(struct test *t)
{
    CLEANUP(scratch_done) struct scratch s;
    struct error err = {{0}};
    struct name_found f = {0};

    scratch_init(&s);
    write_text(&s, "kallsyms",
               "ffffffff81000000 T _stext\n"
               "ffffffff81000000 T startup_64\n"
               "ffffffff81000100 t helper.isra.0\n"
               "ffffffff81000180 D data_here\n"
               "ffffffff81000200 W weak_one\n"
               "ffffffffc0000000 t ext4_sync\t[ext4]\n"
               "ffffffffc0001000 t bpf_prog_12_x\t[bpf]\n");
    CLEANUP(name_table_closep)
    struct name_table *n =
        names_of(parse_question_kallsyms, scratch_name(&s, "kallsyms"), NULL, &err);
    CHECK_STR(t, err.text, "");
    CHECK_STR(t, name_at(n, 0xffffffff81000010), "startup_64");
    CHECK_STR(t, name_at(n, 0xffffffff81000210), "weak_one");
    CHECK(t, n && name_table_find(n, 0xffffffffc0000fff, &f));
    CHECK_STR(t, buf_cstr(&f.name), "ext4_sync");
    CHECK_STR(t, f.file, "ext4");
    CHECK(t, n && name_table_find(n, 0xffffffffc0001fff, &f));
    CHECK_STR(t, f.file, "bpf");
    name_found_done(&f);
    CHECK_STR(t, name_at(n, 0xffffffff80ffffff), "");
    CHECK_STR(t, name_at(n, 0xffffffffc0101001), "");

    write_text(&s, "hidden", "0000000000000000 T _stext\n0000000000000000 t x\n");
    CHECK(t, !names_of(parse_question_kallsyms, scratch_name(&s, "hidden"), NULL, &err));
    CHECK(t, strstr(err.text, "the kernel hides them") != NULL);
    write_text(&s, "bad", "ffffffff81000000 T _stext\nwhat\n");
    CHECK(t, !names_of(parse_question_kallsyms, scratch_name(&s, "bad"), NULL, &err));
    CHECK_STR(t, err.text, "kallsyms at line 2: not \"ADDRESS TYPE NAME\"");
}

/* Folds the paths that are offered into one text. */
static int note_path(void *arg, const char *path)
{
    buf_addf(arg, "%s\n", path);
    return 0;
}

static int stop_at_third(void *arg, const char *path)
{
    (void)path;
    return ++*(int *)arg == 3 ? 7 : 0;
}

static void tells_where_debug_files_may_be(struct test *t)
{
    static const char *const dirs[] = {"/opt/debug"};
    struct parse_facts f = {.build_id = "abcdef", .debug_link = "tool.debug"};
    CLEANUP(buf_done) struct buf paths = {0};
    int n = 0;

    CHECK_INT(t, parse_debug_paths(&f, "/usr/bin/tool", dirs, 1, note_path, &paths), 0);
    CHECK_STR(t, buf_cstr(&paths),
              "/opt/debug/.build-id/ab/cdef.debug\n"
              "/usr/lib/debug/.build-id/ab/cdef.debug\n"
              "/usr/bin/tool.debug\n"
              "/usr/bin/.debug/tool.debug\n"
              "/opt/debug/usr/bin/tool.debug\n"
              "/usr/lib/debug/usr/bin/tool.debug\n");
    CHECK_INT(t, parse_debug_paths(&f, "/usr/bin/tool", dirs, 1, stop_at_third, &n), 7);
    buf_clear(&paths);
    snprintf(f.debug_link, sizeof(f.debug_link), "../x");
    f.build_id[0] = '\0';
    CHECK_INT(t, parse_debug_paths(&f, "/usr/bin/tool", dirs, 1, note_path, &paths), 0);
    CHECK_STR(t, buf_cstr(&paths), "");
}

static void believes_no_answer(struct test *t)
{
    static struct parse_file file;
    struct parse_file ret;
    struct error err = {{0}};
    struct bytes answer = {(const uint8_t *)&file, sizeof(file)};

    memset(&file, 0xff, sizeof(file));
    CHECK_INT(t, parse_read_facts(answer, &ret, &err), -EBADMSG);
    file.n_loads = 16;
    file.facts.tls_model = 0;
    CHECK_INT(t, parse_read_facts(answer, &ret, &err), 0);
    CHECK_INT(t, strlen(ret.facts.build_id), sizeof(ret.facts.build_id) - 1);
    CHECK(t, ret.facts.is_go == true);
    CHECK_INT(t, parse_read_facts(bytes_head(answer, 10), &ret, &err), -EBADMSG);
    CHECK(t, strstr(err.text, "10 bytes, not") != NULL);
}

static void refuses_what_is_no_program(struct test *t)
{
    struct parse_file f;
    struct error err = {{0}};

    CHECK_INT(t, facts_of("/etc/passwd", &f, &err), -EBADMSG);
    CHECK_STR(t, err.text, "file: not an ELF file");
    CHECK(t, !names_of(parse_question_names, "/dev/zero", NULL, &err));
    CHECK_STR(t, err.text, "\"file\" is not a regular file");
}

/* Cut short and damaged everywhere: no crash, and an answer or words. */
static void survives_damaged_programs(struct test *t)
{
    struct bytes whole = read_whole("/bin/true");
    struct error err = {{0}};
    struct parse_file f;
    CLEANUP(freep) uint8_t *data = (uint8_t *)(uintptr_t)whole.data;

    if (!data)
        TEST_SKIP(t, "no /bin/true here");
    for (size_t i = 0; i < 400; i++) {
        CLEANUP(closep) int fd = memfd_create("elf", MFD_CLOEXEC);
        CLEANUP(closep) int out = memfd_create("names", MFD_CLOEXEC);
        CLEANUP(buf_done) struct buf q = {0}, answer = {0}, facts = {0};
        size_t at = i < 64 ? i : (i * 7919 * 31) % whole.len;
        size_t len = i % 5 == 4 ? at : whole.len;
        uint8_t was = data[at];
        data[at] ^= (uint8_t)(1 + i);
        CHECK_INT(t, write(fd, data, len), len);
        data[at] = was;
        parse_question_facts(&q);
        if (ask(&q, fd, -1, -1, &facts, &err) >= 0)
            CHECK_INT(t, parse_read_facts(buf_bytes(&facts), &f, &err), 0);
        buf_clear(&q);
        parse_question_names(&q);
        struct name_table *n = NULL;
        if (ask(&q, fd, -1, out, &answer, &err) >= 0)
            CHECK_INT(t, name_table_open(TAKE_FD(out), &n, &err), 0);
        else
            CHECK(t, err.text[0] != '\0');
        name_table_close(n);
    }
}

/* The same questions to the worker: it opens nothing, and needs nothing else. */
static void works_in_the_worker(struct test *t)
{
    CLEANUP(buf_done) struct buf q = {0}, answer = {0};
    struct loop *loop = NULL;
    struct worker *w = NULL;
    struct error err = {{0}};
    struct parse_file f;
    int no_fd = -1;

    CHECK_INT(t, loop_new(&loop, &err), 0);
    CHECK_INT(t, worker_new(loop, &parse_worker, &w, &err), 0);
    const char *path = access(node_path(), R_OK) == 0 ? node_path() : "/bin/sh";
    int fds[3] = {open(path, O_RDONLY | O_CLOEXEC), 0, memfd_create("names", MFD_CLOEXEC)};
    fds[1] = fds[0];
    parse_question_facts(&q);
    CHECK_INT(t, worker_ask_now(w, buf_bytes(&q), fds, 3, &answer, &no_fd, &err), 0);
    CHECK_INT(t, parse_read_facts(buf_bytes(&answer), &f, &err), 0);
    CHECK_INT(t, strlen(f.facts.htlhash), 32);
    buf_clear(&q);
    buf_clear(&answer);
    parse_question_names(&q);
    CHECK_INT(t, worker_ask_now(w, buf_bytes(&q), fds, 3, &answer, &no_fd, &err), 0);
    struct name_table *n = NULL;
    CHECK_INT(t, name_table_open(dup(fds[2]), &n, &err), 0);
    CHECK(t, n && name_table_count(n) > 10);
    name_table_close(n);
    buf_clear(&q);
    buf_clear(&answer);
    /* With DWARF that names files elsewhere, which it must do without. */
    int split = open(corpus_path("elf/own/work-clang14-splitdwarf"), O_RDONLY | O_CLOEXEC);
    uint64_t va = f.loads[0].vaddr + 64;
    parse_question_lines(&va, 1, &q);
    int lines[2] = {split >= 0 ? split : fds[0], split >= 0 ? split : fds[0]};
    CHECK_INT(t, worker_ask_now(w, buf_bytes(&q), lines, 2, &answer, &no_fd, &err), 0);
    CHECK_STR(t, err.text, "");
    struct worker_stats stats;
    worker_stats(w, &stats);
    CHECK_INT(t, stats.died, 0);
    CHECK_INT(t, stats.started, 1);
    worker_free(w);
    loop_free(loop);
    close(split);
    close(fds[0]);
    close(fds[2]);
}

static const struct test_case cases[] = {
    TEST(tells_what_a_library_is),
    TEST(hashes_head_tail_and_length),
    TEST(knows_runtimes),
    TEST(reads_package_notes),
    TEST(finds_the_thread_context_in_every_model),
    TEST(reads_the_build_information_of_go),
    TEST(finds_where_go_keeps_g_beside_variables_of_c),
    TEST(names_a_stripped_program_from_its_debug_file),
    TEST(tells_lines_and_inlined_calls),
    TEST(refuses_questions_about_too_many_or_unsorted_addresses),
    TEST(names_from_mini_debug_info),
    TEST(names_node_within_its_limits),
    TEST(names_stubs_for_calls_of_other_files),
    TEST(makes_unwind_tables),
    TEST(names_code_made_at_run_time),
    TEST(reads_the_end_of_a_perf_map_that_is_too_long),
    TEST(names_the_kernel_and_its_modules),
    TEST(tells_where_debug_files_may_be),
    TEST(believes_no_answer),
    TEST(refuses_what_is_no_program),
    TEST(survives_damaged_programs),
    TEST(works_in_the_worker),
};
TEST_MAIN(cases)

/*
 * Where code is: all that is loaded, told to readers as it is; libraries that come and go while
 * others walk.
 *
 * Links: dl.
 */
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "preload/code_modules.h"
#include "preload/map_lines.h"
#include "preload/walk_world.h"

static struct two_stacks s;

static bool parse(const char *text, struct map_line *ret)
{
    return map_line_parse(text, strlen(text), ret);
}

static void lines_are_read(struct test *t)
{
    struct map_line l;

    CHECK(t, parse("7f00a000-7f00c000 r-xp 00026000 fe:01 1234    /usr/lib/a b.so", &l));
    CHECK_INT(t, l.start, 0x7f00a000);
    CHECK_INT(t, l.end, 0x7f00c000);
    CHECK_INT(t, l.offset, 0x26000);
    CHECK_INT(t, l.inode, 1234);
    CHECK(t, l.can_read && l.can_run);
    CHECK(t, l.path_len == 15 && memcmp(l.path, "/usr/lib/a b.so", 15) == 0);
    CHECK(t, parse("1000-2000 ---p 00000000 00:00 0 ", &l));
    CHECK(t, !l.can_read && !l.can_run && l.path_len == 0);
    CHECK(t, parse("1000-2000 rw-p 00000000 00:00 7 /x (deleted)", &l));
    CHECK_INT(t, l.path_len, 2);
    CHECK(t, !parse("", &l));
    CHECK(t, !parse("1000", &l));
    CHECK(t, !parse("1000-2000", &l));
    CHECK(t, !parse("1000-2000 r", &l));
    CHECK(t, !parse("2000-1000 r-xp 0 00:00 0 ", &l));
    CHECK(t, !parse("1000-2000 r-xp 0", &l));
}

/* ---- What the dynamic linker says ---- */

static const struct told *find_told(uint64_t address)
{
    for (uint32_t i = n_told; i-- > 0;)
        if (address >= told[i].m.start && address < told[i].m.end)
            return &told[i];
    return NULL;
}

static int check_object(struct dl_phdr_info *info, size_t size, void *ctx)
{
    struct test *t = ctx;

    (void)size;
    if (strstr(info->dlpi_name, "vdso"))
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        const struct told *m = find_told(info->dlpi_addr + p->p_vaddr);
        if (p->p_type != PT_LOAD || !(p->p_flags & PF_X))
            continue;
        CHECK(t, m != NULL);
        if (!m)
            continue;
        CHECK_INT(t, m->m.bias, info->dlpi_addr);
        CHECK_INT(t, m->m.end - m->m.start, p->p_memsz);
        CHECK_INT(t, m->m.file_offset, p->p_offset);
        CHECK_INT(t, m->m.path_len, strlen(m->path));
        CHECK(t, m->path[0] == '/');
    }
    return 0;
}

/* The build id that the linker made is in the note, which has a name of its own here. */
static void check_build_id(struct test *t, const struct told *m)
{
    char command[700], want[100] = "", got[100] = "";
    FILE *f;

    snprintf(command, sizeof(command),
             "readelf -n '%s' 2>/dev/null | sed -n 's/.*Build ID: *//p' | tr -d '\n'", m->path);
    f = popen(command, "r");
    if (!f || !fgets(want, sizeof(want), f))
        want[0] = 0;
    if (f)
        pclose(f);
    for (size_t i = 0; i < m->m.build_id_len; i++)
        snprintf(got + 2 * i, 3, "%02x", m->m.build_id[i]);
    CHECK_STR(t, got, want);
}

static void all_that_is_loaded_is_told(struct test *t)
{
    const struct told *m;
    char exe[512] = "";

    n_told = 0;
    walk_start();
    shape_plain(take_stacks, &s);
    CHECK(t, n_told > 1);
    dl_iterate_phdr(check_object, t);
    CHECK(t, readlink("/proc/self/exe", exe, sizeof(exe) - 1) > 0);
    m = find_told((uintptr_t)shape_plain);
    CHECK(t, m != NULL);
    CHECK_STR(t, m ? m->path : "", exe);
    for (uint32_t i = 0; i < n_told; i++)
        check_build_id(t, &told[i]);
}

static void nothing_is_told_twice(struct test *t)
{
    struct code_module m;
    uint32_t n = n_told;

    CHECK(t, !modules_find(8, &m));
    CHECK(t, !modules_find((uintptr_t)&s, &m));
    CHECK_INT(t, n_told, n);
}

/* ---- Libraries that come and go ---- */

typedef void plugin_fn(shape_fn *at, void *ctx);

static void *load(struct test *t, plugin_fn **ret)
{
    void *h = dlopen(getenv("WALK_PLUGIN"), RTLD_NOW | RTLD_LOCAL);

    CHECK(t, h != NULL);
    *ret = h ? (plugin_fn *)dlsym(h, "plugin_call") : NULL;
    return h;
}

/* It is not read again at once each time. */
static bool finds_in_time(const void *pc, struct code_module *ret)
{
    for (int i = 0; i < 10000; i++) {
        if (modules_find((uintptr_t)pc, ret))
            return true;
        usleep(1000);
    }
    return false;
}

static void a_library_that_was_loaded_late(struct test *t)
{
    struct code_module m;
    plugin_fn *call;

    shape_plain(take_stacks, &s);
    for (int i = 0; i < 4; i++) {
        void *h = load(t, &call);
        if (!call)
            return;
        CHECK(t, finds_in_time((void *)(uintptr_t)call, &m));
        call(take_stacks, &s);
        CHECK_INT(t, s.flags, 0);
        CHECK_SAME(t, &s);
        CHECK(t, find_told((uintptr_t)call) && strstr(find_told((uintptr_t)call)->path, "plugin"));
        CHECK(t, modules_find((uintptr_t)call, &m) && m.tables.header != 0);
        dlclose(h);
        CHECK(t, !modules_find((uintptr_t)call, &m));
    }
}

/* In its place are other things: nothing of it is believed. */
static void a_library_that_was_replaced(struct test *t)
{
    struct code_module m, now;
    plugin_fn *call;
    void *h = load(t, &call), *p;
    uintptr_t start;
    size_t size;

    if (!call)
        return;
    CHECK(t, finds_in_time((void *)(uintptr_t)call, &m));
    dlclose(h);
    start = (m.start < m.tables.start ? m.start : m.tables.start) & ~4095ul;
    size = (m.end > m.tables.end ? m.end : m.tables.end) - start;
    p = mmap((void *)start, size, PROT_READ | PROT_WRITE | PROT_EXEC,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    CHECK(t, p != MAP_FAILED);
    CHECK(t, finds_in_time((void *)(uintptr_t)call, &now));
    CHECK_INT(t, now.tables.header, 0);
    munmap(p, size);
    /* And it is back, where there was code that nothing is known about. */
    plugin_fn *again;
    h = load(t, &again);
    for (int i = 0; again == call && i < 10000 && now.tables.header == 0; i++) {
        usleep(1000);
        modules_find((uintptr_t)call, &now);
    }
    CHECK(t, again != call || now.tables.header != 0);
    dlclose(h);
}

/* Another build, where the first one was: it has the same functions, and so the same tables. */
static void a_library_that_was_built_anew(struct test *t)
{
    const char *path = getenv("WALK_PLUGIN");
    char copy[] = "/tmp/walk-twin-XXXXXX", command[700];
    struct code_module m;
    plugin_fn *call, *again = NULL;
    void *h = load(t, &call);
    int fd = mkstemp(copy);

    if (!call || fd < 0)
        return;
    close(fd);
    snprintf(command, sizeof(command),
             "objcopy -O binary --dump-section .note.gnu.build-id=%s.id '%s' /dev/null && "
             "printf x | dd of=%s.id bs=1 seek=20 conv=notrunc 2>/dev/null && "
             "objcopy --update-section .note.gnu.build-id=%s.id '%s' %s",
             copy, path, copy, copy, path, copy);
    bool is_made = system(command) == 0;
    CHECK(t, finds_in_time((void *)(uintptr_t)call, &m));
    call(take_stacks, &s);
    dlclose(h);
    modules_unloaded();
    h = is_made ? dlopen(copy, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (h)
        again = (plugin_fn *)dlsym(h, "plugin_call");
    if (again && again == call) {
        CHECK(t, finds_in_time((void *)(uintptr_t)call, &m));
        call(take_stacks, &s);
        CHECK_INT(t, s.flags, 0);
        CHECK_STR(t, find_told((uintptr_t)call)->path, copy);
    }
    if (h)
        dlclose(h);
    unlink(copy);
    strcat(strcpy(command, copy), ".id");
    unlink(command);
    if (!again || again != call)
        TEST_SKIP(t, "it could not be made, or has another place");
}

/* ---- What it reads, and how often ---- */

static void memory_that_is_gone_is_not_read(struct test *t)
{
    char *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int memory[] = {open("/proc/self/mem", O_RDONLY | O_CLOEXEC), -1};
    struct map_line l = {.start = (uintptr_t)p, .end = (uintptr_t)p + 4096};
    struct code_image image;
    char got[16];

    memset(p, 'x', 4096);
    munmap(p + 4096, 4096);
    for (int i = 0; i < 2; i++) {
        CHECK(t, image_bytes(memory[i], (uintptr_t)p + 4080, got, 16) && got[15] == 'x');
        CHECK(t, !image_bytes(memory[i], (uintptr_t)p + 4088, got, 16));
        CHECK(t, !image_read(&l, memory[i], &image));
    }
    munmap(p, 4096);
    for (int i = 0; i < 2; i++) {
        CHECK(t, !image_bytes(memory[i], (uintptr_t)p, got, 16));
        CHECK(t, !image_read(&l, memory[i], &image));
    }
    close(memory[0]);
}

/* Programs make code all the time. */
static void new_code_does_not_take_all_the_time(struct test *t)
{
    enum { N = 400 };
    char *p = mmap(NULL, 8192 * N, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct code_module m;
    int found = 0;

    walk_start();
    for (int i = 0; i < N; i++) {
        CHECK_INT(t, mprotect(p + 8192 * i, 4096, PROT_READ | PROT_EXEC), 0);
        found += modules_find((uintptr_t)p + 8192 * (uintptr_t)i, &m);
    }
    CHECK(t, found > 4 && found < N / 4);
    CHECK(t, finds_in_time(p + 8192 * (N - 1), &m));
    CHECK_INT(t, m.end - m.start, 4096);
    munmap(p, 8192 * N);
}

static bool is_over;

struct walker {
    struct two_stacks stacks;
    uint32_t n_whole, n_wrong;
};

/* One who cannot wait for the thread that reads has a stack that is cut, and says so. */
static void *walk_all_the_time(void *arg)
{
    struct walker *mine = arg;
    struct code_module m;

    walk_thread_starts(__builtin_frame_address(0));
    mine->stacks.ours_only = true;
    while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED) || mine->n_whole == 0) {
        shape_variable(take_stacks, &mine->stacks, 100);
        modules_find((uintptr_t)mine, &m);
        mine->n_whole += mine->stacks.flags == 0;
        mine->n_wrong += mine->stacks.flags == 0 && mine->stacks.n_ours < 3;
    }
    return NULL;
}

static void libraries_that_change_while_others_walk(struct test *t)
{
    static struct walker theirs[3];
    pthread_t threads[3];
    plugin_fn *call;

    walk_start();
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, walk_all_the_time, &theirs[i]);
    for (int i = 0; i < 200 && !t->failures; i++) {
        void *h = load(t, &call);
        if (!call)
            break;
        call(take_stacks, &s);
        dlclose(h);
    }
    __atomic_store_n(&is_over, true, __ATOMIC_RELAXED);
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        CHECK_INT(t, theirs[i].n_wrong, 0);
    }
}

static const struct test_case cases[] = {
    TEST(lines_are_read),
    TEST(all_that_is_loaded_is_told),
    TEST(nothing_is_told_twice),
    TEST(a_library_that_was_loaded_late),
    TEST(a_library_that_was_replaced),
    TEST(a_library_that_was_built_anew),
    TEST(memory_that_is_gone_is_not_read),
    TEST(new_code_does_not_take_all_the_time),
    TEST(libraries_that_change_while_others_walk),
};
TEST_MAIN(cases)

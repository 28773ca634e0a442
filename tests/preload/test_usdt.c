/* The probes for tracers, as a tracer finds them: by the notes in the file. Where the kernel
 * allows, one is attached. */
#include <elf.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/test.h"
#include "preload/usdt.h"

__attribute__((noinline)) static void probe_alloc(void *p, size_t size)
{
    PRELOAD_PROBE_ALLOC(p, size, 524288);
}

__attribute__((noinline)) static void probe_free(void *p)
{
    PRELOAD_PROBE_FREE(p);
}

struct note {
    uint64_t location, base, semaphore;
    const char *provider, *name, *arguments;
};

static const uint8_t *file;
static size_t file_size;

__attribute__((constructor)) static void open_file(void)
{
    int fd = open("/proc/self/exe", O_RDONLY);
    struct stat st;

    fstat(fd, &st);
    file_size = (size_t)st.st_size;
    file = mmap(NULL, file_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
}

/* How many notes there are of a probe, and the first of them. */
static int find_notes(const char *name, struct note *ret)
{
    const Elf64_Ehdr *e = (const void *)file;
    const Elf64_Shdr *s = (const void *)(file + e->e_shoff);
    const char *names = (const char *)file + s[e->e_shstrndx].sh_offset;
    int found = 0;

    for (int i = 0; i < e->e_shnum; i++) {
        if (strcmp(names + s[i].sh_name, ".note.stapsdt") != 0)
            continue;
        const uint8_t *at = file + s[i].sh_offset, *end = at + s[i].sh_size;
        while (at < end) {
            const Elf64_Nhdr *h = (const void *)at;
            const uint64_t *words = (const void *)(at + 12 + ((h->n_namesz + 3) & ~3u));
            struct note n = {words[0], words[1], words[2], (const char *)(words + 3)};
            n.name = n.provider + strlen(n.provider) + 1;
            n.arguments = n.name + strlen(n.name) + 1;
            if (h->n_type == 3 && strcmp(n.name, name) == 0 && found++ == 0)
                *ret = n;
            at = (const uint8_t *)words + ((h->n_descsz + 3) & ~3u);
        }
    }
    return found;
}

static uint64_t file_offset(uint64_t address)
{
    const Elf64_Ehdr *e = (const void *)file;
    const Elf64_Phdr *p = (const void *)(file + e->e_phoff);

    for (int i = 0; i < e->e_phnum; i++) {
        if (p[i].p_type == PT_LOAD && address >= p[i].p_vaddr &&
            address < p[i].p_vaddr + p[i].p_filesz)
            return address - p[i].p_vaddr + p[i].p_offset;
    }
    return 0;
}

static void notes_say_where_probes_are(struct test *t)
{
    struct note n = {0};
    unsigned size[3];

    CHECK_INT(t, find_notes("alloc", &n), 1);
    CHECK_STR(t, n.provider, "otel_memory");
    CHECK(t, n.semaphore != 0 && n.base != 0 && file_offset(n.semaphore) != 0);
    CHECK(t, n.arguments &&
                 sscanf(n.arguments, "%u@%*s %u@%*s %u@%*s", &size[0], &size[1], &size[2]) == 3);
    CHECK(t, size[0] == 8 && size[1] == 8 && size[2] == 8);
#ifdef __x86_64__
    CHECK_INT(t, file[file_offset(n.location)], 0x90);
#endif
    CHECK_INT(t, find_notes("free", &n), 1);
    CHECK(t, n.arguments && sscanf(n.arguments, "%u@%*s", &size[0]) == 1 && size[0] == 8);
}

static int attach(const struct note *n)
{
    FILE *f = fopen("/sys/bus/event_source/devices/uprobe/type", "r");
    unsigned type = 0;

    if (f && fscanf(f, "%u", &type) != 1)
        type = 0;
    if (f)
        fclose(f);
    struct perf_event_attr attr = {.type = type,
                                   .size = sizeof(attr),
                                   .config = file_offset(n->semaphore) << 32,
                                   .uprobe_path = (uintptr_t) "/proc/self/exe",
                                   .probe_offset = file_offset(n->location)};
    return type ? (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0) : -1;
}

static void a_tracer_counts_what_passes(struct test *t)
{
    struct note alloc, freed;
    uint64_t counts[2] = {0};
    char memory[16];

    probe_alloc(memory, 16); /* nobody listens */
    find_notes("alloc", &alloc);
    find_notes("free", &freed);
    int fds[2] = {attach(&alloc), attach(&freed)};
    if (fds[0] < 0 || fds[1] < 0)
        TEST_SKIP(t, "the kernel allows no probes here");
    CHECK(t, otel_memory_alloc_semaphore > 0);
    CHECK(t, otel_memory_free_semaphore > 0);
    for (int i = 0; i < 5; i++)
        probe_alloc(memory, 16);
    probe_free(memory);
    for (int i = 0; i < 2; i++) {
        CHECK_INT(t, read(fds[i], &counts[i], sizeof(counts[i])), sizeof(counts[i]));
        close(fds[i]);
    }
    CHECK_INT(t, counts[0], 5);
    CHECK_INT(t, counts[1], 1);
    CHECK_INT(t, otel_memory_alloc_semaphore, 0);
}

static const struct test_case cases[] = {
    TEST(notes_say_where_probes_are),
    TEST(a_tracer_counts_what_passes),
};
TEST_MAIN(cases)

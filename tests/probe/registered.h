#pragma once

#include <elf.h>
#include <stdio.h>
#include <sys/types.h>

#include "probe/probe.h"
#include "unwind/unwind_table.h"

/*
 * Puts running processes into a probe, with tables of all files they map: what the agent does, in
 * small, for tests.
 */
#define REGISTERED_FILES 16

struct registered_file {
    char path[256];
    uint32_t file;
    struct elf_file *elf;
};

struct registry {
    struct probe *probe;
    struct budget budget;
    struct registered_file files[REGISTERED_FILES];
    size_t n_files;
};

static inline void registry_init(struct registry *r, struct probe *p)
{
    *r = (struct registry){.probe = p};
    budget_init(&r->budget, (size_t)256 << 20);
}

static inline void registry_done(struct registry *r)
{
    for (size_t i = 0; i < r->n_files; i++)
        elf_close(r->files[i].elf);
}

static inline int registry_table(struct registry *r, struct registered_file *f, struct error *err)
{
    struct unwind_table table = {0};
    struct unwind_view view;
    struct buf image = {0};
    int n = elf_open(f->path, &r->budget, &f->elf, err);

    if (n == 0)
        n = unwind_table_build(f->elf, NULL, &r->budget, &table, err);
    if (n == 0) {
        unwind_table_write(&table, &image);
        n = unwind_table_read(buf_bytes(&image), &view, err);
    }
    if (n == 0)
        n = probe_file_new(r->probe, &f->file);
    if (n == 0)
        n = probe_file_put(r->probe, f->file, &view);
    buf_done(&image);
    unwind_table_done(&table);
    return n;
}

static inline struct registered_file *registry_file(struct registry *r, const char *path)
{
    struct error err;

    for (size_t i = 0; i < r->n_files; i++) {
        if (strcmp(r->files[i].path, path) == 0)
            return &r->files[i];
    }
    if (r->n_files == REGISTERED_FILES)
        return NULL;
    struct registered_file *f = &r->files[r->n_files];
    *f = (struct registered_file){0};
    snprintf(f->path, sizeof(f->path), "%s", path);
    if (registry_table(r, f, &err) < 0)
        return NULL;
    r->n_files++;
    return f;
}

/* Where the file's virtual address 0 is, when `offset` of it is mapped at `begin`. */
static inline uint64_t registry_bias(const struct elf_file *elf, uint64_t begin, uint64_t offset)
{
    for (size_t i = 0; i < elf->n_segments; i++) {
        const struct elf_segment *s = &elf->segments[i];

        if (s->type == PT_LOAD && s->flags & PF_X && offset >= (s->offset & ~UINT64_C(4095)) &&
            offset < s->offset + s->file_size)
            return begin - offset - (s->vaddr - s->offset);
    }
    return begin - offset;
}

/* Fields 26 and 28 of /proc/PID/stat: where its code and its stack start. */
static inline bool registry_starts(pid_t pid, struct unwind_process *ret)
{
    char path[64], text[1024];

    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    CLEANUP(fclosep) FILE *f = fopen(path, "re");
    if (!f || !fgets(text, sizeof(text), f))
        return false;
    const char *at = strrchr(text, ')');
    for (int field = 3; at && field <= 28; field++) {
        at = strchr(at + 1, ' ');
        if (at && field == 26)
            ret->code_start = strtoull(at, NULL, 10);
        if (at && field == 28)
            ret->stack_start = strtoull(at, NULL, 10);
    }
    return at != NULL;
}

static inline int registry_put(struct registry *r, pid_t pid, uint32_t collected)
{
    struct unwind_process value = {.collected = collected};
    struct unwind_mapping mappings[64];
    uint32_t n = 0;
    char path[64], line[512];

    if (!registry_starts(pid, &value))
        return -ESRCH;
    snprintf(path, sizeof(path), "/proc/%d/maps", pid);
    CLEANUP(fclosep) FILE *maps = fopen(path, "re");
    while (maps && fgets(line, sizeof(line), maps) && n < ARRAY_SIZE(mappings)) {
        uint64_t begin, end, offset;
        char rights[8], name[256] = "";

        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64 " %*s %*s %255s", &begin, &end,
                   rights, &offset, name) < 4 ||
            rights[2] != 'x')
            continue;
        const struct registered_file *f = name[0] == '/' ? registry_file(r, name) : NULL;
        mappings[n++] = (struct unwind_mapping){
            .begin = begin,
            .end = end,
            .bias = f ? registry_bias(f->elf, begin, offset) : begin,
            .file = f ? f->file : 0,
            .kind = f ? UNWIND_MAPPING_FILE : UNWIND_MAPPING_JIT,
        };
    }
    return probe_process_put(r->probe, (uint32_t)pid, &value, mappings, n);
}

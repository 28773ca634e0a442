#pragma once

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "base/budget.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "probe/probe.h"
#include "symbols/elf_file.h"
#include "unwind/unwind_table.h"

/*
 * What the agent does about a process, in small and all at once: its mappings, a table for each of
 * its files, and its entry.
 */

/* Fields 26 and 28 of /proc/PID/stat: where its code and its stack start. */
static inline bool read_starts(pid_t pid, struct unwind_process *ret)
{
    char path[64], text[1024];
    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    CLEANUP(fclosep) FILE *f = fopen(path, "re");
    if (!f || !fgets(text, sizeof(text), f))
        return false;
    char *at = strrchr(text, ')');
    for (int field = 2; at && field < 28; field++) {
        at = strchr(at + 1, ' ');
        if (at && field + 1 == 26)
            ret->code_start = strtoull(at, NULL, 10);
        if (at && field + 1 == 28)
            ret->stack_start = strtoull(at, NULL, 10);
    }
    return at != NULL;
}

#define ENLIST_MAX 256

struct enlisted {
    struct unwind_mapping mappings[ENLIST_MAX];
    uint32_t n;
    struct {
        char path[256];
        uint32_t file;
    } files[ENLIST_MAX];
    uint32_t n_files;
    uint64_t rows;
};

/* The virtual address of what lies at `offset` of the file. */
static inline uint64_t va_of(const struct elf_file *f, uint64_t offset)
{
    for (size_t i = 0; i < f->n_segments; i++) {
        const struct elf_segment *s = &f->segments[i];
        if (s->type == 1 && (s->flags & 1) && offset + 4096 > s->offset &&
            offset < s->offset + s->file_size)
            return s->vaddr - s->offset + offset;
    }
    return offset;
}

/* The file's number; a table is made the first time. */
static inline uint32_t file_of(struct probe *p, struct enlisted *e, const char *path,
                               struct elf_file *f, struct budget *budget)
{
    for (uint32_t i = 0; i < e->n_files; i++)
        if (strcmp(e->files[i].path, path) == 0)
            return e->files[i].file;
    uint32_t file = 0;
    if (e->n_files == ENLIST_MAX || probe_file_new(p, &file) < 0)
        return 0;
    snprintf(e->files[e->n_files].path, sizeof(e->files[0].path), "%s", path);
    e->files[e->n_files++].file = file;
    struct unwind_table table = {0};
    if (unwind_table_build(f, NULL, budget, &table, NULL) == 0) {
        struct unwind_view v = {
            table.first_text_page, table.wants_frame_pointers,
            table.pages.data,      table.pages.len ? (uint32_t)table.pages.len - 1 : 0,
            table.rows.data,       (uint32_t)table.rows.len,
            table.rules.data,      (uint32_t)table.rules.len};
        e->rows += v.n_rows;
        if (probe_file_put(p, file, &v) < 0)
            printf("# no room for the table of %s\n", path);
        unwind_table_done(&table);
    }
    return file;
}

static inline void enlist_line(struct probe *p, struct enlisted *e, pid_t pid, const char *line)
{
    unsigned long long begin, end, offset;
    char rights[8], name[256] = "";
    if (sscanf(line, "%llx-%llx %7s %llx %*s %*s %255[^\n]", &begin, &end, rights, &offset, name) <
            4 ||
        rights[2] != 'x' || e->n == ENLIST_MAX || strcmp(name, "[vsyscall]") == 0)
        return;
    struct unwind_mapping *m = &e->mappings[e->n++];
    *m = (struct unwind_mapping){begin, end, 0, 0, UNWIND_MAPPING_JIT};
    struct budget budget;
    budget_init(&budget, (size_t)1 << 30);
    CLEANUP(elf_closep) struct elf_file *f = NULL;
    static uint8_t vdso[65536];
    char path[128];
    if (strcmp(name, "[vdso]") == 0 && end - begin <= sizeof(vdso)) {
        struct iovec to = {vdso, end - begin}, from = {(void *)(uintptr_t)begin, end - begin};
        if (process_vm_readv(pid, &to, 1, &from, 1, 0) < 0 ||
            elf_from_bytes((struct bytes){vdso, end - begin}, name, &budget, &f, NULL) < 0)
            return;
    } else {
        snprintf(path, sizeof(path), "/proc/%d/map_files/%llx-%llx", pid, begin, end);
        if (elf_open(path, &budget, &f, NULL) < 0)
            return;
    }
    m->kind = UNWIND_MAPPING_FILE;
    m->bias = begin - va_of(f, offset);
    m->file = file_of(p, e, name, f, &budget);
}

static inline int enlist_mappings(struct probe *p, struct enlisted *e, pid_t pid)
{
    char path[64], line[512];
    snprintf(path, sizeof(path), "/proc/%d/maps", pid);
    CLEANUP(fclosep) FILE *f = fopen(path, "re");
    e->n = 0;
    while (f && fgets(line, sizeof(line), f))
        enlist_line(p, e, pid, line);
    return f ? 0 : -ESRCH;
}

static inline int enlist(struct probe *p, struct enlisted *e, pid_t pid, uint32_t collected)
{
    struct unwind_process value = {.collected = collected};
    if (enlist_mappings(p, e, pid) < 0 || !read_starts(pid, &value))
        return -ESRCH;
    return probe_process_put(p, (uint32_t)pid, &value, e->mappings, e->n);
}

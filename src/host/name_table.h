#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/budget.h"
#include "base/buf.h"
#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/error.h"

/*
 * Names of a file's functions by address, as an image that is looked up where it lies (in a file of
 * the cache, or a memfd), by pread: a lookup touches a few pages, and nothing is kept in memory.
 * Whoever made the image is not trusted: every read is checked.
 *
 *     header: "vesta-names-1\n" and what name_table.c says; then starts (u64, ascending), ends,
 *     offsets of names; then the names, demangled, NUL-terminated
 */
struct name_table;

/* Takes the descriptor, which is closed by name_table_close(). -EBADMSG. */
int name_table_open(int fd, struct name_table **ret, struct error *err);
void name_table_close(struct name_table *t); /* NULL is fine */
DEFINE_CLEANUP(struct name_table *, name_table_close)

uint64_t name_table_count(const struct name_table *t);

struct name_found {
    uint64_t start;
    char file[256];         /* Go: of the function; kernel: the module; else "" */
    uint32_t line;          /* Go: of the function's start */
    struct buf name;        /* as people read it */
    struct buf system_name; /* as the linker knows it; empty: the same */
};
/* False when no function holds the address. `ret` is filled anew; its buffers are the caller's. */
bool name_table_find(struct name_table *t, uint64_t address, struct name_found *ret);

/* Making one: functions in any order (the later of two that start alike counts). */
struct name_table_row {
    uint64_t start, end;
    const char *name; /* as the linker knows it; demangled when it is looked up */
    const char *file;
    uint32_t line;
};
struct name_table_writer;
struct name_table_writer *name_table_writer_new(struct budget *b);
void name_table_writer_add(struct name_table_writer *w, const struct name_table_row *row);
/* Writes the image to a descriptor, from its start. */
int name_table_writer_save(struct name_table_writer *w, int fd, struct error *err);
void name_table_writer_free(struct name_table_writer *w);

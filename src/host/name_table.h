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
 * the cache, or a memfd), by pread: a lookup reads one page and one name, and of an image at most
 * 8 KiB are kept in memory. Whoever made the image is not trusted: every read is checked.
 */
struct name_table;

/* Takes the descriptor also when it fails; it is closed by name_table_close(). -EBADMSG when it is
 * no image, or a damaged one. */
int name_table_open(int fd, struct name_table **ret, struct error *err);
void name_table_close(struct name_table *t); /* NULL is fine */
DEFINE_CLEANUP(struct name_table *, name_table_close)

/* Ranges of addresses that have a name; a little more than functions where some hold others. */
uint64_t name_table_count(const struct name_table *t);

/* Whether something that was read since it was opened cannot be: the image should be made anew. */
bool name_table_is_damaged(const struct name_table *t);

struct name_found {
    uint64_t start;
    char file[256];         /* Go: of the function; kernel: the module; else "" */
    uint32_t line;          /* Go: of the function's start */
    struct buf name;        /* as people read it */
    struct buf system_name; /* as the linker knows it; empty: the same */
};
/* False when no function holds the address. `ret` is filled anew; its buffers are the caller's. */
bool name_table_find(struct name_table *t, uint64_t address, struct name_found *ret);
void name_found_done(struct name_found *f);

/*
 * Making an image. Texts go to the descriptor at once, rows stay in memory (24 bytes each, charged
 * to the budget) until name_table_writer_save(). Failure is sticky: it is told when saving.
 *
 * Where functions overlap, the one that starts last counts (an assembler's label within a
 * function), and the outer one again behind its end. Of several that start alike the best rank
 * counts, then the longer one, then the one whose name does not start with '_'.
 */
struct name_table_writer;

enum name_table_kind {
    NAME_TABLE_NAMES,   /* rows have no files and lines */
    NAME_TABLE_PLACES,  /* they have */
    NAME_TABLE_REPLACED /* code made at run time: where rows overlap, the one added last counts */
};

struct name_table_row {
    uint64_t start, end;
    uint32_t name, file; /* where their texts are; file 0: none */
    uint32_t line;
    uint8_t rank; /* of enum name_table_rank */
};

/* As elf_symbols.h ranks them. A row without HAS_SIZE ends where the next one starts. */
enum name_table_rank {
    NAME_RANK_WEAK = 1,
    NAME_RANK_GLOBAL = 2,
    NAME_RANK_HAS_SIZE = 4,
    NAME_RANK_FUNCTION = 8,
};

#define NAME_TABLE_TEXT_MAX ((uint64_t)1 << 30)

/* The descriptor is borrowed and must be readable, writable and empty. */
struct name_table_writer *name_table_writer_new(int fd, enum name_table_kind kind,
                                                struct budget *b);
void name_table_writer_free(struct name_table_writer *w); /* NULL is fine */
DEFINE_CLEANUP(struct name_table_writer *, name_table_writer_free)

/* Adds a text (up to its first NUL) with a NUL behind it, or bytes as they are (a table of texts,
 * in any pieces): where it is. 0 for no text, and once something failed. */
uint32_t name_table_writer_text(struct name_table_writer *w, struct bytes text);
uint32_t name_table_writer_raw(struct name_table_writer *w, struct bytes part);

void name_table_writer_add(struct name_table_writer *w, const struct name_table_row *row);
size_t name_table_writer_count(const struct name_table_writer *w);
bool name_table_writer_failed(const struct name_table_writer *w);

/* Completes the image. -ENOBUFS, -E2BIG, or an errno of writing. */
int name_table_writer_save(struct name_table_writer *w, struct error *err);

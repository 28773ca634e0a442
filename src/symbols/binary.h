#pragma once

#include <stdbool.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "symbols/elf_file.h"
#include "symbols/elf_symbols.h"
#include "symbols/lookup.h"

/*
 * A program or library on disk with everything that names its code: Go's table, DWARF (its own or
 * that of a separate debug file), symbol tables (its own, the debug file's, mini debug info).
 *
 * One part being damaged takes nothing from the others: what is wrong is in the notes.
 */
struct binary;

struct binary_options {
    const char *const *debug_dirs; /* where separate debug files may be, before /usr/lib/debug */
    size_t n_debug_dirs;
    size_t max_memory; /* bytes for this binary; 0 is BINARY_MEMORY_DEFAULT */
    bool only_lines;   /* DWARF and Go's table: no names from symbol tables */
};

#define BINARY_MEMORY_DEFAULT ((size_t)1 << 30)

/* -EBADMSG when it is no ELF file, or an errno of the file system. `options` may be NULL. */
int binary_open(const char *path, const struct binary_options *options, struct binary **ret,
                struct error *err);

/* A binary that is in memory; `content` must outlive it. */
int binary_from_bytes(struct bytes content, const struct binary_options *options,
                      struct binary **ret, struct error *err);

/* A binary that is open already, and its separate debug file (-1: none; one of another program is
 * not used). Both descriptors are borrowed and must outlive it. Nothing is opened, now or later. */
int binary_from_fds(int fd, int debug_fd, const struct binary_options *options, struct binary **ret,
                    struct error *err);

void binary_close(struct binary *b); /* NULL is fine */
DEFINE_CLEANUP(struct binary *, binary_close)

/*
 * Looks up lookups[0..n), ascending by address. Frames and their texts live until binary_close().
 * What nothing is known of has no frames.
 */
void binary_lookup(struct binary *b, struct lookup *lookups, size_t n);

struct elf_file *binary_elf(struct binary *b);
const struct symbol_table *binary_symbols(struct binary *b);

/* Whether its names come from symbol tables alone, and small ones: asking it anew takes less time
 * than keeping its answers. */
bool binary_is_quick(const struct binary *b);

/* Appends what tells this binary, and its debug file, from any other: names, sizes, times. */
void binary_stamp(const struct binary *b, struct buf *out);

/* What went wrong so far, one line each; "" when nothing did. */
const char *binary_notes(struct binary *b);

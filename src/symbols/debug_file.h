#pragma once

#include "base/error.h"
#include "symbols/elf_file.h"

/*
 * The separate file that holds a stripped file's debug info, looked for as gdb does: by build id
 * under each debug directory (DIR/.build-id/ab/cdef.debug), then by the name in .gnu_debuglink
 * beside the file, in its .debug folder, and under each debug directory.
 *
 * A file found by build id must have that build id; one found by link must have it too where both
 * have one, and else the checksum that the link gives.
 *
 * `dirs` (n of them) come before /usr/lib/debug. -ENOENT when there is none.
 */
int debug_file_find(struct elf_file *f, const char *const *dirs, size_t n, struct elf_file **ret,
                    struct error *err);

/* Whether a file is the debug file of a stripped one: by build id where both have one, else by the
 * checksum of its link. */
bool debug_file_fits(struct elf_file *stripped, const struct elf_file *candidate);

/* The link's name (a plain file name, borrowed from the file) and checksum; NULL when there is no
 * sound link. */
const char *debug_file_link(struct elf_file *f, uint32_t *ret_crc);

/* The checksum of .gnu_debuglink: CRC-32 as in zip. */
uint32_t debug_crc32(uint32_t crc, const void *data, size_t n);

#pragma once

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "symbols/elf_file.h"
#include "symbols/lookup.h"

/*
 * The DWARF of one ELF file, through libdw: function names, inlined calls, files and lines, for
 * DWARF 2 to 5, compressed sections, separate .dwo files and dwz files.
 *
 * libdw reads what we hand it, so hostile files are kept from it as far as we can tell: sizes are
 * checked and charged to the budget first, and the walk over the tree is ours, never recursive,
 * only ever forward, and with a limit on its work.
 */
struct dwarf_info;

/*
 * The file must outlive the result. -ENOENT when it has no DWARF, -EBADMSG when it is damaged,
 * -ENOBUFS when its debug sections do not fit the budget.
 */
int dwarf_info_open(struct elf_file *f, struct dwarf_info **ret, struct error *err);
void dwarf_info_close(struct dwarf_info *d); /* NULL is fine */
DEFINE_CLEANUP(struct dwarf_info *, dwarf_info_close)

/*
 * Fills in the frames of lookups[0..n), which ascend by address and have none yet. Frames live in
 * the arena, their texts until dwarf_info_close(). Returns 0 also when nothing was found; damage
 * met on the way ends the search in that unit only.
 */
int dwarf_info_lookup(struct dwarf_info *d, struct lookup *lookups, size_t n, struct arena *arena,
                      struct error *err);

#pragma once

#include "abi/unwind.h"
#include "base/budget.h"
#include "base/buf.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/vec.h"
#include "symbols/elf_file.h"

/*
 * The unwind table of one file: what .eh_frame, .debug_frame (its own, or of a separate debug file)
 * and Go's pclntab say about how to leave each function, as rows of 4 bytes.
 *
 * Building streams: a file of half a gigabyte needs memory for its rows, nothing else. Rows that
 * change nothing are left out, and so are gaps of less than 16 bytes between functions.
 */
struct unwind_table {
    struct budget *budget;
    uint32_t first_text_page;
    VEC(uint32_t) pages; /* n + 1: the first row of each 64 KiB page, and the end */
    VEC(struct unwind_row) rows;
    VEC(struct unwind_rule) rules;
    bool wants_frame_pointers; /* no rows: code that keeps them, like Go's of old */
};

/*
 * `debug` may be NULL. -ENODATA when the file says nothing about unwinding, -EBADMSG when it is
 * damaged beyond use (single damaged entries are left out), -E2BIG past UNWIND_FILE_ROWS_MAX,
 * -ENOBUFS, -EOPNOTSUPP for machines that are not ours. The budget must outlive the table.
 */
int unwind_table_build(struct elf_file *f, struct elf_file *debug, struct budget *budget,
                       struct unwind_table *ret, struct error *err);
void unwind_table_done(struct unwind_table *t); /* a zeroed one is fine */

/* As bytes, to hand it from one process to another or keep it in a file; and back. What is read is
 * not believed: every index is checked. -EBADMSG. The view borrows from `image`. */
void unwind_table_write(const struct unwind_table *t, struct buf *out);

struct unwind_view {
    uint32_t first_text_page;
    bool wants_frame_pointers;
    const uint32_t *pages; /* n_pages + 1 */
    uint32_t n_pages;
    const struct unwind_row *rows;
    uint32_t n_rows;
    const struct unwind_rule *rules;
    uint32_t n_rules;
};
int unwind_table_read(struct bytes image, struct unwind_view *ret, struct error *err);

/* The rule at an address of the file; a gap where there is none. */
struct unwind_rule unwind_view_find(const struct unwind_view *v, uint64_t va);

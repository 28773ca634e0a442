#pragma once

#include "abi/unwind.h"
#include "base/budget.h"
#include "base/error.h"
#include "base/vec.h"
#include "unwind/unwind_table.h"

/*
 * Collects what is known about ranges of code, in any order, and makes an unwind table of it.
 *
 *     if (row_builder_begin(&b, start, end)) {
 *         row_builder_add(&b, start, rule);      addresses that rise, within [start, end)
 *         row_builder_add(&b, start + 4, other);
 *     }
 *
 * Where ranges overlap, the one that starts first holds to its end; of two that start together, the
 * one that was added first does. 4 bytes a row and 16 a range while collecting.
 */
#define ROW_BUILDER_TEXTS_MAX 64

struct text_range {
    uint64_t start, end;
};

struct row_span {
    uint32_t start, end; /* from the base */
    uint32_t first_row, n_rows;
};

struct row_builder {
    struct budget *budget;
    struct text_range texts[ROW_BUILDER_TEXTS_MAX]; /* what can be executed */
    size_t n_texts, last_text;
    uint64_t base; /* the start of the first page */
    VEC(struct row_span) spans;
    VEC(uint32_t)
    rows; /* offset from its span's start in the upper 18 bits, rule in the lower 14 */
    VEC(struct unwind_rule) rules;
    uint16_t *by_hash; /* rule + 1 */
    struct unwind_rule last_rule;
    uint16_t last_index;
    bool too_many; /* rows: some were not added */
};

/* Rules that every table has. */
enum { ROW_RULE_GAP, ROW_RULE_UNSUPPORTED };

/* The file's executable segments bound what is collected. -ENODATA when it has none, -EOPNOTSUPP
 * when they lie further apart than 4 GiB or above 2^47, -ENOBUFS. */
int row_builder_init(struct row_builder *b, const struct elf_file *f, struct budget *budget,
                     struct error *err);
void row_builder_done(struct row_builder *b); /* a zeroed one is fine */

/* False when no code is there: nothing may be added then. An end past the code is cut. */
bool row_builder_begin(struct row_builder *b, uint64_t start, uint64_t end);
void row_builder_add(struct row_builder *b, uint64_t pc, struct unwind_rule rule);

/* Where the collection stands, to take back all that was added since. */
struct row_mark {
    size_t n_spans, n_rows;
};
struct row_mark row_builder_mark(const struct row_builder *b);
void row_builder_undo(struct row_builder *b, struct row_mark m);

/* Puts the ranges in order. */
void row_builder_sort(struct row_builder *b);

/* The rest of the code between two ranges, once they are in order: calls back for each piece of at
 * least `min` bytes that no range covers. */
void row_builder_each_gap(const struct row_builder *b, uint64_t min,
                          void (*f)(void *arg, uint64_t start, uint64_t end), void *arg);

/* -E2BIG past UNWIND_FILE_ROWS_MAX, -ENOBUFS. */
int row_builder_finish(struct row_builder *b, struct unwind_table *ret, struct error *err);

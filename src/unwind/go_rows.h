#pragma once

#include "base/error.h"
#include "unwind/row_builder.h"

/*
 * Rows of Go functions, from Go's own table: how far each instruction's stack pointer is from where
 * the function was entered. Frame pointers, which Go keeps, are followed only where code changes to
 * another stack.
 *
 * -ENOENT when this is no Go program; -EOPNOTSUPP when it is one older than Go 1.17, whose table
 * does not tell such code apart: frame pointers are better there.
 */
int go_rows_read(struct elf_file *f, struct row_builder *rows, struct error *err);

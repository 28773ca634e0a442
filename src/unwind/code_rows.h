#pragma once

#include "base/error.h"
#include "unwind/row_builder.h"

/*
 * Rows of code that no table covers, such as all of musl's libc and hand-written loops: known from
 * what the instructions do to the stack pointer (x86-64 only), from the bytes of the kernel's way
 * back from signals, and from where the program starts, which has no caller.
 *
 * A function counts only if it adds up: the stack pointer is back where it was at every return, and
 * aligned at calls as the ABI has it. Where little of a piece of code adds up, none of it counts.
 *
 * To be called last: it fills gaps. -ENOBUFS, or an errno of the file system.
 */
int code_rows_read(struct elf_file *f, struct row_builder *rows, struct error *err);

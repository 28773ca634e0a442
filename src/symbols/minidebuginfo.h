#pragma once

#include "base/error.h"
#include "symbols/elf_file.h"

/*
 * Mini debug info: a small ELF file, packed with xz, in the section .gnu_debugdata of a stripped
 * one; it holds the symbol table that stripping took away.
 *
 * Returns the unpacked file, which `f` owns the bytes of; -ENOENT when there is none, -EBADMSG when
 * it is damaged, -ENOBUFS when it does not fit MINIDEBUGINFO_MAX or the budget.
 */
#define MINIDEBUGINFO_MAX ((size_t)64 << 20)

int minidebuginfo_open(struct elf_file *f, struct elf_file **ret, struct error *err);

#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/bytes.h"

/*
 * Names for people from names for linkers: C++ (Itanium), Rust (legacy and v0) and D, through
 * libiberty; Go generics shortened. Swift has no library here: its names stay as they are.
 *
 * The modes are those of pprof's -symbolize=demangle=MODE:
 *
 *     none        the name as it is
 *     full        everything, without the suffixes of clones (.cold, .part.0)
 *     templates   without parameters and return type
 *     default     also without template arguments; Go's become [...]
 *
 * Hostile names end quickly: longer ones than DEMANGLE_NAME_MAX, and those whose readable form is
 * longer than DEMANGLE_OUTPUT_MAX, stay as they are.
 */
enum demangle_mode { DEMANGLE_DEFAULT, DEMANGLE_NONE, DEMANGLE_TEMPLATES, DEMANGLE_FULL };

#define DEMANGLE_NAME_MAX   ((size_t)8 << 10)
#define DEMANGLE_OUTPUT_MAX ((size_t)64 << 10)

/* True and *ret set when `text` names a mode; "" is the default one. */
bool demangle_mode_parse(const char *text, enum demangle_mode *ret);

/*
 * Sets `out` to the readable form of a NUL-terminated name; to the name itself where there is
 * none. Names that are readable C++ already are shortened as the mode says, as pprof does.
 */
void demangle(const char *name, enum demangle_mode mode, struct buf *out);

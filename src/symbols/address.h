#pragma once

#include <stdint.h>

#include "profile/dict.h"
#include "symbols/elf_file.h"

/*
 * Turns an address as a profile gives it into the address that the ELF file's own tables use, the
 * way pprof does: through the mapping's start and offset and the segment that holds that part of
 * the file. Covers position-independent and fixed programs, kernels, relocatable modules, and
 * profiles whose addresses are the file's already (OpenTelemetry's convention).
 *
 * False when the address is not of this mapping or no segment matches.
 */
bool address_to_va(const struct elf_file *f, const struct mapping *m, uint64_t address,
                   uint64_t *ret);

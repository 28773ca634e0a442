#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * What a place in code is called: one frame per inlined call, the innermost first. Texts are
 * borrowed from the binary or table that was asked, names as the linker knows them.
 */
struct code_frame {
    const char *name; /* NULL when not known */
    const char *file; /* NULL when not known */
    uint32_t line, column;
    uint32_t start_line;      /* of the function; 0 when not known */
    struct code_frame *outer; /* what this one was inlined into, or NULL */
};

/* One address to look up: its virtual address in the ELF file, and the answer. */
struct lookup {
    uint64_t va;
    struct code_frame *innermost; /* NULL: nothing known */
    /* Of whoever fills the chain in; not for callers. */
    uint64_t tip;
    bool is_placed;
};

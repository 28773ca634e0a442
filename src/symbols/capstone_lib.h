#pragma once

#include <capstone/capstone.h>

/*
 * capstone, loaded when code is first disassembled: its tables are larger than the rest of the
 * program, and every other run would pay for them in memory and start-up time.
 */
struct capstone {
    __typeof__(&cs_open) open;
    __typeof__(&cs_close) close;
    __typeof__(&cs_option) option;
    __typeof__(&cs_malloc) malloc;
    __typeof__(&cs_free) free;
    __typeof__(&cs_disasm_iter) disasm_iter;
    __typeof__(&cs_insn_group) insn_group;
};

/* NULL when the library of the version we were built for is not there. Not thread-safe. */
const struct capstone *capstone_get(void);

#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "preload/frame_rules.h"

/*
 * Where code is, and its tables. What the process has mapped is read from /proc/self/maps, and the
 * ELF headers there from memory: never from the dynamic linker, whose lists are behind a lock. That
 * one is held while callbacks of dl_iterate_phdr() run, which may wait for a lock that the thread
 * that allocates holds; so whoever takes it within malloc() can wait forever. Reading a file
 * cannot.
 *
 * Readers take no lock and copy what they find. It is read anew when an address is in nothing that
 * is known, or tables are gone, at most some times a second; by one thread, others go without.
 */
struct code_module {
    uintptr_t start, end;
    struct frame_tables tables; /* header 0: code without */
    uintptr_t id;               /* where the build id is; 0: none */
    uint64_t sign;              /* of both: others have another */
};

/* Forgets all: the next walk reads anew, and tells all to readers. */
void modules_forget(void);

/* The module of an address, with tables that can be read now; false: none, also after looking
 * again. */
bool modules_find(uintptr_t pc, struct code_module *ret);

/* Whether it is in this library. Never where its parts are in the program itself. */
bool modules_is_own(uintptr_t pc);

/* A library may have gone. */
void modules_unloaded(void);

/* Changes when a module has gone, or may have: what was learned about addresses may not hold any
 * longer. */
uint32_t modules_epoch(void);

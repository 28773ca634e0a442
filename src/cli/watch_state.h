#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* What of a folder has been dealt with, kept in a file there: a line for each. */
struct watch_state;

/* What a file was when it was dealt with: another size or time makes it another. */
struct watch_mark {
    uint64_t size;
    int64_t mtime_ns;
    bool is_ok; /* else it was rejected */
};

/* Reads the file in `folder` (a descriptor, borrowed) and drops lines of files that are gone. A
 * state that cannot be kept is said in *ret_trouble and is none that stops anything. */
struct watch_state *watch_state_open(int folder, struct error *ret_trouble);
void watch_state_close(struct watch_state *s);

bool watch_state_has(const struct watch_state *s, const char *name, const struct watch_mark *mark);
void watch_state_add(struct watch_state *s, const char *name, const struct watch_mark *mark);

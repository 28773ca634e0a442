#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/code_files.h"
#include "agent/place.h"
#include "agent/process_table.h"
#include "base/budget.h"
#include "base/idset.h"
#include "base/mask_rules.h"
#include "profile/dict.h"

/*
 * Names for places: one dictionary that lives across windows, so that what every window repeats is
 * looked up once. When it has grown to its limit it is thrown away and begun anew: its generation
 * changes then, and whoever kept ids of it asks again.
 */
struct naming;

struct naming_options {
    struct code_files *files;
    struct name_table *kernel; /* taken over; may be NULL: kernel code has no names */
    size_t memory_max;
    bool wants_names;          /* else addresses only */
    struct mask_matcher *mask; /* of what may not be sent; borrowed */
};

struct naming *naming_new(const struct naming_options *o);
void naming_free(struct naming *n); /* NULL is fine */

struct dict *naming_dict(struct naming *n);
uint32_t naming_generation(const struct naming *n); /* never 0 */

/* Between windows: begins anew when the dictionary is full, or at once. */
void naming_renew(struct naming *n, bool at_once);

/* The location of a place; 0 when the budget is spent. `p` is the process it was seen in. */
uint32_t naming_location(struct naming *n, const struct process *p, place at);

/* The same, with the frames that lines and inlined calls gave: known from now on. */
void naming_put_lines(struct naming *n, struct code_file *f, uint64_t va,
                      const struct code_frame *innermost);
/* Whether a place has its location already. */
bool naming_knows(const struct naming *n, place at);

/* The file's number will mean another file. */
void naming_forget_file(struct naming *n, uint32_t number);

/* A string of the dictionary, with what may not be sent replaced. */
uint32_t naming_string(struct naming *n, enum mask_role role, struct bytes text);

/* A frame that is no code: "[waiting: futex]". */
uint32_t naming_note(struct naming *n, const char *text);

/* The innermost function's name of a location, "" when there is none. */
const char *naming_text(struct naming *n, uint32_t location);

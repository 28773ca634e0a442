#pragma once

#include "formats/format.h"

/* What reading and writing collapsed stacks share. */

/* Counts with a fraction are kept in units of which a million make one. */
#define COLLAPSED_FRACTION      1000000
#define COLLAPSED_FRACTION_UNIT "microcount"

/* The location attribute that says how a JVM frame was compiled: one of the kinds below. */
#define COLLAPSED_KIND_KEY "jvm.frame.kind"

struct frame_suffix {
    const char *text; /* four characters: "_[k]" */
    const char *type; /* the frame type */
    const char *kind; /* the value of COLLAPSED_KIND_KEY, or NULL */
};

/* The suffix to write for a frame of this type and kind ("" when there is none), or NULL. */
const struct frame_suffix *frame_suffix_by_kind(const char *type, const char *kind);

/* collapsed_write.c */
int collapsed_encode(const struct profile_set *set, struct buf *out, struct buf *losses,
                     struct error *err);

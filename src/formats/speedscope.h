#pragma once

#include "formats/format.h"

/* A unit of speedscope's and the sample type it becomes: value * scale in `unit`. */
struct scope_unit {
    const char *name;
    const char *type, *unit;
    double scale;
};

#define SCOPE_N_UNITS 6
extern const struct scope_unit scope_units[SCOPE_N_UNITS];

/* speedscope_write.c */
int speedscope_encode(const struct profile_set *set, struct buf *out, struct buf *losses,
                      struct error *err);

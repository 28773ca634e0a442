#pragma once

#include "formats/format.h"

/* The encode() of format_callgrind. */
int callgrind_encode(const struct profile_set *set, struct buf *out, struct buf *losses,
                     struct error *err);

#pragma once

#include "base/buf.h"
#include "cli/load.h"
#include "cli/options.h"

/* Draws what was loaded by load_parts(), filtered by the options, as one SVG file; where there is a
 * base, both sides in one picture. */
int flame_draw(const struct loaded *l, const struct options *o, const char *title, struct buf *out,
               struct error *err);

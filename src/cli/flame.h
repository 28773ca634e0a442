#pragma once

#include "base/buf.h"
#include "cli/load.h"
#include "cli/options.h"

/* Draws what was loaded by load_parts(), filtered by the options; where there is a base, both sides
 * in one picture. --format, else the name of the output, says whether as SVG or as an HTML page. */
int flame_draw(const struct loaded *l, const struct options *o, const char *title, struct buf *out,
               struct error *err);

/* A file of this name is a picture: .svg or .html. NULL is none. */
bool flame_is_picture(const char *name);

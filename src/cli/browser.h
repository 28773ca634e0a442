#pragma once

#include "base/buf.h"
#include "base/bytes.h"
#include "base/error.h"

/*
 * Pictures in a browser. The file is kept under the user's runtime or temporary folder, because the
 * browser reads it after we are gone.
 */

/* Draws DOT text as SVG with Graphviz. -ENOENT when Graphviz is not installed. */
int browser_draw_dot(struct bytes dot, struct buf *ret_svg, struct error *err);

/*
 * Writes `content` to a new file with this extension and shows it: $BROWSER, else xdg-open. Where
 * there is no display or no browser, the path is printed instead.
 */
int browser_show(struct bytes content, const char *extension, struct error *err);

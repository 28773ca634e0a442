#pragma once

#include "base/buf.h"
#include "base/bytes.h"

/* File names as reports show them. Nothing here touches a file system. */

/* Appends the shortest spelling of a path: no "//", no ".", no "x/..". Empty becomes ".". */
void path_clean(struct bytes path, struct buf *out);

/* The part after the last slash; trailing slashes do not count. "/" for "/", "." for "". */
struct bytes path_base(struct bytes path);

/*
 * Takes the part off a source file name that only its build machine knew. `trim` is a
 * colon-separated list of prefixes. Without it, the first directory of `search` (colon-separated,
 * where sources are) whose last element stands in the path ends the part to take off. Either may be
 * NULL. The result points into `path`.
 */
struct bytes path_trim(struct bytes path, const char *trim, const char *search);

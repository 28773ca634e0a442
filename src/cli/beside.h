#pragma once

#include "cli/options.h"

/* Writes FILE.svg and FILE.speedscope.json beside a profile, as --write-svg and --write-speedscope
 * say. What goes wrong is told and is no failure of the push. */
void beside_write(const struct options *o, const char *file);

/* Whether a name looks like something that was written beside another file; *ret_len is then how
 * long the other's name is. */
bool beside_is_one(const char *name, size_t *ret_len);

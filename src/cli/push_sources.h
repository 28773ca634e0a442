#pragma once

#include "cli/options.h"

/*
 * `vesta push --sources DIR`: the text files of a folder as the sources of one version of a service,
 * so that the server can show the lines behind a profile. Folders whose names begin with a dot, and
 * node_modules, stay at home; so do files that are no text or larger than a source file may be.
 * An exit code.
 */
int push_sources(const struct options *o);

#pragma once

#include "cli/load.h"
#include "cli/options.h"

/*
 * The prompt: `vesta SOURCE`. Lines are `verb [n] [regex] [-regex] [>file]`, `option=value`, or
 * `help`. History and completion on a terminal; without one, lines are read as a script.
 *
 * Returns an exit code: that of the last line that failed, when not on a terminal.
 */
int shell_run(struct loaded *l, struct options *o);

#pragma once

#include "base/buf.h"

/*
 * Names in a profile are whatever its maker chose. On a terminal, control characters in them could
 * move the cursor, set the title or answer questions in the user's name, and direction marks could
 * make one name look like another: they are shown as "\x1b" or "\u202e". What goes to files and
 * pipes is left as it is.
 */

/* Appends text with such characters made visible; line ends, tabs and our own colours stay. */
void terminal_clean(struct bytes text, struct buf *out);

/* Writes to standard error, cleaned. */
void terminal_say(struct bytes text);

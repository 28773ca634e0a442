#include "cli/color.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool color_wanted(enum color_mode mode, int fd)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

    if (mode != COLOR_AUTO)
        return mode == COLOR_ALWAYS;
    return !(no && *no) && term && strcmp(term, "dumb") != 0 && isatty(fd);
}

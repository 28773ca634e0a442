#pragma once

#include <stdbool.h>

#include "cli/options.h"

/*
 * Colour is for people: on a terminal that can show it, unless NO_COLOR is set, or as --color says.
 * What is coloured reads the same without.
 */
#define COLOR_BOLD   "\033[1m"
#define COLOR_RED    "\033[31m"
#define COLOR_YELLOW "\033[33m"
#define COLOR_GREEN  "\033[32m"
#define COLOR_DIM    "\033[2m"
#define COLOR_ERROR  "\033[1;31m"
#define COLOR_END    "\033[0m"

/* Whether to colour what goes to this file descriptor. */
bool color_wanted(enum color_mode mode, int fd);

#pragma once

#include <stdio.h>

#include "cli/command.h"

/* `vesta store import` and `export`: between files and a data directory. */
int store_import(const struct command *self, struct options *o);
int store_export(const struct command *self, struct options *o);

/* Lines about the verbs of `vesta store`, for the help. */
void store_verbs_help(FILE *out);

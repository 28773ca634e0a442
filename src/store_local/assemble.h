#pragma once

#include "store_local/scan.h"

/*
 * Makes the answer of what was gathered and scanned: translates the names that have a value into
 * the answer's dictionary, adds up what several epochs and series say of one cell, and writes cells
 * and profiles. Returns 0, or -ENOBUFS past the budget of the ask or of the answer.
 */
int assemble(struct ask *a, struct scan *s, struct store_answer *answer, struct error *err);

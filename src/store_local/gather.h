#pragma once

#include "store_local/ask.h"

/*
 * Finds the rows that a question is about, in memory and in segments, each once: from indexes and
 * row blocks alone. What rows say themselves (profiles, durations, totals) goes into the cells;
 * where their samples are needed, picks say where they stand.
 *
 * A file or block that cannot be read makes the answer incomplete and says so in it. Returns 0,
 * -ECANCELED, or -ENOBUFS past the budget.
 */
int gather(struct ask *a, struct store_answer *answer, struct error *err);

/* Says once what is missing in an answer. */
void answer_trouble(struct store_answer *answer, const struct error *why);

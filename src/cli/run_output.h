#pragma once

#include <signal.h>

#include "cli/options.h"
#include "cli/run_segments.h"

/*
 * Where a run's windows go: named, counted for the summary, written to files or sent, all on a
 * thread of its own, so that reading never waits for debug info or for a server. While nobody takes
 * them they are kept, up to a limit, and sent again; what did not fit is told.
 */
struct run_output;

/* Of the options: --url (VESTA_URL, OTEL_EXPORTER_OTLP_[PROFILES_]ENDPOINT), -o, --token,
 * --retry-for... -EINVAL with what is wrong. Starts its thread with the first window. */
int run_output_new(const struct options *o, struct run_output **ret, struct error *err);

/* Takes the window over. NULL is fine. */
void run_output_put(struct run_output *out, struct run_window *w);

/* Waits until everything is written and sent, or given up. `stop` becoming other than 0 ends it
 * early. Then the summary, and what went wrong, are for people to read. */
void run_output_finish(struct run_output *out, const volatile sig_atomic_t *stop,
                       struct buf *summary, struct buf *trouble);
void run_output_free(struct run_output *out); /* NULL is fine */

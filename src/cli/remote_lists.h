#pragma once

#include "store/store.h"

/* Reading what a server's API answers: JSON, as docs/api.md describes it. */

/* A timeline's or a function's points become cells of the answer. */
int remote_read_timeline(struct bytes json, const struct store_plan *plan,
                         struct store_answer *answer, struct error *err);

/* A heat map of one row for each column: cells, each of one step. */
int remote_read_heat(struct bytes json, struct store_answer *answer, struct error *err);

/* A list with a line of JSON for each item; one of the sinks is set. What a sink returns other than
 * 0 ends it and is the result. */
struct remote_list {
    store_series_fn on_series;
    store_found_fn on_found;
    store_span_fn on_span;
    void *ctx;
};
int remote_read_list(struct bytes lines, const struct remote_list *l, struct error *err);

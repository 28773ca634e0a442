#pragma once

#include <stdbool.h>
#include <yaml.h>

#include "base/bytes.h"
#include "base/error.h"

/*
 * YAML read event by event: nothing is built that its author could make large. Anchors, aliases,
 * tags and further documents are refused: settings need none of them.
 */
struct yaml_events {
    yaml_parser_t parser;
    yaml_event_t event; /* the current one */
    unsigned line;      /* that it starts in */
    struct error *err;
};

/* `text` is borrowed until yaml_events_done(), which takes what is all zeros as well. */
int yaml_events_init(struct yaml_events *y, struct bytes text, struct error *err);
void yaml_events_done(struct yaml_events *y);

int yaml_events_next(struct yaml_events *y);

/* To the first event of the one document. *ret_is_empty: there is none. */
int yaml_events_enter(struct yaml_events *y, bool *ret_is_empty);
/* From the last event of the document to the end. */
int yaml_events_leave(struct yaml_events *y);

/* Of a scalar. */
struct bytes yaml_events_scalar(const struct yaml_events *y);
/* What has no value at all: "key:" and nothing behind it. */
bool yaml_events_is_nothing(const struct yaml_events *y);

#pragma once

#include <stdio.h>

#include "base/buf.h"
#include "cli/options.h"
#include "query/query.h"

/* Questions that only a store can answer. To add one: a function here, a row in cmd_query.c. */
struct query_verb {
    const char *name, *arguments, *summary;
    int (*run)(const struct query *q, const struct options *o, const char *argument,
               struct buf *out, struct error *err);
    bool takes_argument; /* the first word behind the verb */
};

int query_verb_timeline(const struct query *q, const struct options *o, const char *argument,
                        struct buf *out, struct error *err);
int query_verb_function(const struct query *q, const struct options *o, const char *argument,
                        struct buf *out, struct error *err);
int query_verb_callers(const struct query *q, const struct options *o, const char *argument,
                       struct buf *out, struct error *err);
int query_verb_lines(const struct query *q, const struct options *o, const char *argument,
                     struct buf *out, struct error *err);
int query_verb_tree(const struct query *q, const struct options *o, const char *argument,
                    struct buf *out, struct error *err);
int query_verb_heatmap(const struct query *q, const struct options *o, const char *argument,
                       struct buf *out, struct error *err);
int query_verb_types(const struct query *q, const struct options *o, const char *argument,
                     struct buf *out, struct error *err);
int query_verb_labels(const struct query *q, const struct options *o, const char *argument,
                      struct buf *out, struct error *err);
int query_verb_values(const struct query *q, const struct options *o, const char *argument,
                      struct buf *out, struct error *err);
int query_verb_series(const struct query *q, const struct options *o, const char *argument,
                      struct buf *out, struct error *err);
int query_verb_profiles(const struct query *q, const struct options *o, const char *argument,
                        struct buf *out, struct error *err);
int query_verb_spans(const struct query *q, const struct options *o, const char *argument,
                     struct buf *out, struct error *err);

/* For a report whose sources are selections: whether it needs the labels of samples. */
struct command;
void query_prepare(const struct command *c, struct options *o);

/* A line for each, for the help. */
void query_verbs_help(FILE *out);

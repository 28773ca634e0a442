#pragma once

#include "base/regex.h"
#include "cli/report.h"
#include "profile/graph.h"
#include "profile/labels.h"
#include "profile/measure.h"

/* What the files of the reports share: a report being made. One file prints one family of reports:
 * report_graph.c (top, tree, peek), report_traces.c (traces, raw, comments), report_tags.c,
 * report_list.c, report_disasm.c, report_dot.c. */
struct report {
    enum report_kind kind;
    struct report_options o; /* with what the kind of report implies */
    const struct profile *p; /* after filtering */
    struct dict *dict;
    struct label_units units;
    struct regex *pattern; /* the argument; NULL when there is none */
    const char *argument;

    uint32_t type;           /* the column shown */
    const char *sample_unit; /* of that column */
    const char *unit;        /* what values are printed in */
    int64_t total;           /* what 100 % is */
    double ratio;

    struct buf *out;
    struct error *err;
};

/* A value in the report's unit. */
void report_value(const struct report *r, int64_t v, char ret[MEASURE_TEXT_MAX]);
void report_percent(const struct report *r, int64_t v, char ret[MEASURE_TEXT_MAX]);

/* The frames of the report's granularity. */
struct frame_options report_frame_options(const struct report *r);

/* Builds the trimmed graph and chooses the unit to print in. */
int report_graph(struct report *r, struct frames *f, struct graph *g);

/* Lines about the profile (File, Type, Time...); and about what of it is shown. Each line ends with
 * `end`. */
void report_add_profile_lines(const struct report *r, const char *end, struct buf *out);
void report_add_header(const struct report *r, const struct graph *g, bool is_picture,
                       const char *end, struct buf *out);

int report_top(struct report *r);
int report_tree(struct report *r); /* and peek */
int report_traces(struct report *r);
int report_raw(struct report *r);
int report_comments(struct report *r);
int report_tags(struct report *r);
int report_list(struct report *r);
int report_disasm(struct report *r);
int report_dot(struct report *r);

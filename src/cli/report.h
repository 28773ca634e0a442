#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/error.h"
#include "profile/graph.h"
#include "profile/profile.h"

/*
 * Reports: a profile turned into the text (or JSON, or CSV) that pprof users know. Same columns,
 * same numbers, same order as `go tool pprof` for the same options.
 *
 *     struct report_options o;
 *     report_options_init(&o);
 *     o.focus = "Marshal";
 *     r = report_run(REPORT_TOP, p, &o, NULL, &out, &err);
 */
enum report_kind {
    REPORT_TOP,
    REPORT_TREE,
    REPORT_PEEK, /* the argument is a regex of entries */
    REPORT_TRACES,
    REPORT_TAGS,
    REPORT_RAW,
    REPORT_COMMENTS,
    REPORT_LIST,   /* the argument is a regex of functions or files */
    REPORT_DISASM, /* the argument is a regex of functions, or an address */
    REPORT_DOT,
};

enum report_output {
    REPORT_TEXT,
    REPORT_JSON,
    REPORT_CSV,
};

/* All strings may be NULL (not given) and are borrowed for the call. */
struct report_options {
    /* Regular expressions over function, file and binary names. */
    const char *focus, *ignore, *hide, *show, *show_from, *prune_from;
    /* Tag filters: regex, key=regex, or numeric ranges with units. */
    const char *tagfocus, *tagignore;
    const char *taghide, *tagshow; /* regexes of tag keys */
    const char *tagroot, *tagleaf; /* comma-separated tag keys that become frames */

    const char *sample_index; /* name or number of a sample type */
    const char *unit;         /* "minimum", "auto", or a unit */
    const char *trim_path;    /* path prefixes taken off file names, colon-separated */
    const char *source_path;  /* where `list` looks for source, colon-separated */
    const char *binary_path;  /* where `disasm` looks for binaries, colon-separated */
    const char *program;      /* the binary of the first mapping, when given by hand */

    double divide_by;
    double nodefraction, edgefraction;
    int nodecount; /* -1: what pprof shows by default for this report */

    bool cum; /* sort by cum instead of flat */
    bool noinlines;
    bool mean;
    bool drop_negative;
    bool call_tree;
    bool relative_percentages;
    bool trim;
    bool compact_labels; /* leave out the File, Type, Time... lines */
    bool showcolumns;
    bool intel_syntax;
    bool color; /* of text, for a terminal */

    enum granularity granularity;
    enum report_output output;

    /* When not NULL: gets one line for each thing worth telling a person, such as a filter that
     * matched nothing. */
    struct buf *warnings;
};

/* pprof's defaults. */
void report_options_init(struct report_options *o);

/*
 * Appends a report on p to `out`. p is not changed; its dictionary may grow. `argument` is the
 * regex of peek, list and disasm; NULL for the others.
 *
 * Returns 0; -EINVAL for an option or argument that cannot be understood; -ENODATA when the profile
 * has no sample types, nothing matches the argument, or there is nothing to show: the last with the
 * (empty) report written all the same, as pprof does; -ENOBUFS when the budget of the dictionary is
 * spent. disasm, dot and raw are text whatever `output` says.
 */
int report_run(enum report_kind kind, const struct profile *p, const struct report_options *o,
               const char *argument, struct buf *out, struct error *err);

/*
 * A copy of p as a report would see it: the options' filters applied, and the column that
 * sample_index names in *ret_type. For pictures and comparisons. The caller frees *ret. Errors are
 * those of report_run().
 */
int report_prepare(const struct profile *p, const struct report_options *o, struct profile **ret,
                   uint32_t *ret_type, struct error *err);

/* Appends the lines that describe a profile: File, Type, Time, Duration... Errors are those of
 * report_run(). */
int report_describe(const struct profile *p, const struct report_options *o, struct buf *out,
                    struct error *err);

/* Appends a field of a CSV row, quoted where it must be. */
void report_csv_field(struct buf *out, const char *text, bool is_last);

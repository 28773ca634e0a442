#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/command.h"
#include "cli/labelled.h"
#include "cli/query_verbs.h"
#include "cli/selection.h"

/*
 * `vesta query VERB SELECTION`: the reports of files, asked of a store, and what only a store can
 * answer.
 */
static const struct query_verb verbs[] = {
    {"timeline", "SELECTION", "value per --step, grouped with --by LABELS", query_verb_timeline,
     false},
    {"function", "NAME SELECTION", "cum and flat value of one function per step, grouped with --by",
     query_verb_function, true},
    {"callers", "NAME SELECTION", "who calls a function, and whom it calls", query_verb_callers,
     true},
    {"lines", "FILE SELECTION", "cost of each line of a source file", query_verb_lines, true},
    {"cut", "SELECTION", "the flame tree cut for drawing, as JSON; --limit, --under",
     query_verb_tree, false},
    {"heatmap", "SELECTION", "value by the samples' own times: a line for each --step, cut into 50",
     query_verb_heatmap, false},
    {"types", "[SELECTION]", "sample types", query_verb_types, false},
    {"labels", "[SELECTION]", "label names", query_verb_labels, false},
    {"values", "LABEL [SELECTION]", "values of a label", query_verb_values, true},
    {"series", "[SELECTION]", "label sets with their sample types", query_verb_series, false},
    {"profiles", "[SELECTION]", "single profiles: time, series, id, totals; --limit",
     query_verb_profiles, false},
    {"spans", "[SELECTION]", "spans kept for correlation, by service.name, --trace, --span",
     query_verb_spans, false},
};

static const struct query_verb *find_verb(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
        if (strcmp(verbs[i].name, name) == 0)
            return &verbs[i];
    return NULL;
}

void query_verbs_help(FILE *out)
{
    for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
        fprintf(out, "  %-10s %-18s %s\n", verbs[i].name, verbs[i].arguments, verbs[i].summary);
}

static int run_own(const struct command *self, const struct query_verb *verb, struct options *o)
{
    CLEANUP(selection_done) struct selection s = {0};
    CLEANUP(store_closep) struct store *store = NULL;
    CLEANUP(buf_done) struct buf out = {0};
    struct error err = {""};
    const char *argument = NULL;

    if (verb->takes_argument) {
        if (o->n_args < 1)
            return command_usage(self, "query %s needs %s", verb->name, verb->arguments);
        argument = o->args[0];
        o->args++, o->n_args--;
    }
    if (o->n_args > 1) {
        int code = command_usage(self, "query %s takes one selection, not \"%s\" too", verb->name,
                                 o->args[1]);
        if (verb->takes_argument)
            o->args--, o->n_args++;
        return code;
    }
    int r = selection_open(o, &store, &err);
    if (r == 0)
        r = selection_parse(o, store, o->n_args > 0 ? o->args[0] : "", &s, &err);
    if (r == 0)
        r = verb->run(&s.query, o, argument, &out, &err);
    selection_tell(&s);
    if (verb->takes_argument)
        o->args--, o->n_args++;
    if (r < 0 && (r != -ENODATA || out.len == 0))
        return command_fail(r, &err);
    int code = command_write(o, buf_bytes(&out), false); /* also a list of nothing, for scripts */
    return r < 0 && code == VESTA_EXIT_OK ? command_fail(r, &err) : code;
}

#define TYPE_NAME_MAX 256

/* The sample type that a selection names, if it does. */
static bool type_of(const char *selection, char ret[TYPE_NAME_MAX])
{
    size_t n = strcspn(selection, "{:@ ");
    if (n == 0 || n >= TYPE_NAME_MAX)
        return false;
    memcpy(ret, selection, n);
    ret[n] = '\0';
    return true;
}

/* A report of files, its sources taken as selections. */
static int run_report(const struct command *self, const char *name, struct options *o)
{
    const struct command *c = command_find(name);
    if (!c || !(c->groups & OPTIONS_FILTER ? true : c->run == cmd_convert || c->run == cmd_merge))
        return command_usage(self, "there is no question \"%s\"", name);
    if (o->n_args == 0)
        return command_usage(self, "query %s needs a selection; {} is everything", name);
    o->is_query = true;
    query_prepare(c, o);
    return c->run(c, o);
}

void query_prepare(const struct command *c, struct options *o)
{
    static char type[TYPE_NAME_MAX];

    o->is_labelled =
        c->groups & OPTIONS_FILTER && labelled_needed(o, c->run == cmd_report ? c->argument : -1);
    if (o->is_labelled && !o->report.sample_index && type_of(o->args[o->n_args - 1], type))
        o->report.sample_index = type; /* whole profiles have all their types */
}

int cmd_query(const struct command *self, struct options *o)
{
    if (o->n_args == 0)
        return command_usage(self, "query needs a verb: top, flame, timeline, labels...");
    const char *name = o->args[0];
    const struct query_verb *verb = find_verb(name);
    o->args++, o->n_args--;
    int code = verb ? run_own(self, verb, o) : run_report(self, name, o);
    o->args--, o->n_args++;
    return code;
}

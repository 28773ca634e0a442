#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/command.h"
#include "cli/load.h"
#include "cli/terminal.h"

static bool needs_regex(int kind)
{
    return kind == REPORT_PEEK || kind == REPORT_LIST || kind == REPORT_DISASM;
}

/* A difference without samples is an answer: nothing changed. */
static bool is_empty(int kind, const struct loaded *l)
{
    return l->profile->n_samples == 0 && !l->base && kind != REPORT_COMMENTS && kind != REPORT_RAW;
}

/* top, tree, peek...: an optional count or a regex, then the sources. */
int cmd_report(const struct command *self, struct options *o)
{
    CLEANUP(load_done) struct loaded l = {0};
    CLEANUP(buf_done) struct buf out = {.budget = &l.budget};
    CLEANUP(buf_done) struct buf warnings = {0};
    struct error err = {""};
    const char *const *sources = o->args;
    size_t n = o->n_args;
    const char *regex = NULL;

    if (needs_regex(self->argument)) {
        if (n < 2)
            return command_usage(self, "%s needs a regular expression and a profile", self->name);
        regex = *sources++;
        n--;
    } else if (n > 1 && !load_is_source(sources[0]) &&
               options_parse_count(sources[0], &o->report.nodecount)) {
        sources++;
        n--;
    }
    if (n == 0)
        return command_usage(self, "%s needs a profile", self->name);
    int r = load_profile(&l, o, sources, n, &err);
    if (r < 0)
        return command_fail(r, &err);
    o->report.warnings = &warnings;
    o->report.binary_path = o->binary_path;
    o->report.program = l.program;
    r = report_run((enum report_kind)self->argument, l.profile, &o->report, regex, &out, &err);
    if (warnings.len > 0)
        terminal_say(buf_bytes(&warnings));
    if (r == 0 && is_empty(self->argument, &l))
        r = error_set(&err, -ENODATA, "no data: the profile has no samples");
    if (r < 0 && (r != -ENODATA || out.len == 0))
        return command_fail(r, &err);
    int code = command_write(o, buf_bytes(&out), false);
    return r < 0 && code == VESTA_EXIT_OK ? command_fail(r, &err) : code;
}

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/command.h"
#include "cli/load.h"
#include "cli/report.h"
#include "cli/terminal.h"

/* The format to write: --to, else by the output's name. */
static int choose_format(const struct options *o, const struct format *fallback,
                         const struct format **ret, struct error *err)
{
    if (o->to) {
        *ret = format_by_name(o->to);
        if (!*ret || !(*ret)->encode)
            return error_set(err, -EINVAL,
                             "no format \"%s\" can be written; see \"vesta help formats\"", o->to);
        return 0;
    }
    *ret = o->output ? format_by_extension(o->output) : fallback;
    if (!*ret && o->output)
        return error_set(err, -EINVAL,
                         "\"%s\" does not say which format to write; name one with --to FORMAT",
                         o->output);
    if (!*ret)
        return error_set(err, -EINVAL, "say what to write: -o FILE or --to FORMAT");
    return 0;
}

/* Replaces the profiles of the set by the merged one, saying what that cannot hold. */
static void keep_only_merged(struct loaded *l, struct buf *losses)
{
    bool times = false;

    for (size_t i = 0; i < l->set->profiles.len; i++)
        times = times || l->set->profiles.data[i]->time_ns;
    if (times)
        buf_add_str(losses,
                    "the times of samples: those of equal stacks and labels were added up\n");
    profile_set_truncate(l->set, 0);
    if (vec_push(&l->budget, &l->set->profiles, l->profile))
        l->profile = NULL;
}

/* What was written, and what a person should know about it. */
static int finish(const struct options *o, const struct loaded *l, struct bytes content,
                  bool is_binary, struct bytes losses)
{
    CLEANUP(buf_done) struct buf said = {0};
    struct bytes line;
    int code = command_write(o, content, is_binary);

    if (code != VESTA_EXIT_OK)
        return code;
    for (size_t i = 0; i < l->set->notes.len; i++)
        buf_addf(&said, "note: %s\n", l->set->notes.data[i]);
    while (bytes_next_line(&losses, &line))
        buf_addf(&said, "lost: %.*s\n", (int)line.len, (const char *)line.data);
    terminal_say(buf_bytes(&said));
    return VESTA_EXIT_OK;
}

static int write_set(struct options *o, struct loaded *l, const struct format *f,
                     struct buf *losses)
{
    CLEANUP(buf_done) struct buf out = {.budget = &l->budget};
    struct error err = {""};

    int r = f->encode(l->set, &out, losses, &err);
    if (r == 0 && buf_full(&out))
        r = buf_error(&out, &err);
    return r < 0 ? command_fail(r, &err)
                 : finish(o, l, buf_bytes(&out), f->is_binary, buf_bytes(losses));
}

/* DOT is a report and no format of its own, but people ask for it here too. */
static bool is_dot(const struct options *o)
{
    size_t n = o->output ? strlen(o->output) : 0;

    return o->to ? strcmp(o->to, "dot") == 0 : n > 4 && strcmp(o->output + n - 4, ".dot") == 0;
}

static int write_dot(struct options *o)
{
    CLEANUP(load_done) struct loaded l = {0};
    CLEANUP(buf_done) struct buf out = {.budget = &l.budget};
    struct error err = {""};

    int r = load_profile(&l, o, o->args, o->n_args, &err);
    if (r == 0)
        r = report_run(REPORT_DOT, l.profile, &o->report, NULL, &out, &err);
    return r < 0 ? command_fail(r, &err)
                 : finish(o, &l, buf_bytes(&out), false,
                          BYTES("everything but the larger functions and calls of one sample type: "
                                "a picture is not a profile\n"));
}

/* `vesta convert IN... OUT` is what people type; with -o or --to all arguments are inputs. */
static void take_output_argument(struct options *o)
{
    if (!o->output && o->n_args >= 2)
        o->output = o->args[--o->n_args];
}

int cmd_convert(const struct command *self, struct options *o)
{
    CLEANUP(load_done) struct loaded l = {0};
    CLEANUP(buf_done) struct buf losses = {0};
    const struct format *f = NULL;
    struct error err = {""};

    if (!o->to)
        take_output_argument(o);
    if (o->n_args == 0)
        return command_usage(self, "convert needs a profile");
    if (is_dot(o))
        return write_dot(o);
    int r = choose_format(o, NULL, &f, &err);
    if (r < 0)
        return command_fail(r, &err);
    l.to_addresses = load_holds_addresses(f);
    if (f->holds_many && o->n_args == 1) {
        r = load_set(&l, o, o->args, o->n_args, &err);
        if (r == 0)
            r = load_names(&l, o, &err);
    } else {
        r = load_profile(&l, o, o->args, o->n_args, &err);
        if (r == 0)
            keep_only_merged(&l, &losses);
    }
    return r < 0 ? command_fail(r, &err) : write_set(o, &l, f, &losses);
}

int cmd_merge(const struct command *self, struct options *o)
{
    CLEANUP(load_done) struct loaded l = {.always_merge = true};
    CLEANUP(buf_done) struct buf losses = {0};
    const struct format *f = NULL;
    struct error err = {""};

    if (o->n_args == 0)
        return command_usage(self, "merge needs profiles");
    int r = choose_format(o, format_by_name("pprof"), &f, &err);
    if (r == 0)
        r = load_profile(&l, o, o->args, o->n_args, &err);
    if (r < 0)
        return command_fail(r, &err);
    keep_only_merged(&l, &losses);
    return write_set(o, &l, f, &losses);
}

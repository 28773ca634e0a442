#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/command.h"
#include "cli/load.h"

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

/* Replaces the profiles of the set by the merged one. */
static void keep_only_merged(struct loaded *l)
{
    profile_set_truncate(l->set, 0);
    if (vec_push(&l->budget, &l->set->profiles, l->profile))
        l->profile = NULL;
}

static int write_set(struct options *o, struct loaded *l, const struct format *f)
{
    CLEANUP(buf_done) struct buf out = {0};
    CLEANUP(buf_done) struct buf losses = {0};
    struct error err = {""};

    int r = f->encode(l->set, &out, &losses, &err);
    if (r < 0)
        return command_fail(r, &err);
    int code = command_write(o, buf_bytes(&out), f->is_binary);
    if (code != VESTA_EXIT_OK)
        return code;
    for (size_t i = 0; i < l->set->notes.len; i++)
        fprintf(stderr, "note: %s\n", l->set->notes.data[i]);
    struct bytes rest = buf_bytes(&losses), line;
    while (bytes_next_line(&rest, &line))
        fprintf(stderr, "lost: %.*s\n", (int)line.len, (const char *)line.data);
    return VESTA_EXIT_OK;
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
    const struct format *f = NULL;
    struct error err = {""};

    if (!o->to)
        take_output_argument(o);
    if (o->n_args == 0)
        return command_usage(self, "convert needs a profile");
    int r = choose_format(o, NULL, &f, &err);
    if (r < 0)
        return command_fail(r, &err);
    if (f->holds_many && o->n_args == 1) {
        r = load_set(&l, o, o->args, o->n_args, &err);
    } else {
        r = load_profile(&l, o, o->args, o->n_args, &err);
        if (r == 0)
            keep_only_merged(&l);
    }
    return r < 0 ? command_fail(r, &err) : write_set(o, &l, f);
}

int cmd_merge(const struct command *self, struct options *o)
{
    CLEANUP(load_done) struct loaded l = {.always_merge = true};
    const struct format *f = NULL;
    struct error err = {""};

    if (o->n_args == 0)
        return command_usage(self, "merge needs profiles");
    int r = choose_format(o, format_by_name("pprof"), &f, &err);
    if (r == 0)
        r = load_profile(&l, o, o->args, o->n_args, &err);
    if (r < 0)
        return command_fail(r, &err);
    keep_only_merged(&l);
    return write_set(o, &l, f);
}

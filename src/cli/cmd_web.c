#include "base/cleanup.h"
#include "cli/browser.h"
#include "cli/command.h"
#include "cli/load.h"

int cmd_web(const struct command *self, struct options *o)
{
    CLEANUP(load_done) struct loaded l = {0};
    CLEANUP(buf_done) struct buf dot = {0};
    CLEANUP(buf_done) struct buf svg = {0};
    struct error err = {""};

    if (o->n_args == 0)
        return command_usage(self, "web needs a profile");
    int r = load_profile(&l, o, o->args, o->n_args, &err);
    if (r == 0)
        r = report_run(REPORT_DOT, l.profile, &o->report, NULL, &dot, &err);
    if (r == 0)
        r = browser_draw_dot(buf_bytes(&dot), &svg, &err);
    if (r < 0)
        return command_fail(r, &err);
    if (o->output)
        return command_write(o, buf_bytes(&svg), false);
    r = browser_show(buf_bytes(&svg), ".svg", &err);
    return r < 0 ? command_fail(r, &err) : VESTA_EXIT_OK;
}

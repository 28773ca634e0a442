#include "base/cleanup.h"
#include "cli/command.h"
#include "cli/load.h"
#include "cli/shell.h"

int cmd_shell(const struct command *self, struct options *o)
{
    CLEANUP(load_done) struct loaded l = {0};
    struct error err = {""};

    if (o->n_args == 0)
        return command_usage(self, "name a profile to look at");
    int r = load_profile(&l, o, o->args, o->n_args, &err);
    return r < 0 ? command_fail(r, &err) : shell_run(&l, o);
}

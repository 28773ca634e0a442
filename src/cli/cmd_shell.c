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
    if (r < 0)
        return command_fail(r, &err);
    /* Subtracted by now: the prompt looks at the difference, also in pictures. */
    profile_free(TAKE_PTR(l.base));
    o->report.compact_labels = true; /* said once, in the greeting */
    return shell_run(&l, o);
}

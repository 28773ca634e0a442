#include <string.h>

#include "base/cleanup.h"
#include "cli/command.h"
#include "cli/remote.h"

/* `vesta get SELECTION -o FILE`: a selection as a file, in the format that its name says. */
int cmd_get(const struct command *self, struct options *o)
{
    size_t n = o->output ? strlen(o->output) : 0;
    bool is_picture = !o->to && n > 4 && strcmp(o->output + n - 4, ".svg") == 0;

    if (o->n_args == 0)
        return command_usage(self, "get needs a selection; {} is everything");
    if (!o->url && !o->data)
        o->url = REMOTE_DEFAULT_URL;
    o->is_query = true;
    if (!o->to && !o->output)
        o->to = "pprof";
    return is_picture ? cmd_flame(self, o) : cmd_merge(self, o);
}

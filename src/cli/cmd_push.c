#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/beside.h"
#include "cli/bucket.h"
#include "cli/command.h"
#include "cli/push.h"
#include "cli/push_sources.h"
#include "cli/watch.h"
#include "net/s3.h"

/* `vesta push`: files, a folder that is watched, or a bucket, to a server. */

/* A failure of one file is told and counted; what concerns all of them ends it. */
static int push_files(struct pusher *p, const struct options *o, struct error *err)
{
    int r = 0;

    p->n_of = o->n_args;
    for (size_t i = 0; r >= 0 && i < o->n_args; i++) {
        p->n_at = i;
        if (s3_is_url(o->args[i])) {
            r = bucket_push(p, o->args[i], err);
            continue;
        }
        r = push_file(p, AT_FDCWD, o->args[i], err);
        if (r > 0 && strcmp(o->args[i], "-") != 0)
            beside_write(o, o->args[i]);
    }
    return r;
}

int cmd_push(const struct command *self, struct options *o)
{
    CLEANUP(pusher_done) struct pusher p = {0};
    struct error err = {""};

    if (o->sources && (o->watch || o->n_args > 0))
        return command_usage(self, "--sources DIR takes neither files nor --watch DIR");
    if (o->sources)
        return push_sources(o);
    if (o->watch && o->n_args > 0)
        return command_usage(self, "push takes files or --watch DIR, not both");
    if (!o->watch && o->n_args == 0)
        return command_usage(self, "push needs files, or --watch DIR");
    if (!o->watch && o->done_dir)
        return command_usage(self, "--done goes with --watch DIR");
    int r = pusher_init(&p, o, &err);
    if (r < 0)
        return command_fail(r, &err);
    r = o->watch ? watch_folder(&p, o->watch, &err) : push_files(&p, o, &err);
    return push_exit(&p, r, &err);
}

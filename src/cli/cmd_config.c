#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/terminal.h"
#include "config/server_config.h"
#include "server/mask.h"

/* `vesta config VERB [flags]`: what a server would be told. */

static int load(const struct options *o, struct config **ret)
{
    const struct config_input in = {.args = o->args + 1,
                                    .n_args = o->n_args - 1,
                                    .env = (const char *const *)environ,
                                    .looks_for_a_file = true};
    struct error err = {""};
    int r = server_config_load(&in, ret, &err);

    /* A config that is wrong is an error of what was checked, not of how it was asked for. */
    return r < 0 ? (command_fail(r, &err), VESTA_EXIT_ERROR) : VESTA_EXIT_OK;
}

static int run_check(const struct options *o)
{
    CLEANUP(config_freep) struct config *c = NULL;
    CLEANUP(mask_freep) struct mask *mask = NULL;
    CLEANUP(buf_done) struct buf doubts = {0};
    struct error err = {""};
    int code = load(o, &c);

    if (code != VESTA_EXIT_OK)
        return code;
    if (mask_new(server_config_of(c), &mask, &err) < 0)
        return command_fail(-EIO, &err);
    config_add_doubts(&server_config_table, (const char *const *)environ, &doubts);
    terminal_say(buf_bytes(&doubts));
    printf("sound: %s\n", config_file(c) ? config_file(c) : "no file was read");
    return VESTA_EXIT_OK;
}

static int run_print(const struct options *o)
{
    CLEANUP(config_freep) struct config *c = NULL;
    CLEANUP(buf_done) struct buf out = {0};
    int code = load(o, &c);

    if (code != VESTA_EXIT_OK)
        return code;
    config_print(c, &out);
    return command_write(o, buf_bytes(&out), false);
}

static int run_doc(const struct options *o)
{
    CLEANUP(buf_done) struct buf out = {0};

    server_config_doc(&out);
    return command_write(o, buf_bytes(&out), false);
}

int cmd_config(const struct command *self, struct options *o)
{
    const char *verb = o->n_args > 0 ? o->args[0] : "";

    if (strcmp(verb, "check") == 0)
        return run_check(o);
    if (strcmp(verb, "print") == 0)
        return run_print(o);
    if (strcmp(verb, "doc") == 0 && o->n_args == 1)
        return run_doc(o);
    return command_usage(self, "config needs a verb: check, print or doc");
}

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/agent_program.h"
#include "cli/command.h"

#define ARGS_MAX       512
#define DEFAULT_OUTPUT "profile.pb.gz"

/* What is ours of the words; the rest is the agent's. */
struct words {
    const char *agent[ARGS_MAX];
    size_t n;
    const char *output, *flame;
    bool no_top;
};

static void sort_words(const struct options *o, struct words *w)
{
    bool is_command = false;

    w->agent[w->n++] = "record";
    for (size_t i = 0; i < o->n_args && w->n < ARGS_MAX; i++) {
        const char *word = o->args[i];
        const char *value = i + 1 < o->n_args ? o->args[i + 1] : NULL;
        is_command = is_command || strcmp(word, "--") == 0;
        if (is_command) {
            w->agent[w->n++] = word;
        } else if (strcmp(word, "--no-top") == 0) {
            w->no_top = true;
        } else if (strcmp(word, "--flame") == 0 && value) {
            w->flame = value;
            i++;
        } else {
            if ((strcmp(word, "-o") == 0 || strcmp(word, "--output") == 0) && value)
                w->output = value;
            w->agent[w->n++] = word;
        }
    }
}

/* Another verb of this program, on the profile that was made. */
static int show(const char *const *args)
{
    const struct command *c = command_find(args[0]);
    CLEANUP(options_done) struct options o;
    struct error err = {""};
    size_t n = 0;

    options_init(&o);
    while (args[n])
        n++;
    int r = options_parse(&o, (int)n, (char **)(uintptr_t)args, c->groups, &err);
    return r < 0 ? command_fail(r, &err) : c->run(c, &o);
}

int cmd_record(const struct command *self, struct options *o)
{
    struct words w = {.output = DEFAULT_OUTPUT};
    char path[AGENT_PATH_MAX];
    struct error err = {""};

    (void)self;
    sort_words(o, &w);
    int r = agent_program_find(path, &err);
    if (r == 0)
        r = agent_program_run(path, w.agent, w.n, &err);
    if (r < 0)
        return command_fail(r, &err);
    if (r > 0)
        return r;
    if (w.flame) {
        r = show((const char *[]){"flame", w.output, "-o", w.flame, NULL});
        if (r == VESTA_EXIT_OK)
            fprintf(stderr, "flame graph in %s\n", w.flame);
    }
    if (r != VESTA_EXIT_OK || w.no_top)
        return r;
    return show((const char *[]){"top", "20", w.output, NULL});
}

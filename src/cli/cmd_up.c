#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/agent_program.h"
#include "cli/command.h"
#include "config/server_config.h"
#include "server/server.h"

#define ARGS_MAX 256

struct up {
    struct server *server;
    pid_t agent;
    const char *agent_args[ARGS_MAX];
    size_t n_agent_args;
    char url[256], folder[3][4200];
};

static int load(const char *const *args, size_t n, struct config **ret, struct error *err)
{
    struct config_input in = {
        .args = args, .n_args = n, .env = (const char *const *)environ, .looks_for_a_file = true};

    return server_config_load(&in, ret, err);
}

static void give(struct up *up, const char *arg)
{
    if (up->n_agent_args < ARGS_MAX)
        up->agent_args[up->n_agent_args++] = arg;
}

/* The agent sends to this server. One that is not root keeps what it keeps beside the server's
 * data; root's becomes another user and has places of its own. What the words behind -- say counts
 * more.
 */
static void set_up_agent(struct up *up, const struct server_config *c, const char *const *more,
                         size_t n)
{
    static const char *const flags[] = {"--state-dir", "--spool-dir", "--cache-dir"};
    static const char *const names[] = {"agent", "agent/spool", "agent/cache"};

    snprintf(up->url, sizeof(up->url), "%s://%s", c->tls_cert_file[0] ? "https" : "http",
             server_address(up->server, 0));
    give(up, "--exporters");
    give(up, up->url);
    for (size_t i = 0; geteuid() != 0 && i < ARRAY_SIZE(flags); i++) {
        snprintf(up->folder[i], sizeof(up->folder[i]), "%s/%s", c->data_dir, names[i]);
        give(up, flags[i]);
        give(up, up->folder[i]);
    }
    for (size_t i = 0; i < n; i++)
        give(up, more[i]);
}

static int start_agent(struct up *up, struct error *err)
{
    char path[AGENT_PATH_MAX];
    int r = agent_program_find(path, err);

    if (r == 0)
        r = agent_program_start(path, up->agent_args, up->n_agent_args, err);
    if (r < 0)
        return r;
    up->agent = r;
    return 0;
}

static void say(const struct up *up)
{
    printf("Vesta runs at %s and profiles %s, 19 times a second.\n"
           "In a minute there is something to see: open that address in a browser, or ask from\n"
           "another terminal:\n\n"
           "    export VESTA_URL=%s\n"
           "    vesta query values service.name\n"
           "    vesta top 'cpu{}' --from now-5m\n"
           "    vesta flame 'cpu{}' --from now-5m -o flame.svg\n\n"
           "Ctrl-C ends it.\n",
           up->url,
           geteuid() == 0 ? "this host: all processes"
                          : "your processes (those of others need root)",
           up->url);
    fflush(stdout);
}

/* True when the agent has ended by itself. */
static bool agent_ended(struct up *up)
{
    int status = 0;

    if (up->agent <= 0 || waitpid(up->agent, &status, WNOHANG) != up->agent)
        return false;
    up->agent = 0;
    return true;
}

static void wait_for_signals(struct up *up, const sigset_t *signals)
{
    for (;;) {
        int signo = 0;
        if (sigwait(signals, &signo) != 0)
            continue;
        if (signo != SIGCHLD)
            return;
        if (agent_ended(up))
            fprintf(stderr, "vesta: the agent has ended; the server goes on without it "
                            "(\"vesta-agent doctor\" says what it needs)\n");
    }
}

static void stop_agent(struct up *up)
{
    if (up->agent <= 0)
        return;
    kill(up->agent, SIGTERM);
    (void)waitpid(up->agent, NULL, 0);
}

int cmd_up(const struct command *self, struct options *o)
{
    struct up up = {0};
    struct error err = {""};
    CLEANUP(config_freep) struct config *config = NULL;
    sigset_t signals;
    size_t n = 0;

    (void)self;
    while (n < o->n_args && strcmp(o->args[n], "--") != 0)
        n++;
    size_t more = n < o->n_args ? n + 1 : n;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGCHLD);
    pthread_sigmask(SIG_BLOCK, &signals, NULL); /* threads inherit it */
    int r = load(o->args, n, &config, &err);
    if (r == 0)
        r = server_start(server_config_of(config), &up.server, &err);
    if (r < 0)
        return command_fail(r, &err);
    set_up_agent(&up, server_config_of(config), o->args + more, o->n_args - more);
    r = start_agent(&up, &err);
    if (r == 0) {
        say(&up);
        wait_for_signals(&up, &signals);
        stop_agent(&up);
    }
    server_stop(up.server);
    return r < 0 ? command_fail(r, &err) : VESTA_EXIT_OK;
}

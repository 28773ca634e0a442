#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/command.h"
#include "config/server_config.h"
#include "server/server.h"

struct run {
    struct server *server;
    /* Those that were in use, too: kept until the end, since workers may still look at them. */
    struct config **configs;
    size_t n;
};

static int load(const struct options *o, struct config **ret, struct error *err)
{
    struct config_input in = {.args = o->args,
                              .n_args = o->n_args,
                              .env = (const char *const *)environ,
                              .looks_for_a_file = true};
    return server_config_load(&in, ret, err);
}

static void say_addresses(const struct run *run)
{
    const struct server_config *c = server_config_of(run->configs[0]);
    const char *scheme = c->tls_cert_file[0] ? "https" : "http";

    for (size_t i = 0; server_address(run->server, i); i++) {
        const char *address = server_address(run->server, i);
        bool is_unix = strncmp(address, "unix:", 5) == 0;
        printf("%s%s%s\n", is_unix ? "" : scheme, is_unix ? "" : "://", address);
    }
    fflush(stdout);
}

static int make_room(struct run *run, struct error *err)
{
    struct config **more = reallocarray(run->configs, run->n + 1, sizeof(struct config *));

    if (!more)
        return error_set(err, -ENOMEM, "no memory for another configuration");
    run->configs = more;
    return 0;
}

/* A config that is wrong changes nothing. */
static void reload(struct run *run, const struct options *o)
{
    struct error err = {""};
    CLEANUP(config_freep) struct config *fresh = NULL;

    int r = load(o, &fresh, &err);
    if (r == 0)
        r = make_room(run, &err);
    if (r == 0)
        r = server_reload(run->server, server_config_of(fresh), &err);
    if (r < 0)
        server_log(run->server, 3, "the configuration stays as it is: %s", err.text);
    else
        run->configs[run->n++] = TAKE_PTR(fresh);
}

static void serve(struct run *run, const struct options *o, const sigset_t *signals)
{
    for (;;) {
        int signo = 0;
        if (sigwait(signals, &signo) != 0)
            continue;
        if (signo == SIGHUP)
            reload(run, o);
        else
            break;
    }
    /* Whoever asks again does not want to wait. */
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, signals, NULL);
}

/* Connections are descriptors, and what a shell allows by default is a tenth of connections_max. */
static void allow_descriptors(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

int cmd_server(const struct command *self, struct options *o)
{
    struct run run = {0};
    struct error err = {""};
    sigset_t signals;

    (void)self;
    allow_descriptors();
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &signals, NULL); /* threads inherit it */
    int r = make_room(&run, &err);
    if (r == 0)
        r = load(o, &run.configs[0], &err);
    if (r == 0) {
        run.n = 1;
        r = server_start(server_config_of(run.configs[0]), &run.server, &err);
    }
    if (r == 0) {
        say_addresses(&run);
        serve(&run, o, &signals);
        server_stop(run.server);
    }
    for (size_t i = 0; i < run.n; i++)
        config_free(run.configs[i]);
    free(run.configs);
    return r < 0 ? command_fail(r, &err) : VESTA_EXIT_OK;
}

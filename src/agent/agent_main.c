#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/doctor.h"
#include "agent/home.h"
#include "agent/record.h"
#include "agent/rights.h"
#include "base/hash.h"
#include "config/agent_config.h"
#include "net/loop.h"
#include "scrape/scrape.h"

static const char usage[] =
    "vesta-agent profiles this machine, all day, and sends what it finds to a server.\n\n"
    "usage: vesta-agent [options]            profile, until told to stop\n"
    "       vesta-agent record ...           one profile into a file (record --help)\n"
    "       vesta-agent doctor [--json]      what works here, what is lost, how to mend it\n"
    "       vesta-agent status [--json]      what a running agent does and costs\n"
    "       vesta-agent config check|print|doc\n\n"
    "Without options all processes are profiled 19 times a second, and profiles go to a server on\n"
    "this machine (http://127.0.0.1:4318), or where OTEL_EXPORTER_OTLP_ENDPOINT says.\n\n"
    "  vesta-agent --exporters http://vesta.example.com:4318 --types cpu,offcpu\n"
    "  vesta-agent --exporters file:/var/tmp/profiles --include 'service:checkout'\n\n"
    "SIGUSR1 switches it off and on again, SIGUSR2 starts a burst, SIGTERM ends it.\n"
    "Every option is also a key of a file (vesta-agent.yaml, /etc/vesta/agent.yaml) and a\n"
    "variable VESTA_AGENT_*:\n\n";

struct run {
    struct loop *loop;
    struct agent *agent;
    struct loop_io signals;
};

static int fail(const struct error *err, int code)
{
    fprintf(stderr, "vesta-agent: %s\n", err->text);
    return code;
}

static int load(int argc, char **argv, struct config **ret, struct error *err)
{
    struct config_input in = {.args = (const char *const *)argv,
                              .n_args = (size_t)argc,
                              .env = (const char *const *)environ,
                              .looks_for_a_file = true};

    int r = agent_config_load(&in, ret, err);
    if (r < 0)
        return r;
    home_folders(*ret);
    r = scrape_check(agent_config_of(*ret)->scrape_configs, err);
    return r < 0 ? error_prefix(err, r, "%s", config_file(*ret)) : 0;
}

static void finished(void *arg)
{
    struct run *run = arg;

    loop_stop(run->loop);
}

static void signalled(struct loop_io *io, uint32_t events)
{
    struct run *run = OWNER_OF(io, struct run, signals);
    struct signalfd_siginfo info;

    (void)events;
    while (read(io->fd, &info, sizeof(info)) == sizeof(info)) {
        if (info.ssi_signo == SIGTERM || info.ssi_signo == SIGINT)
            agent_finish(run->agent, finished, run);
        else
            agent_signal(run->agent, (int)info.ssi_signo);
    }
}

static int watch_signals(struct run *run, struct error *err)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGHUP};
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
        sigaddset(&set, numbers[i]);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    run->signals = (struct loop_io){signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC), signalled};
    return loop_watch(run->loop, &run->signals, EPOLLIN, err);
}

/* Folders are made while that is still allowed; one that cannot be is told by who needs it. */
static void make_folders(const struct agent_config *c)
{
    const char *const paths[] = {c->state_dir, c->spool_dir, c->cache_dir};
    struct error err;

    for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
        if (paths[i][0])
            (void)rights_make_dir(paths[i], c->user, &err);
}

static int profile(int argc, char **argv)
{
    CLEANUP(config_freep) struct config *config = NULL;
    struct run run = {0};
    struct error err = {""};

    if (load(argc, argv, &config, &err) < 0)
        return fail(&err, 2);
    const struct agent_config *c = agent_config_of(config);
    make_folders(c);
    int r = c->keep_root ? 0 : rights_become(c->user, &err);
    if (r == 0)
        r = loop_new(&run.loop, &err);
    if (r == 0)
        r = watch_signals(&run, &err);
    if (r == 0)
        r = agent_start(&(struct agent_options){.config = c, .loop = run.loop}, &run.agent, &err);
    if (r == 0 && !c->keep_root)
        r = rights_drop(agent_also_needs(c), &err);
    if (r == 0 && !c->keep_root)
        r = rights_filter(c->node_attach.n > 0 && c->node_containers, &err);
    if (r == 0)
        loop_run(run.loop);
    agent_free(run.agent);
    loop_free(run.loop);
    return r < 0 ? fail(&err, 1) : 0;
}

static int config_command(int argc, char **argv)
{
    CLEANUP(config_freep) struct config *config = NULL;
    CLEANUP(buf_done) struct buf out = {0};
    struct error err = {""};
    const char *verb = argc > 0 ? argv[0] : "";

    if (strcmp(verb, "doc") == 0) {
        agent_config_doc(&out);
    } else if (strcmp(verb, "check") == 0 || strcmp(verb, "print") == 0) {
        if (load(argc - 1, argv + 1, &config, &err) < 0)
            return fail(&err, 2);
        if (strcmp(verb, "print") == 0)
            config_print(config, &out);
        config_add_doubts(&agent_config_table, (const char *const *)environ, &out);
    } else {
        fputs("usage: vesta-agent config check|print|doc [options]\n", stderr);
        return 2;
    }
    fwrite(out.data, 1, out.len, stdout);
    return 0;
}

static int help(void)
{
    CLEANUP(buf_done) struct buf out = {0};

    config_help(&agent_config_table, &out);
    fputs(usage, stdout);
    fwrite(out.data, 1, out.len, stdout);
    return 0;
}

int main(int argc, char **argv)
{
    const char *verb = argc > 1 ? argv[1] : "";

    hash_randomize();
    if (strcmp(verb, "--help") == 0 || strcmp(verb, "-h") == 0 || strcmp(verb, "help") == 0)
        return help();
    if (strcmp(verb, "--version") == 0 || strcmp(verb, "version") == 0) {
        puts("vesta-agent " VESTA_VERSION);
        return 0;
    }
    if (strcmp(verb, "record") == 0)
        return record_main(argc - 2, argv + 2);
    if (strcmp(verb, "doctor") == 0)
        return doctor_main(argc - 2, argv + 2);
    if (strcmp(verb, "status") == 0)
        return status_main(argc - 2, argv + 2);
    if (strcmp(verb, "config") == 0)
        return config_command(argc - 2, argv + 2);
    if (strcmp(verb, "run") == 0)
        return profile(argc - 2, argv + 2);
    return profile(argc - 1, argv + 1);
}

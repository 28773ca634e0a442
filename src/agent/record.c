#include "agent/record.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/rights.h"
#include "base/clock.h"
#include "base/must.h"
#include "formats/format.h"
#include "net/loop.h"
#include "profile/merge.h"

#define SECOND_NS      ((int64_t)1000000000)
#define ARGS_MAX       256
#define DEFAULT_OUTPUT "profile.pb.gz"

static const char usage[] =
    "usage: vesta-agent record [-p PID[,PID...] | -- COMMAND ARG...] [options]\n\n"
    "  -p PID        these processes and their children; without it and without a command, all\n"
    "  -d DURATION   how long: 30s, 5m; with a command until it ends (10s else)\n"
    "  -F HZ         samples per second and CPU, at most 999 (99)\n"
    "  --type LIST   of cpu, wall, offcpu, lock, faults, threads (cpu)\n"
    "  -o FILE       where to; its name says the format (" DEFAULT_OUTPUT ")\n"
    "  -q            no progress\n"
    "Other options are those of the agent, such as --symbols lines or --no-kernel-frames.\n";

struct record {
    const char *pids, *types, *rate, *output;
    int64_t duration_ns;
    bool is_quiet;
    char **command;
    const char *args[ARGS_MAX]; /* for the configuration */
    size_t n_args;

    struct loop *loop;
    struct agent *agent;
    struct rlimit files; /* as it was */
    pid_t child;
    int child_status;
    struct loop_io signals;
    struct loop_timers timers;
    struct loop_timer timer;
    int64_t start_ns;
    int result;
    struct error error;
    uint64_t samples;
};

static int fail(const char *text)
{
    fprintf(stderr, "vesta-agent: %s\n", text);
    return 1;
}

static const char *value_of(int argc, char **argv, int *i)
{
    return *i + 1 < argc ? argv[++*i] : NULL;
}

static void give(struct record *r, const char *arg)
{
    if (r->n_args < ARGS_MAX)
        r->args[r->n_args++] = arg;
}

/* 0, or an exit code. */
static int parse(struct record *r, int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        const char **to = NULL;
        const char *arg = argv[i], *value = NULL;
        if (strcmp(arg, "--") == 0) {
            r->command = argv + i + 1;
            break;
        }
        if (strcmp(arg, "-p") == 0 || strcmp(arg, "--pid") == 0)
            to = &r->pids;
        else if (strcmp(arg, "-F") == 0 || strcmp(arg, "--rate") == 0)
            to = &r->rate;
        else if (strcmp(arg, "--type") == 0 || strcmp(arg, "--types") == 0)
            to = &r->types;
        else if (strcmp(arg, "-o") == 0 || strcmp(arg, "--output") == 0)
            to = &r->output;
        else if (strcmp(arg, "-d") == 0 || strcmp(arg, "--duration") == 0)
            to = &value;
        else if (strcmp(arg, "-q") == 0)
            r->is_quiet = true;
        else
            give(r, arg);
        if (!to)
            continue;
        if (!(*to = value_of(argc, argv, &i))) {
            fprintf(stderr, "vesta-agent: %s needs a value\n%s", arg, usage);
            return 2;
        }
        if (value &&
            (!bytes_to_duration(bytes_of(value), &r->duration_ns) || r->duration_ns <= 0)) {
            fprintf(stderr, "vesta-agent: \"%s\" is no duration (30s, 5m)\n", value);
            return 2;
        }
    }
    if (r->command && (!r->command[0] || r->pids)) {
        fprintf(stderr, "vesta-agent: %s\n%s",
                r->pids ? "-p and a command exclude each other" : "-- without a command", usage);
        return 2;
    }
    return 0;
}

/* Waits until it is picked; tells when it cannot begin. */
static _Noreturn void become_command(const struct record *r, int go, int failed)
{
    sigset_t none;
    char c;

    (void)!read(go, &c, 1);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setrlimit(RLIMIT_NOFILE, &r->files); /* sampling may have raised it */
    execvp(r->command[0], r->command);
    (void)!write(failed, &errno, sizeof(errno));
    _exit(127);
}

/* It is picked before it begins, and looked at once it has: also one that only sleeps is known. */
static int start_command(struct record *r, struct error *err)
{
    int go[2], failed[2], why = 0;

    if (pipe2(go, O_CLOEXEC) < 0 || pipe2(failed, O_CLOEXEC) < 0)
        return error_set(err, -errno, "could not make a pipe: %s", strerror(errno));
    r->child = fork();
    if (r->child < 0)
        return error_set(err, -errno, "could not fork: %s", strerror(errno));
    if (r->child == 0) {
        close(go[1]);
        become_command(r, go[0], failed[1]);
    }
    int code = agent_pick(r->agent, (uint32_t)r->child, err);
    if (code < 0)
        kill(r->child, SIGKILL);
    close(go[0]);
    close(go[1]); /* off it goes */
    close(failed[1]);
    ssize_t n = read(failed[0], &why, sizeof(why)); /* ends when the command has begun */
    close(failed[0]);
    if (code == 0 && n == sizeof(why))
        return error_set(err, -why, "could not run \"%s\": %s", r->command[0], strerror(why));
    if (code == 0)
        agent_look(r->agent, (uint32_t)r->child);
    return code;
}

static void done(void *arg)
{
    struct record *r = arg;

    loop_stop(r->loop);
}

static void end(struct record *r)
{
    loop_timer_stop(&r->timer);
    agent_finish(r->agent, done, r);
}

static void show_progress(struct record *r, bool is_last)
{
    struct agent_counts counts;
    double seconds = (double)(loop_now_ns(r->loop) - r->start_ns) / 1e9;

    agent_counts(r->agent, &counts);
    r->samples = counts.samples;
    if (r->is_quiet || !isatty(STDERR_FILENO))
        return;
    fprintf(stderr, "\r%5.1f s  %llu samples  %llu processes%s", seconds,
            (unsigned long long)counts.samples, (unsigned long long)counts.processes,
            is_last ? "\n" : "");
}

static void ticked(struct loop_timer *timer)
{
    struct record *r = OWNER_OF(timer, struct record, timer);
    int64_t now = loop_now_ns(r->loop);

    if (!agent_is_sampling(r->agent))
        r->start_ns = now;
    show_progress(r, false);
    if (r->duration_ns > 0 && now - r->start_ns >= r->duration_ns) {
        end(r);
        return;
    }
    loop_timer_start(&r->timers, &r->timer, now + SECOND_NS / 5);
}

static void signalled(struct loop_io *io, uint32_t events)
{
    struct record *r = OWNER_OF(io, struct record, signals);
    struct signalfd_siginfo info;

    (void)events;
    while (read(io->fd, &info, sizeof(info)) == sizeof(info)) {
        if (info.ssi_signo == SIGCHLD && r->child > 0 &&
            waitpid(r->child, &r->child_status, WNOHANG) == r->child) {
            r->child = 0;
            end(r);
        } else if (info.ssi_signo == SIGINT || info.ssi_signo == SIGTERM) {
            end(r);
        }
    }
}

static int write_file(const char *path, struct bytes content, struct error *err)
{
    CLEANUP(closep) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);

    if (fd < 0)
        return error_set(err, -errno, "could not write \"%s\": %s", path, strerror(errno));
    while (content.len > 0) {
        ssize_t n = write(fd, content.data, content.len);
        if (n < 0)
            return error_set(err, -errno, "could not write \"%s\": %s", path, strerror(errno));
        content = bytes_from(content, (size_t)n);
    }
    return 0;
}

/* The column of the first type that was asked for: what formats of one column show. */
static uint32_t first_type(const struct record *r, struct dict *dict)
{
    struct bytes first = bytes_of(r->types ? r->types : "cpu");
    first.len = strcspn(r->types ? r->types : "cpu", ",");
    if (bytes_are(first, "offcpu"))
        first = bytes_of("off_cpu");
    else if (bytes_are(first, "faults"))
        first = bytes_of("page_faults");
    return dict_string(dict, first);
}

static void take_window(void *arg, const struct profile_set *set)
{
    struct record *r = arg;
    const struct format *f = format_by_extension(r->output);
    CLEANUP(buf_done) struct buf out = {0}, losses = {0};
    CLEANUP(profile_freep) struct profile *merged = NULL;
    struct profile_set one = {.budget = set->budget, .dict = set->dict};

    if (set->profiles.len == 0) {
        r->result = error_set(&r->error, -ENODATA, "nothing was sampled");
        return;
    }
    if (!f->holds_many) {
        merged = profile_merge(set->dict, set->profiles.data, set->profiles.len,
                               (struct merge_options){0});
        if (!merged) {
            r->result = budget_error(set->budget, &r->error);
            return;
        }
        merged->duration_ns = set->profiles.data[0]->duration_ns; /* of one window, not their sum */
        merged->default_type = first_type(r, set->dict);
        one.profiles.data = &merged;
        one.profiles.len = 1;
        set = &one;
    }
    r->result = f->encode(set, &out, &losses, &r->error);
    if (r->result == 0)
        r->result = write_file(r->output, buf_bytes(&out), &r->error);
}

static bool is_given(const struct record *r, const char *flag)
{
    for (size_t i = 0; i < r->n_args; i++)
        if (strncmp(r->args[i], flag, strlen(flag)) == 0)
            return true;
    return false;
}

/* Names are kept with other things that this user's programs keep: the folder of a running agent is
 * another user's. */
static void keep_names(struct record *r)
{
    static char folder[4096];
    const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");

    if (is_given(r, "--cache-dir"))
        return;
    if (base && base[0] == '/')
        snprintf(folder, sizeof(folder), "%s/vesta-agent", base);
    else if (home && home[0] == '/')
        snprintf(folder, sizeof(folder), "%s/.cache/vesta-agent", home);
    struct error err;
    if (folder[0] && rights_make_dir(folder, "", &err) < 0)
        folder[0] = '\0';
    give(r, "--cache-dir");
    give(r, folder);
}

static int configure(struct record *r, struct config **ret, struct error *err)
{
    keep_names(r);
    if (!is_given(r, "--log-level")) {
        give(r, "--log-level");
        give(r, "error");
    }
    struct config_input in = {.env = (const char *const *)environ};

    if (r->pids) {
        give(r, "--pids");
        give(r, r->pids);
    }
    give(r, "--rate");
    give(r, r->rate ? r->rate : "99");
    give(r, "--types");
    give(r, r->types ? r->types : "cpu");
    in.args = r->args;
    in.n_args = r->n_args;
    return agent_config_load(&in, ret, err);
}

static int open_signals(struct record *r, struct error *err)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    r->signals = (struct loop_io){signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC), signalled};
    return loop_watch(r->loop, &r->signals, EPOLLIN, err);
}

static int run(struct record *r, struct config **config, struct error *err)
{
    int code = loop_new(&r->loop, err);

    getrlimit(RLIMIT_NOFILE, &r->files);
    if (code == 0)
        code = open_signals(r, err);
    if (code == 0)
        code = configure(r, config, err);
    if (code < 0)
        return code;
    struct agent_options o = {.config = agent_config_of(*config),
                              .loop = r->loop,
                              .window = take_window,
                              .arg = r,
                              .is_picky = r->command,
                              .is_recording = true};
    code = agent_start(&o, &r->agent, err);
    if (code == 0 && !r->is_quiet && agent_lacks(r->agent))
        fprintf(stderr, "vesta-agent: %s\n", agent_lacks(r->agent));
    if (code == 0 && r->command)
        code = start_command(r, err);
    if (code < 0)
        return code;
    r->start_ns = clock_monotonic_ns(clock_real()); /* the loop has not looked since before */
    r->timers.expired = ticked;
    loop_add_timers(r->loop, &r->timers);
    loop_timer_start(&r->timers, &r->timer, r->start_ns + SECOND_NS / 5);
    loop_run(r->loop);
    show_progress(r, true);
    if (r->result < 0)
        *err = r->error;
    return r->result;
}

int record_main(int argc, char **argv)
{
    struct record r = {.output = DEFAULT_OUTPUT, .signals.fd = -1};
    CLEANUP(config_freep) struct config *config = NULL;
    struct error err = {""};

    if (argc > 0 && (strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0)) {
        fputs(usage, stdout);
        return 0;
    }
    int code = parse(&r, argc, argv);
    if (code)
        return code;
    if (!format_by_extension(r.output) || !format_by_extension(r.output)->encode)
        return fail("the name of the output does not say a format that can be written (.pb.gz, "
                    ".otlp, .collapsed, .svg, .speedscope.json)");
    if (r.duration_ns == 0 && !r.command)
        r.duration_ns = 10 * SECOND_NS;
    int result = run(&r, &config, &err);
    agent_free(r.agent);
    loop_free(r.loop);
    if (result < 0) {
        fail(err.text);
        return result == -EINVAL ? 2 : result == -ENODATA ? 3 : 1;
    }
    if (!r.is_quiet)
        fprintf(stderr, "%llu samples in %s\n", (unsigned long long)r.samples, r.output);
    return 0;
}

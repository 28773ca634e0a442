#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/command.h"
#include "cli/run_folder.h"
#include "cli/run_output.h"
#include "cli/run_program.h"
#include "cli/run_segments.h"
#include "cli/run_signals.h"
#include "cli/terminal.h"
#include "inproc/segment_reader.h"
#include "query/time_range.h"

/*
 * `vesta run`: a command with the library in it. This thread starts it, passes signals on and reads
 * segments; another names, writes and sends (run_output.h).
 */
#define POLL_MS         100
#define INTERVAL        ((uint32_t)512 << 10)
#define LOCK_NS         ((uint32_t)1000000)
#define WINDOW_NS       ((int64_t)10 * 1000 * 1000 * 1000)
#define WINDOW_LEAST_NS ((int64_t)100 * 1000 * 1000)
#define ALL_TYPES       "alloc,live,lock,threads,custom"

struct run {
    const struct options *o;
    struct run_environment environment;
    struct run_segments_options segments_options;
    struct run_segments *segments;
    struct run_output *output;
    struct run_library library;
    struct run_folder folder;
    char preload[RUN_PATH_MAX + 64];
    bool has_no_command; /* there is none, or none that can be run */
    int64_t window_ns, window_end_ns;
    int signals;
    pid_t pid;
    int status;
    bool has_ended;
};

static volatile sig_atomic_t stop_sending;

static int64_t now_ns(void)
{
    return clock_monotonic_ns(clock_real());
}

/* ---- Options ---- */

static int read_types(const char *text, uint32_t *ret, struct error *err)
{
    static const struct {
        const char *name;
        uint32_t bits;
    } types[] = {
        {"alloc", PRELOAD_WANTS(PRELOAD_ALLOC)},
        {"live", PRELOAD_WANTS(PRELOAD_ALLOC) | PRELOAD_WANTS(PRELOAD_LIVE)},
        {"lock", PRELOAD_WANTS(PRELOAD_LOCK)},
        {"threads", PRELOAD_WANTS(PRELOAD_THREAD)},
        {"custom", PRELOAD_WANTS(PRELOAD_CUSTOM)},
    };

    *ret = 0;
    for (const char *at = text; *at;) {
        struct bytes word = {(const uint8_t *)at, strcspn(at, ",")};
        uint32_t bits = 0;
        for (size_t i = 0; i < ARRAY_SIZE(types); i++)
            if (bytes_are(word, types[i].name))
                bits = types[i].bits;
        if (bits == 0)
            return error_set(err, -EINVAL,
                             "--types takes alloc, live, lock, threads and custom, not \"%.*s\"",
                             (int)bytes_head(word, 40).len, at);
        *ret |= bits;
        at += word.len + (at[word.len] == ',');
    }
    return 0;
}

static int read_duration(const char *name, const char *text, int64_t *ret, struct error *err)
{
    if (!text)
        return 0;
    int r = duration_parse(bytes_of(text), ret, err);
    return r < 0 ? error_prefix(err, r, "--%s", name) : 0;
}

/* What somebody said; NULL: OTEL_RESOURCE_ATTRIBUTES may. */
static const char *service_said(const struct options *o)
{
    const char *said = getenv("OTEL_SERVICE_NAME");

    return o->service ? o->service : said && *said ? said : NULL;
}

static const char *command_name(const struct options *o)
{
    const char *slash = strrchr(o->args[0], '/');

    return slash ? slash + 1 : o->args[0];
}

static int read_options(struct run *run, struct error *err)
{
    const struct options *o = run->o;
    int64_t lock_ns = LOCK_NS;
    uint32_t wanted;

    run->window_ns = WINDOW_NS;
    int r = read_types(o->types ? o->types : ALL_TYPES, &wanted, err);
    r = r < 0 ? r : read_duration("window", o->window, &run->window_ns, err);
    r = r < 0 ? r : read_duration("lock-interval", o->lock_interval, &lock_ns, err);
    if (r < 0)
        return r;
    if (run->window_ns < WINDOW_LEAST_NS)
        return error_set(err, -EINVAL, "--window takes 100ms and more");
    if (o->interval > UINT32_MAX || lock_ns < 1 || lock_ns > UINT32_MAX)
        return error_set(err, -EINVAL, "--interval takes up to 4GiB, --lock-interval 1ns to 4s");
    for (size_t i = 0; i < o->labels.n; i++)
        if (strcspn(o->labels.items[i], "=") == 0 || !strchr(o->labels.items[i], '='))
            return error_set(err, -EINVAL, "--label takes NAME=VALUE, not \"%s\"",
                             o->labels.items[i]);
    run->segments_options = (struct run_segments_options){
        .folder = run->folder.path,
        .window_ns = (uint64_t)run->window_ns,
        .leak_windows = o->leak_windows > 0 ? (unsigned)o->leak_windows : 0,
        .wanted = wanted,
        .alloc_rate = o->interval ? (uint32_t)o->interval : INTERVAL,
        .lock_rate = (uint32_t)lock_ns,
        .is_on = !o->is_off,
        .service = service_said(o),
        .command = command_name(o),
        .labels = o->labels.items,
        .n_labels = o->labels.n,
        .max_memory = o->max_memory};
    return 0;
}

/* ---- The library, and where it puts its segments ---- */

static void warn(const struct run *run, const char *text)
{
    CLEANUP(buf_done) struct buf line = {0};

    if (run->o->quiet)
        return;
    buf_addf(&line, "vesta: %s\n", text);
    terminal_say(buf_bytes(&line));
}

static int find_library(struct run *run, struct error *err)
{
    struct run_program program;
    int r = run_program_look(run->o->args[0], &program, err);

    run->has_no_command = r < 0;
    if (r < 0)
        return r;
    if (program.is_setuid)
        warn(run, "the command is setuid: it runs without profiles");
    if (program.libc == RUN_LIBC_NONE)
        warn(run, "the command is linked statically: it runs without profiles, unless it starts "
                  "others");
    r = run_library_find(program.libc, &run->library, err);
    run->environment = (struct run_environment){.library = run->preload,
                                                .folder = run->folder.path,
                                                .types = run->o->types ? run->o->types : ALL_TYPES,
                                                .interval = run->segments_options.alloc_rate,
                                                .lock_interval = run->segments_options.lock_rate,
                                                .is_off = run->o->is_off};
    return r;
}

/*
 * The loader takes some characters of LD_PRELOAD for its own. No link of ours may have a path
 * without: processes outlive us and it, and anybody could put a library of his own there.
 */
static int name_library(struct run *run, struct error *err)
{
    const char *place = run->library.place;

    if (place[strcspn(place, ": \t\n\v\f\r$")])
        return error_set(
            err, -ENOTSUP,
            "loaders would split or change the library's path, which has a space, ':' or "
            "'$'; move it, or name a link to it by VESTA_PRELOAD_LIBRARY: \"%s\"",
            place);
    snprintf(run->preload, sizeof(run->preload), "%s%s", place, run->library.inside);
    return 0;
}

/* ---- While it runs ---- */

/* As the first process of a container it is everybody's parent. */
static void reap(struct run *run)
{
    int status;

    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0;) {
        if (pid != run->pid)
            continue;
        if (WIFSTOPPED(status)) {
            run_signals_stop_with(pid);
            continue;
        }
        run->status = status;
        run->has_ended = true;
    }
}

static void take_signal(struct run *run, const struct signalfd_siginfo *s)
{
    switch (s->ssi_signo) {
    case SIGCHLD:
        reap(run);
        break;
    case SIGUSR2:
        run->segments_options.is_on = !run->segments_options.is_on;
        run_segments_switch(run->segments, run->segments_options.is_on);
        warn(run, run->segments_options.is_on ? "sampling is on" : "sampling is off");
        break;
    case SIGCONT:
        run_signals_continue(run->pid);
        break;
    default:
        if (!run->has_ended && run_signals_is_for_command(s, run->pid))
            kill(run->pid, (int)s->ssi_signo);
        if (run->has_ended && (s->ssi_signo == SIGINT || s->ssi_signo == SIGTERM))
            stop_sending = 1;
    }
}

static void take_signals(struct run *run)
{
    struct signalfd_siginfo s;

    while (read(run->signals, &s, sizeof(s)) == sizeof(s))
        take_signal(run, &s);
}

static void wait_some(const struct run *run)
{
    struct pollfd fds[] = {{.fd = run->signals, .events = POLLIN},
                           {.fd = run_segments_fd(run->segments), .events = POLLIN}};

    (void)poll(fds, ARRAY_SIZE(fds), POLL_MS);
}

static void follow(struct run *run)
{
    run->window_end_ns = now_ns() + run->window_ns;
    while (!run->has_ended) {
        wait_some(run);
        take_signals(run);
        run_segments_poll(run->segments);
        if (now_ns() < run->window_end_ns)
            continue;
        run->window_end_ns += run->window_ns;
        if (run->window_end_ns < now_ns()) /* the machine slept */
            run->window_end_ns = now_ns() + run->window_ns;
        run_output_put(run->output, run_segments_end(run->segments, false));
    }
    run_output_put(run->output, run_segments_end(run->segments, true));
}

/* ---- At the end ---- */

/* From now on a signal means that people do not want to wait for a server, and a second one that
 * they wait for nothing: what looks up names hears of neither. */
static void on_signal(int signo)
{
    if (stop_sending) {
        run_signals_die_by(signo);
        _exit(128 + signo);
    }
    stop_sending = 1;
}

static void tell(struct run *run)
{
    CLEANUP(buf_done) struct buf summary = {0};
    CLEANUP(buf_done) struct buf trouble = {0};

    run_signals_let_go(on_signal);
    run_output_finish(run->output, &stop_sending, &summary, &trouble);
    struct run_counts n = run_segments_counts(run->segments);
    if (n.failed > 0)
        buf_addf(&trouble, "vesta: %zu processes could not be read: %s\n", n.failed,
                 n.why_failed.text);
    if (n.no_room > 0)
        buf_addf(&trouble,
                 "vesta: %zu processes were not recorded: no room in %s, or a limit of file sizes "
                 "(ulimit -f)\n",
                 n.no_room, run->folder.path);
    if (n.apart > 0)
        buf_addf(&trouble,
                 "vesta: %llu processes were not recorded: they did not reach %s (chroot, another "
                 "user or mount namespace); vesta-agent reads such processes\n",
                 (unsigned long long)n.apart, run->folder.path);
    if (!run->o->quiet && n.processes + n.no_room == 0)
        buf_addf(&summary, "vesta: the library was not in the command, or left no samples\n");
    if (!run->o->quiet && summary.len > 0)
        terminal_say(buf_bytes(&summary));
    if (trouble.len > 0)
        terminal_say(buf_bytes(&trouble));
}

static int start(struct run *run, struct error *err)
{
    int r = read_options(run, err);

    r = r < 0 ? r : find_library(run, err);
    r = r < 0 ? r : name_library(run, err);
    r = r < 0 ? r : run_folder_make(&run->folder, err);
    r = r < 0 ? r : run_output_new(run->o, &run->output, err);
    if (r < 0)
        return r;
    run_program_raise_files();
    run->segments = run_segments_new(&run->segments_options, err);
    if (!run->segments)
        return -EIO;
    run->signals = run_signals_open(err);
    return run->signals < 0 ? run->signals : 0;
}

static void end(struct run *run)
{
    run_segments_free(run->segments);
    run_output_free(run->output);
    run_folder_remove(&run->folder);
    if (run->signals >= 0)
        close(run->signals);
}

int cmd_run(const struct command *self, struct options *o)
{
    struct run run = {.o = o, .folder.lock = -1, .signals = -1};
    struct error err = {""};

    if (o->n_args == 0)
        return command_usage(self, "run needs a command");
    int r = start(&run, &err);
    if (r < 0) {
        end(&run);
        int code = command_fail(r, &err);
        return run.has_no_command ? run_program_exit_code(r) : code;
    }
    run.pid = run_program_start((char *const *)(uintptr_t)o->args, &run.environment, &err);
    if (run.pid < 0) {
        end(&run);
        (void)command_fail(run.pid, &err);
        return run_program_exit_code(run.pid);
    }
    follow(&run);
    tell(&run);
    end(&run);
    if (WIFEXITED(run.status))
        return WEXITSTATUS(run.status);
    run_signals_die_by(WTERMSIG(run.status));
    return 128 + WTERMSIG(run.status);
}

#include "cli/run_signals.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/cleanup.h"

/* Whoever continues a group reaches one process after the other. */
#define SETTLE_NS ((long)20 * 1000 * 1000)

static const int passed_on[] = {SIGINT,  SIGTERM, SIGHUP,   SIGQUIT, SIGUSR1, SIGUSR2,
                                SIGCHLD, SIGALRM, SIGWINCH, SIGTSTP, SIGCONT};

static struct {
    struct sigaction pipe, child;
    sigset_t mask;
} inherited;

void run_signals_remember(void)
{
    sigaction(SIGPIPE, NULL, &inherited.pipe);
    sigaction(SIGCHLD, NULL, &inherited.child);
    sigprocmask(SIG_SETMASK, NULL, &inherited.mask);
}

void run_signals_restore(void)
{
    sigaction(SIGPIPE, &inherited.pipe, NULL);
    sigaction(SIGCHLD, &inherited.child, NULL);
    sigprocmask(SIG_SETMASK, &inherited.mask, NULL);
}

int run_signals_open(struct error *err)
{
    struct sigaction child = {.sa_handler = SIG_DFL};
    sigset_t set;

    /* Ignored, it would not come, and nobody could be waited for. */
    sigaction(SIGCHLD, &child, NULL);
    sigemptyset(&set);
    for (size_t i = 0; i < ARRAY_SIZE(passed_on); i++)
        sigaddset(&set, passed_on[i]);
    sigprocmask(SIG_BLOCK, &set, NULL);
    int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return fd < 0 ? error_set(err, -errno, "could not wait for signals: %s", strerror(errno)) : fd;
}

bool run_signals_is_for_command(const struct signalfd_siginfo *s, pid_t command)
{
    bool is_kernels = s->ssi_code == SI_KERNEL;

    switch (s->ssi_signo) {
    case SIGINT:
    case SIGQUIT:
    case SIGTSTP:
    case SIGWINCH:
        if (is_kernels) /* a terminal's: it sends them to the command as well */
            return false;
        break;
    case SIGHUP:
        /* Of a terminal that goes only the first process of its session is told. */
        if (is_kernels)
            return getsid(0) == getpid();
        break;
    default:
        break;
    }
    /* One that it sent to its group it has sent to itself. */
    return s->ssi_pid != (uint32_t)command;
}

/* ---- Stopping ---- */

static bool is_stopped(pid_t pid)
{
    char path[64], text[512];
    CLEANUP(fclosep) FILE *f = NULL;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    f = fopen(path, "re");
    size_t n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;
    text[n] = '\0';
    const char *paren = strrchr(text, ')');
    return paren && paren[1] == ' ' && paren[2] == 'T';
}

static void set_blocked(int signo, int how)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, signo);
    sigprocmask(how, &set, NULL);
}

/* Elsewhere whoever stopped the command continues it, and does not know of us. */
static bool is_in_front(void)
{
    CLEANUP(closep) int terminal = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);

    return terminal >= 0 && tcgetpgrp(terminal) == getpgrp();
}

void run_signals_stop_with(pid_t command)
{
    struct sigaction stop = {.sa_handler = SIG_DFL}, before;

    if (!is_in_front())
        return;
    nanosleep(&(struct timespec){0, SETTLE_NS}, NULL);
    if (!is_stopped(command))
        return;
    sigaction(SIGTSTP, &stop, &before);
    (void)raise(SIGTSTP); /* where no shell would continue us, the kernel drops it */
    set_blocked(SIGTSTP, SIG_UNBLOCK);
    set_blocked(SIGTSTP, SIG_BLOCK);
    sigaction(SIGTSTP, &before, NULL);
}

void run_signals_continue(pid_t command)
{
    if (is_stopped(command))
        kill(command, SIGCONT);
}

/* ---- The end ---- */

void run_signals_let_go(void (*handler)(int signo))
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = handler}, before;

    for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
        if (sigaction(ends[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(ends[i], &action, NULL);
        set_blocked(ends[i], SIG_UNBLOCK);
    }
    set_blocked(SIGQUIT, SIG_UNBLOCK);
    set_blocked(SIGTSTP, SIG_UNBLOCK);
}

void run_signals_die_by(int signo)
{
    struct sigaction action = {.sa_handler = SIG_DFL};

    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    prctl(PR_SET_DUMPABLE, 0); /* a pipe for cores knows no limit */
    sigaction(signo, &action, NULL);
    (void)raise(signo);
    set_blocked(signo, SIG_UNBLOCK);
}

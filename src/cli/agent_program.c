#include "cli/agent_program.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/must.h"

#define PROGRAM "vesta-agent"

static bool find_in_path(char path[AGENT_PATH_MAX])
{
    const char *list = getenv("PATH");

    for (const char *at = list; at && *at;) {
        size_t n = strcspn(at, ":");
        int len = snprintf(path, AGENT_PATH_MAX, "%.*s/" PROGRAM, (int)n, at);
        if (n > 0 && len < AGENT_PATH_MAX && access(path, X_OK) == 0)
            return true;
        at += n + (at[n] == ':');
    }
    return false;
}

int agent_program_find(char path[AGENT_PATH_MAX], struct error *err)
{
    char self[AGENT_PATH_MAX - sizeof(PROGRAM)];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    char *slash = NULL;

    if (n > 0) {
        self[n] = '\0';
        slash = strrchr(self, '/');
    }
    if (slash) {
        *slash = '\0';
        snprintf(path, AGENT_PATH_MAX, "%s/" PROGRAM, self);
        if (access(path, X_OK) == 0)
            return 0;
    }
    if (find_in_path(path))
        return 0;
    return error_set(err, -ENOENT, "there is no " PROGRAM " beside this program or in PATH");
}

static _Noreturn void become(const char *path, const char *const *args, size_t n)
{
    char **argv = must_calloc(n + 2, sizeof(*argv));
    sigset_t none;

    argv[0] = (char *)path;
    for (size_t i = 0; i < n; i++)
        argv[i + 1] = (char *)args[i];
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execv(path, argv);
    fprintf(stderr, "vesta: could not run \"%s\": %s\n", path, strerror(errno));
    _exit(127);
}

static pid_t spawn(const char *path, const char *const *args, size_t n, struct error *err)
{
    pid_t parent = getpid(), pid = fork();

    if (pid < 0)
        return error_set(err, -errno, "could not start \"%s\": %s", path, strerror(errno));
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() != parent)
            _exit(1);
        become(path, args, n);
    }
    return pid;
}

int agent_program_start(const char *path, const char *const *args, size_t n, struct error *err)
{
    return spawn(path, args, n, err);
}

int agent_program_run(const char *path, const char *const *args, size_t n, struct error *err)
{
    int status = 0;
    pid_t pid = spawn(path, args, n, err);

    if (pid < 0)
        return pid;
    /* Ctrl-C is for the agent, which ends well and leaves a profile behind. */
    signal(SIGINT, SIG_IGN);
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return error_set(err, -errno, "could not wait for \"%s\": %s", path, strerror(errno));
    signal(SIGINT, SIG_DFL);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/*
 * One pid, many processes: hostile_pids ENV1 PROGRAM1 ENV2 PROGRAM2 runs them in turn, half a
 * second each, all with the same pid, ENVn in their environment. Exit code 77: not possible here.
 */
#define _GNU_SOURCE
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "work.h"

static pid_t fork_as(pid_t pid)
{
    struct clone_args args = {.exit_signal = SIGCHLD,
                              .set_tid = pid ? (uint64_t)(uintptr_t)&pid : 0,
                              .set_tid_size = pid ? 1 : 0};

    return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

int main(int argc, char **argv)
{
    pid_t pid = 0;

    if (argc < 5)
        return 2;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int turn = 0;; turn++) {
        char **who = argv + 1 + 2 * (turn % 2);
        pid_t got = fork_as(pid);
        if (got == 0) {
            char *env[] = {who[0], NULL}, *args[] = {who[1], "300", NULL};
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            execve(who[1], args, env);
            _exit(127);
        }
        if (got < 0) {
            perror("clone3");
            return 77;
        }
        if (turn == 0) {
            printf("ready %d\n", got);
            fflush(stdout);
        }
        pid = got;
        usleep(500000);
        kill(got, SIGKILL);
        waitpid(got, NULL, 0);
    }
}

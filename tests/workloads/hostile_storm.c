/*
 * Processes that come, change and go at any moment: each child execs itself a few times, makes
 * threads, and ends by itself or is killed, all at random. Some twelve at a time.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "work.h"

#define AT_ONCE 12

NOINLINE void storm_work(void)
{
    spin(5);
    sink++;
}

static void *thread(void *arg)
{
    storm_work();
    return arg;
}

/* A life: as many execs as are left. */
static int live(int left, char *self)
{
    char text[16];
    pthread_t t[4];

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    srand((unsigned)getpid() * 7u + (unsigned)left);
    for (int i = 0; i < 4; i++)
        if (pthread_create(&t[i], NULL, thread, NULL) == 0)
            pthread_detach(t[i]);
    for (int n = rand() % 60; n > 0; n--)
        storm_work();
    if (left == 0)
        return 0;
    snprintf(text, sizeof(text), "%d", left - 1);
    execl(self, self, "child", text, NULL);
    return 1;
}

int main(int argc, char **argv)
{
    pid_t running[AT_ONCE] = {0};

    if (argc > 2 && strcmp(argv[1], "child") == 0)
        return live(atoi(argv[2]), argv[0]);
    puts("ready");
    fflush(stdout);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (double until = seconds_now() + 300; seconds_now() < until;) {
        pid_t *slot = &running[rand() % AT_ONCE];
        if (*slot > 0) {
            kill(*slot, SIGKILL);
            waitpid(*slot, NULL, 0);
        }
        *slot = fork();
        if (*slot == 0)
            _exit(live(rand() % 4, argv[0]));
        usleep((useconds_t)(rand() % 3000));
    }
    return 0;
}

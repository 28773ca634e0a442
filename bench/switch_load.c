/*
 * Context switches as fast as they go: two processes on one core hand a byte back and forth through
 * pipes, for SECONDS. Prints nanoseconds per switch.
 *
 *     switch_load SECONDS
 */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    int there[2], back[2];
    char c = 0;
    cpu_set_t set;
    unsigned long rounds = 0;

    if (argc != 2 || pipe(there) < 0 || pipe(back) < 0)
        return 2;
    CPU_ZERO(&set);
    CPU_SET(0, &set);
    sched_setaffinity(0, sizeof(set), &set);
    pid_t other = fork();
    if (other == 0) {
        while (read(there[0], &c, 1) == 1 && write(back[1], &c, 1) == 1)
            ;
        _exit(0);
    }
    double start = now(), until = start + atof(argv[1]);
    while (now() < until) {
        for (int i = 0; i < 100; i++)
            if (write(there[1], &c, 1) != 1 || read(back[0], &c, 1) != 1)
                return 1;
        rounds += 100;
    }
    printf("%.1f\n", (now() - start) * 1e9 / (double)(rounds * 2));
    kill(other, SIGKILL);
    return 0;
}

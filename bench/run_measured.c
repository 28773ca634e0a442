/*
 * Runs a program and prints its seconds, peak memory, and the CPU seconds of all that it started:
 * "SECONDS BYTES CPU". A program started from a large one (Python) would be charged with that one's
 * memory, so this one is small.
 *
 *     run_measured PROGRAM ARGUMENT...        its output is thrown away
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double seconds_of(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec * 1e-6;
}

int main(int argc, char **argv)
{
    posix_spawn_file_actions_t quiet;
    struct rusage usage;
    pid_t pid;
    int status;

    if (argc < 2)
        return 2;
    posix_spawn_file_actions_init(&quiet);
    posix_spawn_file_actions_addopen(&quiet, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&quiet, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    double start = now();
    int r = posix_spawn(&pid, argv[1], &quiet, NULL, argv + 1, environ);
    if (r != 0) {
        fprintf(stderr, "could not run \"%s\": %s\n", argv[1], strerror(r));
        return 1;
    }
    if (wait4(pid, &status, 0, &usage) < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        fprintf(stderr, "\"%s\" failed\n", argv[1]);
        return 1;
    }
    printf("%.6f %ld %.6f\n", now() - start, usage.ru_maxrss * 1024,
           seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime));
    return 0;
}

/* A storm of short processes, and one child that stays and works. */
#include <sys/wait.h>
#include <unistd.h>

#include "work.h"

NOINLINE void hot_in_child(void)
{
    spin(100);
    sink++;
}
NOINLINE void short_work(void)
{
    spin(30);
    sink++;
}

int main(int argc, char **argv)
{
    double until = seconds_now() + seconds_asked(argc, argv);

    if (fork() == 0) {
        while (seconds_now() < until)
            hot_in_child();
        _exit(0);
    }
    while (seconds_now() < until) {
        pid_t pid = fork();
        if (pid == 0) {
            short_work();
            _exit(0);
        }
        waitpid(pid, NULL, 0);
    }
    while (wait(NULL) > 0)
        ;
    return 0;
}

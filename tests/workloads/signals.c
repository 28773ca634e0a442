/* Works in a signal handler, on an alternate stack. */
#include <signal.h>
#include <sys/mman.h>

#include "work.h"

NOINLINE void hot_in_handler(void)
{
    spin(80);
    sink++;
}

static void handler(int signo)
{
    (void)signo;
    hot_in_handler();
    sink++;
}

NOINLINE void interrupted(void)
{
    raise(SIGUSR1);
    spin(20);
    sink++;
}

int main(int argc, char **argv)
{
    stack_t alternate = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    double until = seconds_now() + seconds_asked(argc, argv);

    sigaltstack(&alternate, NULL);
    sigaction(SIGUSR1, &action, NULL);
    while (seconds_now() < until)
        interrupted();
    return 0;
}

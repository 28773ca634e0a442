/* Many threads (second argument): most wait, two work; some fight for a lock. */
#include <pthread.h>
#include <unistd.h>

#include "work.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static pthread_mutex_t idle_lock = PTHREAD_MUTEX_INITIALIZER;
static double until;

NOINLINE void hot_holder(void)
{
    spin(200);
    sink++;
}

NOINLINE void take_lock(void)
{
    pthread_mutex_lock(&lock);
    hot_holder();
    pthread_mutex_unlock(&lock);
    sink++;
}

NOINLINE void *fight(void *arg)
{
    while (seconds_now() < until)
        take_lock();
    return arg;
}

NOINLINE void *wait_for_work(void *arg)
{
    pthread_mutex_lock(&idle_lock);
    pthread_cond_wait(&never, &idle_lock);
    return arg;
}

NOINLINE void *sleep_long(void *arg)
{
    while (seconds_now() < until)
        usleep(200000);
    return arg;
}

int main(int argc, char **argv)
{
    int n = argc > 2 ? atoi(argv[2]) : 500;
    pthread_attr_t small;
    pthread_t t;

    until = seconds_now() + seconds_asked(argc, argv);
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 << 10);
    for (int i = 0; i < n; i++)
        pthread_create(&t, &small, i < 4 ? fight : i % 2 ? wait_for_work : sleep_long, NULL);
    while (seconds_now() < until)
        usleep(50000);
    return 0;
}

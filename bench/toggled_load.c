/*
 * How much work gets done while somebody is profiled and while not, in turns: two threads, pinned,
 * with stacks of 30 frames, work in slices; at every other slice, in random order, the agent is
 * switched off by a signal. Prints one line for each pair of slices: work per second of the
 * thread's own CPU time with the agent on, and off.
 *
 *     toggled_load AGENT_PID|0 PAIRS SLICE_MS
 *
 * With 0 nobody is signalled: the differences are what the machine does by itself.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define THREADS 2
#define TABLE   (1 << 15)

static atomic_ulong done[THREADS];
static atomic_bool is_over;
static pthread_t threads[THREADS];
static unsigned long table[TABLE];
static volatile unsigned long sink;

static double now(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

__attribute__((noinline)) static unsigned long work(int depth, unsigned long x)
{
    if (depth > 0)
        return work(depth - 1, x * 3 + 1) + 1;
    for (int i = 0; i < 2000; i++) {
        x = x * 6364136223846793005ul + table[x >> 49];
        table[x >> 49] ^= x;
    }
    return x;
}

static void *run(void *arg)
{
    size_t i = (size_t)(intptr_t)arg;
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(i, &set);
    sched_setaffinity(0, sizeof(set), &set);
    while (!atomic_load_explicit(&is_over, memory_order_relaxed)) {
        sink += work(30, done[i]);
        atomic_fetch_add_explicit(&done[i], 1, memory_order_relaxed);
    }
    return NULL;
}

/* Work per second of CPU over a slice, of both threads. */
static double measure(int slice_ms)
{
    double cpu[THREADS], total = 0;
    unsigned long before[THREADS];
    clockid_t clocks[THREADS];

    usleep(60000); /* whoever was signalled has noticed */
    for (int i = 0; i < THREADS; i++) {
        pthread_getcpuclockid(threads[i], &clocks[i]);
        before[i] = done[i];
        cpu[i] = now(clocks[i]);
    }
    usleep((useconds_t)slice_ms * 1000);
    for (int i = 0; i < THREADS; i++)
        total += (double)(done[i] - before[i]) / (now(clocks[i]) - cpu[i]);
    return total;
}

static void toggle(pid_t agent)
{
    if (agent > 0)
        kill(agent, SIGUSR1);
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    pid_t agent = atoi(argv[1]);
    int pairs = atoi(argv[2]), slice_ms = atoi(argv[3]);

    srand((unsigned)getpid());
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, run, (void *)(intptr_t)i);
    for (int i = 0; i < pairs; i++) {
        double on = 0, off = 0;
        bool off_first = rand() & 1;
        for (int half = 0; half < 2; half++) {
            if ((half == 0) == off_first) {
                toggle(agent);
                off = measure(slice_ms);
                toggle(agent);
            } else {
                on = measure(slice_ms);
            }
        }
        printf("%.6g %.6g\n", on, off);
        fflush(stdout);
    }
    is_over = true;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return 0;
}

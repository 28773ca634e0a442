#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * What test_probe_walks profiles: built with optimization and without frame pointers. It goes DEPTH
 * deep through frames of many sizes, and works at the bottom: by itself, in a callback of qsort(),
 * in system calls, or in a signal handler.
 *
 *     walk_target DEPTH spin|sort|calls|signal
 */
static volatile unsigned long work;

static void __attribute__((noinline)) spin(void)
{
    for (int i = 0; i < 1000; i++)
        work += (unsigned long)i;
}

static int compare(const void *a, const void *b)
{
    spin();
    return *(const int *)a - *(const int *)b;
}

static void on_signal(int number)
{
    (void)number;
    for (;;)
        spin();
}

static void __attribute__((noinline)) bottom(const char *how)
{
    int values[64];
    char bytes[4096];
    /* A page of the stack that was never touched ends a copy that the kernel makes of it. */
    for (size_t i = 0; i < sizeof(bytes); i += 256)
        ((volatile char *)bytes)[i] = 0;
    if (strcmp(how, "signal") == 0) {
        signal(SIGUSR1, on_signal);
        raise(SIGUSR1);
    }
    while (work != ~0ul) {
        if (strcmp(how, "sort") == 0) {
            for (int i = 0; i < 64; i++)
                values[i] = (i * 37) % 64;
            qsort(values, 64, sizeof(values[0]), compare);
        } else if (strcmp(how, "calls") == 0) {
            FILE *f = fopen("/proc/self/stat", "r");
            if (f && fread(bytes, 1, sizeof(bytes), f) > 0)
                work++;
            if (f)
                fclose(f);
        } else {
            spin();
        }
    }
}

static int __attribute__((noinline)) go_down(int depth, const char *how)
{
    char room[64 + depth % 7 * 48];
    memset(room, depth, sizeof(room));
    if (depth == 0)
        bottom(how);
    else
        work += (unsigned long)go_down(depth - 1, how);
    return room[depth % 64];
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    return go_down(atoi(argv[1]), argv[2]);
}

/*
 * Allocates for as long as it is let: churn() 3 bytes for each one of keep(), which keeps its last
 * 8 MiB. At a byte of its input it begins anew, by exec and as service "again"; it ends with it.
 */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEPT  8192
#define BLOCK 1024

static void *kept[KEPT];

__attribute__((noinline)) static void churn(void)
{
    void *volatile p = malloc(3 * BLOCK);

    memset(p, 1, 64);
    free(p);
}

__attribute__((noinline)) static void keep(size_t i)
{
    free(kept[i % KEPT]);
    kept[i % KEPT] = malloc(BLOCK);
    memset(kept[i % KEPT], 1, 64);
}

int main(int argc, char **argv)
{
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    char byte;

    (void)argc;

    for (size_t i = 0; poll(&in, 1, 0) == 0; i += 1000) {
        for (size_t k = 0; k < 1000; k++) {
            churn();
            keep(i + k);
        }
        usleep(500);
    }
    if (read(STDIN_FILENO, &byte, 1) == 1 && setenv("OTEL_SERVICE_NAME", "again", 1) == 0)
        execv("/proc/self/exe", argv);
    return 0;
}

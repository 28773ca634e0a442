/*
 * Allocates for as long as it is let: churn() 3 bytes for each one of keep(), which keeps its last
 * 8 MiB. Ends when its input does.
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

int main(void)
{
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};

    for (size_t i = 0; poll(&in, 1, 0) == 0; i += 1000) {
        for (size_t k = 0; k < 1000; k++) {
            churn();
            keep(i + k);
        }
        usleep(500);
    }
    return 0;
}

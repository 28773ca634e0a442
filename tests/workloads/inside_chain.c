/*
 * Allocates, then becomes the program that its arguments name: a chain of programs, of one libc and
 * of the other.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))
#define BLOCKS   4096
#define SIZE     4096

static void *volatile block;

#ifdef __GLIBC__
NOINLINE static void work_of_glibc(void)
#else
NOINLINE static void work_of_musl(void)
#endif
{
    for (int i = 0; i < BLOCKS; i++) {
        block = malloc(SIZE);
        free(block);
    }
}

int main(int argc, char **argv)
{
#ifdef __GLIBC__
    work_of_glibc();
#else
    work_of_musl();
#endif
    if (argc < 2) {
        puts("done");
        return 0;
    }
    execvp(argv[1], argv + 1);
    perror(argv[1]);
    return 1;
}

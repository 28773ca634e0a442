/* Allocates from code that it makes as it runs, and names that as compilers at run time do. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void *volatile kept;

static __attribute__((noinline)) void allocate(void)
{
    kept = malloc(64 << 10);
    free(kept);
}

int main(void)
{
    /* push %rbp; mov %rsp, %rbp; call *%rdi; pop %rbp; ret */
    static const unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};
    char path[64];
    void *made = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS,
                      -1, 0);

    memcpy(made, code, sizeof(code));
    snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
    FILE *map = fopen(path, "w");
    if (!map)
        return 1;
    fprintf(map, "%lx 1000 made_as_it_runs\n", (unsigned long)made);
    fclose(map);
    for (int i = 0; i < 400; i++)
        ((void (*)(void (*)(void)))made)(allocate);
    puts(path);
    return 0;
}

/* Takes memory from the kernel, and gives it back in parts; says what is mapped at the end. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define PAGE ((size_t)4096)

static char *map(size_t pages)
{
    char *p = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        abort();
    return p;
}

int main(void)
{
    size_t n = 0;
    char *p = map(100); /* trimmed on both sides, as for an alignment */
    munmap(p, 10 * PAGE);
    munmap(p + 80 * PAGE, 20 * PAGE);
    n += 70;
    p = map(50); /* in three parts, until nothing is left */
    munmap(p, 10 * PAGE);
    munmap(p + 40 * PAGE, 10 * PAGE);
    munmap(p + 10 * PAGE, 30 * PAGE);
    p = mremap(map(30), 30 * PAGE, 300 * PAGE, MREMAP_MAYMOVE);
    if (p == MAP_FAILED)
        abort();
    n += 300;
    p = mremap(map(64), 64 * PAGE, 16 * PAGE, 0);
    n += 16;
    p = map(40); /* covered by what is not memory to count */
    mmap(p, 40 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    p = map(8);
    munmap(p, 8 * PAGE - 100); /* lengths are rounded */
    if (mremap(map(5), 5 * PAGE, (size_t)1 << 60, 0) != MAP_FAILED)
        abort();
    n += 5;
    printf("allocated %d %zu live 4 %zu\n", 7, (100 + 50 + 30 + 64 + 40 + 8 + 5) * PAGE, n * PAGE);
    return 0;
}

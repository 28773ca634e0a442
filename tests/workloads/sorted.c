/* Called back by the C library: qsort() and bsearch(). */
#include <stdlib.h>

#include "work.h"

NOINLINE int hot_compare(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;

    spin(1);
    return x < y ? -1 : x > y;
}

NOINLINE void sort_some(void)
{
    int numbers[64];

    for (int i = 0; i < 64; i++)
        numbers[i] = (i * 7919) % 64;
    qsort(numbers, 64, sizeof(int), hot_compare);
    sink += (unsigned long)numbers[3];
}

int main(int argc, char **argv)
{
    double until = seconds_now() + seconds_asked(argc, argv);

    while (seconds_now() < until)
        sort_some();
    return 0;
}

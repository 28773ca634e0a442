/* Recursion of 300 frames, each of another size. */
#include <string.h>

#include "work.h"

NOINLINE void hot_leaf(void)
{
    spin(50);
    sink++;
}

NOINLINE int descend(int depth)
{
    char room[64 + (depth % 7) * 32];

    memset(room, depth, sizeof(room));
    sink += (unsigned long)room[depth % 64];
    if (depth == 0)
        hot_leaf();
    else
        sink += (unsigned long)descend(depth - 1);
    return room[1] + 1;
}

int main(int argc, char **argv)
{
    double until = seconds_now() + seconds_asked(argc, argv);

    while (seconds_now() < until)
        sink += (unsigned long)descend(300);
    return 0;
}

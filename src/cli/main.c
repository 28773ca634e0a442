#include <stdio.h>

#include "base/hash.h"

int main(void)
{
    hash_randomize();
    puts("vesta " VESTA_VERSION);
    return 0;
}

#include "base/hash.h"

#include <sys/random.h>

uint64_t hash_seed = 0xE7037ED1A0B428DBu;

void hash_randomize(void)
{
    uint64_t seed;

    if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) == (ssize_t)sizeof(seed))
        hash_seed = seed | 1;
}

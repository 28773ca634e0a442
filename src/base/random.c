#include "base/random.h"

#include <stdlib.h>
#include <sys/random.h>

/* Splitmix64: spreads seeds that differ in one bit over the whole state, and never makes it zero.
 */
static uint64_t spread(uint64_t *at)
{
    uint64_t z = *at += 0x9E3779B97F4A7C15u;

    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

void random_init(struct random *r, uint64_t seed)
{
    for (int i = 0; i < 4; i++)
        r->state[i] = spread(&seed);
}

uint64_t random_seed_os(void)
{
    uint64_t seed;

    if (getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed))
        abort();
    return seed;
}

static uint64_t rotate(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

uint64_t random_u64(struct random *r)
{
    uint64_t *s = r->state, shifted = s[1] << 17, ret = rotate(s[1] * 5, 7) * 9;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= shifted;
    s[3] = rotate(s[3], 45);
    return ret;
}

uint64_t random_below(struct random *r, uint64_t n)
{
    if (n == 0)
        return 0;
    /* The values at the bottom that would make some remainders one likelier are thrown away. */
    uint64_t x, odd = (0 - n) % n;
    do
        x = random_u64(r);
    while (x < odd);
    return x % n;
}

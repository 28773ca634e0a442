/*
 * Ever new stacks, many more than there is room for at a time. Some memory of the first ones stays.
 * It waits for its reader, so nothing is lost.
 */
#include "preload/own_ring.h"

#define NOINLINE __attribute__((noinline))
#define BITS     13
#define KEPT     200
#define STACKS   (1 << BITS)

static void *volatile kept[KEPT], *volatile block;

NOINLINE static void keep_one(unsigned i)
{
    kept[i] = malloc(500);
}

NOINLINE static void make_one(unsigned i)
{
    block = malloc(300 + i % 7);
    free(block);
}

/* The path from the root of a tree to a leaf is the number in binary. The marks differ, so that
 * these are two functions, and keep calls from being jumps. */
typedef void leaf_fn(unsigned i);
static void by_zero(unsigned i, int bit, leaf_fn *leaf);
static void by_one(unsigned i, int bit, leaf_fn *leaf);

static inline void go_on(unsigned i, int bit, leaf_fn *leaf)
{
    if (bit == 0)
        leaf(i);
    else if (i >> (bit - 1) & 1)
        by_one(i, bit - 1, leaf);
    else
        by_zero(i, bit - 1, leaf);
}

NOINLINE static void by_zero(unsigned i, int bit, leaf_fn *leaf)
{
    go_on(i, bit, leaf);
    __asm__ volatile("# zero");
}

NOINLINE static void by_one(unsigned i, int bit, leaf_fn *leaf)
{
    go_on(i, bit, leaf);
    __asm__ volatile("# one");
}

static int wait_for_reader(void)
{
    for (int i = 0; i < 3000; i++) {
        if (__atomic_load_n(&own_header->ring_tail, __ATOMIC_ACQUIRE) == own_ring_head())
            return 1;
        usleep(10000);
    }
    return 0;
}

int main(void)
{
    uint64_t made = 0;

    own_ring_find();
    if (!own_header)
        return 1;
    for (unsigned i = 0; i < KEPT; i++)
        by_zero(i, BITS, keep_one);
    for (unsigned i = 0; i < STACKS; i++) {
        if (i % 512 == 0 && !wait_for_reader())
            return 2;
        by_zero(i, BITS, make_one);
        made += 300 + i % 7;
    }
    printf("{\"made\": %llu, \"kept\": %d, \"texts\": %llu}\n", (unsigned long long)made,
           KEPT * 500, (unsigned long long)own_header->texts_used * 8);
    return 0;
}

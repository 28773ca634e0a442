#include "base/checksum.h"
#include "lib/test.h"

/* Published values of XXH3: stored files depend on them. */
static void values_are_those_of_xxh3(struct test *t)
{
    CHECK(t, checksum64("", 0) == 0x2D06800538D394C2u);
    CHECK(t, checksum64(NULL, 0) == 0x2D06800538D394C2u);
    CHECK(t, checksum64_seeded("abc", 3, 0) == checksum64("abc", 3));
}

static void one_bit_or_another_seed_changes_it(struct test *t)
{
    uint8_t block[1000];

    for (size_t i = 0; i < sizeof(block); i++)
        block[i] = (uint8_t)(i * 31);
    uint64_t sum = checksum64(block, sizeof(block));
    for (size_t i = 0; i < sizeof(block) * 8; i++) {
        block[i / 8] ^= (uint8_t)(1u << i % 8);
        CHECK(t, checksum64(block, sizeof(block)) != sum);
        block[i / 8] ^= (uint8_t)(1u << i % 8);
    }
    CHECK(t, checksum64(block, sizeof(block)) == sum);
    CHECK(t, checksum64(block, sizeof(block) - 1) != sum);
    CHECK(t, checksum64_seeded(block, sizeof(block), 1) != sum);
}

static const struct test_case cases[] = {
    TEST(values_are_those_of_xxh3),
    TEST(one_bit_or_another_seed_changes_it),
};
TEST_MAIN(cases)

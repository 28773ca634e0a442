#include "base/hash.h"
#include "base/idset.h"
#include "lib/test.h"

static void finds_what_was_added_and_nothing_else(struct test *t)
{
    struct budget b;
    budget_init(&b, 1 << 24);
    struct idset set = {0};
    for (uint32_t i = 0; i < 10000; i++)
        CHECK(t, idset_add(&b, &set, hash_mix(i, 1), i));
    for (uint32_t i = 0; i < 10000; i++)
        CHECK_INT(t, IDSET_FIND(&set, hash_mix(i, 1), id, id == i), i);
    CHECK_INT(t, IDSET_FIND(&set, hash_mix(10001, 1), id, id == 10001), IDSET_NONE);
    idset_done(&b, &set);
    CHECK_INT(t, b.used, 0);
}

static const struct test_case cases[] = {TEST(finds_what_was_added_and_nothing_else)};
TEST_MAIN(cases)

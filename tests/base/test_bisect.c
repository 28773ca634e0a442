#include "base/bisect.h"
#include "lib/test.h"

static void counts_what_comes_before_a_place(struct test *t)
{
    static const int sorted[] = {1, 3, 3, 7};
    static const struct {
        int value;
        size_t before, up_to;
    } cases[] = {{0, 0, 0}, {1, 0, 1}, {2, 1, 1}, {3, 1, 3}, {5, 3, 3}, {7, 3, 4}, {9, 4, 4}};

    for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
        CHECK_INT(t, BISECT(4, i, sorted[i] < cases[k].value), cases[k].before);
        CHECK_INT(t, BISECT(4, i, sorted[i] <= cases[k].value), cases[k].up_to);
        CHECK_INT(t, BISECT(0, i, sorted[i] < cases[k].value), 0);
    }
}

static const struct test_case cases[] = {TEST(counts_what_comes_before_a_place)};
TEST_MAIN(cases)

#include "base/vec.h"

bool vec_grow_(struct budget *b, void **data, size_t *cap, size_t len, size_t more, size_t size)
{
    size_t need, bytes, want = *cap < 8 ? 8 : *cap * 2;

    if (__builtin_add_overflow(len, more, &need) || __builtin_mul_overflow(need, size, &bytes)) {
        budget_fail(b, more);
        return false;
    }
    if (want < need)
        want = need;
    /* Near the limit take just what is needed rather than fail for the sake of doubling. */
    size_t outgrown = b->keep ? 0 : *cap * size;
    if (want * size - outgrown > b->limit - b->used)
        want = need;
    if (!budget_resize(b, data, *cap * size, want * size))
        return false;
    *cap = want;
    return true;
}

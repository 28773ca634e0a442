#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/budget.h"

/*
 * A growable array of one type, charged to a budget:
 *
 *     VEC(uint32_t) ids = {0};
 *     if (!vec_push(budget, &ids, 7)) ...        false: the budget is spent, nothing was added
 *     for (size_t i = 0; i < ids.len; i++) use(ids.data[i]);
 *     vec_done(budget, &ids);
 *
 * A zeroed vec is empty and valid. Pointers into `data` live until the next push.
 */
#define VEC(type)                                                                                  \
    struct {                                                                                       \
        type *data;                                                                                \
        size_t len;                                                                                \
        size_t cap;                                                                                \
    }

/* Room for n more elements. */
#define vec_reserve(b, v, n)                                                                       \
    (__builtin_expect((v)->cap - (v)->len >= (size_t)(n), 1) ||                                    \
     vec_grow_((b), (void **)&(v)->data, &(v)->cap, (v)->len, (size_t)(n), sizeof(*(v)->data)))

#define vec_push(b, v, ...)                                                                        \
    (vec_reserve((b), (v), 1) ? ((v)->data[(v)->len++] = (__VA_ARGS__), true) : false)

/* Appends n elements copied from p, which is not looked at when n is 0. */
#define vec_append(b, v, p, n)                                                                     \
    ((n) == 0 ? true                                                                               \
     : vec_reserve((b), (v), (n))                                                                  \
         ? (vec_copy_((v)->data + (v)->len, (p), (n) * sizeof(*(v)->data)), (v)->len += (n), true) \
         : false)

/* Makes the length n; new elements are zero. */
#define vec_resize(b, v, n)                                                                        \
    ((size_t)(n) <= (v)->len                                                                       \
         ? ((v)->len = (n), true)                                                                  \
         : (vec_reserve((b), (v), (n) - (v)->len)                                                  \
                ? (memset((v)->data + (v)->len, 0, ((n) - (v)->len) * sizeof(*(v)->data)),         \
                   (v)->len = (n), true)                                                           \
                : false))

#define vec_last(v)  ((v)->data[(v)->len - 1])
#define vec_clear(v) ((v)->len = 0)

#define vec_done(b, v)                                                                             \
    do {                                                                                           \
        budget_free((b), (v)->data, (v)->cap * sizeof(*(v)->data));                                \
        (v)->data = NULL;                                                                          \
        (v)->len = (v)->cap = 0;                                                                   \
    } while (0)

bool vec_grow_(struct budget *b, void **data, size_t *cap, size_t len, size_t more, size_t size);

static inline void vec_copy_(void *to, const void *from, size_t n)
{
    if (n > 0)
        memcpy(to, from, n);
}

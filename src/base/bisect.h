#pragma once

#include <stddef.h>

/*
 * Binary search in anything sorted: how many of its n elements come before a place. `is_before` is
 * an expression about element number i; it must hold for a run of elements at the front and for
 * none behind them.
 *
 *     size_t at = BISECT(v.len, i, v.data[i].start < address);    the first at or after it, or len
 */
#define BISECT(n, i, is_before)                                                                    \
    ({                                                                                             \
        size_t low_ = 0, high_ = (n);                                                              \
        while (low_ < high_) {                                                                     \
            size_t i = low_ + (high_ - low_) / 2;                                                  \
            if (is_before)                                                                         \
                low_ = i + 1;                                                                      \
            else                                                                                   \
                high_ = i;                                                                         \
        }                                                                                          \
        low_;                                                                                      \
    })

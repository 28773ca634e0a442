#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* What every fuzz target has: the function libFuzzer calls, and properties that must hold. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition))                                                                          \
            abort();                                                                               \
    } while (0)

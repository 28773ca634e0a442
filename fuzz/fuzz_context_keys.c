/*
 * Any bytes as the context of a process, of which the preloaded library reads the names of keys.
 * No crash; names lie one after the other, within their room.
 */
#include "fuzz.h"
#include "preload/context_keys.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct found_keys keys;

    found_keys_read(data, size, &keys);
    REQUIRE(keys.n <= FIND_KEYS_MAX && keys.at[0] == 0);
    for (uint32_t i = 0; i < keys.n; i++)
        REQUIRE(keys.at[i] <= keys.at[i + 1] && keys.at[i + 1] - keys.at[i] <= 255);
    REQUIRE(keys.at[keys.n] <= FIND_NAMES_MAX);
    return 0;
}

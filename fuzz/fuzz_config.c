/* Settings: whatever is taken prints as a text that reads as the same; whatever is not has words.
 */
#include <errno.h>

#include "config/agent_config.h"
#include "config/server_config.h"
#include "fuzz.h"

static void try(const struct config_table *table, struct bytes given)
{
    struct config_input in = {.text = given};
    struct config *first = NULL, *again = NULL;
    struct buf text = {0};
    struct error err = {""};
    size_t at = 0;

    int r = config_load(table, &in, &first, &err);
    REQUIRE(r == 0 || ((r == -EINVAL || r == -ENOBUFS) && err.text[0]));
    if (r == 0) {
        config_print(first, &text);
        in.text = buf_bytes(&text);
        REQUIRE(config_load(table, &in, &again, &err) == 0);
        for (const struct config_key *key;
             (key = config_next_change(table, config_values(first), config_values(again), &at));)
            REQUIRE(key->flags & CONFIG_SECRET || key->type == CONFIG_STRING ||
                    key->type == CONFIG_LIST || key->type == CONFIG_NODE); /* a URL's password or
                    another secret was left out */
    }
    config_free(first);
    config_free(again);
    buf_done(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct bytes text = {data, len < CONFIG_FILE_MAX ? len : CONFIG_FILE_MAX};

    try(&server_config_table, text);
    try(&agent_config_table, text);
    return 0;
}

/* Settings: whatever is taken prints as a text that reads as the same; whatever is not has words.
 */
#include <errno.h>

#include "config/server_config.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct config_input in = {.text = {data, len < CONFIG_FILE_MAX ? len : CONFIG_FILE_MAX}};
    struct config *first = NULL, *again = NULL;
    struct buf text = {0};
    struct error err = {""};
    size_t at = 0;

    int r = config_load(&server_config_table, &in, &first, &err);
    REQUIRE(r == 0 || (r == -EINVAL && err.text[0]));
    if (r == 0) {
        config_print(first, &text);
        in.text = buf_bytes(&text);
        REQUIRE(config_load(&server_config_table, &in, &again, &err) == 0);
        for (const struct config_key *key;
             (key = config_next_change(&server_config_table, config_values(first),
                                       config_values(again), &at));)
            REQUIRE(key->flags & CONFIG_SECRET || key->type == CONFIG_STRING ||
                    key->type == CONFIG_LIST); /* a URL's password was left out */
    }
    config_free(first);
    config_free(again);
    buf_done(&text);
    return 0;
}

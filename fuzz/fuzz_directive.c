/*
 * What a server asks of an agent, and dates of its answers. Whatever is read is written as JSON
 * that reads as the same.
 *
 * Links: relay.
 */
#include "base/cleanup.h"
#include "fuzz.h"
#include "relay/directive.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes text = {data, size};
    struct directive d, again;
    struct error err;
    int64_t ns;

    (void)directive_time(text, &ns);
    if (directive_read(text, &d, &err) < 0)
        return 0;
    CLEANUP(buf_done) struct buf json = {0};
    directive_write(&d, &json);
    REQUIRE(directive_read(buf_bytes(&json), &again, &err) == 0);
    /* Bytes that are no UTF-8 are written as such that are. */
    REQUIRE(again.number == d.number && again.until_ns == d.until_ns && again.n_types == d.n_types);
    directive_count_from(&d, text, INT64_MAX);
    directive_count_from(&d, (struct bytes){0}, 0);
    REQUIRE(d.lasts_ns >= 0);
    return 0;
}

/*
 * What the inspector of a process may say: the list of what there is, messages, and results that
 * should be profiles. Nothing crashes, and what is taken from it is sound.
 */
#include "base/cleanup.h"
#include "fuzz.h"
#include "scrape/cdp.h"
#include "scrape/v8_turn.h"

static void turn(struct bytes cpu, struct bytes heap)
{
    static const struct tags none;
    CLEANUP(buf_done) struct buf otlp = {0};
    struct v8_turn_input in = {.cpu = cpu,
                               .heap = heap,
                               .attributes = &none,
                               .end_ns = 1,
                               .memory_max = (uint64_t)64 << 20};
    size_t n;

    if (v8_turn(&in, &otlp, &n, NULL) == 0)
        REQUIRE((n > 0) == (otlp.len > 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct bytes in = {data, len};
    char path[CDP_PATH_MAX + 1];
    struct cdp_message m = {0};

    if (cdp_read_list(in, path, NULL) == 0)
        REQUIRE(path[0] == '/' && strlen(path) <= CDP_PATH_MAX && !strpbrk(path, " \r\n"));
    if (cdp_read_message(in, &m, NULL) == 0) {
        REQUIRE(m.result.len <= len);
        turn(buf_bytes(&m.result), (struct bytes){0});
        turn((struct bytes){0}, buf_bytes(&m.result));
    }
    buf_done(&m.result);
    return 0;
}

/* An HTTP/1.1 answer, fed whole and byte by byte: both must see the same. */
#include <string.h>

#include "base/buf.h"
#include "fuzz.h"
#include "net/http1.h"
#include "net/url.h"

static bool keep(void *arg, struct bytes body)
{
    buf_add_bytes(arg, body);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static struct http1_response whole, bytewise;
    struct buf a = {0}, b = {0};
    struct url url;

    memset(&whole, 0, sizeof(whole));
    memset(&bytewise, 0, sizeof(bytewise));
    bool ok = http1_response_feed(&whole, (struct bytes){data, len}, keep, &a);
    bool same = true;
    for (size_t i = 0; i < len && same; i++)
        same = http1_response_feed(&bytewise, (struct bytes){data + i, 1}, keep, &b);
    REQUIRE(ok == same && whole.failure == bytewise.failure && whole.done == bytewise.done);
    REQUIRE(whole.status == bytewise.status && bytes_equal(buf_bytes(&a), buf_bytes(&b)));
    REQUIRE(!http1_response_end(&whole) || whole.done);
    /* The same bytes as a URL. */
    buf_clear(&a);
    buf_add_bytes(&a, bytes_head((struct bytes){data, len}, 4096));
    (void)url_parse(buf_cstr(&a), &url, NULL);
    buf_done(&a);
    buf_done(&b);
    return 0;
}

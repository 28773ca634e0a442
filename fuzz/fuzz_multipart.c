/* A form body. The first byte says how much of the rest is the content type. */
#include "fuzz.h"
#include "net/multipart.h"

static void walk(struct bytes content_type, struct bytes body)
{
    struct multipart m;
    struct multipart_part p;
    struct error err = {""};
    int r = multipart_begin(content_type, body, &m, &err);
    const uint8_t *last = body.data;

    for (size_t n = 0; r == 0 && (r = multipart_next(&m, &p, &err)) > 0; r = 0, n++) {
        REQUIRE(n < MULTIPART_PARTS_MAX);
        REQUIRE(p.content.data >= last && p.content.data + p.content.len <= body.data + body.len);
        last = p.content.data + p.content.len;
    }
    REQUIRE(r == 0 || err.text[0] != '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct bytes all = {data, len};
    size_t n = len > 0 ? data[0] : 0;

    all = bytes_from(all, 1);
    walk(bytes_head(all, n), bytes_from(all, n));
    walk(BYTES("multipart/form-data; boundary=x"), all);
    return 0;
}

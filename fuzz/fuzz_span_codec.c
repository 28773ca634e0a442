#include <errno.h>
#include <stdlib.h>

#include "store_local/span_codec.h"

/* Any bytes: no crash, only documented results; what decodes survives being encoded again. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct budget b;
    struct arena arena;
    struct span_rows rows = {0}, again = {0};
    struct error err = {0};
    CLEANUP(buf_done) struct buf out = {0};

    budget_init(&b, (size_t)64 << 20);
    arena_init(&arena, &b);
    int r = span_decode((struct bytes){data, len}, &arena, &rows, &err);
    if ((r != 0 && r != -EBADMSG && r != -ENOBUFS) || (r < 0 && !err.text[0]))
        abort();
    if (r == 0 && span_encode(rows.spans, rows.n, &b, &out, &err) == 0) {
        r = span_decode(buf_bytes(&out), &arena, &again, &err);
        if (r != -ENOBUFS && (r < 0 || again.n != rows.n))
            abort();
    }
    arena_done(&arena);
    return 0;
}

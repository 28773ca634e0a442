#include "formats/otlp_response.h"

#include <stdio.h>

#include "wire/protobuf.h"

void otlp_read_response(struct bytes response, struct otlp_response *ret)
{
    struct pb_reader r = pb_reader(response);

    *ret = (struct otlp_response){0};
    while (pb_next(&r)) {
        if (r.field != 1 || r.wire != PB_BYTES)
            continue;
        struct pb_reader partial = pb_reader(r.data);
        while (pb_next(&partial)) {
            if (partial.field == 1 && partial.wire == PB_VARINT)
                ret->rejected = (int64_t)partial.value > 0 ? partial.value : 0;
            else if (partial.field == 2 && partial.wire == PB_BYTES)
                snprintf(ret->text, sizeof(ret->text), "%.*s",
                         (int)bytes_head(partial.data, sizeof(ret->text) - 1).len,
                         (const char *)partial.data.data);
        }
    }
}

/*
 * Any bytes as an image of an unwind table: no crash; what is accepted can be searched everywhere.
 *
 * Links: unwind.
 */
#include <errno.h>
#include <string.h>

#include "fuzz.h"
#include "unwind/unwind_table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct error err = {{0}};
    struct unwind_view v;
    uint8_t *image = malloc(len + 1); /* aligned, and as long as it says */

    REQUIRE(image);
    memcpy(image, data, len);
    int r = unwind_table_read((struct bytes){image, len}, &v, &err);
    REQUIRE(r == 0 || (r == -EBADMSG && err.text[0] != '\0'));
    for (uint32_t i = 0; r == 0 && i < v.n_pages + 2; i++) {
        uint64_t page = ((uint64_t)v.first_text_page + i) << UNWIND_PAGE_BITS;
        for (uint64_t at = 0; at < 1 << UNWIND_PAGE_BITS; at += 4093)
            REQUIRE(unwind_view_find(&v, page + at).cfa <= UNWIND_CFA_UNSUPPORTED);
    }
    free(image);
    return 0;
}

/* A tar of sources, as somebody sent it. */
#include <string.h>

#include "fuzz.h"
#include "wire/tar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct budget budget;
    struct error err = {""};
    struct tar_entry entry;
    uint8_t piece[100];
    uint64_t content = 0;
    int r;

    budget_init(&budget, 1 << 22);
    struct input *in = input_from_bytes((struct bytes){data, len}, "tar", &budget);
    struct tar_reader t = {.in = in};
    while ((r = tar_next(&t, &entry, &err)) > 0) {
        REQUIRE(strlen(entry.name) <= TAR_NAME_MAX);
        ssize_t n = tar_read(&t, piece, sizeof(piece), &err); /* not all of it */
        REQUIRE(n <= (ssize_t)sizeof(piece));
        content += n > 0 ? (uint64_t)n : 0;
    }
    REQUIRE(r == 0 || err.text[0] != '\0');
    REQUIRE(tar_next(&t, &entry, &err) <= 0);
    (void)content;
    input_close(in);
    REQUIRE(budget.used == 0);
    return 0;
}

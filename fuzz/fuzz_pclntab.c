/*
 * Any bytes as Go's table of functions: no crash, no hang, memory within the budget; names and
 * files are text that ends inside the table. The first byte says how much of the input is the data
 * of inlined calls.
 *
 * Links: symbols.
 */
#include <string.h>

#include "fuzz.h"
#include "symbols/pclntab.h"

static void check_frames(const struct code_frame *f)
{
    size_t depth = 0;

    for (; f; f = f->outer) {
        REQUIRE(f->name != NULL && strlen(f->name) < 1 << 16);
        REQUIRE(!f->file || strlen(f->file) < 1 << 16);
        REQUIRE(++depth <= 1000);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct budget b;
    struct arena a;
    struct pclntab t;
    struct error err = {{0}};

    if (len == 0)
        return 0;
    size_t split = 1 + (len - 1) * data[0] / 256;
    struct bytes funcdata = {data + 1, split - 1}, table = {data + split, len - split};
    budget_init(&b, (size_t)16 << 20);
    arena_init(&a, &b);
    if (pclntab_parse(table, 0x401000, funcdata, &t, &err) == 0) {
        for (uint64_t i = 0; i < 64 && i < t.n_functions; i++) {
            check_frames(pclntab_find(&t, 0x401000 + i * 16, &a));
            check_frames(pclntab_find(&t, i * 16, &a));
        }
    } else {
        REQUIRE(err.text[0] != '\0');
    }
    arena_done(&a);
    REQUIRE(b.used == 0);
    return 0;
}

/*
 * Any text as a perf map, as kallsyms, and as one name to demangle: no crash, no hang, memory
 * within the budget and given back, output within its limit.
 *
 * Links: symbols.
 */
#include <errno.h>
#include <string.h>

#include "fuzz.h"
#include "symbols/demangle.h"
#include "symbols/kallsyms.h"
#include "symbols/perf_map.h"

static void try_perf_map(struct bytes text, struct budget *b)
{
    struct perf_map m;
    struct error err = {{0}};
    int r = perf_map_parse(&m, text, b, &err);

    REQUIRE(r == 0 || err.text[0] != '\0');
    for (size_t i = 0; r == 0 && i < m.entries.len; i++)
        REQUIRE(perf_map_find(&m, m.entries.data[i].start) != NULL);
    perf_map_done(&m);
}

static void try_kallsyms(struct bytes text, struct budget *b)
{
    struct kallsyms k;
    struct error err = {{0}};
    int r = kallsyms_parse(&k, text, b, &err);

    REQUIRE(r == 0 || err.text[0] != '\0');
    for (size_t i = 0; r == 0 && i < k.table.symbols.len; i++)
        REQUIRE(kallsyms_find(&k, k.table.symbols.data[i].start) != NULL);
    kallsyms_done(&k);
}

static void try_names(struct bytes text)
{
    struct buf out = {0};
    char name[2048];

    size_t n = text.len < sizeof(name) ? text.len : sizeof(name) - 1;
    memcpy(name, text.data, n);
    name[n] = '\0';
    for (int mode = DEMANGLE_DEFAULT; mode <= DEMANGLE_FULL; mode++) {
        demangle(name, (enum demangle_mode)mode, &out);
        REQUIRE(out.len <= DEMANGLE_OUTPUT_MAX);
    }
    buf_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct bytes text = {data, len};
    struct budget b;

    budget_init(&b, (size_t)16 << 20);
    try_perf_map(text, &b);
    b.failed = false;
    try_kallsyms(text, &b);
    if (len > 0)
        try_names(text);
    REQUIRE(b.used == 0);
    return 0;
}

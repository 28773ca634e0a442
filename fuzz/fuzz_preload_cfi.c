/*
 * Any bytes as unwind tables, and as expressions: the first byte says where the header is, the next
 * ones registers. Nothing outside of them is read, and all ends.
 *
 * Links: preload_walk.
 */
#include <string.h>

#include "fuzz.h"
#include "preload/frame_rules.h"
#include "preload/inside.h"

__thread struct preload_thread preload_thread;

uint32_t segment_text(enum preload_text_kind kind, const void *data, size_t n, uint16_t flags)
{
    (void)kind, (void)data, (void)n, (void)flags;
    return 0;
}

void segment_module(const struct preload_module *m, const char *path)
{
    (void)m, (void)path;
}

static bool read_word(void *ctx, uint64_t address, uint64_t *ret)
{
    (void)ctx;
    *ret = address * 31;
    return address % 7 != 0;
}

/* Addresses of functions: what is relative to the tables is near them. */
static void use(const struct frame_world *w, uint64_t pc)
{
    struct frame_registers next;
    struct frame_row row;

    if (!frame_row_find(w->tables, pc, &row))
        return;
    REQUIRE(row.cfa_is_expression || row.cfa_register < FRAME_RIP);
    if (frame_row_apply(w, &row, &next))
        REQUIRE(next.known >> FRAME_RSP & 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct frame_registers regs = {.known = (1u << FRAME_REGISTERS) - 1};
    struct frame_tables tables;
    struct frame_world w = {&tables, &regs, read_word, NULL};
    uint64_t value;
    int32_t first;

    if (len < 32)
        return 0;
    for (size_t i = 0; i < FRAME_REGISTERS; i++)
        regs.value[i] = (uintptr_t)data + data[i % 8] * (i + 1);
    tables = (struct frame_tables){(uintptr_t)data + 1, (uintptr_t)data + len, 0};
    tables.header = tables.start + data[0] % 16;
    memcpy(&first, (const void *)(tables.header + 12), sizeof(first));
    use(&w, tables.header + (uint64_t)(int64_t)first);
    use(&w, tables.header + (uint64_t)(int64_t)first + data[1]);
    use(&w, tables.header + data[1]);
    frame_expression(&w, data[2], NULL, &value);
    frame_expression(&w, data[2] % 8, &regs.value[0], &value);
    return 0;
}

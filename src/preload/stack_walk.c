#include "preload/inside.h"

uint32_t walk_here(void)
{
    return 0;
}

size_t walk_addresses(uint64_t *to, size_t max, uint16_t *ret_flags)
{
    (void)to, (void)max;
    *ret_flags = PRELOAD_STACK_LOST;
    return 0;
}

void walk_start(void)
{
}

void walk_thread_starts(void *frame)
{
    preload_thread.stack_end = (uintptr_t)frame;
}

#pragma once

/*
 * For tests that run with the real library: such a program starts itself again with it, and then
 * reads what the library wrote about this very process. C and C++.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "abi/preload.h"

/* A function that stacks are asked for. The program is linked so that dladdr() knows it. */
#define PLACE __attribute__((noinline, visibility("default")))

static const struct preload_header *own_header;

static inline const uint8_t *own_bytes(uint64_t offset)
{
    return (const uint8_t *)own_header + offset;
}

/* Maps the memory of this process, which is among its mappings already. */
static inline void own_ring_find(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[1024];

    while (maps && fgets(line, sizeof(line), maps)) {
        if (strstr(line, "/memfd:" PRELOAD_MEMFD) || strstr(line, ".ring")) {
            unsigned long from = strtoul(line, NULL, 16);
            const struct preload_header *h = (const struct preload_header *)from;
            if (h->magic == PRELOAD_MAGIC)
                own_header = h;
        }
    }
    if (maps)
        fclose(maps);
}

/* Called first of all: starts the program again, with the library and what is asked of it. */
static inline void own_ring_restart(const char *types, const char *lock_interval)
{
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

    if (getenv("LD_PRELOAD")) {
        own_ring_find();
        return;
    }
    self[n < 0 ? 0 : n] = 0;
    setenv("LD_PRELOAD", getenv("VESTA_TEST_PRELOAD") ? getenv("VESTA_TEST_PRELOAD") : "", 1);
    setenv("VESTA_PRELOAD_TYPES", types, 1);
    setenv("VESTA_PRELOAD_LOCK_INTERVAL", lock_interval, 1);
    execl(self, self, (char *)NULL);
    printf("Bail out! cannot start again\n");
    exit(1);
}

static inline uint64_t own_ring_head(void)
{
    return own_header ? __atomic_load_n(&own_header->ring_head, __ATOMIC_ACQUIRE) : 0;
}

/* All that was put so far has been seen. */
static inline void own_ring_forget(void)
{
    if (own_header)
        __atomic_store_n((uint64_t *)&own_header->ring_tail, own_ring_head(), __ATOMIC_RELEASE);
}

/* The next record of that kind after *at; NULL: none. */
static inline const struct preload_record *own_ring_next(uint64_t *at, int kind)
{
    if (!own_header)
        return NULL;
    uint64_t mask = own_header->ring.size / sizeof(struct preload_record) - 1;

    if (*at < own_header->ring_tail)
        *at = own_header->ring_tail;
    while (*at < own_ring_head()) {
        const struct preload_record *r =
            (const struct preload_record *)(const void *)own_bytes(own_header->ring.offset) +
            (*at & mask);
        ++*at;
        if (__atomic_load_n(&r->state, __ATOMIC_ACQUIRE) == (uint32_t)*at && r->kind == kind)
            return r;
    }
    return NULL;
}

static inline const struct preload_text *own_text(uint32_t number)
{
    return number ? (const struct preload_text *)(const void *)own_bytes(own_header->texts.offset +
                                                                         8ull * number)
                  : NULL;
}

static inline const char *own_text_bytes(uint32_t number, uint32_t *ret_size)
{
    const struct preload_text *t = own_text(number);

    *ret_size = t ? t->size : 0;
    return t ? (const char *)(t + 1) : "";
}

static inline int own_text_is(uint32_t number, const char *text)
{
    uint32_t size;
    const char *bytes = own_text_bytes(number, &size);

    return size == strlen(text) && memcmp(bytes, text, size) == 0;
}

/* The name of a frame of a stack, the innermost is 0; "" where there is none. */
static inline const char *own_frame(uint32_t stack, uint32_t depth)
{
    uint32_t size;
    const uint64_t *words = (const uint64_t *)(const void *)own_text_bytes(stack, &size);
    Dl_info info;

    if (depth >= size / 8)
        return "";
    uint64_t pc = words[depth] & ~PRELOAD_EXACT;
    void *at = (void *)(uintptr_t)(words[depth] & PRELOAD_EXACT ? pc : pc - 1);
    return dladdr(at, &info) && info.dli_sname ? info.dli_sname : "?";
}

static inline int own_stack_has(uint32_t stack, const char *name)
{
    for (uint32_t i = 0; i < PRELOAD_FRAMES_MAX; i++) {
        if (strcmp(own_frame(stack, i), name) == 0)
            return 1;
    }
    return 0;
}

#include "base/must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *must(void *p)
{
    if (!p) {
        fputs("vesta: out of memory\n", stderr);
        abort();
    }
    return p;
}

void *must_calloc(size_t n, size_t size)
{
    return must(calloc(n, size));
}

void *must_realloc(void *p, size_t size)
{
    return must(realloc(p, size));
}

char *must_copy(struct bytes text)
{
    char *copy = must_calloc(1, text.len + 1);

    if (text.len > 0)
        memcpy(copy, text.data, text.len);
    return copy;
}

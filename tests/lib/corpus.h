#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

/* Files of the corpus of real profiles, which lies beside the repository or at $VESTA_CORPUS. */

/* The name of a corpus file, in a static buffer. */
static inline const char *corpus_path(const char *name)
{
    static char path[4096];
    const char *dir = getenv("VESTA_CORPUS");

    snprintf(path, sizeof(path), "%s/%s", dir ? dir : "../shared/corpus", name);
    return path;
}

/* The content of a file, to be freed; {NULL, 0} when it is not there. */
static inline struct bytes read_whole(const char *path)
{
    FILE *f = fopen(path, "rb");
    uint8_t *data = NULL;
    long size = 0;

    if (f && fseek(f, 0, SEEK_END) == 0 && (size = ftell(f)) >= 0 && fseek(f, 0, SEEK_SET) == 0)
        data = malloc((size_t)size + 1);
    if (data && fread(data, 1, (size_t)size, f) != (size_t)size) {
        free(data);
        data = NULL;
    }
    if (f)
        fclose(f);
    return (struct bytes){data, data ? (size_t)size : 0};
}

#define CORPUS_ABSENT "the corpus is not here (VESTA_CORPUS)"

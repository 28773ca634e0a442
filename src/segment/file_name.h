#pragma once

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/*
 * Names of the store's files: DIR/0000000012.seg once a file is whole, DIR/tmp-0000000012 while it
 * is being written. Recovery deletes what is still called tmp-.
 */
struct file_name {
    char text[96];
};

static inline struct file_name file_name(const char *dir, uint64_t id, const char *extension)
{
    struct file_name n;
    snprintf(n.text, sizeof(n.text), "%.48s/%010" PRIu64 ".%.16s", dir, id, extension);
    return n;
}

static inline struct file_name file_name_tmp(const char *dir, uint64_t id)
{
    struct file_name n;
    snprintf(n.text, sizeof(n.text), "%.48s/tmp-%010" PRIu64, dir, id);
    return n;
}

static inline bool file_name_is_tmp(const char *name)
{
    return strncmp(name, "tmp-", 4) == 0;
}

/* The id in a name as a directory lists it, "0000000012.seg"; false for any other name. */
static inline bool file_name_id(const char *name, const char *extension, uint64_t *ret)
{
    uint64_t id = 0;
    size_t n = strspn(name, "0123456789");

    if (n < 10 || n > 19 || name[n] != '.' || strcmp(name + n + 1, extension) != 0)
        return false;
    if (n > 10 && name[0] == '0')
        return false; /* not a name that file_name() makes */
    for (size_t i = 0; i < n; i++)
        id = id * 10 + (uint64_t)(name[i] - '0');
    *ret = id;
    return true;
}

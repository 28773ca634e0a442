#pragma once

#include "base/fs.h"
#include "fuzz.h"
#include "lib/sim_fs.h"

/* For targets that read files of the store: a disk in memory with one file in a directory. */
static inline struct sim_fs *fuzz_disk(const char *dir, const char *path, struct bytes content)
{
    struct sim_fs *sim = sim_fs_new(1);
    struct fs *fs = sim_fs_fs(sim);

    REQUIRE(fs_mkdir(fs, dir, NULL) == 0);
    REQUIRE(fs_write_whole(fs, path, content, NULL) == 0);
    return sim;
}

/* Takes n bytes off the input; false when it has fewer. */
static inline bool fuzz_take(struct bytes *in, void *to, size_t n)
{
    if (in->len < n)
        return false;
    memcpy(to, in->data, n);
    *in = bytes_from(*in, n);
    return true;
}

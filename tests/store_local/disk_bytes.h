#pragma once

#include "lib/sim_fs.h"

/* The files of a store on a simulated disk, and changes of their bytes. */
struct named {
    char path[64];
    uint64_t size;
};

struct names {
    struct fs *fs;
    const char *dir;
    struct named files[64];
    size_t n;
};

static inline int note_name(void *arg, const char *name, bool is_dir)
{
    struct names *all = arg;
    struct named *file = &all->files[all->n];

    if (is_dir || strcmp(name, "LOCK") == 0)
        return 0;
    snprintf(file->path, sizeof(file->path), "%s%s%.40s", all->dir, *all->dir ? "/" : "", name);
    if (fs_path_size(all->fs, file->path, &file->size, NULL) == 0)
        all->n++;
    return 0;
}

static inline void list_files(struct sim_fs *sim, struct names *all)
{
    static const char *const dirs[] = {"", "wal", "seg", "dict", "series"};

    *all = (struct names){.fs = sim_fs_fs(sim)};
    for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
        all->dir = dirs[i];
        (void)fs_list(all->fs, *dirs[i] ? dirs[i] : ".", note_name, all, NULL);
    }
}

/* Flips what `mask` says of a byte. */
static inline void flip(struct sim_fs *sim, const char *path, uint64_t byte, unsigned mask)
{
    for (unsigned bit = 0; bit < 8; bit++) {
        if (mask >> bit & 1)
            (void)sim_fs_flip(sim, path, byte * 8 + bit);
    }
}

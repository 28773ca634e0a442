#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/fs.h"

/* The files that a file exporter has written into its folder, oldest first; for keeping them under
 * a size. Files with other names are not ours and are left alone. */
struct kept_name;

struct file_names {
    uint64_t keep; /* bytes; 0: all of them */
    uint64_t bytes, removed;
    struct kept_name *list;
    size_t first, n, cap;
};

/* Those of the folder that are there already. */
int file_names_read(struct file_names *f, struct fs *fs, struct error *err);
void file_names_add(struct file_names *f, const char *name, uint64_t size);
/* Removes the oldest until the rest fits; the newest file stays, whatever its size. */
void file_names_cut(struct file_names *f, struct fs *fs);
void file_names_done(struct file_names *f);

#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/random.h"
#include "base/vec.h"

/*
 * The disk under sim_fs.h: files and directories as a running system sees them ("now"), as they
 * would be found after a loss of power ("durable"), and what lies between: writes since a file's
 * last sync, changes of names since a directory's last sync. No faults and no errors here; the
 * caller checks before it calls.
 *
 * All work is proportional to the bytes and names that changed, never to what is stored, except for
 * disk_crash(), which also copies the files that were being written.
 */
struct disk_image {
    uint8_t *data;
    size_t len, cap;
};

/* A write (bytes at `at` of the node's log), or a change of size to `offset`. */
struct disk_change {
    uint64_t offset;
    size_t len, at;
    bool is_truncate;
};

/* One name of a directory. Stays when nothing has the name any more, until the next crash. */
struct disk_entry {
    struct disk_node *now, *durable; /* NULL: there is no such name */
    bool is_blocked;                 /* while a crash is worked out: a change of it was lost */
    uint32_t hash;
    char name[];
};

/* A change of names that is not durable yet. */
struct disk_name_op {
    struct disk_entry *entry;     /* becomes the name of... */
    struct disk_node *node;       /* ...this, or of nothing */
    struct disk_entry *also_gone; /* a rename's old name in the same directory, or NULL */
    struct disk_node *after_dir;  /* a rename's old name in another directory goes only once... */
    uint64_t after_op;            /* ...the new one, op number after_op in after_dir, is durable */
};

struct disk_node {
    struct disk *disk;
    struct disk_node *prev, *next; /* all nodes, oldest first */
    size_t refs;                   /* names in either view, ops, open files */
    size_t live;                   /* names in the view of now, open files: counts as used space */
    bool is_dir;
    int read_error; /* reading fails with it; 0: does not */
    const void *locked_by;

    struct disk_image now, durable; /* of a file */
    struct disk_image log;          /* bytes of the changes */
    VEC(struct disk_change) changes;
    bool differs; /* now is not what durable + all changes make, or there are changes */
    bool
        is_lossy; /* a sync failed: some bytes will not reach the disk however often it is synced */

    struct disk_entry **slots; /* of a directory: by hash, open addressing */
    size_t n_slots, n_entries;
    VEC(struct disk_name_op) ops;
    uint64_t ops_done; /* number of the first in ops */
};

struct disk {
    struct budget budget; /* without a limit */
    struct disk_node *first, *last, *root;
    uint64_t used; /* bytes of all live files */
};

void disk_init(struct disk *d);
void disk_done(struct disk *d);

struct disk_node *disk_node_ref(struct disk_node *n);
void disk_node_unref(struct disk_node *n);
/* For open files: a reference that also keeps its space in use. */
struct disk_node *disk_node_hold(struct disk_node *n);
void disk_node_release(struct disk_node *n);

/*
 * Finds a path now. 0 with the directory and its last part; *ret_entry is NULL when the directory
 * never had that name, and its `now` when it has it no more. -ENOENT or -ENOTDIR on the way there.
 */
int disk_find(struct disk *d, const char *path, struct disk_node **ret_dir, const char **ret_leaf,
              struct disk_entry **ret_entry);
/* The directory itself, or NULL. */
struct disk_node *disk_find_dir(struct disk *d, const char *path);

void disk_create(struct disk_node *dir, const char *leaf, bool is_dir, struct disk_node **ret);
void disk_link(struct disk_node *dir, const char *leaf, struct disk_node *node);
void disk_unlink(struct disk_node *dir, struct disk_entry *entry);
void disk_rename(struct disk_node *from_dir, struct disk_entry *from, struct disk_node *to_dir,
                 const char *to_leaf);
void disk_sync_dir(struct disk_node *dir);

void disk_write(struct disk_node *file, const void *from, size_t n, uint64_t offset);
void disk_truncate(struct disk_node *file, uint64_t size);
void disk_sync(struct disk_node *file);
/* A sync that failed: each write since the last one reaches the disk or never will. */
void disk_sync_failed(struct disk_node *file, struct random *random);

/* Power is lost: decides what of the changes survived; now and durable are then the same. */
void disk_crash(struct disk *d, struct random *random);

/* Flips a bit, on disk and as it is read from now on. */
void disk_flip(struct disk_node *file, uint64_t bit);

/* A durable file that is not empty, each as likely, and its path; NULL when there is none. */
struct disk_node *disk_pick_file(struct disk *d, struct random *random, char *path, size_t size);

#pragma once

#include <stdint.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/fs.h"

/*
 * A simulated disk behind struct fs, in memory, which fails as it is told to and loses at a crash
 * what a real one may lose. The same seed and the same calls give the same disk, byte for byte.
 *
 *     struct sim_fs *sim = sim_fs_new(seed);
 *     sim_fs_fault(sim, (struct sim_fault){.op = SIM_CHANGE, .nth = 17, .what = SIM_CRASH});
 *     ... run the store on sim_fs_fs(sim) until it fails ...
 *     sim_fs_restart(sim);
 *     ... open the store again and check ...
 *
 * What a crash leaves: of each file its content at the last sync, and of the writes since all,
 * none, the first few or any of them, some torn (at any byte, a sector or a page), some as zeros.
 * Names (create, rename, unlink, link) likewise since the last sync of their directory; changes of
 * one name survive only in order. A name may survive without its file's bytes and the reverse.
 *
 * Any thread may use the file system, crash it and change its space; the rest is for one thread
 * while the others do nothing.
 */
struct sim_fs;

struct sim_fs *sim_fs_new(uint64_t seed);
void sim_fs_free(struct sim_fs *sim); /* after all files were closed; NULL is fine */
DEFINE_CLEANUP(struct sim_fs *, sim_fs_free)

/* Freeing it does nothing: a store may own it, and the disk lives on. */
struct fs *sim_fs_fs(struct sim_fs *sim);

enum sim_op {
    SIM_ANY,    /* every operation below */
    SIM_CHANGE, /* those that change or sync something */
    SIM_OPEN,
    SIM_CREATE, /* open with FS_CREATE, whether or not the file was there */
    SIM_READ,
    SIM_WRITE,
    SIM_SYNC,
    SIM_TRUNCATE,
    SIM_SIZE, /* of a file or a path */
    SIM_LOCK,
    SIM_RENAME,
    SIM_UNLINK,
    SIM_MKDIR,
    SIM_LINK,
    SIM_SYNC_DIR,
    SIM_LIST,
    SIM_SPACE,
    SIM_OP_COUNT
};

const char *sim_op_name(enum sim_op op);

/* How many there were so far. */
uint64_t sim_fs_count(const struct sim_fs *sim, enum sim_op op);

enum sim_fault_what {
    SIM_FAIL,  /* with `error`. A sync that fails loses, for good, some of what it was to make
                  durable, though it can be read until the crash */
    SIM_SHORT, /* a write puts down its beginning, then fails with `error` */
    SIM_TORN,  /* a write puts down some of its sectors, then fails with `error` */
    SIM_LIE,   /* a sync says 0 and does nothing; a later one does it */
    SIM_CRASH, /* as sim_fs_crash(), just before or just after it, in the middle of a write */
    SIM_KILL,  /* as sim_fs_kill(), just before or just after it */
};

/* On operations it has no meaning for, a fault is SIM_FAIL. */
struct sim_fault {
    enum sim_op op;
    uint64_t nth; /* of them from now on; 1 is the next */
    enum sim_fault_what what;
    int error;       /* EIO, ENOSPC, EDQUOT ...; 0 is EIO */
    bool is_lasting; /* and all of them from there on */
};

#define SIM_FAULTS_MAX 16

void sim_fs_fault(struct sim_fs *sim, struct sim_fault fault);
void sim_fs_clear_faults(struct sim_fs *sim);
/* How often a fault struck since the beginning. */
uint64_t sim_fs_struck(const struct sim_fs *sim);

/* From now on everything fails with -EIO, files that are open for good. */
void sim_fs_crash(struct sim_fs *sim);
/* The same for a process that was killed: what was written stays, synced or not. */
void sim_fs_kill(struct sim_fs *sim);
bool sim_fs_is_down(struct sim_fs *sim);

/* Up again, with what survived. Crashes first when it was not down. Locks are gone; faults that
 * have not struck stay. */
void sim_fs_restart(struct sim_fs *sim);

/* Files may take up this much together; a write that does not fit ends in -ENOSPC where the space
 * does. Without it there is 1 TiB. */
void sim_fs_set_space(struct sim_fs *sim, uint64_t total_bytes);

/* Flips bit `bit` of a file for good; false when there is no such bit. */
bool sim_fs_flip(struct sim_fs *sim, const char *path, uint64_t bit);
/* Flips a random bit of a random durable file; false when there is none. The path is told. */
bool sim_fs_rot(struct sim_fs *sim, char *ret_path, size_t size, uint64_t *ret_bit);
/* Reading the file fails with this errno until it is 0 again; false when there is no such file. */
bool sim_fs_break(struct sim_fs *sim, const char *path, int error);

/* Prints each operation and what came of it, for a seed that fails; NULL ends it. */
void sim_fs_trace(struct sim_fs *sim, FILE *to);

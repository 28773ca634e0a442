#pragma once

#include "base/error.h"

/*
 * The folder that a run's processes put their files into: nobody else's, and gone when the run is.
 * It is locked as long as `vesta run` lives; what was killed leaves one without a lock, which the
 * next run of the same user takes away.
 */
struct run_folder {
    char path[64]; /* "": there is none */
    int lock;
};

/* In /dev/shm, or in /tmp where that has little room. For root, processes that become other users
 * may make files in it too, and see no others. run_folder_remove() in any case. */
int run_folder_make(struct run_folder *f, struct error *err);

/* With all that is in it. */
void run_folder_remove(struct run_folder *f);

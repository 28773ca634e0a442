#pragma once

#include "cli/push.h"

/*
 * Pushes every file that is put into a folder, for as long as the process lives. The folder is the
 * queue: what was pushed is written down in DIR/.vesta-push (name, size, time of change), so that a
 * restart sends nothing twice, and a server that is away for a day costs nothing but time. A file
 * that changes is pushed again.
 *
 * A file is complete when nobody has it open for writing. Names that begin with "." or end in "~",
 * ".tmp" or ".part" are not looked at, nor are sidecars and what --write-svg and its kin wrote.
 *
 * Ends with -ECANCELED on SIGTERM or SIGINT; or another negative errno when the folder cannot be
 * watched.
 */
int watch_folder(struct pusher *p, const char *folder, struct error *err);

#pragma once

#include "server/call.h"
#include "store/selector.h"

/*
 * Raw heap snapshots, for operators who turned ingest.keep_heap_snapshots on: files in
 * data_dir/heap, with names that nobody can guess, readable by the server's user only. A snapshot
 * holds every string of a process, secrets too: nothing serves them. Beside each lies NAME.json
 * with its labels. Those older than retention.profiles go when the next one comes.
 */
#define HEAP_KEEP_NAME_MAX 64

/* Keeps the body of the call; *ret is the file's name. */
int heap_keep(struct call *c, const struct label *labels, size_t n_labels,
              char ret[HEAP_KEEP_NAME_MAX], struct error *err);

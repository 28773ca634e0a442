#pragma once

#include "store_local/local_internal.h"

/*
 * The format of a store is that of its manifest (VERSION_FORMAT): a change of any file's layout
 * that older programs could not read gives it a new number. A program refuses every other one: a
 * newer one for good, an older one until somebody asks for the upgrade (local_upgrade() in
 * local.h), which takes the steps below one after the other. Each is the whole way from one number
 * to the next, may be broken off anywhere, and ends by writing the manifest.
 */
struct upgrade_step {
    uint64_t from;
    int (*run)(struct local *l, struct error *err);
};

/* The format that the manifest's content begins with. */
int upgrade_format(struct bytes content, uint64_t *ret, struct error *err);

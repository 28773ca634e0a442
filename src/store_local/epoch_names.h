#pragma once

#include "base/buf.h"
#include "store_local/local_internal.h"

/*
 * Which function names an epoch knows, told without its dictionary: each chunk of its file has a
 * list of hashes of the names that it brings, and the lists can be read alone. So a question about
 * one function reads the dictionaries of the services that have it, and no others.
 */

/* The list of functions [from, to). The layout is in epoch_names.c. */
void epoch_encode_names(const struct dict *d, uint32_t from, uint32_t to, struct buf *out);

/* Whether a list is what epoch_encode_names() makes of the functions that it speaks of. */
bool epoch_names_are_right(const struct dict *d, struct bytes list);

/*
 * 0: no function of the epoch has this name; 1: one may have. Asks the dictionary where it is
 * resident, else the lists, which the cache of blocks keeps. Whatever is wrong with them (there are
 * none, in files of old; they are damaged) is a 1. Called with the lock held, which is released
 * while something is read: `e` may be gone afterwards.
 */
int epoch_may_know(struct local *l, const struct epoch *e, struct bytes function);

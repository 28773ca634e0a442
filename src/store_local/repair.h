#pragma once

#include "store_local/local.h"

/*
 * How local_repair() (local.h) goes about it:
 *
 *  1. the manifest, or the one before, or none. Only a current one says which files are leftovers.
 *  2. series and dictionaries: what is damaged is put aside and written again from what could be
 *     read. Without a manifest, a dictionary's tenant and service are those of rows that use it.
 *  3. segments: without a current manifest all that are there; of two that hold the same profile
 *     the newer one is the merged one and the older goes. What is damaged is put aside and what can
 *     be read of it is written again (salvage.h).
 *  4. the manifest, twice, so that the one before is sound too.
 *  5. the store is opened: logs are replayed and flushed; a damaged one was put aside before. Then
 *     all is verified.
 *
 * Nothing is deleted: what is taken out lies in lost/. It may be broken off anywhere and run again.
 */
#define LOST_DIR "lost"
